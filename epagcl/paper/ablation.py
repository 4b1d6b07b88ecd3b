"""Figure 4: the contribution of each part of EPAGCL's views, and an oracle that knows the labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from epagcl.core.formatting import counted, span
from epagcl.methods import Method
from epagcl.paper import drawing
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.cell_scores import PAPERS, graphs_of, measured_graphs, runs_by_seed
from epagcl.paper.collapses import collapsed_reading
from epagcl.paper.paired import DETECTABLE
from epagcl.paper.tables import Table, marked
from epagcl.paper.variants.oracle import Oracle
from epagcl.paper.variants.random_adding import RandomAdding
from epagcl.study.design import UNMASKED, Cell, Row
from epagcl.study.paired_test import BETTER, UNDECIDED, WORSE, PairedTest, paired_tests

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE = "Random Add"
ADD_ONLY, DROP_ONLY, BOTH, RANDOM_DROP = "Add Only", "Drop Only", "Add to Both Views", "Random Drop"
POOL, TEXT, TEXT_DROP = "Random Add, fixed pool", "EPAGCL, text's direction", "Drop Only, text's direction"
ORACLE = "oracle"


def variants() -> list[Row]:
    """Return the paper's six augmentations, random adding from a pool, the other direction of dropping, and the oracle.

    No variant masks features.
    """
    uniform = {"add": "uniform", "drop": "uniform"}
    settings_by_title: dict[str, dict[str, Any]] = {
        BASE: uniform,
        BOTH: {"add_to": "both"},
        PAPERS: {},
        DROP_ONLY: {"p_add": 0.0},
        RANDOM_DROP: {"drop": "uniform", "p_add": 0.0},
        ADD_ONLY: {"p_drop_1": 0.0, "p_drop_2": 0.0},
        POOL: uniform,
        TEXT: {"drop": "text"},
        TEXT_DROP: {"drop": "text", "p_add": 0.0},
        ORACLE: {},
    }
    classes: dict[str, type[Method]] = {BASE: RandomAdding, ORACLE: Oracle}
    return [
        Row(title, "epagcl", {**UNMASKED, **settings}, classes.get(title))
        for title, settings in settings_by_title.items()
    ]


def measure(request: Request) -> Result:
    """Measure every variant on every graph, with EPAGCL's recipe for all other settings."""
    return request.runs_of(cells_of(request))


def cells_of(request: Request) -> list[Cell]:
    """Return the cells of the variants, graph by graph."""
    return request.cells(lambda *_: variants())


@dataclass(frozen=True)
class Gain:
    """A variant on a graph.

    Attributes:
        mean: mean accuracy over ``n`` seeds in percent. These are the seeds that all variants of the graph have.
        n: number of these seeds.
        test: the paired test against another variant, on all seeds that the two share; None without one.
    """

    mean: float
    n: int
    test: PairedTest | None

    def __str__(self) -> str:
        """Return the difference with its interval, and its number of seeds if the mean has another."""
        if self.test is None:
            return ""
        seeds = f" [{counted(self.test.n, 'seed')}]" if self.test.n != self.n else ""
        return f"{self.test}{seeds}"


def gains(result: Result, protocol: str, graph: str, base: str = BASE) -> dict[str, Gain]:
    """Return each variant and its test against the base, with Holm's correction for the tests of a graph."""
    runs = runs_by_seed(result, protocol, graph)
    common = set.intersection(*map(set, runs.values())) if runs else set()
    tests = paired_tests({title: (own, runs[base]) for title, own in runs.items() if title != base and base in runs})
    return {
        title: Gain(fmean(own[seed] for seed in common or own), len(common or own), tests.get(title))
        for title, own in runs.items()
    }


def claim_tests(result: Result, protocol: str, one: str, others: Sequence[str]) -> dict[tuple[str, str], PairedTest]:
    """Test a variant against others on every graph that has them all, with Holm's correction for all tests."""
    by_graph = {graph: runs_by_seed(result, protocol, graph) for graph in measured_graphs(result)}
    return paired_tests(
        {
            (graph, other): (runs[one], runs[other])
            for graph, runs in by_graph.items()
            if {one, *others} <= set(runs)
            for other in others
        }
    )


def tables(result: Result) -> list[Table]:
    """Return a table for each protocol: the accuracy of each variant, and its gain over Random Add."""
    first, *others = _protocols(result)
    return [_protocol_table(result, first, ""), *(_protocol_table(result, protocol, protocol) for protocol in others)]


