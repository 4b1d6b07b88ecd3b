"""Appendix F: the error passing rates of benchmark graphs, by each definition that the paper's text allows."""

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from epagcl.core.formatting import listed
from epagcl.data.catalogue.entries import CATALOGUE
from epagcl.data.checking import undirected_pairs
from epagcl.epr import rate
from epagcl.epr.rate import error_passing_rate
from epagcl.paper import reported
from epagcl.paper.artefact import Artefact, Request, Result, load_all
from epagcl.paper.drawing import COLOURS, GREY, new_figure
from epagcl.paper.tables import Table
from epagcl.study.code_version import code_version
from epagcl.study.shapes import Shape
from epagcl.study.store import holding

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch_geometric.data import Data

    from epagcl.study.store import Key, Record

#: Possible definitions of the numbers in Appendix F, with their descriptions.
DEFINITIONS = {
    "per_node": "the mean over nodes",
    "per_edge": "the ratio over all edges (Proposition 3.2)",
    "per_node_d1": "the mean over nodes with d + 1 under the root",
    "per_edge_d1": "the ratio over all edges with d + 1 under the root",
}
#: The shape of the record of a graph.
RECORD: Shape = {
    **dict.fromkeys(("nodes", "edges", "classes"), int),
    **dict.fromkeys((*DEFINITIONS, "hops_2", "homophily", "chance"), float),
    "hops_3": (float, None),
}


def graph_key(name: str, data: "Data") -> "Key":
    """Return the part of a store's key that identifies a graph by its edges and labels."""
    pairs = undirected_pairs(data.edge_index, data.num_nodes)
    digest = hashlib.sha256()
    for part in (pairs, data.y):
        digest.update(part.long().cpu().contiguous().numpy().tobytes())
    return {"name": name, "edges": pairs.shape[1], "fingerprint": digest.hexdigest()[:16]}


def rates(edge_index: torch.Tensor, y: torch.Tensor) -> "Record":
    """Return a graph's EPR per node and per edge, with d and d + 1 under the root, and over 2 and 3 hops.

    EPR over 3 hops is None unless EPR per node is at least 0.5: the paper suggests a higher order for heterophilous
    graphs only, and on large graphs the third hop is expensive. Edge homophily is the share of edges within a class.
    It would equal 1 − EPR per edge if all messages had the same weight. Chance is 1 − Σ_c (n_c/N)², the EPR if messages
    came from random nodes.
    """
    pairs = undirected_pairs(edge_index, y.numel())
    classes = torch.bincount(y).double()
    epr = partial(error_passing_rate, pairs, y)
    per_node = epr()
    return {
        "nodes": y.numel(),
        "edges": pairs.shape[1],
        "classes": y.unique().numel(),
        "per_node": per_node,
        "per_edge": epr(per="edge"),
        "per_node_d1": epr(self_loops=True),
        "per_edge_d1": epr(per="edge", self_loops=True),
        "hops_2": epr(hops=2),
        "hops_3": epr(hops=3) if per_node >= 0.5 else None,
        "homophily": float((y[pairs[0]] == y[pairs[1]]).double().mean()),
        "chance": float(1 - (classes / y.numel()).square().sum()),
    }


def measure(request: Request) -> Result:
    """Measure the rates of each graph that can be loaded, and collect the values that the paper reports."""
    graphs, absent = {}, {}
    for name, data in load_all(request.datasets, request.root, features=False).items():
        if isinstance(data, str):
            absent[name] = data
            continue
        request.work.say(f"EPR of {name}")
        key = {"what": "epr", "graph": graph_key(name, data), "code": code_version(rate, rates)}
        record = holding(request.store, RECORD).remember(key, partial(rates, data.edge_index, data.y))
        graphs[name] = {field: value for field, value in record.items() if field != "key"}
    requested = {*graphs, *absent}
    return {
        "graphs": graphs,
        "absent": absent,
        "reported": {name: value for name, value in reported()["epr"].items() if name in requested},
    }


def agreeing(result: Result, definition: str) -> list[str]:
    """Return the graphs whose reported value agrees with a definition to three decimals."""
    graphs = result["graphs"]
    return [
        name
        for name, value in result["reported"].items()
        if name in graphs and f"{graphs[name][definition]:.3f}" == f"{value:.3f}"
    ]


