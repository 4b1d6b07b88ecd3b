"""Two rows on paired runs: their tests, and tables and figures of many tests."""

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING

from epagcl.core.formatting import counted, paragraph
from epagcl.paper import drawing
from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import measured_graphs, runs_by_seed
from epagcl.paper.tables import Table, TableCell
from epagcl.study.design import is_trained
from epagcl.study.paired_test import BETTER, OVERLAP, UNDECIDED, WORSE, PairedTest, paired_tests

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What follows the accuracy of a row in a table, by the verdict of the row against another.
SIGNS = {BETTER: " ▲", WORSE: " ▼", UNDECIDED: ""}
#: The colour of each verdict in figures.
COLOURS = {UNDECIDED: drawing.GREY, WORSE: drawing.COLOURS[1], BETTER: drawing.COLOURS[2]}
#: The verdict seen from the other row.
REVERSED = {BETTER: WORSE, WORSE: BETTER, UNDECIDED: UNDECIDED}
#: The columns of :func:`verdict_cells`.
VERDICT_COLUMNS = ("better", "worse", "undecided", "effect", "detectable")
#: What a detectable difference is.
DETECTABLE = (
    "the smallest true difference that a test finds with probability 0.8, at its level in Holm's correction given the "
    "other tests"
)


def against(
    result: Result,
    protocol: str,
    title: str,
    others: list[str],
    *,
    splits: int | None = None,
    overlap: float = OVERLAP,
) -> dict[tuple[str, str], PairedTest]:
    """Test a row against others on common seeds, by graph and other row, with Holm's correction for all of them.

    Args:
        result: the result.
        protocol: the protocol.
        title: the row that is tested.
        others: the rows that it is tested against.
        splits: number of published splits, of which seed k is scored on split k modulo this number. Runs on the same
            split are averaged, since they share it. None: each seed has its own split.
        overlap: the variance that runs on the splits of one graph share, see :mod:`epagcl.study.paired_test`.
    """
    by_graph = {graph: runs_by_seed(result, protocol, graph) for graph in measured_graphs(result)}
    return paired_tests(
        {
            (graph, other): _by_split(runs[title], runs[other], splits)
            for graph, runs in by_graph.items()
            for other in others
            if title in runs and other in runs and other != title
        },
        overlap,
    )


