"""Figure 1: adding edges or dropping them as the only augmentation, over a range of rates."""

import math
from statistics import fmean
from typing import TYPE_CHECKING, cast

from torch_geometric.data import Data

from epagcl.core.formatting import counted, mean_of_runs
from epagcl.evaluation.scores import spread
from epagcl.paper import drawing
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.cell_scores import graphs_of, measured_graphs, scores
from epagcl.paper.tables import Table
from epagcl.paper.variants.random_adding import RandomAdding
from epagcl.runs.evaluation import UNTRAINED
from epagcl.study.design import UNMASKED, Cell, Row, rows
from epagcl.study.paired_test import BETTER, WORSE, PairedTest, paired_tests
from epagcl.study.summary import by_seed
from epagcl.views.probabilities import edge_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.projections.polar import PolarAxes

RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
#: The augmentations by the first word of their rows, with their labels.
KINDS = {"add": "only add", "pool": "only add, fixed pool", "drop": "only drop"}


def variants(data: Data) -> list[Row]:
    """Return the variants of a graph: both views drop r·|E| edges on average, or add as many random ones.

    Added edges are drawn again for every view, or come from a pool that is drawn once, like the candidates of
    Algorithm 1. Features are not masked.
    """
    weights = edge_weights(data.edge_index, data.num_nodes)
    edges_per_candidate = weights.pairs.shape[1] / max(weights.candidates.shape[1], 1)  # p_add·C = r·|E| fixes p_add
    variant_rows = []
    for rate in RATES:
        uniform = {**UNMASKED, "drop": "uniform", "add": "uniform", "add_to": "both"}
        p_add = round(min(0.9, rate * edges_per_candidate), 6)
        added = uniform | {"p_drop_1": 0.0, "p_drop_2": 0.0, "p_add": p_add}
        dropped = uniform | {"p_drop_1": rate, "p_drop_2": rate, "p_add": 0.0}
        variant_rows += [
            Row(_title("add", rate), "epagcl", added, RandomAdding),
            Row(_title("pool", rate), "epagcl", added),
            Row(_title("drop", rate), "epagcl", dropped),
        ]
    return variant_rows


def _title(kind: str, rate: float) -> str:
    return f"{kind} {rate:g}"


def measure(request: Request) -> Result:
    """Measure all kinds at every rate on every graph, with EPAGCL's recipe otherwise, and the untrained encoder."""
    return {"rates": list(RATES), **request.runs_of(cells_of(request))}


def cells_of(request: Request) -> list[Cell]:
    """Return the cells of the untrained encoder and of the variants, graph by graph."""
    reference = [row for row in rows(("epagcl",)) if row.title == UNTRAINED]
    return request.cells(lambda _, data: [*reference, *variants(data)])


def curves(result: Result, protocol: str, graph: str) -> dict[str, dict[float, dict[int, float]]]:
    """Return the accuracies in percent by kind, rate and seed."""
    by_kind: dict[str, dict[float, dict[int, float]]] = {kind: {} for kind in KINDS}
    for cell in result["cells"]:
        kind, _, rate = cell["row"].partition(" ")
        if cell["graph"]["name"] == graph and kind in KINDS and (cell_scores := cell["protocols"].get(protocol)):
            by_kind[kind][float(rate)] = by_seed(cell_scores)
    return by_kind


def gaps(result: Result, protocol: str, graph: str, kind: str = "add") -> dict[float, PairedTest]:
    """Return the tests of :func:`all_gaps` for a graph and a kind of adding, by rate."""
    tests = all_gaps(result, protocol)
    return {rate: test for (place, own, rate), test in tests.items() if (place, own) == (graph, kind)}


def all_gaps(result: Result, protocol: str | None = None) -> dict[tuple[str, str, float], PairedTest]:
    """Return dropping minus adding by graph, kind and rate, with Holm's correction for all these tests.

    Args:
        result: the result.
        protocol: the protocol; None: the first one of the result.
    """
    pairs = {}
    for graph in measured_graphs(result):
        by_kind = curves(result, protocol or result["asked"]["protocols"][0], graph)
        for kind in ("add", "pool"):
            for rate in sorted(set(by_kind[kind]) & set(by_kind["drop"])):
                pairs[graph, kind, rate] = (by_kind["drop"][rate], by_kind[kind][rate])
    return paired_tests(pairs)


