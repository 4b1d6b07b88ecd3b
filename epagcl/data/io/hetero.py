"""Graphs with several kinds of nodes from PyG: :func:`from_hetero`."""

from collections import Counter

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.checking import check, check_features
from epagcl.data.io.columns.kinds import shortened
from epagcl.data.io.features import feature_tensor
from epagcl.data.io.ids import id_array
from epagcl.data.relations import DIRECTIONS

SOURCE = "HeteroData"
#: PyG's ``ToUndirected`` adds the reverse of an edge type under this name.
REVERSE = "rev_"
_MASKS = ("train_mask", "val_mask", "test_mask")


def from_hetero(data: HeteroData, *, directed: str | None = None) -> Data:
    """Return a PyG graph with several kinds of nodes and edges as checked ``Data`` with one relation per edge type.

    Nodes are numbered type by type, and their ids begin with their type: ``author:5``. The features of each type are
    columns of their own, 0 for nodes of other types, and one column per type marks its nodes. So types may have
    features of different widths, or some of them none. A reverse edge type, which ``ToUndirected`` adds as
    ``rev_...``, is left out, since relations are used in both directions.

    Args:
        data: the graph. Of a node type, ``x``, ``y``, ``num_nodes``, ``node_ids`` and ``feature_names`` are used, and
            the masks of the type with labels; of an edge type, ``edge_index`` and ``edge_weight``.
        directed: how directed edges are used, as for :func:`epagcl.read_graph`.

    Returns:
        ``Data`` as from :func:`epagcl.read_graph`, with ``node_type``, the number of the type of each node.

    Examples:
        >>> data = HeteroData()
        >>> data["author"].x, data["paper"].x = torch.ones(2, 3), torch.ones(3, 2)
        >>> data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 1], [0, 1, 2]])
        >>> data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1], [1, 2]])
        >>> graph = from_hetero(data)
        >>> graph.x.shape, graph.relation_names, graph.node_ids.tolist()
        (torch.Size([5, 7]), ['writes', 'cites'], ['author:0', 'author:1', 'paper:0', 'paper:1', 'paper:2'])
    """
    if not isinstance(data, HeteroData):
        raise InputError(f"{SOURCE}: {type(data).__name__} is no HeteroData; use it as it is, or epagcl.read_graph")
    counts = {kind: _num_nodes(data, kind) for kind in data.node_types}
    start = dict(zip(counts, torch.tensor([0, *counts.values()]).cumsum(0).tolist(), strict=False))
    graph = Data(num_nodes=sum(counts.values()))
    graph.x, names = _features(data, counts)
    if names is not None:
        graph.feature_names = names
    graph.node_type = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(list(counts.values())))
    graph.node_ids = id_array([f"{kind}:{node}" for kind in counts for node in _ids(data, kind, counts[kind])])
    _add_edges(graph, data, start, counts)
    _add_labels(graph, data, counts)
    graph.directed = directed or DIRECTIONS[0]
    return check(graph, source=SOURCE)


def _num_nodes(data: HeteroData, kind: str) -> int:
    number: int | None = data[kind].num_nodes
    if number is None:
        raise InputError(f"{SOURCE}: the size of {kind!r} is unknown; set data[{kind!r}].num_nodes, or its x")
    return number


def _ids(data: HeteroData, kind: str, count: int) -> list[object]:
    ids = data[kind].get("node_ids")
    ids = list(range(count)) if ids is None else ids.tolist() if hasattr(ids, "tolist") else list(ids)
    if len(ids) != count:
        raise InputError(f"{SOURCE}: {len(ids):,} node_ids for {count:,} nodes {kind!r}; give one per node")
    return ids


def _features(data: HeteroData, counts: dict[str, int]) -> tuple[Tensor | None, list[str] | None]:
    """Return the features of all types as blocks of columns, with a column per type that marks its nodes.

    Nodes of one type only need no mark.
    """
    if len(counts) == 1:
        (kind,) = counts
        return data[kind].get("x"), data[kind].get("feature_names")
    blocks: list[scipy.sparse.csr_array] = []
    names: list[str] = []
    for kind, count in counts.items():
        x = data[kind].get("x")
        marks = scipy.sparse.csr_array(np.ones((count, 1), dtype=np.float32))
        block = marks if x is None else scipy.sparse.hstack([_matrix(x, kind, count), marks], format="csr")
        given = data[kind].get("feature_names") or range(block.shape[1] - 1)
        if len(given) != block.shape[1] - 1:
            raise InputError(f"{SOURCE}: {len(given):,} feature_names for {block.shape[1] - 1:,} columns of {kind!r}")
        blocks.append(block)
        names += [*(f"{kind}:{name}" for name in given), f"type={kind}"]
    if any(data[kind].get("x") is None for kind in counts):
        without = [kind for kind in counts if data[kind].get("x") is None]
        log.warning("%s: no features of %s; only a column tells them from others", SOURCE, ", ".join(without))
    # Never a dense matrix, which would have as many columns as all types together for each node.
    return feature_tensor(scipy.sparse.block_diag(blocks, format="csr"), SOURCE), names


