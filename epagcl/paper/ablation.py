"""Figure 4: the contribution of each part of EPAGCL's views, and an oracle that knows the labels."""

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from epagcl.methods import Method
from epagcl.paper import drawing
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.cell_scores import graphs_of, measured_graphs
from epagcl.paper.oracle import Oracle
from epagcl.paper.random_adding import RandomAdding
from epagcl.paper.tables import Table, TableCell, marked
from epagcl.study.design import UNMASKED, Cell, Row
from epagcl.study.statistics import bootstrap_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE, OURS = "Random Add", "EPAGCL"
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
        OURS: {},
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
    return request.cells(lambda _: variants())


@dataclass(frozen=True)
class Gain:
    """The mean accuracy of a variant over n runs in percent, and its gain over another variant on common seeds."""

    mean: float
    n: int
    gain: float | None
    low: float
    high: float

    def __str__(self) -> str:
        if self.gain is None:
            return ""
        return f"{self.gain:+.1f}" + (f" ({self.low:+.1f} to {self.high:+.1f})" if self.n > 1 else "")


def gains(result: Result, protocol: str, graph: str, base: str = BASE) -> dict[str, Gain]:
    """Return the gain of each variant over the base with its 95% bootstrap interval; None without a common seed."""
    runs: dict[str, dict[int, float]] = {
        cell["row"]: dict(zip(scores["seeds"], scores["accuracy"]["runs"], strict=True))
        for cell in result["cells"]
        if cell["graph"]["name"] == graph and (scores := cell["protocols"].get(protocol))
    }
    base_runs = runs.get(base, {})
    by_title = {}
    for title, own_runs in runs.items():
        differences = [100 * (score - base_runs[seed]) for seed, score in own_runs.items() if seed in base_runs]
        mean = fmean(differences) if differences and title != base else None
        by_title[title] = Gain(100 * fmean(own_runs.values()), len(own_runs), mean, *bootstrap_interval(differences))
    return by_title


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
        f"Protocol {protocol}, random 10/10/80 splits, {_range_text(runs)} runs, no feature masks. Accuracy in percent "
        f"is followed by the gain over {BASE} on the same seeds with its 95% bootstrap interval. {BASE} and EPAGCL add "
        f"edges to the second view, {BOTH} to both. {BASE} draws new pairs for every view. A fixed pool is drawn once "
        "per model, like the candidates of Algorithm 1, so that the same pairs return during training. The paper shows "
        "only a chart, so there are no reported numbers. The oracle reads the labels and is not marked."
    )
    rows: list[list[TableCell | str]] = [
        [title, *(column[place] for column in columns)] for place, title in enumerate(titles)
    ]
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
            if gain is None or gain.gain is None:
                continue
            colour = drawing.GREY if title == ORACLE else drawing.COLOURS[1 if title == OURS else 0]
            axes.barh(place, gain.gain, color=colour, height=0.65)
            axes.plot([gain.low, gain.high], [place, place], color="black", lw=1.2)
        axes.axvline(0, color="black", lw=0.8)
        axes.set_title(graph, fontsize=10)
        axes.set_xlabel("points", fontsize=9)
        axes.grid(axis="x", lw=0.3)
    figure.suptitle(f"Accuracy over {BASE} on the same seeds, 95% bootstrap interval", fontsize=10)
    panels[0].set_yticks(range(len(titles)), titles)
    panels[0].set_ylim(len(titles) - 0.5, -0.5)
    return {"": figure}


def reading(result: Result) -> list[str]:
    """Return a paragraph on each claim of the paper about the ablation."""
    protocol = _protocols(result)[0]
    graphs = measured_graphs(result)

    def difference(one: str, other: str) -> str:
        by_graph = {graph: gains(result, protocol, graph, base=other).get(one) for graph in graphs}
        return ", ".join(f"{graph} {gain}" for graph, gain in by_graph.items() if gain and gain.gain is not None)

    six = [row.title for row in variants()[:6]]
    by_graph = {graph: gains(result, protocol, graph) for graph in graphs}
    complete = [graph for graph in graphs if set(six) <= set(by_graph[graph])]
    best = [graph for graph in complete if max(six, key=lambda title: by_graph[graph][title].mean) == OURS]
    return [
        f"**“EPAGCL is best on each dataset”** holds on {len(best)} of {len(complete)} graphs"
        + (f" ({', '.join(best)})" if best else "")
        + f" among the paper's six variants. EPAGCL minus {RANDOM_DROP}, which needs no theory: "
        f"{difference(OURS, RANDOM_DROP)} points.",
        f"**“Drop Only has an advantage over Add Only”**. Difference in points: {difference(DROP_ONLY, ADD_ONLY)}.",
        f"**“Add to Both Views is far better than Random Add”**. Difference in points: {difference(BOTH, BASE)}. "
        f"Difference from random pairs of a fixed pool: {difference(BOTH, POOL)}.",
        f"Adding edges on top of dropping (EPAGCL minus {DROP_ONLY}), in points: {difference(OURS, DROP_ONLY)}. "
        f"Dropping in the direction of Eq. (9) instead of the text's: {difference(OURS, TEXT)} with adding, "
        f"{difference(DROP_ONLY, TEXT_DROP)} without.",
        "The oracle knows the true classes. It drops edges between classes with probability 0.85, others with 0.15. "
        f"Its gain over EPAGCL in points: {difference(ORACLE, OURS)}. Over {DROP_ONLY}: "
        f"{difference(ORACLE, DROP_ONLY)}. This is what guidance by EPR could gain by dropping alone.",
    ]


def _protocols(result: Result) -> list[str]:
    protocols: list[str] = result["asked"]["protocols"]
    return protocols


def _range_text(runs: set[int]) -> str:
    return str(min(runs)) if len(runs) == 1 else f"{min(runs)} to {max(runs)}" if runs else "no"


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
)