def tables(result: Result) -> list[Table]:
    """Return one table with a row per graph, absent graphs last."""
    columns = ["graph", "nodes", "edges", "classes", "EPR per node", "EPR per edge", "per node, d+1", "per edge, d+1"]
    columns += ["2 hops, per node", "3 hops, per node", "edge homophily", "reported", "agrees"]
    in_agreement = agreeing(result, "per_node")
    rows = []
    for name, graph in result["graphs"].items():
        sizes = [f"{graph[field]:,}" for field in ("nodes", "edges", "classes")]
        fields = (*DEFINITIONS, "hops_2", "hops_3", "homophily")
        values = ["–" if graph[field] is None else f"{graph[field]:.4f}" for field in fields]
        agrees = ("yes" if name in in_agreement else "no") if name in result["reported"] else "–"
        rows.append([name, *sizes, *values, _reported(result, name), agrees])
    for name, reason in result["absent"].items():
        rows.append([name, *["–"] * 3, reason, *["–"] * 6, _reported(result, name), "–"])
    note = (
        "Measured here from edges and labels; there is no randomness. d+1: degrees with self-loops under the root, as "
        "in a GCN. k hops: messages over walks of k edges that end at another node; 3 hops only if EPR per node is at "
        "least 0.5. Reported: the paper's Appendix F. "
        "Agrees: whether it equals EPR per node to three decimals."
    )
    return [Table("", "Error Passing Rates (Appendix F)", columns, rows, note)]


def _reported(result: Result, name: str) -> str:
    return f"{result['reported'][name]:.3f}" if name in result["reported"] else "–"


def figures(result: Result) -> "dict[str, Figure]":
    """Draw all graphs in the order of their EPR: its forms, the paper's values, and the line at one half."""
    graphs, reported_rates = result["graphs"], result["reported"]
    height = {**reported_rates, **{name: graph["per_node"] for name, graph in graphs.items()}}
    order = sorted(height, key=height.__getitem__, reverse=True)  # from bottom to top
    figure, (axes,) = new_figure(1, 1, 7.2, 1.5 + 0.34 * len(order))
    # Forms of nearly equal value are drawn with a vertical offset. Reported values are drawn over EPR per node.
    marks: dict[str, tuple[str, dict[str, Any], float]] = {
        "per_node": ("per node", {"marker": "o", "color": COLOURS[0], "s": 64}, 0.0),
        "per_edge": ("per edge", {"marker": "D", "color": COLOURS[1], "s": 20}, 0.24),
        "hops_2": ("2 hops, per node", {"marker": "^", "color": COLOURS[2], "s": 28}, -0.24),
    }
    for field, (label, style, offset) in marks.items():
        x = [graphs[name][field] for name in order if name in graphs]
        y = [place + offset for place, name in enumerate(order) if name in graphs]
        axes.scatter(x, y, label=label, zorder=3, linewidths=0, **style)
    x = [reported_rates[name] for name in order if name in reported_rates]
    y = [place for place, name in enumerate(order) if name in reported_rates]
    axes.scatter(x, y, label="reported", marker="x", color="black", s=36, linewidths=1.3, zorder=4)
    axes.axvline(0.5, color=GREY, linestyle="--", linewidth=1)
    axes.set_yticks(range(len(order)), [name if name in graphs else f"{name} (no data)" for name in order], fontsize=9)
    axes.set_ylim(-0.7, len(order) - 0.3)
    axes.set_xlim(0, 1)
    axes.grid(axis="y", color="#eeeeee")
    axes.set_axisbelow(True)
    axes.set_xlabel("Error Passing Rate (dashed: 0.5)")
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return {"": figure}


def reading(result: Result) -> list[str]:
    """Return which definition the paper's table uses, whether most EPRs are below 0.5, and what more hops show."""
    if not result["graphs"]:
        return ["None of the graphs could be loaded, so nothing was measured."]
    return [_which_definition(result), _below_half(result), *_higher_order(result)]


