"""``epagcl epr``: the error passing rate of a graph."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epagcl.cli.options import AsJson, Edges, Graph, Labels, LoadedGraph, Nodes, Root, graph_of
from epagcl.cli.progress import busy, console_for
from epagcl.cli.rendering import show_epr
from epagcl.core.errors import InputError
from epagcl.core.log import log

if TYPE_CHECKING:
    from torch_geometric.data import Data


def epr(
    graph: Graph = None,
    edges: Edges = None,
    labels: Labels = None,
    nodes: Nodes = None,
    data: Root = None,
    top: Annotated[int, typer.Option(min=0, help="How many of the most harmful edges to list.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Measure the error passing rate (EPR): the share of messages from another class. List the most harmful edges.

    Example: epagcl epr cora
    """
    console = console_for()
    with busy(console, "reading the graph"):
        from epagcl.epr.summary import epr_summary

        loaded = graph_of(graph, data, edges=edges, labels=labels, nodes=nodes, need_features=False)
    labelled, ids = _labelled_part(loaded)
    with busy(console, "EPR"):
        summary = epr_summary(labelled.edge_index, labelled.y, top=top)
    if as_json:
        result = {"name": loaded.name, **summary.to_dict()}
        for edge in result["most_harmful"]:
            edge["ids"] = [str(ids[edge["i"]]), str(ids[edge["j"]])]
        print(json.dumps(result, indent=2))
    else:
        show_epr(loaded.name, summary, ids)


def _labelled_part(graph: LoadedGraph) -> "tuple[Data, list[Any]]":
    """Return the subgraph of the labelled nodes, and the user's ids of its nodes. Raise if there are no labels."""
    from torch_geometric.data import Data

    name, data, _ = graph
    if data.y is None:
        raise InputError(f"{name}: no labels; EPR compares the classes of an edge's ends, give --labels")
    node_ids = data.get("node_ids")
    ids = list(range(data.num_nodes) if node_ids is None else node_ids)
    labelled = data.y >= 0
    if labelled.all():
        return data, ids
    log.warning("%s: EPR of the %d labelled nodes of %d", name, int(labelled.sum()), len(ids))
    ids = [node for node, has_label in zip(ids, labelled.tolist(), strict=True) if has_label]
    return Data(edge_index=data.edge_index, y=data.y, num_nodes=data.num_nodes).subgraph(labelled), ids
