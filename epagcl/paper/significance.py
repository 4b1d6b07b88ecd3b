"""Appendix E: is EPAGCL better than the other methods? Tests on paired runs, beside the paper's procedure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from epagcl.core.formatting import counted, span
from epagcl.methods import method
from epagcl.paper import accuracy, reported, reported_cell
from epagcl.paper.artefact import Artefact, Request, Result, proper_name
from epagcl.paper.cell_scores import PAPERS
from epagcl.paper.drawing import COLOURS, GREY, label_rows, new_figure
from epagcl.paper.paired import DETECTABLE
from epagcl.paper.repeated_results import REPEATS, RUNS, counted_once, repeated
from epagcl.paper.tables import BEST, Table, TableCell, escape_stars
from epagcl.study.comparison import shares_by_seed
from epagcl.study.paired_test import BETTER, FEWEST, OVERLAP, UNDECIDED, WORSE, PairedTest, corrected, paired_test
from epagcl.study.statistics import ALPHA, DECIMALS, signed_rank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class PairedRuns(TypedDict):
    """Two methods on a graph under a protocol: the common seeds, and the accuracies of both, between 0 and 1."""

    graph: str
    protocol: str
    method: str
    seeds: list[int]
    ours: list[float]
    theirs: list[float]


def compare(
    graph: str, protocol: str, title: str, ours: Mapping[int, float], theirs: Mapping[int, float]
) -> PairedRuns:
    """Pair runs by seed: model k of both methods is scored on split k."""
    seeds = sorted(set(ours) & set(theirs))
    return {
        "graph": graph,
        "protocol": protocol,
        "method": title,
        "seeds": seeds,
        "ours": [ours[seed] for seed in seeds],
        "theirs": [theirs[seed] for seed in seeds],
    }


def differences(runs: PairedRuns) -> list[float]:
    """Return the differences in points, by seed."""
    values: list[float] = np.round(100 * (np.asarray(runs["ours"]) - np.asarray(runs["theirs"])), DECIMALS).tolist()
    return values


def wins_ties_losses(runs: PairedRuns) -> str:
    """Return the numbers of positive, zero and negative differences, such as ``12/1/7``."""
    d = differences(runs)
    return "/".join(str(sum(np.sign(value) == sign for value in d)) for sign in (1, 0, -1))


def corrected_tests(family: Sequence[PairedRuns]) -> list[PairedTest]:
    """Test the comparisons of a table, with Holm's correction for their number."""
    return corrected([paired_test(differences(runs)) for runs in family])


def measure(request: Request) -> Result:
    """Score EPAGCL and each method on the same splits, and test the differences."""
    names = tuple(dict.fromkeys(name.lower() for name in (*request.methods, PAPERS.lower())))
    titles = [method(name.removesuffix("*")).title + "*" * name.endswith("*") for name in names]
    measured = accuracy.measure(replace(request, methods=names))
    methods = [title for title in titles if title != PAPERS]
    return {
        **_compared(measured["cells"], methods, request.protocols),
        "methods": methods,
        "protocols": list(request.protocols),
        "absent": measured["absent"],
    }


def of_accuracies(result: Result, measured: Result) -> Result | None:
    """Return a result with the tests of all runs that the table of accuracies has by now; None if it has these.

    Args:
        result: the result, which says which graphs and methods are compared.
        measured: the result of :mod:`epagcl.paper.accuracy`.
    """
    wanted = {proper_name(name) for name in result["asked"]["datasets"]}
    cells = [cell for cell in measured["cells"] if cell["graph"]["name"] in wanted]
    made = _compared(cells, result["methods"], result["protocols"])
    names = list(made["comparisons"][0]) if made["comparisons"] else []
    before = [{name: one[name] for name in names} for one in result["comparisons"]]  # earlier versions stored more
    return None if made["comparisons"] == before else {**result, **made}


