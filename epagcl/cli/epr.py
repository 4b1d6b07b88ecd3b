"""``epagcl epr``: the error passing rate of a graph."""

import json
from typing import Annotated

import typer
import typer.core

from epagcl.cli.options import (
    AsJson,
    Edges,
    Graph,
    Labels,
    Nodes,
    Root,
    graph_of,
)
from epagcl.cli.progress import busy, console_for
from epagcl.cli.rendering import show_epr
from epagcl.core.errors import InputError
from epagcl.core.log import log


def epr(
    graph: Graph = None,
    edges: Edges = None,
    labels: Labels = None,
    nodes: Nodes = None,
    data: Root = None,
    top: Annotated[int, typer.Option(min=0, help="How many of the most harmful edges to list.")] = 10,
    as_json: AsJson = False,
) -> None:
    """How much of a graph's messages come from another class (EPR), and which edges do the most harm.

    Example: epagcl epr cora
    """
    with busy(console_for(), "reading the graph"):
        from torch_geometric.data import Data

        from epagcl.epr.summary import epr_summary

        name, graph_data, _ = graph_of(graph, data, edges=edges, labels=labels, nodes=nodes, need_features=False)
    if graph_data.y is None:
        raise InputError(f"{name}: no labels; EPR compares the classes of an edge's ends, give --labels")
    ids = graph_data.get("node_ids")
    ids = list(range(graph_data.num_nodes)) if ids is None else list(ids)
    labelled = graph_data.y >= 0
    if not labelled.all():
        log.warning("%s: EPR of the %d labelled nodes of %d", name, int(labelled.sum()), len(ids))
        ids = [node for node, known in zip(ids, labelled.tolist(), strict=True) if known]
        graph_data = Data(edge_index=graph_data.edge_index, y=graph_data.y, num_nodes=graph_data.num_nodes)
        graph_data = graph_data.subgraph(labelled)
    with busy(console_for(), "EPR"):
        summary = epr_summary(graph_data.edge_index, graph_data.y, top=top)
    if as_json:
        result = {"name": name, **summary.to_dict()}
        for edge in result["most_harmful"]:
            edge["ids"] = [str(ids[edge["i"]]), str(ids[edge["j"]])]
        print(json.dumps(result, indent=2))
    else:
        show_epr(name, summary, ids)
