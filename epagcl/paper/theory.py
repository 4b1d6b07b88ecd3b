"""Section 3 held against numbers: Theorem 3.3, Theorem 3.5, and the EPR of the views that augmentations make."""

from collections.abc import Callable, Iterable
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from epagcl.data.checking import undirected_pairs
from epagcl.paper import theorems
from epagcl.paper.artefact import Artefact, Request, Result, load_all
from epagcl.paper.drawing import COLOURS, GREY, new_figure
from epagcl.paper.epr import HETEROPHILOUS, graph_key, listed
from epagcl.paper.tables import Table
from epagcl.paper.theorems import FAMILIES, P_ADD, RATES, SAMPLE
from epagcl.study.code_version import code_version
from epagcl.study.store import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HOMOPHILOUS = ("Cora", "CiteSeer", "PubMed", "Amazon-Photo", "Coauthor-CS", "Coauthor-Physics")
AUGMENTATIONS = {
    "uniform_drop": "uniform drop",
    "eq7_drop": "Eq. 7 drop",
    "text_drop": "text's drop",
    "uniform_add": "uniform add",
    "eq7_add": "Eq. 7 add",
    "second_view": "Eq. 7 drop + add",
    "oracle_drop": "oracle drop",
}
KINDS = {"added": "random absent pairs", "candidates": "Algorithm 1's candidates", "dropped": "edges dropped"}


def measure(request: Request) -> Result:
    """The three parts for each graph that is at hand, and Theorem 3.3 on random graphs."""
    code = code_version(theorems)

    def kept(what: str, graph: Record, compute: Callable[[], Record]) -> Record:
        request.work.say(f"{what} of {graph['name']}")
        record = request.store.remember({"what": what, "graph": graph, "code": code}, compute)
        return {field: value for field, value in record.items() if field != "key"}

    result: Result = {"random_graphs": kept("theorem-3-3", {"name": "random graphs"}, theorems.random_graphs)["rows"]}
    result |= {"graphs": {}, "absent": {}}
    for name, data in load_all(request.datasets, request.root, features=False).items():
        if isinstance(data, str):
            result["absent"][name] = data
            continue
        key, graph = graph_key(name, data), (undirected_pairs(data.edge_index, data.num_nodes), data.y)
        result["graphs"][name] = {
            "edges": graph[0].shape[1],
            "theorem_3_3": kept("theorem-3-3", key, lambda graph=graph: theorems.theorem_3_3(*graph)),
            "theorem_3_5": kept("theorem-3-5", key, lambda graph=graph: theorems.theorem_3_5(*graph)),
            "views": kept("view-epr", key, lambda graph=graph: theorems.view_rates(*graph)),
        }
    return result


# Tables