def _matrix(x: Tensor, kind: str, count: int) -> scipy.sparse.csr_array:
    """Return the features of a node type. Raise unless they are a finite matrix with one row per node."""
    x = check_features(x, f"{SOURCE}: {kind!r}").cpu()
    if len(x) != count:
        raise InputError(f"{SOURCE}: {len(x):,} feature rows for {count:,} nodes {kind!r}; give one per node")
    if x.layout == torch.strided:
        return scipy.sparse.csr_array(x.numpy())
    return scipy.sparse.csr_array((x.values(), x.col_indices(), x.crow_indices()), shape=tuple(x.shape))


def _check_edges(data: HeteroData, edge: tuple[str, str, str], counts: dict[str, int]) -> None:
    """Raise unless the ends of edges are numbers of nodes of their types; otherwise they would be nodes of another."""
    name, index = " ".join(edge), data[edge].get("edge_index")
    if not isinstance(index, Tensor) or index.dim() != 2 or index.shape[0] != 2 or index.is_floating_point():
        raise InputError(f"{SOURCE}: {name}: no edge_index of two rows of node numbers; add it")
    for end, kind in zip(index, (edge[0], edge[2]), strict=True):
        if (wrong := (end < 0) | (end >= counts[kind])).any():
            number, last = int(end[wrong][0]), counts[kind] - 1
            raise InputError(f"{SOURCE}: {name}: {number} is no node {kind!r}; they are 0 to {last:,}")
    if data[edge].get("edge_attr") is not None:
        log.warning("%s: %s: edge_attr is not used; give weights of edges as edge_weight", SOURCE, name)


def _add_edges(graph: Data, data: HeteroData, start: dict[str, int], counts: dict[str, int]) -> None:
    """Add the edges of all types, their weights and their kinds."""
    types = [edge for edge in data.edge_types if not _is_reverse(edge, data.edge_types)]
    if not types:
        raise InputError(f"{SOURCE}: no edges; a graph needs at least one")
    for edge in types:
        _check_edges(data, edge, counts)
    relations = Counter(relation for _, relation, _ in types)
    graph.relation_names = [edge[1] if relations[edge[1]] == 1 else " ".join(edge) for edge in types]
    stores = [data[edge] for edge in types]
    offsets = [torch.tensor([[start[source]], [start[target]]]) for source, _, target in types]
    graph.edge_index = torch.cat([store.edge_index.cpu() + k for store, k in zip(stores, offsets, strict=True)], dim=1)
    log.info("%s: %s of edges (%s)", SOURCE, counted(len(types), "kind"), shortened(graph.relation_names))
    sizes = torch.tensor([store.edge_index.shape[1] for store in stores])
    graph.edge_type = torch.repeat_interleave(torch.arange(len(types)), sizes)
    if any(store.get("edge_weight") is not None for store in stores):
        ones = [torch.ones(size) for size in sizes.tolist()]
        weights = [store.get("edge_weight") for store in stores]
        every = [one if weight is None else weight.cpu() for weight, one in zip(weights, ones, strict=True)]
        graph.edge_weight = torch.cat([weight.flatten().double() for weight in every])


def _is_reverse(edge: tuple[str, str, str], types: list[tuple[str, str, str]]) -> bool:
    source, relation, target = edge
    return relation.startswith(REVERSE) and (target, relation.removeprefix(REVERSE), source) in types


def _add_labels(graph: Data, data: HeteroData, counts: dict[str, int]) -> None:
    """Add the labels and the masks of the node type that has labels; other nodes have no label."""
    labelled = [kind for kind in counts if data[kind].get("y") is not None]
    if not labelled:
        return
    if len(labelled) > 1:
        both = " and ".join(labelled)
        raise InputError(f"{SOURCE}: labels of {both}; keep those of one kind of nodes, del data[{labelled[-1]!r}].y")
    (kind,) = labelled
    own = graph.node_type == list(counts).index(kind)
    y = data[kind].y.cpu()
    if y.numel() != counts[kind]:
        shape = tuple(y.shape)
        raise InputError(f"{SOURCE}: {kind!r}: y has shape {shape}; give one class per node, ({counts[kind]:,},)")
    graph.y = torch.full((graph.num_nodes,), -1, dtype=torch.int64)
    graph.y[own] = y.flatten().long()
    for name in _MASKS:
        if (mask := data[kind].get(name)) is not None:
            if mask.shape != (counts[kind],):
                fix = f"give one value per node, ({counts[kind]:,},)"
                raise InputError(f"{SOURCE}: {kind!r}: {name} has shape {tuple(mask.shape)}; {fix}")
            graph[name] = torch.zeros(graph.num_nodes, dtype=torch.bool)
            graph[name][own] = mask.bool().cpu()