def _which_definition(result: Result) -> str:
    checked = [name for name in result["reported"] if name in result["graphs"]]
    missing = [name for name in result["reported"] if name in result["absent"]]
    if not checked:
        return "The paper reports an EPR for none of the graphs measured here, so its definition cannot be checked."
    counts = {definition: len(agreeing(result, definition)) for definition in DEFINITIONS}
    best = max(counts, key=counts.__getitem__)
    others = ", ".join(f"{words}: {counts[form]}" for form, words in DEFINITIONS.items() if form != best)
    text = (
        f"Of the {len(checked)} reported values that can be checked, {counts[best]} agree to three decimals with "
        f"{DEFINITIONS[best]} (the other definitions: {others})."
    )
    if counts[best] == 0:
        text += " None of the definitions gives the paper's values."
    elif best == "per_edge":
        text += " The table reports Proposition 3.2."
    elif counts[best] > counts["per_edge"]:
        text += " So the table does not report Proposition 3.2, on which the theory is based."
    else:
        text += " Proposition 3.2 fits as well: these graphs do not distinguish the definitions."
    differing = [name for name in checked if name not in agreeing(result, best)]
    if differing and counts[best]:
        text += f" {listed(differing)} {'differs' if len(differing) == 1 else 'differ'}."
    if missing:
        text += f" {listed(missing)} could not be checked: the data are absent."
    return text


def not_below_half(result: Result) -> list[str]:
    """Return the graphs whose EPR per node is at least 0.5."""
    return [name for name, graph in result["graphs"].items() if graph["per_node"] >= 0.5]


def _below_half(result: Result) -> str:
    graphs = result["graphs"]
    above = not_below_half(result)
    below = len(graphs) - len(above)
    verdict = "holds" if below > len(graphs) / 2 else "does not hold"
    text = f"'For most graphs the EPR is less than 0.5' {verdict} here: per node, {below} of {len(graphs)} are below."
    if not above:
        return text
    exceptions = [f"{name} ({graphs[name]['per_node']:.3f})" for name in above]
    text += f" The exceptions are {listed(exceptions)}."
    if not any(name in result["reported"] for name in above):
        text += " None of them is in the paper's table."
    changed = [name for name, graph in graphs.items() if (graph["per_edge"] >= 0.5) != (name in above)]
    difference = f"differs for {listed(changed)}" if changed else "is the same"
    return f"{text} Per edge, the verdict {difference}."


def _higher_order(result: Result) -> list[str]:
    graphs = {name: graph for name, graph in result["graphs"].items() if graph["hops_3"] is not None}
    if not graphs:
        return []
    two, three = (
        [name for name, graph in graphs.items() if graph[f"hops_{hops}"] < graph["per_node"]] for hops in (2, 3)
    )
    below_half = [name for name, graph in graphs.items() if min(graph["hops_2"], graph["hops_3"]) < 0.5]
    values = [
        f"{name} {graph['per_node']:.3f} → {graph['hops_2']:.3f} → {graph['hops_3']:.3f}"
        for name, graph in graphs.items()
    ]
    rest = [graph for name, graph in result["graphs"].items() if name not in graphs]
    text = (
        "The paper suggests that an EPR of higher order explains heterophilous graphs. EPR over 1, 2 and 3 hops: "
        f"{'; '.join(values)}. Two hops have a lower EPR than one on {len(two)} of {len(graphs)}"
        + (f" ({listed(two)})" if two else "")
        + f", three hops on {len(three)}"
        + (f" ({listed(three)})" if three else "")
        + "; "
        + (f"{listed(below_half)} {'falls' if len(below_half) == 1 else 'fall'}" if below_half else "none falls")
        + " below 0.5."
    )
    better = [name for name, graph in graphs.items() if graph["hops_2"] < graph["chance"]]
    chances = [f"{name} {graphs[name]['chance']:.3f}" for name in better]
    text += (
        " Two hops carry information on a node's class if their EPR is below that of messages from random nodes. This "
        f"is so on {len(better)} of {len(graphs)}" + (f" (chance: {', '.join(chances)})." if better else ".")
    )
    if rest:
        higher = sum(graph["hops_2"] > graph["per_node"] for graph in rest)
        text += f" On the other graphs, two hops have a higher EPR than one on {higher} of {len(rest)}."
    return [text]


ARTEFACT = Artefact(
    name="epr",
    title="Error passing rates",
    datasets=tuple(entry.name for entry in CATALOGUE.values() if entry.name != "demo"),
    measure=measure,
    tables=tables,
    figures=figures,
    reading=reading,
    runs=1,
)
