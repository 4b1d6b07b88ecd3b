"""Validation of input graphs. Every graph passes :func:`check`, which makes it undirected, coalesced and loop-free."""

import logging
from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.labels import check_labels
from epagcl.data.relations import EdgeKinds, edge_kinds, relations_of


def check(data: Data, source: str = "graph", quiet: bool = False, features: bool = True, labels: bool = True) -> Data:
    """Return a checked copy of ``data``. Raise on errors; repair what can be repaired, and log each repair.

    The result has ``edge_index`` (int64, both directions of each pair, sorted, no duplicates, no self-loops),
    ``x`` (float32, dense or ``torch.sparse_csr``), ``num_nodes``, ``y`` (int64, −1 = no label) if the input has labels,
    and ``edge_weight`` (float32, see ``pair_weights``) if the input has weights that differ. A graph with several kinds
    of edges (``edge_type``, integers; ``relation_names``, their names) or with ``directed`` other than ``"symmetric"``
    has ``edge_relation`` ``[edges, relations]`` and ``relation_names``; see ``epagcl.data.relations``. Other
    attributes (masks, ids) are copied. Other edge attributes are dropped, since no method here uses them.

    Args:
        data: a graph; ``x`` dense or sparse, ``edge_index`` in one or both directions.
        source: the name of the graph in messages, such as a file name.
        quiet: do not log repairs (for named graphs, whose irregularities are known).
        features: if False, ``x`` may be absent. The number of nodes is then ``num_nodes``, else the number of labels,
            else the highest node number + 1.
        labels: if False, drop ``y`` without reading it. It may then have any type.

    Raises:
        InputError: if the graph cannot be used.

    Examples:
        >>> import torch
        >>> data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 2], [1, 2, 2]]))
        >>> check(data, quiet=True).edge_index.tolist()
        [[0, 1, 1, 2], [1, 0, 2, 1]]
    """
    if isinstance(data, HeteroData):
        raise InputError(f"{source}: HeteroData has several kinds of nodes; convert it with epagcl.from_hetero(data)")
    if hasattr(data, "indptr") and hasattr(data, "to_data"):
        raise InputError(f"{source}: a graph on disk, and this takes one in memory; give graph.to_data()")
    if not isinstance(data, Data):
        fix = "create one with epagcl.from_networkx, epagcl.from_scipy, epagcl.from_tables or epagcl.read_graph"
        raise InputError(f"{source}: {type(data).__name__} is not a torch_geometric.data.Data; {fix}")
    x = None if data.x is None and not features else check_features(data.x, source)
    edge_index = _check_edges(data.edge_index, source)
    edge_weight = _check_weights(data.get("edge_weight"), edge_index, source)
    kinds = edge_kinds(data, edge_index.shape[1], source, quiet=quiet)
    if edge_weight is not None and not edge_weight.all():
        if not quiet:
            log.warning("%s: %s of weight 0 removed", source, counted(int((edge_weight == 0).sum()), "edge"))
        kept = edge_weight > 0
        edge_index, edge_weight = edge_index[:, kept], edge_weight[kept]
        kinds = None if kinds is None else kinds._replace(value=kinds.value[kept])
    y = None if data.y is None or not labels else check_labels(data.y, source)
    num_nodes = _num_nodes(data, x, y, edge_index, source)
    names = data.get("feature_names")
    if names is not None and x is not None and len(names) != x.shape[1]:
        raise InputError(f"{source}: {len(names):,} feature_names for {x.shape[1]:,} columns; give one per column")
    pairs = undirected_pairs(edge_index, num_nodes)
    if pairs.shape[1] == 0:
        what = "no edges between different nodes; a graph needs at least one"
        if edge_weight is not None and not edge_weight.numel():
            what = "all edges have weight 0; a graph needs at least one above 0"
        raise InputError(f"{source}: {what}")
    if not quiet:
        for level, note in repair_notes(edge_index, pairs, num_nodes, weighted=edge_weight is not None, kinds=kinds):
            log.log(level, "%s: %s", source, note)
        if data.get("edge_attr") is not None:
            log.warning("%s: edge_attr is not used; give weights of edges as edge_weight", source)
        if x is not None and x.layout == torch.strided and len(x) > 1 and bool((x == x[0]).all()):
            log.warning("%s: all nodes have the same features; only their edges can tell them apart", source)

    num_edges = data.edge_index.shape[1]
    checked = Data(
        **{
            key: value
            for key, value in data.to_dict().items()
            if not is_edge_level(key, value, num_nodes, num_edges) and key not in ("directed", "relation_names")
        }
    )
    checked.x = x
    checked.edge_index = both_directions(pairs, num_nodes)
    weight = None if edge_weight is None else pair_weights(edge_index, edge_weight, num_nodes)
    if weight is not None:
        i, j = checked.edge_index.sort(dim=0).values
        place = torch.searchsorted(pairs[0] * num_nodes + pairs[1], i * num_nodes + j)
        checked.edge_weight = weight[place].float()
        if not bool(checked.edge_weight.all()):
            raise InputError(f"{source}: edge weights differ by more than float32 can hold; scale the smallest up")
    if kinds is not None:
        relations = relations_of(kinds, edge_index, edge_weight, checked.edge_index, num_nodes, source)
        if relations is not None:
            checked.edge_relation, checked.relation_names = relations
    checked.num_nodes = num_nodes
    checked.y = y
    return checked


