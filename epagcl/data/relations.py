"""Relations: the kinds and the directions of edges, beside the undirected pairs that all methods use.

A relation is one operator on the nodes. A graph with several kinds of edges has one relation per kind. A graph with
directed edges has the relation ``out`` (a node receives from the nodes that it points to), the relation ``in`` (from
the nodes that point to it), or both. A graph with neither has none.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.log import log

#: How directed edges are used: as undirected pairs, in both directions as two relations, or in one direction only.
DIRECTIONS = ("symmetric", "both", "in", "out")
#: Kinds beyond this number are merged into one, the rarest first. Each kind has blocks of its own.
MOST_KINDS = 16
OTHER = "other"
#: Names of relations by direction. After the name of a kind, a colon stands between them: ``mail:out``.
OUT, IN = "out", "in"
_ROUNDING = 1e-6  # a mean weight this close to 1 stays as it is, so that checking a graph twice changes no bit


class EdgeKinds(NamedTuple):
    """The relations of an edge list before they are assigned to the entries of the checked graph.

    Attributes:
        value: ``[E, R]`` float32, the weight of each edge in each relation; 0 if it is not part of it.
        names: the names of the relations.
        directed: one of :data:`DIRECTIONS`; None if each edge is a message of its own already (``edge_relation``).
    """

    value: Tensor
    names: list[str]
    directed: str | None


def edge_kinds(data: Data, num_edges: int, source: str, *, quiet: bool = False) -> EdgeKinds | None:
    """Return the relations that a graph comes with, or None if its edges are of one kind and undirected.

    Args:
        data: the graph, with ``edge_type`` and ``directed``, or with ``edge_relation``; ``relation_names`` if given.
        num_edges: E.
        source: the name of the graph in messages.
        quiet: do not log which kinds are merged.
    """
    directed = data.get("directed", DIRECTIONS[0])
    if directed not in DIRECTIONS:
        raise InputError(f"{source}: directed={directed!r} is unknown; give one of {', '.join(DIRECTIONS)}")
    if data.get("edge_relation") is not None:
        value = torch.as_tensor(data.edge_relation)
        if value.dim() != 2 or value.shape[0] != num_edges:
            raise InputError(f"{source}: edge_relation is {tuple(value.shape)}; give one row per edge, {num_edges:,}")
        if not bool((value.float().isfinite() & (value >= 0)).all()):
            raise InputError(f"{source}: edge_relation has wrong values; they must be finite and not negative")
        return EdgeKinds(value.float(), _names(data, value.shape[1], source), None)
    if data.get("edge_type") is None:
        ones = torch.ones(num_edges, 1, device=data.edge_index.device)
        return None if directed == DIRECTIONS[0] else EdgeKinds(ones, [""], directed)
    kind = torch.as_tensor(data.edge_type)
    if kind.shape not in ((num_edges,), (num_edges, 1)) or kind.is_floating_point() or kind.is_complex():
        shape = f"{tuple(kind.shape)} of {kind.dtype}"
        raise InputError(f"{source}: edge_type is {shape}; give one integer per edge, {(num_edges,)}")
    kind = kind.flatten().long().to(data.edge_index.device)
    if bool((kind < 0).any()):
        raise InputError(f"{source}: edge_type has the value {int(kind.min())}; kinds are numbered from 0")
    numbers, kind = torch.unique(kind, return_inverse=True)
    every = _names(data, int(numbers[-1]) + 1, source)
    kind, names = _merge_rare(kind, [every[number] for number in numbers.tolist()], source, quiet=quiet)
    if len(names) == 1:
        names = [""]
        if directed == DIRECTIONS[0]:
            return None
    value = torch.zeros(num_edges, len(names), device=kind.device)
    return EdgeKinds(value.scatter_(1, kind[:, None], 1.0), names, directed)


class Relations(NamedTuple):
    """The relations of a checked graph.

    Attributes:
        value: ``[entries, R]`` float32, the weight of the message from the second to the first node of each entry of
            ``edge_index``. The mean weight of a relation is 1.
        names: the names of the relations.
    """

    value: Tensor
    names: list[str]


def relations_of(
    kinds: EdgeKinds, edge_index: Tensor, edge_weight: Tensor | None, entries: Tensor, num_nodes: int, source: str
) -> Relations | None:
    """Return the relations of the entries of a checked graph, or None if there is one that equals the graph.

    The weights of repeated edges are added up. In an undirected relation, the weight of a pair that is given in both
    directions is the mean of the two.

    Args:
        kinds: the relations of the edges.
        edge_index: the edges, ``[2, E]``.
        edge_weight: positive weights of the edges; None without.
        entries: ``edge_index`` of the checked graph: both directions of each pair, sorted.
        num_nodes: N.
        source: the name of the graph in messages.

    Examples:
        >>> kinds = EdgeKinds(torch.ones(2, 1), [""], "both")
        >>> entries = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> relations = relations_of(kinds, torch.tensor([[0, 1], [1, 2]]), None, entries, 3, "graph")
        >>> relations.names, relations.value.T.tolist()
        (['out', 'in'], [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    """
    row, col = edge_index
    proper = row != col
    key = entries[0] * num_nodes + entries[1]
    place = torch.searchsorted(key, (row * num_nodes + col)[proper])
    reverse = torch.searchsorted(key, entries[1] * num_nodes + entries[0])
    columns = []
    for relation in kinds.value.T:
        given = relation[proper].double()
        if edge_weight is not None and kinds.directed is not None:
            given *= edge_weight[proper]
        column = given.new_zeros(key.numel()).index_add_(0, place, given)
        columns.append(column.clamp_(max=1) if edge_weight is None and kinds.directed is not None else column)
    if kinds.directed is None:
        return Relations(torch.stack([_relative(column) for column in columns], dim=1), kinds.names)
    directed, names = kinds.directed, kinds.names
    if directed != DIRECTIONS[0] and all(bool((column == column[reverse]).all()) for column in columns):
        log.warning("%s: every edge is given in both directions, so directed=%s changes nothing", source, directed)
        directed = DIRECTIONS[0]
        if names == [""]:
            return None
    ways = {"both": (OUT, IN)}.get(directed, (directed,))
    value = [_relative(_oriented(column, column[reverse], way)) for way in ways for column in columns]
    if directed != DIRECTIONS[0]:
        names = [f"{name}:{way}" if name else way for way in ways for name in names]
    return Relations(torch.stack(value, dim=1), names)


def _oriented(value: Tensor, back: Tensor, way: str) -> Tensor:
    """Return the weights of messages from those of edges and of their reverses; undirected, the mean of those given."""
    if way in (OUT, IN):
        return value if way == OUT else back
    return (value + back) / ((value > 0).int() + (back > 0).int()).clamp(min=1)


def relation_words(names: Sequence[str]) -> str:
    """Return what distinguishes the edges of a graph in words.

    Examples:
        >>> relation_words(["mail", "call"]), relation_words(["out"]), relation_words(["mail:out", "mail:in"])
        ('the 2 kinds of edges', 'the direction of edges', 'the kinds and directions of edges')
    """
    ways = [name.rpartition(":") for name in names]
    if not all(way in (OUT, IN) for _, _, way in ways):
        return f"the {len(names)} kinds of edges"
    return "the kinds and directions of edges" if any(kind for kind, _, _ in ways) else "the direction of edges"


def are_one_way(names: Sequence[str]) -> bool:
    """Return whether relations use edges in one direction only.

    Examples:
        >>> are_one_way(["mail:out", "call:out"]), are_one_way(["out", "in"]), are_one_way(["mail", "call"])
        (True, False, False)
    """
    ways = {name.rpartition(":")[2] for name in names}
    return ways in ({OUT}, {IN})


def _names(data: Data, count: int, source: str) -> list[str]:
    names = data.get("relation_names")
    if names is None:
        return [str(number) for number in range(count)]
    if len(names) < count or len(set(names)) < len(names):
        raise InputError(f"{source}: {len(names):,} relation_names for {count:,} kinds; give each kind a name")
    return [str(name) for name in names]


def _merge_rare(kind: Tensor, names: list[str], source: str, *, quiet: bool) -> tuple[Tensor, list[str]]:
    """Return at most :data:`MOST_KINDS` kinds, the rarest merged into one."""
    if len(names) <= MOST_KINDS:
        return kind, names
    frequent = torch.bincount(kind).argsort(descending=True, stable=True)[: MOST_KINDS - 1].sort().values
    number = torch.full((len(names),), MOST_KINDS - 1, device=kind.device)
    number[frequent] = torch.arange(MOST_KINDS - 1, device=kind.device)
    kept = [names[k] for k in frequent.tolist()]
    merged = OTHER
    while merged in kept:  # a kind of the user's has this name
        merged += "*"
    if not quiet:
        rest = len(names) - MOST_KINDS + 1
        log.warning("%s: %d kinds of edges; the %d rarest are merged into %r", source, len(names), rest, merged)
    return number[kind], [*kept, merged]


def _relative(value: Tensor) -> Tensor:
    """Return weights relative to their mean over the edges of the relation, in float32."""
    mean = float(value.sum() / (value > 0).sum().clamp(min=1))
    return value.float() if mean == 0 or abs(mean - 1) < _ROUNDING else (value / mean).float()
