"""New nodes of a large graph: time and error of their embeddings from the neighbourhood, beside the whole graph's."""

import time
from collections.abc import Callable
from typing import TypedDict, TypeVar

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from epagcl.data.catalogue import load
from epagcl.data.generators import block_model
from epagcl.methods import method
from epagcl.methods.base import Method
from epagcl.methods.local import embed_nodes
from epagcl.paper.tables import Table, markdown
from epagcl.runs.record import Provenance, provenance

#: Methods whose time is measured, and the number of nodes of the generated graph.
TIMED = (("epagcl", 200_000), ("propagated", 200_000), ("epagcl+", 20_000))
TRAINED_ON = 2_000  # nodes of the training graph, which does not matter for the time
GRAPHS = ("cora", "citeseer", "amazon-photo")
ERROR_METHODS = ("epagcl", "propagated", "epagcl+")
NEW = 100
HOPS = (1, 2, 3)
EPOCHS = 5

Value = TypeVar("Value")


class TimeRow(TypedDict):
    """The processor time of new nodes and of the whole graph."""

    method: str
    nodes: int
    edges: int
    hops: int
    nodes_used: int
    local_seconds: float
    whole_seconds: float
    error: float


class ErrorRow(TypedDict):
    """The error of new nodes for some hops, relative to the root mean square distance from the mean."""

    method: str
    graph: str
    hops: int
    share_used: float
    median: float
    p95: float
    estimate: float | None


class Result(Provenance):
    """The content of ``new_nodes.json``."""

    command: str
    new: int
    epochs: int
    time: list[TimeRow]
    error: list[ErrorRow]


def new_nodes(timed: tuple[tuple[str, int], ...] = TIMED, graphs: tuple[str, ...] = GRAPHS) -> Result:
    """Measure all methods and graphs on one thread of a CPU.

    Args:
        timed: methods whose time is measured, each with the number of nodes.
        graphs: named graphs on which the error is measured.
    """
    torch.set_num_threads(1)
    return {
        **provenance("cpu"),
        "command": "python -m benchmarks new-nodes",
        "new": NEW,
        "epochs": EPOCHS,
        "time": [_time(name, nodes) for name, nodes in timed],
        "error": [row for graph in graphs for name in ERROR_METHODS for row in _errors(name, graph)],
    }


def _time(name: str, nodes: int) -> TimeRow:
    """Time the last nodes of a generated graph, with a model that was trained on its first nodes."""
    data = block_model(nodes, num_features=500, topic_words=50)
    model = _model(name).fit(_first(data, TRAINED_ON))
    new = torch.arange(nodes - NEW, nodes)
    local, local_seconds = _timed(lambda: embed_nodes(model, data, new))
    z, whole_seconds = _timed(lambda: model.embed(data))
    row: TimeRow = {
        "method": type(model).title,
        "nodes": nodes,
        "edges": data.num_edges // 2,
        "hops": local.hops,
        "nodes_used": local.nodes_used,
        "local_seconds": local_seconds,
        "whole_seconds": whole_seconds,
        "error": float(_relative(local.z, z, new).median()),
    }
    print(row, flush=True)
    return row


def _errors(name: str, graph: str) -> list[ErrorRow]:
    """Return the errors of random nodes that the training graph lacks, for each number of hops."""
    data = load(graph)
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))
    new, old = order[:NEW], order[NEW:].sort().values
    model = _model(name).fit(_part(data, old))
    z = model.embed(data)
    rows: list[ErrorRow] = []
    for hops in HOPS:
        local = embed_nodes(model, data, new, hops, estimate=True)
        error = _relative(local.z, z, new)
        rows.append(
            {
                "method": type(model).title,
                "graph": data.name,
                "hops": hops,
                "share_used": local.nodes_used / data.num_nodes,
                "median": float(error.median()),
                "p95": float(error.quantile(0.95)),
                "estimate": local.error,
            }
        )
        print(rows[-1], flush=True)
    return rows


def table(result: Result) -> str:
    """Return the time of new nodes, with the errors of 1, 2 and 3 hops on real graphs in a second table."""
    times = [
        [
            row["method"],
            f"{row['nodes']:,}",
            str(row["hops"]),
            f"{row['nodes_used']:,}",
            f"{row['local_seconds']:.2f} s",
            f"{row['whole_seconds']:.1f} s",
            f"{row['whole_seconds'] / row['local_seconds']:.0f}×",
            f"{100 * row['error']:.1f}%",
        ]
        for row in result["time"]
    ]
    heads = ["method", "nodes", "hops", "nodes read", "new nodes", "whole graph", "faster", "error"]
    note = (
        f"{result['new']} new nodes of a generated graph. Processor time of one thread, the checks of the whole graph "
        "included. Error: median distance from the embedding by the whole graph, relative to the root mean square "
        f"distance of embeddings from their mean. Measured on {result['hardware']['cpu']}, {result['date'][:10]}."
    )
    first = markdown(Table("", "Time of new nodes", heads, times, note))
    graphs = list(dict.fromkeys(row["graph"] for row in result["error"]))
    cells = {(row["method"], row["hops"], row["graph"]): row for row in result["error"]}
    errors = []
    for name, hops in dict.fromkeys((row["method"], row["hops"]) for row in result["error"]):
        found = [cells.get((name, hops, graph)) for graph in graphs]
        shown = ["–" if c is None else f"{100 * c['median']:.1f}% ({100 * c['p95']:.1f}%)" for c in found]
        errors.append([name, str(hops), *shown])
    note = (
        f"Median and 95th percentile of the error of {result['new']} random nodes that the training graph lacks. "
        f"Models are trained for {result['epochs']} epochs."
    )
    return f"{first}\n{markdown(Table('', 'Error of new nodes', ['method', 'hops', *graphs], errors, note))}"


def _model(name: str) -> Method:
    cls = method(name)
    return cls(device="cpu", **({"epochs": EPOCHS} if cls.trained else {}))


def _first(data: Data, count: int) -> Data:
    return _part(data, torch.arange(count))


def _part(data: Data, nodes: Tensor) -> Data:
    """Return the graph of some nodes and the edges between them."""
    edge_index, _ = subgraph(nodes, data.edge_index, relabel_nodes=True, num_nodes=data.num_nodes)
    x = data.x if data.x.layout == torch.strided else data.x.to_sparse_coo()
    return Data(x=x.index_select(0, nodes), edge_index=edge_index, y=data.y[nodes])


def _relative(local: Tensor, z: Tensor, nodes: Tensor) -> Tensor:
    spread = (z - z.mean(0)).square().sum(1).mean().sqrt()
    return (local - z[nodes]).norm(dim=1) / spread


def _timed(function: Callable[[], Value]) -> tuple[Value, float]:
    start = time.process_time()
    return function(), time.process_time() - start
