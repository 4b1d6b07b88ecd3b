"""Figure 1: adding edges against dropping them, each as the only augmentation, over a range of rates."""

import math
from statistics import fmean
from typing import TYPE_CHECKING

from torch_geometric.data import Data

from epagcl.evaluation.scores import spread
from epagcl.paper import drawing
from epagcl.paper.accuracy import graphs_of, scores
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.random_adding import RandomAdding
from epagcl.paper.statistics import bootstrap_interval
from epagcl.paper.tables import Table
from epagcl.study.cells import UNMASKED, UNTRAINED, Cell, Row, rows
from epagcl.views.probabilities import edge_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
#: What the views do, and how it is called.
KINDS = {"add": "only add", "pool": "only add, fixed pool", "drop": "only drop"}


def variants(data: Data) -> list[Row]:
    """Both views drop r·|E| edges on average, or both get r·|E| random ones; features are not hidden.

    Those are drawn anew for every view, or come from a pool that is drawn once, as Algorithm 1 has its candidates.
    """
    weights = edge_weights(data.edge_index, data.num_nodes)
    share = weights.pairs.shape[1] / max(weights.candidates.shape[1], 1)  # p_add·C = r·|E| fixes p_add
    made = []
    for rate in RATES:
        uniform = {**UNMASKED, "drop": "uniform", "add": "uniform", "add_to": "both"}
        added = uniform | {"p_drop_1": 0.0, "p_drop_2": 0.0, "p_add": round(min(0.9, rate * share), 6)}
        dropped = uniform | {"p_drop_1": rate, "p_drop_2": rate, "p_add": 0.0}
        made += [
            Row(_title("add", rate), "epagcl", added, RandomAdding),
            Row(_title("pool", rate), "epagcl", added),
            Row(_title("drop", rate), "epagcl", dropped),
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


def curves(result: Result, protocol: str, graph: str) -> dict[str, dict[float, dict[int, float]]]:
    """Accuracies in percent, by kind, rate and seed."""
    found: dict[str, dict[float, dict[int, float]]] = {kind: {} for kind in KINDS}
    for cell in result["cells"]:
        kind, _, rate = cell["row"].partition(" ")
        if cell["graph"]["name"] == graph and kind in KINDS and (scores := cell["protocols"].get(protocol)):
            runs = zip(scores["seeds"], scores["accuracy"]["runs"], strict=True)
            found[kind][float(rate)] = {seed: 100 * score for seed, score in runs}
    return found


def gaps(result: Result, protocol: str, graph: str, kind: str = "add") -> dict[float, tuple[float, float, float]]:
    """At each rate: dropping minus adding on the same seeds, mean and 95% bootstrap interval, in points."""
    found = curves(result, protocol, graph)
    made = {}
    for rate in sorted(set(found[kind]) & set(found["drop"])):
        added = found[kind][rate]
        differences = [score - added[seed] for seed, score in found["drop"][rate].items() if seed in added]
        if differences:
            made[rate] = (fmean(differences), *bootstrap_interval(differences))
    return made


def tables(result: Result) -> list[Table]:
    """Accuracy by kind and rate."""
    protocols = result["asked"]["protocols"]
    return [_table(result, protocol, "" if protocol == protocols[0] else protocol) for protocol in protocols]


def _table(result: Result, protocol: str, slug: str) -> Table:
    lines, counts = [], {}
    for graph in graphs_of(result):
        if graph in result["absent"]:
            lines.append([graph, result["absent"][graph], *[""] * len(result["rates"])])
            continue
        for kind, own in curves(result, protocol, graph).items():
            if own:
                counts.setdefault(KINDS[kind], set()).update(len(runs) for runs in own.values())
                lines.append([graph, KINDS[kind], *(_spread(own.get(rate)) for rate in result["rates"])])
        for kind in ("add", "pool"):
            told = gaps(result, protocol, graph, kind)
            if told:
                texts = [_gap_text(told.get(rate)) for rate in result["rates"]]
                lines.append([graph, KINDS["drop"] + " − " + KINDS[kind], *texts])
    runs = ", ".join(f"{words} {'/'.join(map(str, sorted(found)))}" for words, found in counts.items())
    note = (
        f"Protocol {protocol}, random 10/10/80 splits, mean ± standard deviation in percent; runs: {runs}. Rate r: "
        "both "
        "views lose, or both gain, r·|E| edges on average, all with the same probability. Those to add are drawn "
        "anew for "
        "every view of every epoch, or (fixed pool) come from one to two random pairs for each edge that are drawn "
        "once "
        "for each model, as Algorithm 1 has its candidates, and return during training. Differences on the same seeds "
        f"with 95% bootstrap intervals. Measured on {' and '.join(_devices(result))}. The paper shows only a chart, "
        "so no "
        "figure of its own stands here."
    )
    columns = ["graph", "views", *(f"{rate:g}" for rate in result["rates"])]
    return Table(slug, f"Adding against dropping, {protocol} protocol", columns, lines, note)


def _gap_text(gap: tuple[float, float, float] | None) -> str:
    return "–" if gap is None else f"{gap[0]:+.1f} ({gap[1]:+.1f} to {gap[2]:+.1f})"


def _devices(result: Result) -> list[str]:
    return sorted({device for cell in result["cells"] for device in cell["hardware"]})


def _spread(runs: dict[int, float] | None) -> str:
    if not runs:
        return "–"
    found = spread(list(runs.values()))
    return f"{found['mean']:.1f} ± {found['std']:.1f}"


def figures(result: Result) -> "dict[str, Figure]":
    """Curves with confidence bands, and a radar with a spoke for each rate."""
    graphs = [graph for graph in graphs_of(result) if graph not in result["absent"]]
    if not graphs:
        return {}
    protocol = result["asked"]["protocols"][0]
    lines, panels = drawing.new_figure(1, len(graphs), 3.4 * len(graphs) + 0.4, 3.2)
    for axes, graph in zip(panels, graphs, strict=True):
        _curves(axes, result, protocol, graph)
    drawing.legend(lines, panels[0], 2)
    radar, panels = drawing.new_figure(1, len(graphs), 3.4 * len(graphs) + 0.4, 3.7, subplot_kw={"projection": "polar"})
    for axes, graph in zip(panels, graphs, strict=True):
        _radar(axes, result, protocol, graph)
    drawing.legend(radar, panels[0], 3)
    return {"curves": lines, "radar": radar}


def _curves(axes: "Axes", result: Result, protocol: str, graph: str) -> None:
    for colour, (kind, found) in zip(drawing.COLOURS, curves(result, protocol, graph).items(), strict=False):
        shown = sorted(found)
        bands = [bootstrap_interval(list(found[rate].values())) for rate in shown]
        axes.fill_between(shown, [low for low, _ in bands], [high for _, high in bands], color=colour, alpha=0.2, lw=0)
        axes.plot(shown, [fmean(found[rate].values()) for rate in shown], "o-", ms=4, color=colour, label=KINDS[kind])
    if (floor := scores(result, protocol, graph).get(UNTRAINED)) is not None:
        axes.axhline(floor, ls="--", lw=1, color=drawing.GREY, label=UNTRAINED)
    axes.set(xlabel="edges changed, share of |E|", ylabel="accuracy, %, 95% band", title=graph)
    axes.grid(lw=0.3)


def _radar(axes: "Axes", result: Result, protocol: str, graph: str) -> None:
    from matplotlib.ticker import MaxNLocator

    found = curves(result, protocol, graph)
    everything = [fmean(runs.values()) for own in found.values() for runs in own.values()]
    angles = {rate: 2 * math.pi * place / len(result["rates"]) for place, rate in enumerate(result["rates"])}
    for colour, (kind, own) in zip(drawing.COLOURS, found.items(), strict=False):
        shown = sorted(own)
        around, heights = [angles[rate] for rate in shown], [fmean(own[rate].values()) for rate in shown]
        if len(shown) == len(angles):  # else a line would cross what was not measured
            axes.fill(around, heights, color=colour, alpha=0.1)
            axes.plot([*around, *around[:1]], [*heights, *heights[:1]], "-", color=colour)
        axes.plot(around, heights, "o", ms=4, color=colour, label=KINDS[kind])
    axes.set_xticks(list(angles.values()), [f"{rate:g}" for rate in angles])
    if everything:
        margin = max(0.5, 0.15 * (max(everything) - min(everything)))
        axes.set_ylim(min(everything) - margin, max(everything) + margin / 3)
    axes.tick_params(axis="y", labelsize=8)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.set_rlabel_position(22.5)
    axes.set_title(f"{graph}: accuracy in % by rate\n(the centre is not 0)", fontsize=10)


def reading(result: Result) -> list[str]:
    """Whether dropping outperforms adding, graph by graph, and what a fixed pool changes."""
    protocol = result["asked"]["protocols"][0]
    words = []
    for graph in graphs_of(result):
        if graph in result["absent"]:
            continue
        parts = [_on_kind(result, protocol, graph, kind) for kind in ("add", "pool")]
        found = curves(result, protocol, graph)
        best = {
            kind: max(own, key=lambda rate, own=own: fmean(own[rate].values())) for kind, own in found.items() if own
        }
        tops = ", ".join(
            f"{fmean(found[kind][rate].values()):.1f} for {KINDS[kind]} at {rate:g}" for kind, rate in best.items()
        )
        told = " ".join(part for part in parts if part)
        if told:
            words.append(f"**{graph}**: {told} The best of each: {tops}.")
    return words


def _on_kind(result: Result, protocol: str, graph: str, kind: str) -> str:
    told = gaps(result, protocol, graph, kind)
    if not told:
        return ""
    drops = [rate for rate, (_, low, _) in told.items() if low > 0]
    adds = [rate for rate, (_, _, high) in told.items() if high < 0]
    source = "pairs drawn anew" if kind == "add" else "a fixed pool"
    return (
        f"Against adding from {source}, dropping is better at {_rates(drops)}, worse at {_rates(adds)}, of "
        f"{len(told)} (the "
        "95% interval of the difference, not corrected for the number of rates, excludes 0); on average over rates by "
        f"{fmean(gap for gap, _, _ in told.values()):+.1f} points."
    )


def _rates(found: list[float]) -> str:
    return (
        f"{len(found)} rate{'s' if len(found) > 1 else ''} ({', '.join(f'{r:g}' for r in found)})" if found else "none"
    )


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