def _protocol_table(result: Result, protocol: str, slug: str) -> Table:
    graphs = graphs_of(result)
    titles = [row.title for row in variants()]
    columns, runs = [], set()
    for graph in graphs:
        by_title = gains(result, protocol, graph) if graph not in result["absent"] else {}
        runs |= {gain.n for gain in by_title.values()}
        texts = [
            f"{by_title[title].mean:.1f} {by_title[title]}".strip()
            if title in by_title
            else result["absent"].get(graph, "–")
            for title in titles
        ]
        means = [by_title[title].mean if title in by_title and title != ORACLE else None for title in titles]
        columns.append(marked(means, texts))
    note = (
        f"Protocol {protocol}, random 10/10/80 splits, no feature masks. Accuracy in percent, mean of the seeds that "
        f"all variants of a graph have ({span(runs) or 'no'}), is followed by the gain over {BASE} on common seeds "
        "with its 95% interval, corrected for overlapping splits but not for the number of variants. "
        f"{BASE} and EPAGCL add edges to the second view, {BOTH} to both. {BASE} draws new pairs for every view. "
        "A fixed pool is drawn once per model, like the candidates of Algorithm 1, so that the same pairs return "
        "during training. The paper shows only a chart, so there are no reported numbers. The oracle reads the labels "
        "and is not marked."
    )
    rows = [list(line) for line in zip(titles, *columns, strict=True)]
    return Table(slug, f"Ablation of the views, {protocol} protocol", ["views", *graphs], rows, note)


def figures(result: Result) -> "dict[str, Figure]":
    """Return a figure of the gains over Random Add with their intervals, a panel for each graph."""
    graphs = measured_graphs(result)
    if not graphs:
        return {}
    protocol = _protocols(result)[0]
    titles = [row.title for row in variants() if row.title != BASE]
    figure, panels = drawing.new_figure(1, len(graphs), 2.1 * len(graphs) + 2.2, 3.4, sharey=True)
    for axes, graph in zip(panels, graphs, strict=True):
        by_title = gains(result, protocol, graph)
        for place, title in enumerate(titles):
            gain = by_title.get(title)
            if gain is None or gain.test is None:
                continue
            colour = drawing.GREY if title == ORACLE else drawing.COLOURS[1 if title == PAPERS else 0]
            axes.barh(place, gain.test.mean, color=colour, height=0.65)
            if gain.test.interval is not None:
                axes.plot(gain.test.interval, [place, place], color="black", lw=1.2)
        axes.axvline(0, color="black", lw=0.8)
        axes.set_title(graph, fontsize=10)
        axes.set_xlabel("points", fontsize=9)
        axes.grid(axis="x", lw=0.3)
    figure.suptitle(f"Accuracy over {BASE} on common seeds, corrected 95% interval", fontsize=10)
    drawing.label_rows(panels[0], titles)
    return {"": figure}


def reading(result: Result) -> list[str]:
    """Return a paragraph on each claim of the paper about the ablation."""
    protocol = _protocols(result)[0]

    def difference(one: str, other: str) -> str:
        """Return the difference on each graph with its interval and verdict."""
        tests = claim_tests(result, protocol, one, [other])
        words = (f"{graph} {test}, {test.decision}, {counted(test.n, 'seed')}" for (graph, _), test in tests.items())
        return "; ".join(words) or "not measured"

    others = [row.title for row in variants()[:6] if row.title != PAPERS]
    words = [test.verdict for test in claim_tests(result, protocol, PAPERS, others).values()]
    return [
        "**“EPAGCL is best on each dataset”**, against the paper's five other variants on each graph: better in "
        f"{words.count(BETTER)} of {counted(len(words), 'pair')}, worse in {words.count(WORSE)}, undecided in "
        f"{words.count(UNDECIDED)}. EPAGCL minus {RANDOM_DROP}, which needs no theory, in points: "
        f"{difference(PAPERS, RANDOM_DROP)}.",
        f"**“Drop Only has an advantage over Add Only”**. Difference in points: {difference(DROP_ONLY, ADD_ONLY)}.",
        f"**“Add to Both Views is far better than Random Add”**. Difference in points: {difference(BOTH, BASE)}. "
        f"Difference from random pairs of a fixed pool: {difference(BOTH, POOL)}.",
        f"Adding edges on top of dropping (EPAGCL minus {DROP_ONLY}), in points: {difference(PAPERS, DROP_ONLY)}. "
        f"Dropping in the direction of Eq. (9) instead of the text's: {difference(PAPERS, TEXT)} with adding, "
        f"{difference(DROP_ONLY, TEXT_DROP)} without.",
        "The oracle knows the true classes. It drops edges between classes with probability 0.85, others with 0.15. "
        f"Its gain over EPAGCL in points: {difference(ORACLE, PAPERS)}. Over {DROP_ONLY}: "
        f"{difference(ORACLE, DROP_ONLY)}.",
        "Verdicts have Holm's correction for the tests of one comparison; intervals have none. Detectable: "
        f"{DETECTABLE}.",
        *collapsed_reading(result, protocol, best=True),
    ]


def _protocols(result: Result) -> list[str]:
    protocols: list[str] = result["asked"]["protocols"]
    return protocols


ARTEFACT = Artefact(
    name="ablation",
    title="Ablation of the views",
    datasets=("cora", "citeseer", "pubmed", "amazon-photo"),
    methods=("epagcl",),
    measure=measure,
    cells=cells_of,
    tables=tables,
    figures=figures,
    reading=reading,
    captions={"": f"Each kind of views minus {BASE}; orange: EPAGCL, grey: the oracle, which reads labels"},
)
