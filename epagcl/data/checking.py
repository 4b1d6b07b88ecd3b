"""The one gate: every graph that enters is checked here; it leaves undirected, coalesced, loop-free."""

import logging
from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.labels import check_labels


def check(data: Data, source: str = "graph", quiet: bool = False, features: bool = True, labels: bool = True) -> Data:
    """A checked copy of ``data``: what cannot be used raises, what can be mended is mended and said.

    The result has ``edge_index`` (int64, both directions of each pair, sorted, no duplicates, no self-loops),
    ``x`` (float32, dense or ``torch.sparse_csr``), ``num_nodes``, and ``y`` (int64, −1 = no label) if there
    were labels.
    Everything else (masks, ids) is carried over; edge attributes are not, since no method here reads them.

    Args:
        data: a graph; ``x`` dense or sparse, ``edge_index`` in one or both directions.
        source: what messages call the graph (a file's name).
        quiet: say nothing about what was mended (for named graphs, whose quirks are known).
        features: False lets ``x`` be absent, for what needs only edges and labels; the number of nodes is then
            ``num_nodes``, else that of the labels, else the highest node number + 1.
        labels: False leaves ``y`` out unread, for what learns without labels: it may be of any kind.
    """
    if isinstance(data, HeteroData):
        raise InputError(f"{source}: one kind of nodes and edges is meant; data.to_homogeneous() makes them one")
    if not isinstance(data, Data):
        fix = "make one with epagcl.from_networkx, epagcl.from_scipy, epagcl.from_tables or epagcl.read_graph"
        raise InputError(f"{source}: a {type(data).__name__} is no torch_geometric.data.Data; {fix}")
    x = None if data.x is None and not features else check_features(data.x, source)
    edge_index = _edges(data.edge_index, source)
    y = check_labels(data.y, source) if labels else None
    num_nodes = _num_nodes(data, x, y, edge_index, source)
    names = data.get("feature_names")
    if names is not None and x is not None and len(names) != x.shape[1]:
        raise InputError(f"{source}: {len(names):,} feature_names for {x.shape[1]:,} columns; give one per column")
    pairs = undirected_pairs(edge_index, num_nodes)
    if pairs.shape[1] == 0:
        raise InputError(f"{source}: no edges between different nodes; a graph needs at least one")
    if not quiet:
        for level, note in repair_notes(edge_index, pairs, num_nodes):
            log.log(level, "%s: %s", source, note)
        if data.get("edge_attr") is not None or data.get("edge_weight") is not None:
            log.warning("%s: edge weights and attributes are not used", source)
        if x is not None and x.layout == torch.strided and len(x) > 1 and bool((x == x[0]).all()):
            log.warning("%s: all nodes have the same features; only their edges can tell them apart", source)

    num_edges = edge_index.shape[1]
    checked = Data(
        **{key: value for key, value in data.to_dict().items() if not is_edge_level(key, value, num_nodes, num_edges)}
    )
    checked.x = x
    checked.edge_index = both_directions(pairs, num_nodes)
    checked.num_nodes = num_nodes
    checked.y = y
    return checked


def check_features(x: Tensor | None, source: str, place: Callable[[int, int], str] | None = None) -> Tensor:
    """Features as float32, dense or ``torch.sparse_csr``; ``place`` says in words where a row and column stand."""
    if x is None:
        raise InputError(f"{source}: no node features; give a table with one row per node (x, or --features)")
    if not isinstance(x, Tensor):
        raise InputError(f"{source}: features are a {type(x).__name__}; give a tensor (torch.as_tensor)")
    if x.dim() != 2 or x.shape[1] == 0:
        raise InputError(f"{source}: features have shape {tuple(x.shape)}; they must be nodes × columns")
    if x.is_complex():
        raise InputError(f"{source}: features are complex numbers; give real ones")
    x = x.float() if x.layout == torch.strided else x.to_sparse_csr().to(torch.float32)
    bad = ~torch.isfinite(x if x.layout == torch.strided else x.values())
    if bad.any():
        first = bad.nonzero()[0].tolist()
        if x.layout == torch.sparse_csr:
            (entry,) = first
            first = [int(torch.searchsorted(x.crow_indices(), entry, right=True)) - 1, int(x.col_indices()[entry])]
        where = place(*first) if place else "row {}, column {} (counted from 0)".format(*first)
        values = counted(int(bad.sum()), "missing, NaN or infinite feature value")
        raise InputError(f"{source}: {values}, the first in {where}; fill or drop them")
    return x


