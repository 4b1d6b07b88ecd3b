"""Inputs and outputs that the tasks share: rows of an embedding, labels by node id, tables in files."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.core.formatting import counted
from epagcl.core.outputs import check_kept
from epagcl.data.disk.graph import OnDiskGraph
from epagcl.data.disk.layout import is_graph_folder
from epagcl.data.graph import row_normalise
from epagcl.data.io.ids import examples, id_array, positions
from epagcl.data.io.label_list import LabelList
from epagcl.data.io.roles import Roles
from epagcl.data.io.tables.base import ArrayRows
from epagcl.data.io.tables.files import existing_file, open_table
from epagcl.data.labels import encode_labels
from epagcl.evaluation.inputs import EmbeddingLike, embedding_tensor, scale_embedding
from epagcl.runs.export import check_output

#: Class or node numbers, and rows of numbers.
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
#: Numbers that a score is computed from.
Doubles = npt.NDArray[np.float64]
TABLES = (".csv", ".tsv", ".parquet")


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS and OpenMP use one thread.

    Many small fits are faster this way: threads that wait for each other cost more than they gain, most of all on a
    machine with other work.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def embedding_rows(z: EmbeddingLike, *, least: int = 2) -> Floats:
    """Return an embedding as a finite float32 array ``[N, d]``. Raise unless it has at least ``least`` rows.

    Examples:
        >>> embedding_rows([[1, 0], [0, 1]]).dtype
        dtype('float32')
    """
    tensor = embedding_tensor(z)
    if tensor.dim() != 2 or tensor.shape[1] == 0:
        raise InputError(f"z: shape {tuple(tensor.shape)}; give one row per node")
    if tensor.shape[0] < least:
        raise InputError(f"z: {counted(tensor.shape[0], 'node')}; at least {least} are needed")
    return scale_embedding(tensor, rescale=False).cpu().contiguous().numpy()


def unit_rows(z: EmbeddingLike, *, least: int = 2) -> Floats:
    """Return the rows of an embedding divided by their length. Rows of zeros stay.

    Examples:
        >>> unit_rows([[3.0, 4.0], [0.0, 0.0]])
        array([[0.6, 0.8],
               [0. , 0. ]], dtype=float32)
    """
    rows = torch.from_numpy(embedding_rows(z, least=least))
    return torch.nn.functional.normalize(rows, dim=1).numpy()


def feature_rows(x: Tensor) -> Floats | Any:
    """Return unit rows of features, as an array or, if they are sparse, as a SciPy matrix."""
    x = x.detach().cpu()
    unit = row_normalise(x.float() if x.dtype == torch.bfloat16 else x, "norm")  # NumPy has no bfloat16
    if unit.layout == torch.strided:
        return unit.numpy()
    parts = (unit.values().numpy(), unit.col_indices().numpy(), unit.crow_indices().numpy())
    return scipy.sparse.csr_array(parts, shape=tuple(unit.shape))


def numbers_of(wanted: Sequence[Any], ids: Sequence[Any], argument: str) -> Integers:
    """Return the node number of each wanted id. Raise if an id does not occur.

    Args:
        wanted: ids of nodes; 7 and "7" are the same id.
        ids: the id of each node.
        argument: name of the argument in the message.

    Examples:
        >>> numbers_of(["b", "a"], ["a", "b"], "of=")
        array([1, 0])
    """
    text, words = pd.Series(_as_text(ids)), [str(node) for node in wanted]
    rows = np.flatnonzero(text.isin(words))
    if (repeated := text.iloc[rows].duplicated()).any():
        raise InputError(f"{argument} {text.iloc[rows][repeated].iloc[0]}: two nodes have this id as text; rename one")
    found = positions(id_array(words), text.to_numpy()[rows])
    if (found < 0).any():
        unknown = words[int((found < 0).argmax())]
        raise InputError(f"{argument} {unknown}: no such node; the ids are {examples(list(map(str, ids[:4])))}")
    return np.asarray(rows[found], dtype=np.int64)


def graph_by_row(data: Data, ids: Sequence[Any], name: str) -> tuple[Tensor, Tensor | None]:
    """Return the edges and features of a graph, with its nodes numbered as the rows of an embedding.

    Args:
        data: the graph.
        ids: the id of each row of the embedding.
        name: name of the graph in messages.

    Examples:
        >>> data = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, node_ids=np.array(["b", "a"], dtype=object))
        >>> graph_by_row(data, ["a", "b"], "e.csv")[0].tolist()
        [[1], [0]]
    """
    graph_ids = np.arange(data.num_nodes) if data.get("node_ids") is None else data.node_ids
    row = torch.from_numpy(np.asarray(positions(graph_ids, id_array(ids)), dtype=np.int64))
    if (row < 0).any():
        missing = graph_ids[(row < 0).numpy()]
        where = f"{counted(len(missing), 'node')} without an embedding ({examples(missing)})"
        raise InputError(f"{name}: {where}; embed this graph, or give the graph of the embedding")
    if data.x is None:
        return row[data.edge_index], None
    if len(ids) != data.num_nodes:
        raise InputError(f"{name}: {data.num_nodes:,} nodes for {len(ids):,} embeddings; give the same nodes")
    order = torch.argsort(row)
    if data.x.layout == torch.strided:
        return row[data.edge_index], data.x[order]
    return row[data.edge_index], data.x.to_sparse_coo().index_select(0, order).coalesce().to_sparse_csr()


def labels_by_id(path: Path | str, ids: Sequence[Any], roles: Roles = Roles()) -> list[str | None]:  # noqa: B008 (frozen)
    """Return the class name of each node, None for none.

    Args:
        path: a table (id, label), ``.npy`` in the order of the nodes, or the folder of an ingested graph.
        ids: the id of each node.
        roles: the columns that the user names.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "l.csv").write_text("id,label\\nb,red\\na,blue\\n")
        ...     labels_by_id(Path(folder, "l.csv"), ["a", "b", "c"])
        ['blue', 'red', None]
    """
    if is_graph_folder(path):
        y, names = _labels_of_graph(OnDiskGraph.open(path), ids)
    else:
        file = existing_file(path)
        array = file.suffix.lower() == ".npy"
        labels = ArrayRows(file.name, np.load(file, allow_pickle=False)) if array else open_table(file)
        nodes = id_array(ids)
        y, names = encode_labels(LabelList(labels, nodes, roles).of(nodes), file.name)
    return [None if number < 0 else str(number) if names is None else names[number] for number in y.tolist()]


def _labels_of_graph(graph: OnDiskGraph, ids: Sequence[Any]) -> tuple[Tensor, list[str] | None]:
    """Return the class number of each node, -1 for none, and the names of the classes."""
    if graph.labels is None:
        raise InputError(f"{graph.path}: the graph has no labels; ingest it with labels, or give a table of them")
    nodes = graph.numbers_of(ids)
    if (nodes < 0).all():
        raise InputError(f"{graph.path}: none of its nodes has an embedding; give the graph of the embedding")
    return torch.from_numpy(np.where(nodes < 0, -1, graph.labels[nodes])), graph.label_names


def check_table(path: Path | None, *inputs: Path | str | None) -> None:
    """Raise if :func:`write_table` cannot write to ``path``, or would replace an input. None passes."""
    if path is None:
        return
    if path.suffix.lower() not in TABLES:
        raise InputError(f"{path}: cannot write {path.suffix or 'a file without suffix'}; use {', '.join(TABLES)}")
    check_output(path)
    check_kept(path, *inputs)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table atomically, in the format of the file's suffix.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_table(pd.DataFrame({"id": ["a"], "score": [0.5]}), Path(folder, "t.csv"))
        ...     print(Path(folder, "t.csv").read_text(), end="")
        id,score
        a,0.5
    """
    check_table(path)
    with atomic_path(path) as temporary:
        if path.suffix.lower() == ".parquet":
            table.to_parquet(temporary, index=False)
        else:
            tab = "\t" if path.suffix.lower() == ".tsv" else ","
            table.to_csv(temporary, index=False, sep=tab, float_format="%.9g")


def _as_text(ids: Sequence[Any]) -> "np.ndarray[Any, Any]":
    return np.array([str(node) for node in ids], dtype=object)
