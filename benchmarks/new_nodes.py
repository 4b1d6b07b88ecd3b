"""New nodes of a large graph: time and error of their embeddings from the neighbourhood, beside the whole graph's."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict, TypeVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from epagcl.data.catalogue import load
from epagcl.data.disk.graph import OnDiskGraph
from epagcl.data.disk.ingest.run import ingest
from epagcl.data.generators import block_model
from epagcl.data.io.feature_list import Near
from epagcl.data.io.readers import read_files, read_graph
from epagcl.data.io.roles import Roles
from epagcl.methods import method
from epagcl.methods.base import Method
from epagcl.methods.local import embed_nodes, used_hops
from epagcl.paper.tables import Table, markdown
from epagcl.runs.record import Provenance, provenance

#: Methods whose time is measured, and the number of nodes of the generated graph.
TIMED = (("epagcl", 200_000), ("propagated", 200_000), ("epagcl+", 20_000), ("epagcl+", 200_000))
#: Methods whose time is measured from files on, and the number of nodes.
READ = (("epagcl", 200_000), ("epagcl+", 200_000))
TRAINED_ON = 2_000  # nodes of the training graph, which does not matter for the time
GRAPHS = ("cora", "citeseer", "amazon-photo")
ERROR_METHODS = ("epagcl", "propagated", "epagcl+")
NEW = 100
HOPS = (1, 2, 3)
EPOCHS = 5
WHOLE_UP_TO = {"epagcl+": 20_000}  # nodes up to which the whole graph is embedded too, which takes minutes above
BUSY = 1.5  # load from which the machine counts as busy

Value = TypeVar("Value")


class TimeRow(TypedDict):
    """The processor time of new nodes and of the whole graph."""

    method: str
    nodes: int
    edges: int
    hops: int
    nodes_used: int
    local_seconds: float
    whole_seconds: float | None
    error: float | None


class ReadRow(TypedDict):
    """The processor time of new nodes from files on, and of all nodes, without the start of the program."""

    method: str
    files: str
    nodes: int
    megabytes: float
    local_seconds: float
    whole_seconds: float | None


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
    load: float
    time: list[TimeRow]
    read: list[ReadRow]
    error: list[ErrorRow]


def new_nodes(
    timed: tuple[tuple[str, int], ...] = TIMED,
    graphs: tuple[str, ...] = GRAPHS,
    read: tuple[tuple[str, int], ...] = READ,
) -> Result:
    """Measure all methods and graphs on one thread of a CPU.

    Args:
        timed: methods whose time is measured, each with the number of nodes.
        read: the same for the time from files on.
        graphs: named graphs on which the error is measured.
    """
    torch.set_num_threads(1)
    return {
        **provenance("cpu"),
        "command": "python -m benchmarks new-nodes",
        "new": NEW,
        "epochs": EPOCHS,
        "load": os.getloadavg()[0],
        "time": [_time(name, nodes) for name, nodes in timed],
        "read": [row for name, nodes in read for row in _read(name, nodes)],
        "error": [row for graph in graphs for name in ERROR_METHODS for row in _errors(name, graph)],
    }


def _time(name: str, nodes: int) -> TimeRow:
    """Time the last nodes of a generated graph, with a model that was trained on its first nodes."""
    data = block_model(nodes, num_features=500, topic_words=50)
    model = _model(name).fit(_first(data, TRAINED_ON))
    new = torch.arange(nodes - NEW, nodes)
    local, local_seconds = _timed(lambda: embed_nodes(model, data, new))
    z, whole_seconds = _timed(lambda: model.embed(data)) if _is_small(name, nodes) else (None, None)
    row: TimeRow = {
        "method": type(model).title,
        "nodes": nodes,
        "edges": data.num_edges // 2,
        "hops": local.hops,
        "nodes_used": local.nodes_used,
        "local_seconds": local_seconds,
        "whole_seconds": whole_seconds,
        "error": None if z is None else float(_relative(local.z, z, new).median()),
    }
    print(row, flush=True)
    return row


def _is_small(name: str, nodes: int) -> bool:
    return nodes <= WHOLE_UP_TO.get(name, nodes)


def _read(name: str, nodes: int) -> list[ReadRow]:
    """Time the last nodes of tables with numbers, a category, gaps and a text, as files and as a graph on disk."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _write_tables(folder, nodes)
        model = _model(name).fit(read_graph(edges=folder / "e0.csv", features=folder / "f0.csv"))
        rows = [_read_files(model, folder, suffix, nodes) for suffix in ("csv", "parquet")]
        graph = ingest(folder / "e.csv", folder / "graph", features=folder / "f.csv", encoding=model.encoding_)
        ids = list(range(nodes - NEW, nodes))

        def from_disk() -> Tensor:
            opened = OnDiskGraph.open(folder / "graph")
            return embed_nodes(model, opened, opened.numbers_of(ids)).z

        _, seconds = _timed(from_disk)
        size = sum(entry["bytes"] for entry in graph.manifest["arrays"].values()) / 1e6
        rows.append(_read_row(model, "graph on disk", nodes, size, seconds, None))
    return rows