def tables(result: Result) -> list[Table]:
    """Return a table of the accuracy by kind and rate for each protocol."""
    first, *others = result["asked"]["protocols"]
    return [_protocol_table(result, first, ""), *(_protocol_table(result, protocol, protocol) for protocol in others)]


def _protocol_table(result: Result, protocol: str, slug: str) -> Table:
    lines: list[list[str]] = []
    counts: dict[str, set[int]] = {}
    rates = result["rates"]
    for graph in graphs_of(result):
        if graph in result["absent"]:
            lines.append([graph, result["absent"][graph], *[""] * len(rates)])
            continue
        for kind, by_rate in curves(result, protocol, graph).items():
            if by_rate:
                counts.setdefault(KINDS[kind], set()).update(len(runs) for runs in by_rate.values())
                lines.append([graph, KINDS[kind], *(_accuracy_text(by_rate.get(rate)) for rate in rates)])
        for kind in ("add", "pool"):
            differences = gaps(result, protocol, graph, kind)
            if differences:
                texts = [_gap_text(differences.get(rate)) for rate in rates]
                lines.append([graph, KINDS["drop"] + " − " + KINDS[kind], *texts])
    runs = "; ".join(f"{label} {'/'.join(map(str, sorted(numbers)))}" for label, numbers in counts.items())
    devices = sorted({device for cell in result["cells"] for device in cell["hardware"]})
    note = (
        f"Protocol {protocol}, random 10/10/80 splits. Accuracy in percent, mean ± standard deviation. Runs: {runs}. "
        "At rate r both views lose, or both gain, r·|E| edges on average, all with equal probability. Added edges are "
        "drawn again for every view of every epoch. With a fixed pool, one to two random pairs per edge are drawn once "
        "per model, like the candidates of Algorithm 1, and return during training. Differences are on common "
        "seeds, with 95% intervals that are corrected for overlapping splits, verdicts with Holm's correction for all "
        "differences of the table, and the smallest difference that such a test can show. Measured on "
        f"{' and '.join(devices)}. The paper shows only a chart, so there are no reported numbers."
    )
    columns = ["graph", "views", *(f"{rate:g}" for rate in rates)]
    return Table(slug, f"Adding against dropping, {protocol} protocol", columns, lines, note)


def _gap_text(gap: PairedTest | None) -> str:
    return "–" if gap is None else f"{gap}, {gap.decision}"


def _accuracy_text(runs: dict[int, float] | None) -> str:
    return mean_of_runs(spread(list(runs.values()))) if runs else "–"


def figures(result: Result) -> "dict[str, Figure]":
    """Return the curves with confidence bands, and a radar chart with a spoke for each rate."""
    graphs = measured_graphs(result)
    if not graphs:
        return {}
    protocol = result["asked"]["protocols"][0]
    lines, panels = drawing.new_figure(1, len(graphs), 3.4 * len(graphs) + 0.4, 3.2)
    for axes, graph in zip(panels, graphs, strict=True):
        _draw_curves(axes, result, protocol, graph)
    drawing.legend(lines, panels[0], 2)
    radar, panels = drawing.new_figure(1, len(graphs), 3.4 * len(graphs) + 0.4, 3.7, subplot_kw={"projection": "polar"})
    for axes, graph in zip(panels, graphs, strict=True):
        _draw_radar(cast("PolarAxes", axes), result, protocol, graph)
    drawing.legend(radar, panels[0], 3)
    return {"curves": lines, "radar": radar}


def _draw_curves(axes: "Axes", result: Result, protocol: str, graph: str) -> None:
    for colour, (kind, by_rate) in zip(drawing.COLOURS, curves(result, protocol, graph).items(), strict=False):
        rates = sorted(by_rate)
        spreads = [spread(list(by_rate[rate].values())) for rate in rates]
        means = [accuracy["mean"] for accuracy in spreads]
        low, high = ([one["mean"] + sign * one["std"] for one in spreads] for sign in (-1, 1))
        axes.fill_between(rates, low, high, color=colour, alpha=0.2, lw=0)
        axes.plot(rates, means, "o-", ms=4, color=colour, label=KINDS[kind])
    if (floor := scores(result, protocol, graph).get(UNTRAINED)) is not None:
        ends = [min(result["rates"]), max(result["rates"])]
        axes.plot(ends, [floor, floor], ls="--", lw=1, color=drawing.GREY, label=UNTRAINED)
    axes.set(xlabel="edges changed, share of |E|", ylabel="accuracy, %, mean ± std", title=graph)
    axes.grid(lw=0.3)


