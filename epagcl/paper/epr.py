"""Appendix F: the Error Passing Rates of benchmark graphs, in every form that the paper's words allow."""

import hashlib
from typing import TYPE_CHECKING

import torch

from epagcl.data.catalogue.entries import CATALOGUE
from epagcl.data.checking import undirected_pairs
from epagcl.epr import rate
from epagcl.epr.rate import error_passing_rate
from epagcl.paper import reported
from epagcl.paper.artefact import Artefact, Request, Result, load_all
from epagcl.paper.drawing import COLOURS, GREY, new_figure
from epagcl.paper.tables import Table
from epagcl.study.code_version import code_version
from epagcl.study.store import Key, Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch_geometric.data import Data

HETEROPHILOUS = ("Texas", "Cornell", "Wisconsin", "Chameleon", "Squirrel", "Actor")

#: What Appendix F's numbers might be, and in which words.
DEFINITIONS = {
    "per_node": "the mean over nodes",
    "per_edge": "the ratio over all edges (Proposition 3.2)",
    "per_node_d1": "the mean over nodes with d + 1 under the root",
    "per_edge_d1": "the ratio over all edges with d + 1 under the root",
}


def graph_key(name: str, data: "Data") -> Key:
    """What tells a graph's edges and labels from another's."""
    pairs = undirected_pairs(data.edge_index, data.num_nodes)
    digest = hashlib.sha256()
    for part in (pairs, data.y):
        digest.update(part.long().cpu().contiguous().numpy().tobytes())
    return {"name": name, "edges": pairs.shape[1], "fingerprint": digest.hexdigest()[:16]}


def rates(name: str, edge_index: torch.Tensor, y: torch.Tensor) -> Record:
    """A graph's EPR: per node and per edge, with d and d + 1 under the root, and over 2 (and 3) hops.

    The paper suggests a higher order for heterophilous graphs only, and the third hop is dear on the others: theirs is
    None. Edge homophily is the share of edges within a class: 1 − EPR per edge if all messages were alike. Chance is
    1 − Σ_c (n_c/N)²: EPR if messages came from any node alike.
    """
    pairs = undirected_pairs(edge_index, y.numel())
    classes = torch.bincount(y).double()

    def rate(**form) -> float:
        return error_passing_rate(pairs, y, **form)

    return {
        "nodes": y.numel(),
        "edges": pairs.shape[1],
        "classes": y.unique().numel(),
        "per_node": rate(),
        "per_edge": rate(per="edge"),
        "per_node_d1": rate(self_loops=True),
        "per_edge_d1": rate(per="edge", self_loops=True),
        "hops_2": rate(hops=2),
        "hops_3": rate(hops=3) if name in HETEROPHILOUS else None,
        "homophily": float((y[pairs[0]] == y[pairs[1]]).double().mean()),
        "chance": float(1 - (classes / y.numel()).square().sum()),
    }


def measure(request: Request) -> Result:
    """The rates of each graph that is at hand; of the others, why not; and what the paper reports."""
    graphs, absent = {}, {}
    for name, data in load_all(request.datasets, request.root, features=False).items():
        if isinstance(data, str):
            absent[name] = data
            continue
        request.work.say(f"EPR of {name}")
        key = {"what": "epr", "graph": graph_key(name, data), "code": code_version(rate, rates)}
        record = request.store.remember(key, lambda name=name, data=data: rates(name, data.edge_index, data.y))
        graphs[name] = {field: value for field, value in record.items() if field != "key"}
    named = {*graphs, *absent}
    return {
        "graphs": graphs,
        "absent": absent,
        "reported": {name: rate for name, rate in reported()["epr"].items() if name in named},
    }


def agreeing(result: Result, definition: str) -> list[str]:
    """The graphs whose reported value is, to its three decimals, what a definition gives."""
    graphs = result["graphs"]
    return [
        name
        for name, rate in result["reported"].items()
        if name in graphs and f"{graphs[name][definition]:.3f}" == f"{rate:.3f}"
    ]


def tables(result: Result) -> list[Table]:
    """One row a graph, absent ones last."""
    columns = ["graph", "nodes", "edges", "classes", "EPR per node", "EPR per edge", "per node, d+1", "per edge, d+1"]
    columns += ["2 hops, per node", "3 hops, per node", "edge homophily", "reported", "agrees"]
    same = agreeing(result, "per_node")
    rows = []
    for name, graph in result["graphs"].items():
        sizes = [f"{graph[field]:,}" for field in ("nodes", "edges", "classes")]
        fields = (*DEFINITIONS, "hops_2", "hops_3", "homophily")
        values = ["–" if graph[field] is None else f"{graph[field]:.4f}" for field in fields]
        agrees = ("yes" if name in same else "no") if name in result["reported"] else "–"
        rows.append([name, *sizes, *values, _reported(result, name), agrees])
    for name, reason in result["absent"].items():
        rows.append([name, *["–"] * 3, reason, *["–"] * 6, _reported(result, name), "–"])
    note = (
        "Measured here from edges and labels alone; no randomness. d+1: the GCN's degrees under the root. k hops: "
        "messages over walks of k edges that end at another node. Reported: Appendix F; agrees: to three decimals "
        "with EPR per node."
    )
    return [Table("", "Error Passing Rates (Appendix F)", columns, rows, note)]


def _reported(result: Result, name: str) -> str:
    return f"{result['reported'][name]:.3f}" if name in result["reported"] else "–"