def _compared(cells: Sequence[dict[str, Any]], methods: Sequence[str], protocols: Sequence[str]) -> dict[str, Any]:
    """Compare EPAGCL with each method on each graph, on the seeds that both have."""
    by_place = {(cell["graph"]["name"], cell["row"]): cell for cell in cells if cell["row"] in (PAPERS, *methods)}
    runs = {
        (*place, protocol): shares_by_seed(cell["protocols"].get(protocol, {}))
        for place, cell in by_place.items()
        for protocol in protocols
    }
    pairs = [
        compare(graph, protocol, title, runs[graph, PAPERS, protocol], runs[graph, title, protocol])
        for protocol in protocols
        for graph in dict.fromkeys(graph for graph, _ in by_place)
        for title in methods
        if (graph, title) in by_place and (graph, PAPERS) in by_place
    ]
    return {
        "comparisons": [pair for pair in pairs if pair["seeds"]],
        "measured_on": sorted({name for cell in by_place.values() for name in cell["hardware"]}),
    }


def family_of(result: Result, protocol: str) -> list[tuple[PairedRuns, PairedTest]]:
    """Return the comparisons of a protocol with their tests, corrected for the number of these tests."""
    family = [comparison for comparison in result["comparisons"] if comparison["protocol"] == protocol]
    return list(zip(family, corrected_tests(family), strict=True))


def tables(result: Result) -> list[Table]:
    """Return for each protocol a table of all comparisons."""
    slugs = ["", *result["protocols"][1:]]
    return [_protocol_table(result, protocol, slug) for protocol, slug in zip(result["protocols"], slugs, strict=True)]


def _protocol_table(result: Result, protocol: str, slug: str) -> Table:
    columns = ["graph", "EPAGCL against", "n", "mean difference", "95% interval", "in SDs", "wins/ties/losses"]
    columns += ["p (Holm)", "verdict", "detectable", "as the paper does: 5 runs × 5", "reported (its 5 runs once each)"]
    family = family_of(result, protocol)
    rows = [_table_row(comparison, test) for comparison, test in family]
    for graph, reason in result["absent"].items():
        rows += [
            [graph, title, "0", reason, *[""] * (len(columns) - 5), _reported_text(graph, title)]
            for title in result["methods"]
        ]
    tested = sum(test.n >= FEWEST for _, test in family)
    tests = f"the {counted(tested, 'test')}" if tested else "all tests"
    note = (
        f"Protocol {protocol}, random 10/10/80 splits: model k of both methods is scored on split k. Differences of "
        "test accuracy are in points. Interval and two-sided p are those of the t test corrected for overlapping "
        f"splits (c = {OVERLAP:g}); in brackets p after Holm's correction for {tests} of this table, bold "
        f"below {ALPHA:g}. In SDs: the mean difference divided by the standard deviation of the differences. "
        f"Detectable: {DETECTABLE}. Measured on {', '.join(result['measured_on'])}. The last column is from the paper, "
        "Appendix E, with the p of its five runs counted once in brackets, if their signs can be recovered. The last "
        "two columns are one-sided (EPAGCL better)."
    )
    return Table(slug, f"EPAGCL against each method, protocol {protocol}", columns, rows, note)


def _table_row(comparison: PairedRuns, test: PairedTest) -> list[TableCell | str]:
    between = "–" if test.interval is None else f"{test.interval[0]:+.2f} to {test.interval[1]:+.2f}"
    p_text = f"{_p_text(test.p)} ({_p_text(test.corrected)})"
    as_the_paper = repeated(differences(comparison))
    return [
        comparison["graph"],
        comparison["method"],
        str(test.n),
        f"{test.mean:+.2f}",
        between,
        "–" if test.effect is None else f"{test.effect:+.2f}",
        wins_ties_losses(comparison),
        TableCell(p_text, BEST if test.verdict != UNDECIDED else ""),
        test.verdict,
        "–" if test.detectable is None else f"{test.detectable:.2f}",
        "–" if as_the_paper is None else _p_text(as_the_paper),
        _reported_text(comparison["graph"], comparison["method"]),
    ]


