"""Figure 1: adding edges against dropping them, each as the only augmentation, over a range of rates."""

import math
from statistics import fmean
from typing import TYPE_CHECKING

from torch_geometric.data import Data

from epagcl.comparison import UNMASKED, UNTRAINED, Cell, Row, rows
from epagcl.paper import drawing
from epagcl.paper.accuracy import graphs_of, scores
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.statistics import bootstrap_interval
from epagcl.paper.tables import Table
from epagcl.views import edge_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
KINDS = ("add", "drop")


def variants(data: Data) -> list[Row]:
    """Both views drop r·|E| edges on average, or both get r·|E| new ones, all pairs alike; features are not hidden."""
    # Candidates of the uniform kind are as many as Algorithm 1's, so p_add·C = r·|E| fixes the probability.
    weights = edge_weights(data.edge_index, data.num_nodes, add="uniform")
    share = weights.pairs.shape[1] / max(weights.candidates.shape[1], 1)
    made = []
    for rate in RATES:
        uniform = {**UNMASKED, "drop": "uniform", "add": "uniform", "add_to": "both"}
        added = {"p_drop_1": 0.0, "p_drop_2": 0.0, "p_add": round(min(0.9, rate * share), 6)}
        dropped = {"p_drop_1": rate, "p_drop_2": rate, "p_add": 0.0}
        made += [
            Row(_title("add", rate), "epagcl", uniform | added),
            Row(_title("drop", rate), "epagcl", uniform | dropped),
        ]
    return made


def _title(kind: str, rate: float) -> str:
    return f"{kind} {rate:g}"


def measure(request: Request) -> Result:
    """Both kinds at every rate on every graph, all else as in EPAGCL's recipe; the untrained encoder beside them."""
    return {"rates": list(RATES), **request.runs_of(cells_of(request))}


def cells_of(request: Request) -> list[Cell]:
    """The reference and the variants, graph by graph."""
    reference = [row for row in rows(("epagcl",)) if row.title == UNTRAINED]
    return request.cells(lambda data: [*reference, *variants(data)])


def curves(result: Result, protocol: str, graph: str) -> dict[str, dict[float, list[float]]]:
    """Accuracies of the runs in percent, by kind and rate."""
    found: dict[str, dict[float, list[float]]] = {kind: {} for kind in KINDS}
    for cell in result["cells"]:
        kind, _, rate = cell["row"].partition(" ")
        if cell["graph"]["name"] == graph and kind in KINDS and protocol in cell["protocols"]:
            found[kind][float(rate)] = [100 * score for score in cell["protocols"][protocol]["accuracy"]["runs"]]
    return found


def gaps(result: Result, protocol: str, graph: str) -> dict[float, tuple[float, float, float]]:
    """At each rate: dropping minus adding on the same seeds, mean and 95% bootstrap interval, in points."""
    found = curves(result, protocol, graph)
    made = {}
    for rate in sorted(set(found["add"]) & set(found["drop"])):
        pairs = zip(found["drop"][rate], found["add"][rate], strict=False)
        differences = [dropped - added for dropped, added in pairs]
        made[rate] = (fmean(differences), *bootstrap_interval(differences))
    return made


def tables(result: Result) -> list[Table]:
    """Accuracy by kind and rate."""
    protocols = result["asked"]["protocols"]
    return [_table(result, protocol, "" if protocol == protocols[0] else protocol) for protocol in protocols]


def _table(result: Result, protocol: str, slug: str) -> Table:
    lines, counts = [], set()
    for graph in graphs_of(result):
        if graph in result["absent"]:
            lines.append([graph, result["absent"][graph], *[""] * len(result["rates"])])
            continue
        found = curves(result, protocol, graph)
        for kind in KINDS:
            own = found[kind]
            counts |= {len(values) for values in own.values()}
            lines.append([graph, kind, *(_spread(own.get(rate)) for rate in result["rates"])])
        told = gaps(result, protocol, graph)
        texts = [
            f"{told[r][0]:+.1f} ({told[r][1]:+.1f} to {told[r][2]:+.1f})" if r in told else "–" for r in result["rates"]
        ]
        lines.append([graph, "drop − add", *texts])
    note = (
        f"Protocol {protocol}, random 10/10/80 splits, {'/'.join(map(str, sorted(counts)))} runs, mean ± standard "
        "deviation in percent; rate r: both views lose, or both gain, r·|E| edges on average, chosen alike among all. "
        "Differences on the same seeds with 95% bootstrap intervals. The paper shows only a chart, so no figure of its "
        "own stands here."
    )
    columns = ["graph", "views", *(f"{rate:g}" for rate in result["rates"])]
    return Table(slug, f"Adding against dropping, {protocol} protocol", columns, lines, note)


