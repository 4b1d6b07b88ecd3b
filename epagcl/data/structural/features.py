"""Features computed from the edges of a graph, as a matrix with column names."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.checks import check_whole
from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix
from epagcl.data.checking import check, undirected_pairs
from epagcl.data.structural.adjacency import Neighbours
from epagcl.data.structural.positions import leading_eigenvectors, random_projection
from epagcl.data.structural.roles import (
    RETURNS,
    clustering,
    log_core_number,
    log_degree,
    log_pagerank,
    return_probabilities,
)
from epagcl.data.structural.walks import walk_positions

#: The length of a typical row of all roles, where the rows of positions have length 1.
ROLE_WEIGHT = 0.3


class Kind(NamedTuple):
    """One kind of structural features.

    Attributes:
        compute: returns the columns of a graph, given the number of columns of a position and the seed.
        columns: the number of columns; None for positions, which have as many as fit.
        carries_over: whether a column means the same in other graphs, so that a model can be used there.
        description: what the columns are.
    """

    compute: Callable[[Neighbours, int, int], Tensor]
    columns: int | None
    carries_over: bool
    description: str


#: All kinds of structural features by name.
KINDS: dict[str, Kind] = {
    "degree": Kind(lambda graph, dim, seed: log_degree(graph), 1, True, "logarithm of the degree"),
    "pagerank": Kind(lambda graph, dim, seed: log_pagerank(graph), 1, True, "logarithm of N times PageRank"),
    "core": Kind(lambda graph, dim, seed: log_core_number(graph), 1, True, "logarithm of the core number"),
    "clustering": Kind(lambda graph, dim, seed: clustering(graph, seed), 1, True, "share of joined neighbours"),
    "returns": Kind(
        lambda graph, dim, seed: return_probabilities(graph, seed),
        RETURNS,
        True,
        "probabilities that a random walk is back after 2, 3, ... steps",
    ),
    "walks": Kind(walk_positions, None, False, "position by the nodes that random walks meet"),
    "spectral": Kind(
        lambda graph, dim, seed: leading_eigenvectors(graph, dim), None, False, "position by Laplacian eigenvectors"
    ),
    "projection": Kind(random_projection, None, False, "position by random projection, the cheapest one"),
}
ROLES = tuple(name for name, kind in KINDS.items() if kind.carries_over)
DEFAULT_KINDS = (*ROLES, "walks")
#: What ``features="structure"`` may be called, and the kinds that it stands for.
PRESETS: dict[str, tuple[str, ...]] = {"structure": DEFAULT_KINDS, "roles": ROLES}
DIM = 128


class StructuralFeatures(NamedTuple):
    """Structural features of a graph.

    Attributes:
        x: float32 ``[N, columns]``.
        names: the name of each column, such as ``degree`` or ``walks_0``.

    Examples:
        >>> features = structural_features(torch.tensor([[0, 1], [1, 2]]), kinds=("degree", "returns"))
        >>> tuple(features.x.shape), features.names[:2]
        ((3, 9), ['degree', 'returns_2'])
    """

    x: Tensor
    names: list[str]


def structural_features(
    graph: Data | Tensor,
    num_nodes: int | None = None,
    *,
    kinds: Sequence[str] = DEFAULT_KINDS,
    dim: int = DIM,
    seed: int = 0,
) -> StructuralFeatures:
    """Return features that are computed from the edges alone, in linear time.

    ============== ============= =======================================================
    kind           carries over  columns
    ============== ============= =======================================================
    ``degree``     yes           logarithm of the degree
    ``pagerank``   yes           logarithm of N times PageRank
    ``core``       yes           logarithm of the core number
    ``clustering`` yes           share of pairs of neighbours that are joined by an edge
    ``returns``    yes           probabilities that a walk is back after 2, ..., 9 steps
    ``walks``      no            position by the nodes that random walks meet
    ``spectral``   no            position by Laplacian eigenvectors
    ``projection`` no            position by random projection
    ============== ============= =======================================================

    The columns of kinds that carry over mean the same in every graph; a model trained on them embeds other graphs. The
    axes of positions belong to one graph; a model trained on them is of no use elsewhere, not even for the same nodes
    after edges have changed.

    Blocks are scaled: the mean squared length of the rows of each position is 1, that of all other kinds together below
    0.1 on common graphs, by constants that do not depend on the graph. A seed gives the same features on each device up
    to rounding, except for eigenvectors with nearly equal eigenvalues. Memory is O(N·dim + E).

    Args:
        graph: ``Data``, or its ``edge_index``, in one or both directions; features are computed on its device.
        num_nodes: number of nodes of an ``edge_index``; by default the highest node number + 1.
        kinds: which features, in this order.
        dim: number of columns of all kinds together; positions share those that other kinds leave.
        seed: seed of walks, projections and estimates.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> x, names = structural_features(data, dim=20)
        >>> x.shape, names[0], names[-1]
        (torch.Size([60, 20]), 'degree', 'walks_7')
    """
    neighbours = _neighbours(graph, num_nodes)
    widths = _widths(kinds, dim, neighbours.num_nodes)
    blocks, names = [], []
    for name, width in widths.items():
        kind = KINDS[name]
        block = kind.compute(neighbours, width, seed)
        blocks.append(block * (ROLE_WEIGHT / len(ROLES) if kind.carries_over else _inverse_length(block)))
        first = 2 if name == "returns" else 0
        names += [name] if kind.columns == 1 else [f"{name}_{first + k}" for k in range(width)]
    return StructuralFeatures(torch.cat(blocks, 1), names)


def with_structural_features(
    data: Data, *, kinds: Sequence[str] = DEFAULT_KINDS, dim: int = DIM, seed: int = 0
) -> Data:
    """Return a copy of a graph with structural features, behind its own ones if it has any.

    Given features are not changed. The structural ones are scaled so that their rows are as long as the given ones in
    the mean square, and neither drowns the other.

    Args:
        data: a graph, with or without ``x``.
        kinds: see :func:`structural_features`.
        dim: see :func:`structural_features`.
        seed: see :func:`structural_features`.

    Examples:
        >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> with_structural_features(data, kinds=("degree", "core")).feature_names
        ['degree', 'core']
    """
    data = check(data, quiet=True, features=False)
    x, names = structural_features(data, kinds=kinds, dim=dim, seed=seed)
    if data.x is not None:
        given = data.get("feature_names") or [f"given_{k}" for k in range(data.x.shape[1])]
        if repeated := sorted(set(given) & set(names)):
            raise InputError(f"feature_names: {repeated[0]!r} is also a structural feature; rename the column")
        values = data.x if data.x.layout == torch.strided else data.x.values()
        length = (values.double().square().sum() / data.num_nodes).sqrt()
        x = x * (float(length) or 1.0) * _inverse_length(x)
        x, names = _beside(data.x, x), [*given, *names]
    data.x, data.feature_names = x, names
    return data


def split_preset(features: Path | str | None) -> tuple[str | None, str | None]:
    """Split what a user gives as features into the name of a preset and the name of a file, each or both.

    Examples:
        >>> split_preset("structure"), split_preset("f.csv"), split_preset("structure,f.csv")
        (('structure', None), (None, 'f.csv'), ('structure', 'f.csv'))
    """
    if features is None:
        return None, None
    words = [word.strip() for word in str(features).split(",")]
    for preset in PRESETS:
        if preset in words:
            words.remove(preset)
            return preset, ",".join(words) or None
    return None, str(features)


def positions_in(names: Sequence[str] | None) -> bool:
    """Return whether any of the columns is a position, which does not carry over to other graphs.

    Examples:
        >>> positions_in(["degree", "walks_0"]), positions_in(["degree", "returns_2"]), positions_in(None)
        (True, False, False)
    """
    positions = tuple(f"{name}_" for name, kind in KINDS.items() if not kind.carries_over)
    return any(name.startswith(positions) and name.rpartition("_")[2].isdigit() for name in names or ())


def _neighbours(graph: Data | Tensor, num_nodes: int | None) -> Neighbours:
    num_nodes = None if num_nodes is None else check_whole(num_nodes, "num_nodes")
    if isinstance(graph, Tensor):
        graph = Data(edge_index=graph, **({} if num_nodes is None else {"num_nodes": num_nodes}))
    elif num_nodes is not None:
        raise InputError("num_nodes=: Data has its own number of nodes; leave it out")
    data = check(graph, quiet=True, features=False, labels=False)
    return Neighbours(undirected_pairs(data.edge_index, data.num_nodes), data.num_nodes)


def _widths(kinds: Sequence[str], dim: int, num_nodes: int) -> dict[str, int]:
    """Return the number of columns of each kind. Raise unless there is at least one for each."""
    if isinstance(kinds, str) or not kinds or len(set(kinds)) < len(kinds):
        raise InputError(f"kinds={kinds!r}: give a list of different kinds: {', '.join(KINDS)}")
    if unknown := [name for name in kinds if name not in KINDS]:
        raise InputError(f"kinds={unknown[0]!r}: choose from {', '.join(KINDS)}")
    fixed = sum(KINDS[name].columns or 0 for name in kinds)
    positions = [name for name in kinds if KINDS[name].columns is None]
    left = dim - fixed
    if left < len(positions):
        raise InputError(f"dim={dim}: these kinds need at least {fixed + len(positions)} columns")
    shares = {name: left // len(positions) + (k < left % len(positions)) for k, name in enumerate(positions)}
    return {name: KINDS[name].columns or min(shares[name], num_nodes) for name in kinds}


def _inverse_length(block: Tensor) -> float:
    """Return the factor that makes the mean squared length of rows 1, and 1 for zeros."""
    length = float((block.double().square().sum() / block.shape[0]).sqrt())
    return 1 / length if length > 0 else 1.0


def _beside(x: Tensor, y: Tensor) -> Tensor:
    """Return the columns of x, dense or sparse, and then those of a dense y, in the layout of x."""
    if x.layout == torch.strided:
        return torch.cat([x, y], 1)
    left = SparseMatrix.from_torch(x)
    row, col = torch.ones_like(y, dtype=torch.bool).nonzero().T
    shape = (x.shape[0], x.shape[1] + y.shape[1])
    return SparseMatrix.from_coo(
        torch.cat([left.row, row]), torch.cat([left.col, col + x.shape[1]]), torch.cat([left.value, y.flatten()]), shape
    ).csr