def wilson(count: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95% interval of a share: (p + z²/2n ± z√(p(1 − p)/n + z²/4n²)) / (1 + z²/n)."""
    p, square = count / total, z * z / total
    half = z * (p * (1 - p) / total + square / (4 * total)) ** 0.5
    return max(0.0, (p + square / 2 - half) / (1 + square)), min(1.0, (p + square / 2 + half) / (1 + square))


def tables(result: Result) -> list[Table]:
    """The views at both rates and in both forms, then the theorems."""
    views = [
        _views_table(result, "", RATES[0], "edge"),
        _views_table(result, "per-node", RATES[0], "node"),
        _views_table(result, "rate-0.1", RATES[1], "edge"),
    ]
    return [*views, _theorem_3_3_table(result), _theorem_3_5_table(result)]


def _views_table(result: Result, slug: str, rate: float, per: str) -> Table:
    rows = []
    for name, graph in result["graphs"].items():
        cells = graph["views"]["rates"][str(rate)]
        changes = [_signed(*cells[key][per]) for key in AUGMENTATIONS]
        rows.append([name, f"{100 * graph['views']['epr'][per]:.2f}", *changes])
    rows += [[name, reason, *["–"] * len(AUGMENTATIONS)] for name, reason in result["absent"].items()]
    views = sorted({graph["views"]["views"] for graph in result["graphs"].values()}, reverse=True)
    note = (
        f"EPR(view) − EPR(graph) per {per}, in units of 0.01, mean ± deviation of {' or '.join(map(str, views))} "
        f"views; expected number of changed edges: {rate:g}·|E| (drop + add: {rate:g}·|E| dropped, {P_ADD:g}·|E| "
        "added). Text's drop: small α rather than large. Oracle: edges between classes 0.85/0.15 times as readily as "
        "others. Measured here; the paper reports none of it."
    )
    title = f"EPR per {per} of views with {rate:g}·|E| changed edges"
    return Table(slug, title, ["graph", "EPR", *AUGMENTATIONS.values()], rows, note, folded=bool(slug))


def _signed(mean: float, std: float) -> str:
    change = f"{100 * mean:+.2f}"
    return f"{'0.00' if change == '-0.00' else change} ± {100 * std:.2f}"


def _share(counts: list[int], interval: bool = False) -> str:
    total, against = counts[:2]
    if total == 0:
        return "–"
    low, high = wilson(against, total)
    return f"{100 * against / total:.2f}" + (f" [{100 * low:.2f}, {100 * high:.2f}]" if interval else "")


def _theorem_3_3_table(result: Result) -> Table:
    columns = ["graphs", "degrees", "conditions", "add within, d", "add between, d", "add within, d+1"]
    columns += ["add between, d+1", "candidates within", "candidates between", "drop within", "drop between"]
    forms, rows = [(form, where) for form in ("d", "d1") for where in ("within", "between")], []
    for row in result["random_graphs"]:
        low, high = FAMILIES[row["family"]]
        shares = [_share(row["added"][form][where], interval=True) for form, where in forms]
        rows.append([f"{row['graphs']} {_kind(row)}", f"{low}–{high}", "met", *shares, *["–"] * 4])
    for name, graph in result["graphs"].items():
        theorem, met = graph["theorem_3_3"], graph["theorem_3_3"]["conditions"]
        shares = [_share(theorem["added"][form][where]) for form, where in forms]
        shares += [
            _share(theorem[kind]["d"][where]) for kind in ("candidates", "dropped") for where in ("within", "between")
        ]
        rows.append([name, f"{met['d_min']}–{met['d_max']}", "met" if met["holds"] else "not met", *shares])
    note = (
        "Share in % of changes of a single pair that go against Theorem 3.3, with Wilson's 95% interval: an addition "
        "within a class that raises EPR per edge, or one between classes that lowers it; a drop within a class that "
        f"lowers it, or one between classes that raises it. At most {SAMPLE:,} pairs of each kind. d+1: degrees with "
        "self-loops under the root. Additions: random absent pairs; candidates: Algorithm 1's. Measured here."
    )
    return Table("theorem-3-3", "Changes that contradict Theorem 3.3", columns, rows, note)


def _kind(row: Record) -> str:
    return row["family"] + (", homophilous" if row["stay"] else "")


def _theorem_3_5_table(result: Result) -> Table:
    columns = ["graph", *(f"{kind}: {what}" for kind in KINDS for what in ("sign", "r", "ratio"))]
    rows = []
    for name, graph in result["graphs"].items():
        row = [name]
        for kind in KINDS:
            part = graph["theorem_3_5"][kind]
            row += [f"{100 * part['sign']:.1f}", _number(part["pearson"]), f"{part['ratio']:.2f}"]
        rows.append(row)
    note = (
        f"For at most {2 * SAMPLE:,} pairs of each kind (random absent pairs added, Algorithm 1's candidates added, "
        "edges dropped), half of them within a class where there are as many: share in % whose change of EPR per edge "
        "has the predicted sign, Pearson's correlation of predicted and exact change, median of |predicted|/|exact|."
    )
    return Table("theorem-3-5", "Theorem 3.5 against the exact change of EPR", columns, rows, note)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


# Figures


def figures(result: Result) -> "dict[str, Figure]":
    """EPR of views, shares of contradictions, predicted against exact changes."""
    drawn = {"theorem-3-3": _theorem_3_3_figure(result)}
    if result["graphs"]:
        drawn = {"views": _views_figure(result), **drawn, "theorem-3-5": _theorem_3_5_figure(result)}
    return drawn


def _rows(axes: "Axes", names: Iterable[str]) -> None:
    """Names down the side, the first on top, each with a band of its own."""
    names = list(names)
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    for place in range(0, len(names), 2):
        axes.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0, linewidth=0)


def _offset(place: int, of: int) -> float:
    return 0.7 * ((place + 0.5) / of - 0.5)


def _views_figure(result: Result) -> "Figure":
    names = list(result["graphs"])
    figure, panels = new_figure(1, 2, 10, 1.7 + 0.5 * len(names), sharex=True, sharey=True)
    for axes, rate in zip(panels, RATES, strict=True):
        for k, (key, label) in enumerate(AUGMENTATIONS.items()):
            cells = [result["graphs"][name]["views"]["rates"][str(rate)][key]["edge"] for name in names]
            x, spread = (100 * np.array(part) for part in zip(*cells, strict=True))
            y = np.arange(len(names)) + _offset(k, len(AUGMENTATIONS))
            style = {"color": COLOURS[k] if key != "oracle_drop" else "black", "marker": "osDo^v*"[k]}
            axes.errorbar(x, y, xerr=spread, linestyle="", markersize=5, elinewidth=1, label=label, **style)
        axes.axvline(0, color=GREY, linewidth=1)
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(-50, 50)
        axes.set_xticks([-10, -1, 0, 1, 10], ["−10", "−1", "0", "+1", "+10"])
        axes.set_title(f"{rate:g}·|E| edges changed", fontsize=10)
        axes.set_xlabel("change of EPR per edge, in 0.01: mean ± std over views", fontsize=9)
        _rows(axes, names)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=7, frameon=False, fontsize=9)
    figure.supxlabel(_number_of_views(result), fontsize=8)
    return figure


def _number_of_views(result: Result) -> str:
    views = {name: graph["views"]["views"] for name, graph in result["graphs"].items()}
    usual = max(views.values())
    others = "".join(f", {name}: {count}" for name, count in views.items() if count != usual)
    return f"views of each graph: {usual}{others}"


def _theorem_3_3_figure(result: Result) -> "Figure":
    random, graphs = result["random_graphs"], result["graphs"]
    left = {
        f"add {where} {words}, {form.replace('1', '+1')}": [row["added"][form][where] for row in random]
        for form in ("d", "d1")
        for where, words in (("within", "a class"), ("between", "classes"))
    }
    right = {
        f"{words}, {where}": [graph["theorem_3_3"][kind]["d"][where] for graph in graphs.values()]
        for kind, words in KINDS.items()
        for where in ("within", "between")
    }
    height = 2.1 + 0.42 * max(len(random), len(graphs))
    figure, panels = new_figure(1, 2, 10.5, height, sharex=True)
    for axes, series, names in ((panels[0], left, map(_kind, random)), (panels[1], right, graphs)):
        for k, (label, counts) in enumerate(series.items()):
            known = [place for place, (total, *_) in enumerate(counts) if total]
            x = np.array([counts[place][1] / counts[place][0] for place in known])
            ends = np.array([wilson(counts[place][1], counts[place][0]) for place in known]).reshape(-1, 2).T
            y = np.array(known) + _offset(k, len(series))
            filled = {"color": COLOURS[k % 2], "marker": "osD^"[k // 2]}
            spread = 100 * np.abs(ends - x)
            axes.errorbar(100 * x, y, xerr=spread, linestyle="", markersize=5, elinewidth=1, label=label, **filled)
        _rows(axes, names)
        axes.set_xscale("symlog", linthresh=0.1)
        axes.set_xlim(-0.01, 100)
        axes.set_xticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
        axes.set_xlabel("changes against Theorem 3.3, % (Wilson 95%)", fontsize=9)
        axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.05), ncols=2, frameon=False, fontsize=8)
    panels[0].set_title("random graphs that meet its conditions", fontsize=10)
    met = sum(graph["theorem_3_3"]["conditions"]["holds"] for graph in graphs.values())
    panels[1].set_title(f"named graphs ({met} of {len(graphs)} meet them)", fontsize=10)
    return figure


def _theorem_3_5_figure(result: Result) -> "Figure":
    graphs = result["graphs"]
    columns = min(5, len(graphs))
    rows = -(-len(graphs) // columns)
    figure, panels = new_figure(rows, columns, max(2.2 * columns, 4.5), 2.2 * rows + 0.9, sharex=True, sharey=True)
    for axes, (name, graph) in zip(panels, graphs.items(), strict=False):
        axes.axline((0, 0), (1, 1), color=GREY, linewidth=0.8, zorder=1)
        for k, (kind, words) in enumerate(KINDS.items()):
            # Changes shrink with the graph; times |E| they are alike everywhere.
            x, y = np.array(graph["theorem_3_5"][kind]["points"]).T * graph["edges"]
            axes.scatter(x, y, s=9, color=COLOURS[k], alpha=0.6, linewidths=0, label=words, zorder=2)
        axes.set_title(name, fontsize=9)
        axes.set_xscale("symlog", linthresh=0.01)
        axes.set_yscale("symlog", linthresh=0.01)
        ticks = [-1, -0.01, 0.01, 1]
        axes.set_xticks(ticks, ["−1", "−.01", ".01", "1"], fontsize=8)
        axes.set_yticks(ticks, ["−1", "−.01", ".01", "1"], fontsize=8)
        axes.tick_params(labelbottom=True)  # also above an empty panel
        axes.set_aspect("equal")
    for axes in panels[len(graphs) :]:
        axes.set_axis_off()
    figure.supxlabel("exact change of EPR × |E| (a point: one pair)", fontsize=9)
    figure.supylabel("predicted by Theorem 3.5 × |E|", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9, markerscale=2.5)
    return figure


# Words


def reading(result: Result) -> list[str]:
    """What holds of Section 3 and what does not."""
    if not result["graphs"]:
        return [_on_random_graphs(result)]
    return [
        _adding_or_dropping(result),
        _guided_adding(result),
        _direction_of_dropping(result),
        _second_view(result),
        _on_random_graphs(result),
        _on_named_graphs(result),
        _as_approximation(result),
    ]


def _cells(result: Result, key: str) -> dict[str, Record]:
    return {name: graph["views"]["rates"][str(RATES[0])][key] for name, graph in result["graphs"].items()}


def _changes(result: Result, key: str) -> dict[str, float]:
    """Mean over views: what an augmentation does on the whole, not how steady it is."""
    return {name: cell["edge"][0] for name, cell in _cells(result, key).items()}


def root_mean_square(mean: float, std: float, views: int) -> float:
    """Of single views' changes: √(mean² + std²·(V − 1)/V), for the deviation is that of V − 1 degrees of freedom.

    Unlike the size of the mean it does not call steady what moves each view, some up and some down.
    """
    return (mean**2 + std**2 * (views - 1) / views) ** 0.5


def sizes(result: Result, key: str) -> dict[str, float]:
    """How far an augmentation moves the EPR of a view on each graph."""
    views = {name: graph["views"]["views"] for name, graph in result["graphs"].items()}
    return {name: root_mean_square(*cell["edge"], views[name]) for name, cell in _cells(result, key).items()}


def _size(result: Result, key: str) -> str:
    """Median over graphs."""
    return f"{median(sizes(result, key).values()):.5f}"


def _steadier(result: Result, one: str, other: str) -> str:
    """On how many graphs one augmentation moves a view's EPR less than another, and both medians."""
    ones, others = sizes(result, one), sizes(result, other)
    less = sum(ones[name] < others[name] for name in ones)
    return f"{less} of {len(ones)} graphs (median {_size(result, one)} against {_size(result, other)})"


def _of(names: list[str], result: Result) -> str:
    return f"{len(names)} of {len(result['graphs'])}"


def _typical(result: Result, key: str, field: str) -> float:
    return median(cell[field] for cell in _cells(result, key).values())


def _adding_or_dropping(result: Result) -> str:
    added = _changes(result, "uniform_add")
    text = (
        f"How far a view with {RATES[0]:g}·|E| changed edges is from the graph's EPR per edge: the root mean square "
        "of its change over the views, so that changes up and down do not cancel; steadier is what has less of it. "
        "Dropping against adding: chosen uniformly, dropping is steadier on "
        f"{_steadier(result, 'uniform_drop', 'uniform_add')}; chosen by Eq. 7, on "
        f"{_steadier(result, 'eq7_drop', 'eq7_add')}."
    )
    if lowered := [name for name, change in added.items() if change < 0]:
        wrong = _cells(result, "uniform_add")
        noisier = [name for name in lowered if result["graphs"][name]["views"]["epr"]["edge"] > wrong[name]["wrong"]]
        text += (
            f" Uniform adding lowers the mean EPR on {listed(lowered)}; on {len(noisier)} of {len(lowered)} the "
            "graph's own edges are wrong more often than random pairs."
        )
    return text


def _guided_adding(result: Result) -> str:
    alpha, wrong = ([_typical(result, key, f) for key in ("eq7_add", "uniform_add")] for f in ("alpha", "wrong"))
    weight, error = ("less" if pair[0] < pair[1] else "no less" for pair in (alpha, wrong))
    return (
        "Guided against uniform adding: as many edges by Algorithm 1 and Eq. 7 are steadier on "
        f"{_steadier(result, 'eq7_add', 'uniform_add')}. They weigh {weight} (median α {alpha[0]:.4f} against "
        f"{alpha[1]:.4f}) and are {error} often wrong ({wrong[0]:.2f} against {wrong[1]:.2f})."
    )


def _direction_of_dropping(result: Result) -> str:
    alpha = [_typical(result, key, "alpha") for key in ("eq7_drop", "text_drop")]
    return (
        "Formula and text disagree on which edges to drop. Eq. 7's direction (large α) is steadier than the text's "
        f"(small α) on {_steadier(result, 'eq7_drop', 'text_drop')}; than uniform dropping Eq. 7's is steadier on "
        f"{_steadier(result, 'eq7_drop', 'uniform_drop')}, the text's on "
        f"{_steadier(result, 'text_drop', 'uniform_drop')}. Median α of the dropped edges: {alpha[0]:.3f} by Eq. 7, "
        f"{alpha[1]:.3f} by the text."
    )


def _second_view(result: Result) -> str:
    changes, oracle = _changes(result, "second_view"), _changes(result, "oracle_drop")
    raised = [name for name, change in changes.items() if change > 0]
    return (
        f"EPAGCL's second view (Eq. 7's drop and {P_ADD:g}·|E| edges added) raises the mean EPR on "
        f"{_of(raised, result)} graphs (median of the mean change {median(changes.values()):+.4f}, of the root mean "
        f"square {_size(result, 'second_view')}); dropping as many edges with knowledge of the classes changes it by "
        f"{median(oracle.values()):+.4f} ({_size(result, 'oracle_drop')})."
    )


def counted(result: Result, form: str, where: str) -> list[float]:
    """Additions on all random graphs, those against Theorem 3.3, and both by the size of the change."""
    return [sum(column) for column in zip(*(row["added"][form][where] for row in result["random_graphs"]), strict=True)]


def _on_random_graphs(result: Result) -> str:
    words = {"within": "additions within a class raise EPR", "between": "additions between classes lower it"}
    parts, refuted = {"d": [], "d1": []}, False
    for form, said in parts.items():
        for where, what in words.items():
            total, against, size, size_against = counted(result, form, where)
            refuted |= form == "d" and against > 0
            share = f"{against / total:.2%} [{', '.join(f'{end:.2%}' for end in wilson(against, total))}]"
            said.append(f"{against:,} of {total:,} {what} ({share}; {100 * size_against / size:.2g}% by size)")
    graphs = sum(row["graphs"] for row in result["random_graphs"])
    verdict = "does not hold as stated" if refuted else "has no exception here"
    return (
        f"Theorem 3.3 {verdict}: on {graphs} random graphs within its conditions {' and '.join(parts['d'])}. "
        f"With d + 1 under the root, {' and '.join(parts['d1'])}. How often depends on the graphs: "
        "an exception within a class needs an end whose messages are wrong less often than the average, one between "
        "classes an end where they are wrong more often."
    )


def _on_named_graphs(result: Result) -> str:
    graphs = result["graphs"]
    met = [name for name, graph in graphs.items() if graph["theorem_3_3"]["conditions"]["holds"]]
    text = f"{listed(met) if met else 'None'} of the {len(graphs)} named graphs {'meets' if len(met) < 2 else 'meet'} "
    text += "its conditions. How often single changes go against it there, in the median and at most:"
    for kind, words in KINDS.items():
        for where in ("within", "between"):
            counts = {name: graph["theorem_3_3"][kind]["d"][where] for name, graph in graphs.items()}
            shares = {name: against / total for name, (total, against, *_) in counts.items() if total}
            if shares:
                worst = max(shares, key=shares.get)
                text += f" {words}, {where}: {median(shares.values()):.1%}, {shares[worst]:.1%} ({worst});"
    return text.rstrip(";") + "."


def _as_approximation(result: Result) -> str:
    said = []
    for kind, words in KINDS.items():
        parts = [graph["theorem_3_5"][kind] for graph in result["graphs"].values()]
        known = [part["pearson"] for part in parts if part["pearson"] is not None]
        said.append(
            f"{words}: sign right for {median(part['sign'] for part in parts):.1%} (least "
            f"{min(part['sign'] for part in parts):.1%}), correlation {_number(median(known) if known else None)}, "
            f"|predicted|/|exact| {median(part['ratio'] for part in parts):.2f}"
        )
    return f"Theorem 3.5 without its assumption, in the median over graphs: {'; '.join(said)}."


ARTEFACT = Artefact(
    name="theory",
    title="The theory, measured",
    datasets=(*HOMOPHILOUS, *HETEROPHILOUS, "ogbn-arxiv"),
    measure=measure,
    tables=tables,
    figures=figures,
    reading=reading,
    runs=1,
)