def _read_files(model: Method, folder: Path, suffix: str, nodes: int) -> ReadRow:
    parts = {"edges": folder / f"e.{suffix}", "features": folder / f"f.{suffix}"}
    new, roles = torch.arange(nodes - NEW, nodes), Roles(encoding=model.encoding_)

    def from_files() -> Tensor:
        near = Near(lambda ids: new, used_hops(model).used + 1)
        return embed_nodes(model, read_files(None, parts, roles=roles, near=near), new, checked=True).z

    _, local = _timed(from_files)
    whole = None
    if _is_small(type(model).name, nodes):
        _, whole = _timed(lambda: model.embed(read_files(None, parts, roles=roles)))
    size = sum(path.stat().st_size for path in parts.values()) / 1e6
    return _read_row(model, "CSV" if suffix == "csv" else "Parquet", nodes, size, local, whole)


def _read_row(model: Method, files: str, nodes: int, size: float, local: float, whole: float | None) -> ReadRow:
    row: ReadRow = {
        "method": type(model).title,
        "files": files,
        "nodes": nodes,
        "megabytes": size,
        "local_seconds": local,
        "whole_seconds": whole,
    }
    print(row, flush=True)
    return row


def _write_tables(folder: Path, nodes: int) -> None:
    """Write edges and a table of mixed columns, as CSV and Parquet, and those of the first nodes."""
    data = block_model(nodes, num_features=500, topic_words=50)
    words = data.x.to_sparse_coo() if data.x.layout != torch.strided else data.x.to_sparse()
    row, column = words.coalesce().indices()
    text = pd.Series(column.numpy()).map("word{}".format).groupby(row.numpy()).agg(" ".join).reindex(range(nodes))
    draw = np.random.default_rng(0)
    age = draw.integers(18, 90, nodes).astype(float)
    age[draw.random(nodes) < 0.1] = np.nan
    balance, city = draw.lognormal(5, 2, nodes).round(2), draw.choice(["Bern", "Oslo", "Rome"], nodes)
    features = pd.DataFrame({"id": range(nodes), "age": age, "balance": balance, "city": city, "about": text})
    first, second = data.edge_index[:, data.edge_index[0] < data.edge_index[1]].numpy()
    edges = pd.DataFrame({"source": first, "target": second})
    near = edges[(edges < TRAINED_ON).all(axis=1)]
    for name, table in (("e", edges), ("f", features), ("e0", near), ("f0", features[:TRAINED_ON])):
        table.to_csv(folder / f"{name}.csv", index=False)
        table.to_parquet(folder / f"{name}.parquet", index=False)


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
            "–" if row["whole_seconds"] is None else f"{row['whole_seconds']:.1f} s",
            "–" if row["whole_seconds"] is None else f"{row['whole_seconds'] / row['local_seconds']:.0f}×",
            "–" if row["error"] is None else f"{100 * row['error']:.1f}%",
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
    if result.get("read"):  # results of earlier versions lack it
        first = f"{first}\n{_read_table(result)}"
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


def _read_table(result: Result) -> str:
    """Return the time of new nodes from files on."""
    rows = [
        [
            row["method"],
            f"{row['files']}, {row['megabytes']:.0f} MB",
            f"{row['local_seconds']:.2f} s",
            "–" if row["whole_seconds"] is None else f"{row['whole_seconds']:.1f} s",
        ]
        for row in result["read"]
    ]
    nodes = max((row["nodes"] for row in result["read"]), default=0)
    busy = f" on a busy machine (load {result['load']:.0f})" if result["load"] > BUSY else ""
    note = (
        f"{result['new']} new nodes of a graph of {nodes:,}, with a table of two numbers, a category and a text: time "
        "to read the files and to embed, without the start of the program. Processor time of one thread"
        f"{busy}."
    )
    return markdown(
        Table("", "Time of new nodes from files on", ["method", "files", "new nodes", "all nodes"], rows, note)
    )


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
