"""The identity of a graph: digests of exactly what enters a computation, for everything that reuses earlier work."""

import hashlib
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.sparse import SparseMatrix
from epagcl.data.splits import PARTS

if TYPE_CHECKING:
    from epagcl.data.graph import Graph

#: Hexadecimal digits of a digest: 128 bits of SHA-256.
DIGITS = 32
#: The attributes that hold published splits: the public ones and those of Geom-GCN.
MASKS = tuple(f"{prefix}{part}_mask" for prefix in ("", "geom_") for part in PARTS)
#: Features with at most this share of entries other than 0 enter by these entries, others as a whole matrix.
SPARSE_UP_TO = 0.05
_ROWS = 4096  # rows of a dense matrix that are converted at once
_FORMER = re.compile(r"(\d+-\d+-\d+)-[0-9a-f]{16}-\d\.\d{3}e[+-]\d+(-.*)?")


def graph_fingerprint(graph: "Graph") -> str:
    """Return ``<nodes>-<pairs>-<features>-<digest>``: the sizes of a graph, and a digest of its pairs and features.

    The digest is SHA-256 of the pairs, their weights and relations if there are any, and every bit of the features in
    float32. It does not depend on the layout of the features, on their device, or on the sign of a zero.

    Args:
        graph: the graph.

    Examples:
        >>> from epagcl.data.graph import Graph
        >>> graph = Graph(x=torch.eye(3), pairs=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> graph_fingerprint(graph)[:6], len(graph_fingerprint(graph))
        ('3-2-3-', 38)
        >>> graph_fingerprint(graph) == graph_fingerprint(Graph(-torch.eye(3), graph.pairs, 3))
        False
    """
    digest = hashlib.sha256(b"pairs")
    _add(digest, graph.pairs.long())
    weight = getattr(graph, "weight", None)
    if weight is not None:
        digest.update(b"weight")
        _add(digest, weight.float())
    relations = getattr(graph, "relations", None)
    if relations is not None:
        digest.update(b"relations" + json.dumps(graph.relation_names).encode())
        _add(digest, relations.float())
    digest.update(b"x")
    _add_features(digest, graph.x)
    sizes = f"{graph.num_nodes}-{graph.pairs.shape[1]}-{graph.x.shape[1]}"
    return f"{sizes}-{digest.hexdigest()[:DIGITS]}"


def data_fingerprint(data: Data) -> str:
    """Return the fingerprint of a graph, followed by a digest of its labels, published splits, ids and names, if any.

    It identifies a run, whose files depend on all of these.

    Args:
        data: a checked graph.

    Examples:
        >>> data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> len(data_fingerprint(data)), len(data_fingerprint(data.update({"y": torch.tensor([0, 1, 1])})))
        (38, 55)
    """
    from epagcl.data.graph import Graph  # which imports this module

    digests = (None if data.y is None else label_digest(data.y), split_digest(data), text_digest(data))
    parts = [f"{name}{part}" for name, part in zip("yst", digests, strict=True) if part]
    graph = Graph.from_data(data).fingerprint
    return graph if not parts else f"{graph}-{hashlib.sha256('-'.join(parts).encode()).hexdigest()[:16]}"


def label_digest(y: Tensor) -> str:
    """Return sixteen hexadecimal digits of the class numbers of all nodes.

    Examples:
        >>> label_digest(torch.tensor([0, 1])) == label_digest(torch.tensor([1, 0]))
        False
    """
    digest = hashlib.sha256(b"y")
    _add(digest, y.flatten().long())
    return digest.hexdigest()[:16]


def split_digest(data: Data) -> str | None:
    """Return sixteen hexadecimal digits of the masks ``train_mask``, ..., ``geom_test_mask``, or None without masks.

    Examples:
        >>> mask = torch.tensor([True, False, False])
        >>> split_digest(Data(train_mask=mask)) == split_digest(Data(train_mask=mask.roll(1)))
        False
        >>> split_digest(Data(num_nodes=3)) is None
        True
    """
    masks = {name: data[name] for name in MASKS if data.get(name) is not None}
    if not masks:
        return None
    digest = hashlib.sha256()
    for name, mask in masks.items():
        digest.update(f"{name}{tuple(mask.shape)}".encode())
        digest.update((mask != 0).cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def text_digest(data: Data) -> str | None:
    """Return sixteen hexadecimal digits of the ids and names of a graph, or None if it has none.

    These are ``node_ids``, ``feature_names`` and ``label_names``, which stand in the files of a run.

    Examples:
        >>> text_digest(Data(node_ids=["a", "b"])) == text_digest(Data(node_ids=["b", "a"]))
        False
    """
    names = {key: data[key] for key in ("node_ids", "feature_names", "label_names") if data.get(key) is not None}
    if not names:
        return None
    text = json.dumps({key: _plain(values) for key, values in names.items()}, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_former_fingerprint(fingerprint: object) -> bool:
    """Return whether a fingerprint has the form of earlier versions, which missed some changes of features.

    Examples:
        >>> is_former_fingerprint("2708-5278-1433-00c4b9d3a2f0a1b7-1.245e+04")
        True
    """
    return isinstance(fingerprint, str) and _FORMER.fullmatch(fingerprint) is not None


def _plain(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray | Tensor) else list(values)


def _add_features(digest: "hashlib._Hash", x: "Tensor | SparseMatrix") -> None:
    """Add features in a form that depends on their values only: their entries, or if these are many, all values."""
    n, columns = x.shape
    entries = int(torch.count_nonzero(x.value if isinstance(x, SparseMatrix) else x))
    if entries > SPARSE_UP_TO * n * columns:
        matrix = x if isinstance(x, Tensor) else _dense(x)
        for rows in matrix.split(_ROWS):
            _add(digest, rows.float() + 0.0)  # −0 becomes 0
        return
    if isinstance(x, SparseMatrix):
        key, value = x.row.cpu() * columns + x.col.cpu().long(), x.value.cpu().float()
        kept = value != 0
        key, value = key[kept], value[kept]
        if bool((key[1:] <= key[:-1]).any()):
            key, order = key.sort(stable=True)
            value = value[order]
    else:
        row, col = x.nonzero(as_tuple=True)
        key, value = row * columns + col, x[row, col].float()
    _add(digest, key)
    _add(digest, value)


def _dense(x: SparseMatrix) -> Tensor:
    return x.to("cpu").csr.to_dense()


def _add(digest: "hashlib._Hash", values: Tensor) -> None:
    """Add the shape and the bytes of a tensor, the least significant byte first."""
    array = values.detach().cpu().contiguous().numpy()
    digest.update(f"{array.dtype.name}{array.shape}".encode())
    digest.update((array if sys.byteorder == "little" else array.byteswap()).data)