def _reported_text(graph: str, title: str) -> str:
    p = reported_cell("wilcoxon", graph, title)
    if p is None:
        return "–"
    once = counted_once(p)
    return _p_text(p) + ("" if once is None else f" ({_p_text(once)})")


def _p_text(p: float) -> str:
    return f"{p:.3f}" if p >= 0.01 else f"{p:.2e}"


def figures(result: Result) -> "dict[str, Figure]":
    """Return a forest plot: the mean differences with their intervals, one panel for each graph."""
    comparisons = result["comparisons"]
    graphs = list(dict.fromkeys(comparison["graph"] for comparison in comparisons)) or [""]
    compared = {comparison["method"] for comparison in comparisons}
    methods = [title for title in result["methods"] if title in compared]
    protocols = result["protocols"]
    height = 1.5 + (0.28 + 0.2 * len(protocols)) * max(len(methods), 1)
    width = max(2.0 + 2.7 * len(graphs), 6.5)
    figure, panels = new_figure(1, len(graphs), width, height, sharey=True)
    families = {protocol: family_of(result, protocol) for protocol in protocols}
    for axes, graph in zip(panels, graphs, strict=True):
        _draw_panel(axes, graph, families, methods)
    label_rows(panels[0], methods)
    figure.suptitle("EPAGCL minus each method (right of 0: EPAGCL is better)", fontsize=11)
    _draw_legend(figure, panels[0], protocols)
    return {"": figure}


def _draw_panel(
    axes: "Axes", graph: str, families: dict[str, list[tuple[PairedRuns, PairedTest]]], methods: Sequence[str]
) -> None:
    axes.axvline(0, color=GREY, linewidth=1)
    counts = set()
    for place, family in enumerate(families.values()):
        offset = 0.26 * (place - (len(families) - 1) / 2)
        for comparison, test in family:
            if comparison["graph"] == graph:
                counts.add(test.n)
                _draw_interval(axes, test, methods.index(comparison["method"]) + offset, COLOURS[place])
    runs = f" (n = {'–'.join(map(str, sorted({min(counts), max(counts)})))} runs)" if counts else ""
    axes.set_title(f"{graph}{runs}", fontsize=10)
    axes.set_xlabel("difference in points, corrected 95%", fontsize=9)
    axes.tick_params(labelsize=9)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.3)


def _draw_interval(axes: "Axes", test: PairedTest, y: float, colour: str) -> None:
    if test.interval is not None:
        axes.plot(test.interval, [y, y], color=colour, linewidth=1.5)
    axes.plot(test.mean, y, color=colour, **_marker(test.verdict))


def _marker(word: str) -> dict[str, Any]:
    """Return the marker of a verdict: filled if decided, hollow if not."""
    hollow = {"markerfacecolor": "white"} if word == UNDECIDED else {}
    return {"marker": "o", "linestyle": "", "markersize": 6, **hollow}


def _draw_legend(figure: "Figure", axes: "Axes", protocols: Sequence[str]) -> None:
    for place, protocol in enumerate(protocols):
        axes.plot([], [], color=COLOURS[place], linewidth=3, label=f"protocol {protocol}")
    for word, label in ((BETTER, f"decided (two-sided, Holm, {ALPHA:g})"), (UNDECIDED, "undecided")):
        axes.plot([], [], color=GREY, label=label, **_marker(word))
    figure.legend(loc="outside lower center", ncols=len(protocols) + 3, fontsize=8, frameon=False, columnspacing=1.2)


