"""``epagcl epr``: the error passing rate of a graph and of operators on it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epagcl.cli.epr_rendering import show_epr
from epagcl.cli.graph_input import GraphInput, takes_graph
from epagcl.cli.loaded_graph import LoadedGraph
from epagcl.cli.options import AsJson
from epagcl.cli.progress import busy, console_for
from epagcl.core.errors import InputError, MissingFeatures
from epagcl.core.log import log

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from epagcl.data.io.columns.encoding import TableEncoding
    from epagcl.epr.summary import EPRSummary


@takes_graph()
def epr(
    inputs: GraphInput,
    model: Annotated[
        Path | None, typer.Option(help="Folder of a run; adds the first layer of its trained encoder.")
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="How many of the most harmful edges to list.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Measure the error passing rate (EPR): the share of messages from another class. List the most harmful edges.

    With labels, EPR is exact, also of each kind of edges (--type). With features, EPR of operators is also estimated
    without labels.

    Example: epagcl epr cora
    """
    console = console_for()
    with busy(console, "reading the graph"):
        from epagcl.core.hardware import resolve_device
        from epagcl.epr.relations import relation_rates
        from epagcl.methods import load_model
        from epagcl.runs.operators import operator_report

        trained = None if model is None else load_model(model)
        loaded = _load(inputs, None if trained is None else trained.encoding_)
    _check(loaded, model)
    summary, ids = _summary(loaded, top)
    relations = relation_rates(loaded.data)
    with busy(console, "EPR of operators"):
        report = operator_report(loaded.data, trained, resolve_device("auto"))
    if as_json:
        result = {"name": loaded.name, **({} if summary is None else summary.to_dict())}
        for edge in result.get("most_harmful", []):
            edge["ids"] = [str(ids[edge["i"]]), str(ids[edge["j"]])]
        if relations:
            result["relations"] = [asdict(relation) for relation in relations]
        result |= {"structure_score": report.structure, "operators": [row.to_dict() for row in report.rows]}
        print(json.dumps(result, indent=2))
    else:
        show_epr(loaded.name, summary, ids, report, relations)


def _load(inputs: GraphInput, encoding: "TableEncoding | None") -> LoadedGraph:
    """Load the graph, with features if there are any."""
    if inputs.graph is not None and not any(inputs.files.values()):
        try:
            return inputs.load(encoding=encoding)
        except MissingFeatures:
            pass
    return inputs.load(need_features=False, encoding=encoding)


def _check(graph: LoadedGraph, model: Path | None) -> None:
    """Raise if there is nothing to compare the ends of an edge by."""
    if graph.data.y is None and graph.data.x is None:
        raise InputError(
            f"{graph.name}: no labels and no features; EPR compares the classes of an edge's ends, give --labels, or "
            "--features to estimate it"
        )
    if graph.data.x is None and model is not None:
        raise InputError(f"--model {model}: needs features to compute the messages of its first layer; give --features")


def _summary(graph: LoadedGraph, top: int) -> "tuple[EPRSummary | None, list[Any]]":
    """Return the summary of the labelled nodes and their ids; without labels, None and no ids."""
    from epagcl.epr.summary import epr_summary

    if graph.data.y is None:
        log.warning("%s: no labels; EPR is estimated from the features, give --labels for exact values", graph.name)
        return None, []
    labelled, ids = _labelled_part(graph)
    return epr_summary(labelled.edge_index, labelled.y, top=top, edge_weight=labelled.get("edge_weight")), ids


def _labelled_part(graph: LoadedGraph) -> "tuple[Data, list[Any]]":
    """Return the subgraph of the labelled nodes, and the user's ids of its nodes."""
    from torch_geometric.data import Data

    name, data, _ = graph
    node_ids = data.get("node_ids")
    ids = list(range(data.num_nodes) if node_ids is None else node_ids)
    labelled = data.y >= 0
    if labelled.all():
        return data, ids
    log.warning("%s: EPR of the %d labelled nodes of %d", name, int(labelled.sum()), len(ids))
    ids = [node for node, has_label in zip(ids, labelled.tolist(), strict=True) if has_label]
    edges = {key: data[key] for key in ("edge_index", "edge_weight") if key in data}
    return Data(**edges, y=data.y, num_nodes=data.num_nodes).subgraph(labelled), ids