def _by_split(
    ours: dict[int, float], theirs: dict[int, float], splits: int | None
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the mean of two rows' common seeds on each published split; the runs themselves without such splits."""
    if splits is None:
        return ours, theirs
    places: dict[int, list[int]] = {}
    for seed in sorted(set(ours) & set(theirs)):
        places.setdefault(seed % splits, []).append(seed)
    first, second = ({at: fmean(row[seed] for seed in own) for at, own in places.items()} for row in (ours, theirs))
    return first, second


def verdict_cells(tests: Collection[PairedTest]) -> list[str]:
    """Return the mean difference of the tests of a row, and the columns :data:`VERDICT_COLUMNS`; dashes without tests.

    Examples:
        >>> from epagcl.study.paired_test import paired_test
        >>> verdict_cells([paired_test([1.0, 1.1, 1.2]), paired_test([0.0, 3.0, -1.0])])
        ['+0.88', '1', '0', '1', '+5.7', '9.0']
    """
    if not tests:
        return ["–"] * (1 + len(VERDICT_COLUMNS))
    words = [test.verdict for test in tests]
    effects = [test.effect for test in tests if test.effect is not None]
    detectable = [test.detectable for test in tests if test.detectable is not None]
    return [
        f"{fmean(test.mean for test in tests):+.2f}",
        *(str(words.count(word)) for word in (BETTER, WORSE, UNDECIDED)),
        f"{median(effects):+.1f}" if effects else "–",
        f"{max(detectable):.1f}" if detectable else "–",
    ]


def verdict_note(subject: str, tests: int) -> str:
    """Return what the columns :data:`VERDICT_COLUMNS` mean.

    Args:
        subject: what is better or worse, such as ``EPAGCL+``.
        tests: number of tests that Holm's correction is for.
    """
    return (
        f"Better, worse and undecided count the graphs on which {subject} is so, by tests of paired runs with Holm's "
        f"correction for {all_tests(tests)} of the table. The difference is a mean over graphs. Effect: Cohen's d of "
        "paired runs, the difference in units of its standard deviation, as a median over graphs. Detectable: "
        f"{DETECTABLE}, in points, on the graph where it is largest."
    )


def all_tests(count: int) -> str:
    """Return all tests of a table in words.

    Examples:
        >>> all_tests(12), all_tests(1), all_tests(0)
        ('all 12 tests', 'the 1 test', 'all tests')
    """
    return f"{'the' if count == 1 else 'all'} {counted(count, 'test')}" if count else "all tests"


def trained_counts(tests: Mapping[tuple[str, str], PairedTest]) -> tuple[int, int, int]:
    """Return how often tests by (graph, row) find a row better and worse than trained methods, and their number."""
    words = [test.verdict for (_, title), test in tests.items() if is_trained(title)]
    return words.count(BETTER), words.count(WORSE), len(words)


def by_row(tests: Mapping[tuple[str, str], PairedTest]) -> dict[str, list[PairedTest]]:
    """Return tests by (graph, row) as lists by row."""
    found: dict[str, list[PairedTest]] = {}
    for (_, row), test in tests.items():
        found.setdefault(row, []).append(test)
    return found


def against_table(title: str, tests: Mapping[tuple[str, str], PairedTest]) -> Table:
    """Return a table of a row against each other row over all graphs.

    Args:
        title: title of the row that is tested.
        tests: its tests by (graph, other row). A positive difference means that the row is better.
    """
    lines = [[other, *verdict_cells(own)] for other, own in by_row(tests).items()]
    columns = ["row", "difference", *VERDICT_COLUMNS]
    return Table("against", f"{title} against each row", columns, lines, verdict_note(title, len(tests)))


def training_table(tests: Mapping[tuple[str, str], PairedTest], caveat: str = "") -> Table:
    """Return a table of each method against its own untrained encoder over all graphs.

    Args:
        tests: the tests by (graph, row).
        caveat: what else differs, as a last sentence of the note.
    """
    lines = [[title, *verdict_cells(own)] for title, own in by_row(tests).items()]
    columns = ["method", "minus untrained", *VERDICT_COLUMNS]
    note = paragraph(verdict_note("a method against its own encoder with initial weights", len(tests)), caveat)
    return Table("training", "What training adds to a method's own encoder", columns, lines, note)


def differences_table(
    title: str,
    tests: Mapping[tuple[str, str], PairedTest],
    graphs: Sequence[str],
    *,
    slug: str = "differences",
    family: str = "all tests of this table",
) -> Table:
    """Return a folded table of the differences on each graph, with those that the design could have shown.

    Args:
        title: what is subtracted from what, such as ``EPAGCL+ minus each row``.
        tests: the tests by (graph, row).
        graphs: names of the graphs.
        slug: name of the table in file names.
        family: the tests that Holm's correction is for, in words.
    """
    lines: list[list[TableCell | str]] = [
        [row, *(_difference(tests.get((graph, row))) for graph in graphs)] for row in by_row(tests)
    ]
    note = (
        f"{title}, in points: ▲ better, ▼ worse, others undecided, with Holm's correction for {family}. In "
        f"parentheses: {DETECTABLE}."
    )
    return Table(slug, title, ["row", *graphs], lines, note, folded=True)


def _difference(test: PairedTest | None) -> str:
    """Return a difference with the sign of its verdict and the detectable difference, such as ``+1.2 ▲ (0.9)``."""
    if test is None:
        return "–"
    detectable = "" if test.detectable is None else f" ({test.detectable:.1f})"
    return f"{test.mean:+.1f}{SIGNS[test.verdict]}{detectable}"


def gains_figure(tests: Mapping[str, Sequence[PairedTest]], what: str) -> "Figure":
    """Return a figure with a line for each row: its difference to a base on each graph as a dot, and their mean.

    Args:
        tests: the tests of each row, one for each graph.
        what: the difference in words.
    """
    figure, (axes,) = drawing.new_figure(1, 1, 8.0, 0.42 * len(tests) + 1.2)
    for word, colour in COLOURS.items():
        if any(test.verdict == word for own in tests.values() for test in own):
            axes.scatter([], [], s=26, alpha=0.8, color=colour, label=word)
    for place, own in enumerate(tests.values()):
        for word, colour in COLOURS.items():
            points = [test.mean for test in own if test.verdict == word]
            axes.scatter(points, [place] * len(points), s=26, alpha=0.8, color=colour, zorder=3)
        axes.plot([fmean(test.mean for test in own)] * 2, [place - 0.3, place + 0.3], color="black", lw=2)
    axes.axvline(0, color="black", lw=0.8)
    drawing.label_rows(axes, list(tests))
    axes.set_xlabel(f"{what}, points; a dot is a graph, the line the mean", fontsize=9)
    axes.grid(axis="x", lw=0.3)
    drawing.legend(figure, axes, columns=3)
    return figure