def _draw_radar(axes: "PolarAxes", result: Result, protocol: str, graph: str) -> None:
    from matplotlib.ticker import MaxNLocator

    by_kind = curves(result, protocol, graph)
    means = [fmean(runs.values()) for by_rate in by_kind.values() for runs in by_rate.values()]
    angles = {rate: 2 * math.pi * place / len(result["rates"]) for place, rate in enumerate(result["rates"])}
    for colour, (kind, by_rate) in zip(drawing.COLOURS, by_kind.items(), strict=False):
        rates = sorted(by_rate)
        around, heights = [angles[rate] for rate in rates], [fmean(by_rate[rate].values()) for rate in rates]
        if len(rates) == len(angles):  # a closed line would span rates that were not measured
            axes.fill(around, heights, color=colour, alpha=0.1)
            axes.plot([*around, *around[:1]], [*heights, *heights[:1]], "-", color=colour)
        axes.plot(around, heights, "o", ms=4, color=colour, label=KINDS[kind])
    axes.set_xticks(list(angles.values()), [f"{rate:g}" for rate in angles])
    if means:
        margin = max(0.5, 0.15 * (max(means) - min(means)))
        axes.set_ylim(min(means) - margin, max(means) + margin / 3)
    axes.tick_params(axis="y", labelsize=8)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.set_rlabel_position(22.5)
    axes.set_title(f"{graph}: accuracy in % by rate\n(the centre is not 0)", fontsize=10)


def reading(result: Result) -> list[str]:
    """Return a paragraph on each graph: dropping against adding, from new pairs and from a fixed pool."""
    protocol = result["asked"]["protocols"][0]
    paragraphs = []
    for graph in measured_graphs(result):
        comparisons = [_comparison_sentence(result, protocol, graph, kind) for kind in ("add", "pool")]
        if not any(comparisons):
            continue
        best = []
        for kind, by_rate in curves(result, protocol, graph).items():
            if by_rate:
                means = {rate: fmean(runs.values()) for rate, runs in by_rate.items()}
                rate = max(means, key=means.__getitem__)
                best.append(f"{means[rate]:.1f} ({KINDS[kind]}, rate {rate:g})")
        paragraphs.append(
            f"**{graph}**: {' '.join(filter(None, comparisons))} A rate counts if the paired test is significant after "
            f"correction for overlapping splits and for all tests of the table. Best accuracies: {', '.join(best)}."
        )
    return paragraphs


def _comparison_sentence(result: Result, protocol: str, graph: str, kind: str) -> str:
    differences = gaps(result, protocol, graph, kind)
    if not differences:
        return ""
    words = {rate: test.verdict for rate, test in differences.items()}
    better, worse = ([rate for rate, word in words.items() if word == wanted] for wanted in (BETTER, WORSE))
    source = "new random pairs" if kind == "add" else "pairs from a fixed pool"
    mean = fmean(test.mean for test in differences.values())
    counts = sorted({test.n for test in differences.values()})
    return (
        f"Compared with adding {source} ({'/'.join(map(str, counts))} common seeds), dropping is better at "
        f"{_rates_text(better)} and worse at {_rates_text(worse)}, out of {len(differences)}; the mean difference over "
        f"rates is {mean:+.1f} points."
    )


def _rates_text(rates: list[float]) -> str:
    return f"{counted(len(rates), 'rate')} ({', '.join(f'{rate:g}' for rate in rates)})" if rates else "none"


ARTEFACT = Artefact(
    name="add-vs-drop",
    title="Adding against dropping edges",
    datasets=("wikics", "citeseer", "cora"),
    methods=("epagcl",),
    runs=10,
    measure=measure,
    cells=cells_of,
    tables=tables,
    figures=figures,
    reading=reading,
)