def reading(result: Result) -> list[str]:
    """Return paragraphs on the verdicts, and on the paper's repetition of results."""
    paragraphs = [_verdict_sentences(protocol, family_of(result, protocol)) for protocol in result["protocols"]]
    if result["absent"]:
        missing = "; ".join(f"{graph}: {reason}" for graph, reason in result["absent"].items())
        paragraphs.append(f"Not measured here ({missing}).")
    return [*paragraphs, SETTINGS_SENTENCES, _repetition_sentences()]


def _verdict_sentences(protocol: str, family: list[tuple[PairedRuns, PairedTest]]) -> str:
    groups = {
        word: [comparison for comparison, test in family if test.verdict == word] for word in (BETTER, WORSE, UNDECIDED)
    }
    claim = "is confirmed" if family and len(groups[BETTER]) == len(family) else "is not confirmed"
    listed = (f"{word.capitalize()}: {_by_graph(group) or 'none'}." for word, group in groups.items())
    seen = [test.detectable for _, test in family if test.detectable is not None]
    smallest = f" The tests can show differences of {span(seen, '.1f')} points." if seen else ""
    return (
        f"Protocol {protocol}: of {counted(len(family), 'pair')} of graph and method, EPAGCL is significantly better "
        f"in {len(groups[BETTER])} and significantly worse in {len(groups[WORSE])}; {len(groups[UNDECIDED])} are "
        f"undecided (two-sided, corrected for overlapping splits, Holm's correction, α = {ALPHA:g}). The paper's "
        f"significant improvement over all methods {claim}. {' '.join(listed)}{smallest}"
    )


def _by_graph(comparisons: list[PairedRuns]) -> str:
    graphs: dict[str, list[str]] = {}
    for comparison in comparisons:
        graphs.setdefault(comparison["graph"], []).append(escape_stars(comparison["method"]))
    return "; ".join(f"{', '.join(titles)} on {graph}" for graph, titles in graphs.items())


SETTINGS_SENTENCES = (
    "EPAGCL is trained with the settings of its paper. The baselines have the settings of their own papers or, for "
    "some, ours (see the provenance of the accuracy table). Methods are compared as published, not with "
    "their best settings."
)


def _repetition_sentences() -> str:
    """Show the effect of counting each of five results five times."""
    table = reported()["wilcoxon"]
    p_values = [p for title, row in table.items() if title != "columns" for p in row]
    all_positive = np.ones(RUNS)
    smallest, least = repeated(all_positive), signed_rank(all_positive)
    once = [q for q in map(counted_once, p_values) if q is not None]
    return (
        f"The paper counts each of {RUNS} results {REPEATS} times and tests n = {RUNS * REPEATS}. If all {RUNS} "
        f"differences are positive, this gives p = {smallest:.2e} = 2^-{RUNS * REPEATS}, which "
        f"{sum(f'{p:.2e}' == f'{smallest:.2e}' for p in p_values)} of its {len(p_values)} cells show. Counted once, "
        f"{RUNS} runs cannot give p below 2^-{RUNS} = {least['better']:.3f} (one-sided) or {least['two_sided']:.4f} "
        f"(two-sided). After correction for {len(p_values)} comparisons, the limit is "
        f"{min(1, len(p_values) * least['better']):.2f}. The signs of the five differences can be recovered for "
        f"{len(once)} of its cells. Counted once, {sum(q < ALPHA for q in once)} of these have p < {ALPHA:g}, all at "
        f"the smallest possible p; the others lie between {min((q for q in once if q >= ALPHA), default=1.0):.3f} and "
        f"{max(once):.3f}. Repeating a result adds no observation. The column 'as the paper does' repeats our results "
        "in the same way."
    )


ARTEFACT = Artefact(
    name="significance",
    title="Is the improvement significant?",
    datasets=("cora", "citeseer", "pubmed", "wikics"),
    methods=("dgi", "gmi", "mvgrl", "grace", "gca", "bgrl", "greet", "epagcl"),
    runs=20,
    protocols=("strict", "paper"),
    measure=measure,
    tables=tables,
    figures=figures,
    reading=reading,
)