def undirected_pairs(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The undirected pairs of an edge list: ``[2, E]`` with i < j, sorted, no self-loops, no duplicates."""
    row, col = edge_index
    key = torch.minimum(row, col) * num_nodes + torch.maximum(row, col)
    key = torch.unique(key[row != col])
    return torch.stack([key // num_nodes, key % num_nodes])


def repair_notes(edge_index: Tensor, pairs: Tensor, num_nodes: int) -> list[tuple[int, str]]:
    """In words, and with its level for the log, what lies between an edge list and its undirected pairs."""
    row, col = edge_index[:, edge_index[0] != edge_index[1]]
    given, kept = torch.unique(row * num_nodes + col).numel(), pairs.shape[1]
    notes = []
    if loops := edge_index.shape[1] - row.numel():
        notes.append((logging.WARNING, f"{counted(loops, 'self-loop')} removed"))
    if repeats := row.numel() - given:
        notes.append((logging.WARNING, f"{counted(repeats, 'duplicate edge')} removed"))
    if given == kept > 0:  # the usual way to write down an undirected graph
        once = "given once each" if kept > 1 else "given once"
        notes.append((logging.INFO, f"{counted(kept, 'edge')} {once}; used in both directions"))
    elif given != 2 * kept:
        notes.append((logging.WARNING, f"directed edges made undirected: {given:,} given, {kept:,} pairs"))
    return notes


def both_directions(pairs: Tensor, num_nodes: int) -> Tensor:
    """``edge_index`` with both directions of each pair, sorted by row and column."""
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    return edge_index[:, torch.argsort(edge_index[0] * num_nodes + edge_index[1])]


def is_edge_level(key: str, value: object, num_nodes: int, num_edges: int) -> bool:
    """Whether an attribute belongs to the given edges, which are not those of the result.

    Not ``Data.is_edge_attr``: that takes a list of as many class names as there are edges for an attribute of
    the edges, and leaves a cache in the user's object with which ``torch.load`` refuses it.
    """
    if key.startswith("edge_") or key in ("adj", "adj_t"):
        return True
    per_edge = tuple(getattr(value, "shape", ()))[:1] == (num_edges,)
    return per_edge and (num_edges != num_nodes or "edge" in key)


def _edges(edge_index: Tensor | None, source: str) -> Tensor:
    if edge_index is None:
        raise InputError(f"{source}: no edge_index; give edges as a [2, E] tensor")
    if not isinstance(edge_index, Tensor):
        raise InputError(f"{source}: edge_index is a {type(edge_index).__name__}; give a tensor (torch.as_tensor)")
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise InputError(f"{source}: edge_index has shape {tuple(edge_index.shape)}; it must be [2, E]")
    if edge_index.is_floating_point() or edge_index.is_complex() or edge_index.dtype == torch.bool:
        raise InputError(f"{source}: edge_index is {edge_index.dtype}; node numbers must be integers")
    if edge_index.numel() == 0:
        raise InputError(f"{source}: no edges; a graph needs at least one")
    edge_index = edge_index.long()
    if (negative := edge_index < 0).any():
        raise InputError(
            f"{source}: {_first_edge(edge_index, negative)} has a negative node number; nodes are numbered from 0"
        )
    return edge_index


def _first_edge(edge_index: Tensor, wrong: Tensor) -> str:
    place = int(wrong.any(dim=0).nonzero()[0])
    return f"edge {place} {tuple(edge_index[:, place].tolist())}"


def _num_nodes(data: Data, x: Tensor | None, y: Tensor | None, edge_index: Tensor, source: str) -> int:
    """The number of nodes, on which all parts must agree."""
    if "num_nodes" in data:
        num_nodes = data.num_nodes
    elif x is not None or y is not None:
        num_nodes = (y if x is None else x).shape[0]
    else:
        num_nodes = int(edge_index.max()) + 1
    if x is not None and x.shape[0] != num_nodes:
        rows = counted(x.shape[0], "feature row")
        raise InputError(f"{source}: {rows} for {counted(num_nodes, 'node')}; give one row per node")
    if num_nodes < 2:
        raise InputError(f"{source}: {counted(num_nodes, 'node')}; a graph needs at least 2")
    if (beyond := edge_index >= num_nodes).any():
        known = counted(num_nodes, "node" if x is None else "feature row")
        raise InputError(
            f"{source}: {_first_edge(edge_index, beyond)} has a node number that is out of range; "
            f"with {known}, nodes are 0 to {num_nodes - 1:,}"
        )
    if y is not None and y.shape[0] != num_nodes:
        labels = counted(y.shape[0], "label")
        raise InputError(f"{source}: {labels} for {counted(num_nodes, 'node')}; give one per node, −1 for none")
    return num_nodes
