"""The one gate: every graph that enters is checked here; it leaves undirected, coalesced, loop-free."""

import logging

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.errors import InputError

log = logging.getLogger("epagcl")


def check(data: Data, source: str = "graph", quiet: bool = False) -> Data:
    """A checked copy of ``data``: what cannot be used raises, what can be mended is mended and said.

    The result has ``edge_index`` (int64, both directions of each pair, sorted, no duplicates, no self-loops),
    ``x`` (float32, dense or ``torch.sparse_csr``), ``num_nodes``, and ``y`` (int64, −1 = no label) if there
    were labels.
    Everything else (masks, ids) is carried over; edge attributes are not, since no method here reads them.

    Args:
        data: a graph; ``x`` dense or sparse, ``edge_index`` in one or both directions.
        source: what messages call the graph (a file's name).
        quiet: say nothing about what was mended (for named graphs, whose quirks are known).
    """
    x = _features(data.x, source)
    num_nodes = _num_nodes(data, x, source)
    edge_index = _edges(data.edge_index, num_nodes, source)
    pairs, notes = canonical_pairs(edge_index, num_nodes)
    if pairs.shape[1] == 0:
        raise InputError(f"{source}: no edges between different nodes; a graph needs at least one")
    if data.get("edge_attr") is not None or data.get("edge_weight") is not None:
        notes.append("edge weights and attributes are not used")
    if not quiet:
        for note in notes:
            log.warning("%s: %s", source, note)

    num_edges = edge_index.shape[1]
    checked = Data(
        **{key: value for key, value in data.to_dict().items() if not _is_edge_level(key, value, num_nodes, num_edges)}
    )
    checked.x = x
    checked.edge_index = both_directions(pairs, num_nodes)
    checked.num_nodes = num_nodes
    checked.y = _labels(data.y, num_nodes, source)
    return checked


def canonical_pairs(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, list[str]]:
    """The undirected pairs ``[2, E]`` (i < j, sorted) behind an edge list, and in words what was mended."""
    row, col = edge_index
    loops = row == col
    row, col = row[~loops], col[~loops]
    key = torch.minimum(row, col) * num_nodes + torch.maximum(row, col)
    unique = torch.unique(key)
    directed = torch.unique(row * num_nodes + col)
    notes = []
    if n := int(loops.sum()):
        notes.append(f"{n:,} self-loop{'s' * (n > 1)} removed")
    if n := row.numel() - directed.numel():
        notes.append(f"{n:,} duplicate edge{'s' * (n > 1)} removed")
    if directed.numel() != 2 * unique.numel():
        notes.append(f"directed edges made undirected: {directed.numel():,} given, {unique.numel():,} pairs")
    return torch.stack([unique // num_nodes, unique % num_nodes]), notes


def undirected_pairs(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The undirected pairs of an edge list: ``[2, E]`` with i < j, sorted, no self-loops, no duplicates."""
    return canonical_pairs(edge_index, num_nodes)[0]


def both_directions(pairs: Tensor, num_nodes: int) -> Tensor:
    """``edge_index`` with both directions of each pair, sorted by row and column."""
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    return edge_index[:, torch.argsort(edge_index[0] * num_nodes + edge_index[1])]


def _is_edge_level(key: str, value: object, num_nodes: int, num_edges: int) -> bool:
    """Whether an attribute belongs to the given edges, which are not those of the result.

    Not ``Data.is_edge_attr``: that takes a list of as many class names as there are edges for an attribute of
    the edges, and leaves a cache in the user's object with which ``torch.load`` refuses it.
    """
    if key.startswith("edge_") or key in ("adj", "adj_t"):
        return True
    per_edge = tuple(getattr(value, "shape", ()))[:1] == (num_edges,)
    return per_edge and (num_edges != num_nodes or "edge" in key)


def _features(x: Tensor | None, source: str) -> Tensor:
    if x is None:
        raise InputError(f"{source}: no node features; give a table with one row per node (x, or --features)")
    if x.dim() != 2 or x.shape[1] == 0:
        raise InputError(f"{source}: features have shape {tuple(x.shape)}; they must be nodes × columns")
    if x.layout == torch.strided:
        x = x.float()
        bad = ~torch.isfinite(x)
        if bad.any():
            row, column = (int(i) for i in bad.nonzero()[0])
            raise InputError(_not_finite(source, int(bad.sum()), row, column))
        return x
    x = x.to_sparse_csr().to(torch.float32)
    bad = ~torch.isfinite(x.values())
    if bad.any():
        entry = int(bad.nonzero()[0])
        row = int(torch.searchsorted(x.crow_indices(), entry, right=True)) - 1
        raise InputError(_not_finite(source, int(bad.sum()), row, int(x.col_indices()[entry])))
    return x


def _not_finite(source: str, count: int, row: int, column: int) -> str:
    return (
        f"{source}: {count:,} NaN or infinite feature value{'s' * (count > 1)}, the first in row {row}, "
        f"column {column} (counted from 0); fill or drop them"
    )


def _num_nodes(data: Data, x: Tensor, source: str) -> int:
    num_nodes = data.num_nodes if "num_nodes" in data else x.shape[0]
    if num_nodes != x.shape[0]:
        rows = f"{x.shape[0]:,} feature rows for {num_nodes:,} nodes"
        raise InputError(f"{source}: {rows}; give one row per node")
    if num_nodes < 2:
        raise InputError(f"{source}: {num_nodes} node; a graph needs at least 2")
    return num_nodes


def _edges(edge_index: Tensor | None, num_nodes: int, source: str) -> Tensor:
    if edge_index is None:
        raise InputError(f"{source}: no edge_index; give edges as a [2, E] tensor")
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise InputError(f"{source}: edge_index has shape {tuple(edge_index.shape)}; it must be [2, E]")
    if edge_index.is_floating_point() or edge_index.is_complex() or edge_index.dtype == torch.bool:
        raise InputError(f"{source}: edge_index is {edge_index.dtype}; node numbers must be integers")
    edge_index = edge_index.long()
    if edge_index.numel() == 0:
        raise InputError(f"{source}: no edges; a graph needs at least one")
    for wrong, what in ((edge_index < 0, "negative"), (edge_index >= num_nodes, "out of range")):
        if wrong.any():
            place = int(wrong.any(dim=0).nonzero()[0])
            pair = tuple(edge_index[:, place].tolist())
            raise InputError(
                f"{source}: edge {place} {pair} has a node number that is {what}; "
                f"with {num_nodes:,} feature rows, nodes are 0 to {num_nodes - 1:,}"
            )
    return edge_index


def _labels(y: Tensor | None, num_nodes: int, source: str) -> Tensor | None:
    if y is None:
        return None
    y = torch.as_tensor(y)
    if y.dim() == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dim() != 1:
        raise InputError(f"{source}: labels have shape {tuple(y.shape)}; give one class number per node")
    if y.shape[0] != num_nodes:
        counts = f"{y.shape[0]:,} labels for {num_nodes:,} nodes"
        raise InputError(f"{source}: {counts}; give one per node, −1 for none")
    if y.is_floating_point():
        y = torch.where(torch.isnan(y), -1.0, y)
        if (y != y.round()).any() or torch.isinf(y).any():
            raise InputError(f"{source}: labels are not whole numbers; give classes 0, 1, ... (−1 for none)")
    if (y < -1).any():
        raise InputError(f"{source}: label {int(y.min())}; give class numbers 0, 1, ... (−1 for none)")
    return y.long()