def check_features(x: Tensor | None, source: str, place: Callable[[int, int], str] | None = None) -> Tensor:
    """Return features as float32, dense or ``torch.sparse_csr``. Raise unless they are a finite real matrix.

    Args:
        x: the features.
        source: their name in messages.
        place: function that describes a row and column in messages; by default, both are counted from 0.
    """
    if x is None:
        raise InputError(f"{source}: no node features; add x, a matrix with one row per node")
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
    """Return the undirected pairs of an edge list: ``[2, E]`` with i < j, sorted, no self-loops, no duplicates.

    Examples:
        >>> import torch
        >>> undirected_pairs(torch.tensor([[2, 0, 1, 1], [1, 1, 0, 1]]), num_nodes=3).tolist()
        [[0, 1], [1, 2]]
    """
    row, col = edge_index.long()  # the product below may not fit into 32 bits
    key = torch.minimum(row, col) * num_nodes + torch.maximum(row, col)
    key = torch.unique(key[row != col])
    return torch.stack([key // num_nodes, key % num_nodes])


def pair_weights(edge_index: Tensor, edge_weight: Tensor, num_nodes: int) -> Tensor | None:
    """Return the weight of each undirected pair, relative to their mean, in the order of :func:`undirected_pairs`.

    Weights of repeated edges are added up. The weight of a pair that is given in both directions is the mean of the
    two, so that an edge list means the same with one or with both directions. The unit of the weights does not matter.

    Args:
        edge_index: edges in one or both directions, ``[2, E]``; self-loops are ignored.
        edge_weight: positive weights, ``[E]``.
        num_nodes: N.

    Returns:
        A float64 tensor ``[pairs]`` of mean 1, or None if all weights are equal, which is the same as no weights.

    Examples:
        >>> import torch
        >>> edge_index = torch.tensor([[0, 1, 1, 1], [1, 0, 2, 2]])
        >>> pair_weights(edge_index, torch.tensor([1.0, 3.0, 1.0, 5.0]), num_nodes=3)  # 2 and 6
        tensor([0.5000, 1.5000], dtype=torch.float64)
    """
    row, col = edge_index
    row, col, weight = (values[row != col] for values in (row, col, edge_weight.double()))
    directed, where = torch.unique(row * num_nodes + col, return_inverse=True)
    weight = weight.new_zeros(directed.numel()).index_add_(0, where, weight)
    i, j = directed // num_nodes, directed % num_nodes
    key, where = torch.unique(torch.minimum(i, j) * num_nodes + torch.maximum(i, j), return_inverse=True)
    weight = weight.new_zeros(key.numel()).index_add_(0, where, weight) / torch.bincount(where)
    return None if bool((weight == weight[0]).all()) else weight / weight.mean()


def repair_notes(
    edge_index: Tensor, pairs: Tensor, num_nodes: int, *, weighted: bool = False, kinds: EdgeKinds | None = None
) -> list[tuple[int, str]]:
    """Return the log level and the message of each repair that turns an edge list into undirected pairs."""
    proper = edge_index[0] != edge_index[1]
    row, col = edge_index[:, proper]
    key = row * num_nodes + col
    loops, num_directed = edge_index.shape[1] - row.numel(), torch.unique(key).numel()
    num_distinct = num_directed
    if kinds is not None and kinds.directed is not None:  # edges of different kinds are no duplicates
        kind = kinds.value[proper].argmax(1)
        num_distinct = torch.unique(kind * num_nodes**2 + key).numel()
    notes = removal_words(loops, row.numel() - num_distinct, weighted=weighted)
    if kinds is not None and kinds.directed != "symmetric":
        return notes
    return notes + direction_words(num_directed, pairs.shape[1])


def repair_words(
    loops: int, num_edges: int, num_directed: int, num_pairs: int, *, weighted: bool = False
) -> list[tuple[int, str]]:
    """Return the log level and the message of each repair, by the counts before and after it.

    Args:
        loops: number of self-loops.
        num_edges: number of other edges.
        num_directed: number of those that are different if their direction counts.
        num_pairs: number of undirected pairs.
        weighted: whether the edges have weights.
    """
    return removal_words(loops, num_edges - num_directed, weighted=weighted) + direction_words(num_directed, num_pairs)


def removal_words(loops: int, repeats: int, *, weighted: bool) -> list[tuple[int, str]]:
    """Return the log level and the message of removed self-loops and duplicate edges."""
    notes = []
    if loops:
        notes.append((logging.WARNING, f"{counted(loops, 'self-loop')} removed"))
    if repeats:
        what = "merged; their weights are added up" if weighted else "removed"
        notes.append((logging.WARNING, f"{counted(repeats, 'duplicate edge')} {what}"))
    return notes


def direction_words(num_directed: int, num_pairs: int) -> list[tuple[int, str]]:
    """Return the log level and the message on the directions of the edges."""
    notes = []
    if num_directed == num_pairs > 0:  # the usual edge list of an undirected graph
        once = "given once each" if num_pairs > 1 else "given once"
        notes.append((logging.INFO, f"{counted(num_pairs, 'edge')} {once}; used in both directions"))
    elif num_directed != 2 * num_pairs:
        notes.append((logging.WARNING, f"directed edges made undirected: {num_directed:,} given, {num_pairs:,} pairs"))
    return notes


def both_directions(pairs: Tensor, num_nodes: int) -> Tensor:
    """Return ``edge_index`` with both directions of each pair, sorted by row and column."""
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    return edge_index[:, torch.argsort(edge_index[0] * num_nodes + edge_index[1])]


def is_edge_level(key: str, value: object, num_nodes: int, num_edges: int) -> bool:
    """Return whether an attribute has one value per input edge. Such attributes do not fit the edges of the result.

    ``Data.is_edge_attr`` cannot be used. It mistakes a list of class names for an edge attribute if the list has as
    many items as the graph has edges. It also stores a cache in the user's object, which ``torch.load`` then rejects.
    """
    if key.startswith("edge_") or key in ("adj", "adj_t"):
        return True
    per_edge = tuple(getattr(value, "shape", ()))[:1] == (num_edges,)
    return per_edge and (num_edges != num_nodes or "edge" in key)


def _check_edges(edge_index: Tensor | None, source: str) -> Tensor:
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


def _check_weights(weight: object, edge_index: Tensor, source: str) -> Tensor | None:
    """Return the weights of the edges, or None if there are none. Raise unless they are finite and not negative."""
    if weight is None:
        return None
    weight = torch.as_tensor(weight)
    if weight.shape not in ((edge_index.shape[1],), (edge_index.shape[1], 1)) or weight.is_complex():
        shape = f"{tuple(weight.shape)} of {weight.dtype}"
        raise InputError(f"{source}: edge_weight is {shape}; give one number per edge, {(edge_index.shape[1],)}")
    weight = weight.flatten().to(edge_index.device).double()
    if (wrong := ~(weight.isfinite() & (weight >= 0))).any():
        where, value = _first_edge(edge_index, wrong[None]), float(weight[wrong][0])
        raise InputError(f"{source}: {where} has the weight {value:g}; weights must be finite and not negative")
    return weight


def _first_edge(edge_index: Tensor, wrong: Tensor) -> str:
    place = int(wrong.any(dim=0).nonzero()[0])
    return f"edge {place} {tuple(edge_index[:, place].tolist())}"


def _num_nodes(data: Data, x: Tensor | None, y: Tensor | None, edge_index: Tensor, source: str) -> int:
    """Return the number of nodes. Raise unless features, labels and edges agree with it."""
    if "num_nodes" in data:
        num_nodes: int = data.num_nodes
    elif x is not None:
        num_nodes = x.shape[0]
    elif y is not None:
        num_nodes = y.shape[0]
    else:
        num_nodes = int(edge_index.max()) + 1
    if x is not None and x.shape[0] != num_nodes:
        rows = counted(x.shape[0], "feature row")
        raise InputError(f"{source}: {rows} for {counted(num_nodes, 'node')}; give one row per node")
    if num_nodes < 2:
        raise InputError(f"{source}: {counted(num_nodes, 'node')}; a graph needs at least 2")
    if (beyond := edge_index >= num_nodes).any():
        size = counted(num_nodes, "node" if x is None else "feature row")
        raise InputError(
            f"{source}: {_first_edge(edge_index, beyond)} has a node number that is out of range; "
            f"with {size}, nodes are 0 to {num_nodes - 1:,}"
        )
    if y is not None and y.shape[0] != num_nodes:
        labels = counted(y.shape[0], "label")
        raise InputError(f"{source}: {labels} for {counted(num_nodes, 'node')}; give one per node, −1 for none")
    return num_nodes