def figures(result: Result) -> "dict[str, Figure]":
    """All graphs by EPR: its forms, what the paper reports, and the half that its claim is about."""
    graphs, said = result["graphs"], result["reported"]
    height = {**said, **{name: graph["per_node"] for name, graph in graphs.items()}}
    order = sorted(height, key=height.get, reverse=True)  # the first stands at the bottom
    figure, (axes,) = new_figure(1, 1, 7.2, 1.5 + 0.34 * len(order))
    # Forms that nearly coincide stand a little above each other; what is reported stands on what it reports.
    marks = {
        "per_node": ("per node", {"marker": "o", "color": COLOURS[0], "s": 64}, 0.0),
        "per_edge": ("per edge", {"marker": "D", "color": COLOURS[1], "s": 20}, 0.24),
        "hops_2": ("2 hops, per node", {"marker": "^", "color": COLOURS[2], "s": 28}, -0.24),
    }
    for field, (label, style, offset) in marks.items():
        x = [graphs[name][field] for name in order if name in graphs]
        y = [place + offset for place, name in enumerate(order) if name in graphs]
        axes.scatter(x, y, label=label, zorder=3, linewidths=0, **style)
    x, y = [said[name] for name in order if name in said], [place for place, name in enumerate(order) if name in said]
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
    """Which definition the table uses, whether most EPRs are below 0.5, and what a higher order shows."""
    if not result["graphs"]:
        return ["None of the graphs is at hand, so nothing could be measured."]
    return [_which_definition(result), _below_half(result), *_higher_order(result)]


def _which_definition(result: Result) -> str:
    known = [name for name in result["reported"] if name in result["graphs"]]
    missing = [name for name in result["reported"] if name in result["absent"]]
    if not known:
        return "The paper reports an EPR for none of the graphs measured here, so its definition cannot be checked."
    counts = {definition: len(agreeing(result, definition)) for definition in DEFINITIONS}
    best = max(counts, key=counts.get)
    others = ", ".join(f"{words}: {counts[form]}" for form, words in DEFINITIONS.items() if form != best)
    text = (
        f"Of the {len(known)} reported values that can be checked, {counts[best]} are to three decimals "
        f"{DEFINITIONS[best]} (for comparison, {others})."
    )
    if counts[best] == 0:
        text += " None of the definitions gives the paper's values."
    elif best == "per_edge":
        text += " The table reports Proposition 3.2."
    elif counts[best] > counts["per_edge"]:
        text += " So the table does not report Proposition 3.2, with which the theory is written."
    else:
        text += " Proposition 3.2 fits as well: these graphs do not tell the definitions apart."
    odd = [name for name in known if name not in agreeing(result, best)]
    if odd and counts[best]:
        text += f" {listed(odd)} {'differs' if len(odd) == 1 else 'differ'}."
    if missing:
        text += f" {listed(missing)} could not be checked: the data are absent."
    return text


def _below_half(result: Result) -> str:
    graphs = result["graphs"]
    above = [name for name, graph in graphs.items() if graph["per_node"] >= 0.5]
    below = len(graphs) - len(above)
    verdict = "holds" if below > len(graphs) / 2 else "does not hold"
    text = f"'For most graphs the EPR is less than 0.5' {verdict} here: {below} of {len(graphs)} are below, per node."
    if not above:
        return text
    where = [f"{name} ({graphs[name]['per_node']:.3f})" for name in above]
    text += f" Not below: {listed(where)}."
    if not any(name in result["reported"] for name in above):
        text += " The paper's table has none of these."
    moved = [name for name, graph in graphs.items() if (graph["per_edge"] >= 0.5) != (name in above)]
    return text + (f" Per edge the verdict changes for {listed(moved)}." if moved else " Per edge it is the same.")


def _higher_order(result: Result) -> list[str]:
    graphs = {name: graph for name, graph in result["graphs"].items() if graph["hops_3"] is not None}
    if not graphs:
        return []
    lower = {
        hops: [name for name, graph in graphs.items() if graph[f"hops_{hops}"] < graph["per_node"]] for hops in (2, 3)
    }
    half = [name for name, graph in graphs.items() if min(graph["hops_2"], graph["hops_3"]) < 0.5]
    shown = [
        f"{name} {graph['per_node']:.3f} → {graph['hops_2']:.3f} → {graph['hops_3']:.3f}"
        for name, graph in graphs.items()
    ]
    rest = [graph for name, graph in result["graphs"].items() if name not in graphs]
    text = (
        f"The paper suggests that an EPR of higher order explains heterophilous graphs. Over 1, 2 and 3 hops: "
        f"{'; '.join(shown)}. Two hops give less than one on {len(lower[2])} of {len(graphs)}"
        + (f" ({listed(lower[2])})" if lower[2] else "")
        + f", three hops on {len(lower[3])}"
        + (f" ({listed(lower[3])})" if lower[3] else "")
        + "; "
        + (f"{listed(half)} {'comes' if len(half) == 1 else 'come'} below 0.5." if half else "none comes below 0.5.")
    )
    better = [name for name, graph in graphs.items() if graph["hops_2"] < graph["chance"]]
    chances = [f"{name} {graphs[name]['chance']:.3f}" for name in better]
    text += (
        " Two hops say something of a node's class where they err less than messages from any node would: so on "
        f"{len(better)} of {len(graphs)}" + (f" (chance: {', '.join(chances)})." if better else ".")
    )
    if rest:
        higher = sum(graph["hops_2"] > graph["per_node"] for graph in rest)
        text += f" On the others, two hops give more than one on {higher} of {len(rest)}."
    return [text]


def listed(items: list[str]) -> str:
    """A, B and C."""
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]])) if items else "none"


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