def _spread(values: list[float] | None) -> str:
    if not values:
        return "–"
    mean = fmean(values)
    std = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1)) if len(values) > 1 else 0.0
    return f"{mean:.1f} ± {std:.1f}"


def figures(result: Result) -> "dict[str, Figure]":
    """Curves with confidence bands, and a radar with a spoke for each rate."""
    graphs = [graph for graph in graphs_of(result) if graph not in result["absent"]]
    if not graphs:
        return {}
    protocol = result["asked"]["protocols"][0]
    lines, panels = drawing.new_figure(1, len(graphs), 3.4 * len(graphs) + 0.4, 3.2)
    for axes, graph in zip(panels, graphs, strict=True):
        _curves(axes, result, protocol, graph)
    drawing.legend(lines, panels[0], 3)
    radar, panels = drawing.new_figure(1, len(graphs), 3.4 * len(graphs) + 0.4, 3.7, subplot_kw={"projection": "polar"})
    for axes, graph in zip(panels, graphs, strict=True):
        _radar(axes, result, protocol, graph)
    drawing.legend(radar, panels[0], 2)
    return {"curves": lines, "radar": radar}


def _curves(axes: "Axes", result: Result, protocol: str, graph: str) -> None:
    for colour, (kind, found) in zip(drawing.COLOURS, curves(result, protocol, graph).items(), strict=False):
        shown = sorted(found)
        bands = [bootstrap_interval(found[rate]) for rate in shown]
        axes.fill_between(shown, [low for low, _ in bands], [high for _, high in bands], color=colour, alpha=0.2, lw=0)
        axes.plot(shown, [fmean(found[rate]) for rate in shown], "o-", ms=4, color=colour, label=f"only {kind}")
    if (floor := scores(result, protocol, graph).get(UNTRAINED)) is not None:
        axes.axhline(floor, ls="--", lw=1, color=drawing.GREY, label=UNTRAINED)
    axes.set(xlabel="edges changed, share of |E|", ylabel="test accuracy, %", title=graph)
    axes.grid(lw=0.3)


def _radar(axes: "Axes", result: Result, protocol: str, graph: str) -> None:
    found = curves(result, protocol, graph)
    everything = [fmean(values) for own in found.values() for values in own.values()]
    for colour, own in zip(drawing.COLOURS, found.values(), strict=False):
        shown = sorted(own)
        angles = [2 * math.pi * place / len(shown) for place in range(len(shown))]
        heights = [fmean(own[rate]) for rate in shown]
        axes.plot([*angles, *angles[:1]], [*heights, *heights[:1]], "o-", ms=3, color=colour)
        axes.fill(angles, heights, color=colour, alpha=0.12)
        axes.set_xticks(angles, [f"{rate:g}" for rate in shown])
    for colour, kind in zip(drawing.COLOURS, KINDS, strict=False):
        axes.plot([], [], "o-", ms=3, color=colour, label=f"only {kind}")
    if everything:
        margin = max(0.5, 0.15 * (max(everything) - min(everything)))
        axes.set_ylim(min(everything) - margin, max(everything) + margin / 3)
    axes.tick_params(axis="y", labelsize=8)
    axes.set_title(f"{graph}: accuracy by rate", fontsize=10)


def reading(result: Result) -> list[str]:
    """Whether dropping outperforms adding, graph by graph."""
    protocol = result["asked"]["protocols"][0]
    words = []
    for graph in graphs_of(result):
        told = gaps(result, protocol, graph) if graph not in result["absent"] else {}
        if not told:
            continue
        drops = [rate for rate, (_, low, _) in told.items() if low > 0]
        adds = [rate for rate, (_, _, high) in told.items() if high < 0]
        found = curves(result, protocol, graph)
        best = {kind: max(own, key=lambda rate, own=own: fmean(own[rate])) for kind, own in found.items() if own}
        tops = " and ".join(f"{fmean(found[kind][rate]):.1f} for {kind} at {rate:g}" for kind, rate in best.items())
        words.append(
            f"**{graph}**: dropping is better at {_rates(drops)}, adding at {_rates(adds)} (the interval of the "
            f"difference excludes 0), of {len(told)} rates; the mean difference over all rates is "
            f"{fmean(gap for gap, _, _ in told.values()):+.1f} points. The best of each: {tops}."
        )
    return words


def _rates(found: list[float]) -> str:
    return f"{len(found)} rates ({', '.join(f'{rate:g}' for rate in found)})" if found else "none"


ARTEFACT = Artefact(
    name="add-vs-drop",
    title="Adding against dropping edges",
    datasets=("wikics", "citeseer", "cora", "amazon-photo"),
    methods=("epagcl",),
    runs=10,
    measure=measure,
    cells=cells_of,
    tables=tables,
    figures=figures,
    reading=reading,
)
