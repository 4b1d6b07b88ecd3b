"""The graph that methods train on: checked, on its device, with features ready for matrix products, without labels."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.adjacency import gcn_adjacency, self_looped_entries
from epagcl.core.errors import InputError
from epagcl.core.hardware import aligned_width, takes_kernels
from epagcl.core.pattern import Pattern
from epagcl.core.randomness import Stream, uniform
from epagcl.core.sparse import SparseMatrix, StackedMatrix, multiply
from epagcl.data.checking import pair_weights, undirected_pairs
from epagcl.data.identity import graph_fingerprint
from epagcl.distributed.group import Ranks
from epagcl.distributed.matrix import Entries
from epagcl.distributed.partition import Part

# On a CPU, sparse and dense products with 512 columns take equal time at a density between 5% and 10%.
DENSE_ABOVE = 0.05
ROWS = 4096  # rows that are converted to float64 at once
MAX_ALIGNED = 2**28  # numbers above which a second copy of the features would cost too much memory


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph as a set of undirected pairs, with constant features.

    Attributes:
        x: node features ``[N, F]``, dense or sparse depending on their density; ``x @ weight`` works for both.
        pairs: ``[2, E]`` with i < j, sorted.
        num_nodes: N.
        weight: positive weight of each pair, of mean 1, float32 ``[E]``; None if all are equal. A self-loop has the
            weight 1.
        relations: ``[R, 2, E]`` float32: in relation r, the weight of the message to i from j and to j from i, for each
            pair; None without relations.
        relation_names: the names of the relations.
        outside: for a part of a larger graph, the total weight of each node's pairs that lead out of the part, float32
            ``[N]``. It counts in the degree, and as a self-loop in Ã: what would leave the part stays at the node.
        part: the nodes of this rank, if the graph is spread over several ranks; see ``shard``. Then ``x`` has the
            rows of these nodes, and :attr:`adjacency` multiplies the rows of all ranks. ``pairs`` and ``num_nodes`` are
            those of the whole graph.
        kinds: the number of the kind of each node, int64 ``[N]``; None if all are of one kind. Methods do not use it.

    Examples:
        >>> data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> graph = Graph.from_data(data)
        >>> graph.pairs.tolist(), graph.num_features
        ([[0, 1], [1, 2]], 3)
    """

    x: Tensor | SparseMatrix
    pairs: Tensor
    num_nodes: int
    weight: Tensor | None = None
    relations: Tensor | None = None
    relation_names: tuple[str, ...] = ()
    outside: Tensor | None = None
    part: Part | None = None
    kinds: Tensor | None = None

    @classmethod
    def from_data(cls, data: Data, device: torch.device | str = "cpu") -> "Graph":
        """Build the graph from checked :class:`~torch_geometric.data.Data`."""
        edge_index, n = data.edge_index, data.num_nodes
        weight = None if data.get("edge_weight") is None else pair_weights(edge_index, data.edge_weight, n)
        pairs = undirected_pairs(edge_index.to(device), n)
        relations = None
        if data.get("edge_relation") is not None:
            relations = _relations(data.edge_relation.to(device), edge_index.to(device), pairs, n)
        return cls(
            x=_features(data.x, device),
            pairs=pairs,
            num_nodes=n,
            weight=None if weight is None else weight.float().to(device),
            relations=relations,
            relation_names=() if relations is None else tuple(data.relation_names),
            kinds=_kinds(data.get("node_type"), n, device),
        )

    def shard(self, part: Part, device: torch.device | str, *, fingerprint: str = "") -> "Graph":
        """Return the graph of one rank: the features of its own nodes, and all pairs.

        Args:
            part: the nodes of this rank.
            device: the device of the shard.
            fingerprint: of the whole graph, which a checkpoint names.
        """
        if isinstance(self.x, SparseMatrix):
            x: Tensor | SparseMatrix = self.x.rows(part.start, part.stop).to(device)
        else:
            x = self.x[part.rows].clone().to(device)  # a slice would keep the whole matrix in memory
        weight = None if self.weight is None else self.weight.to(device)
        kinds = None if self.kinds is None else self.kinds.to(device)
        graph = Graph(x, self.pairs.to(device), self.num_nodes, weight, part=part, kinds=kinds)
        graph.__dict__["fingerprint"] = fingerprint
        return graph

    @property
    def num_rows(self) -> int:
        """Number of nodes whose features and representations are in this process: all, or those of this rank."""
        return self.num_nodes if self.part is None else self.part.size

    def mean(self, rows: Tensor) -> Tensor:
        """Return the mean over all nodes of the rows of this process."""
        return rows.mean(0) if self.part is None else self.part.sum(rows.sum(0)) / self.num_nodes

    def all_rows(self, rows: Tensor) -> Tensor:
        """Return the rows of all nodes, from the rows of this process."""
        return rows if self.part is None else self.part.all_rows(rows)

    @property
    def num_features(self) -> int:
        """F, the number of feature columns."""
        return self.x.shape[1]

    @property
    def device(self) -> torch.device:
        """The device of the pairs and features."""
        return self.pairs.device

    @property
    def origin(self) -> "tuple[Tensor, int] | None":
        """If the graph is part of a larger one: the number of each node there, and N of the whole; else None."""
        return None

    @cached_property
    def fingerprint(self) -> str:
        """The sizes of the graph, and a digest of its pairs and features; see :mod:`epagcl.data.identity`."""
        return graph_fingerprint(self)

    @cached_property
    def aligned_x(self) -> Tensor | SparseMatrix:
        """The features for products that are repeated in training, which :func:`~epagcl.nn.layers.transform` computes.

        On a GPU, dense features have further columns of zeros up to the next aligned width.
        """
        x, width = self.x, aligned_width(self.num_features)
        missing = width - self.num_features
        # The size is that of the whole graph, so that all ranks decide alike. Few columns would grow too much.
        small = missing <= self.num_features and self.num_nodes * width <= MAX_ALIGNED
        if isinstance(x, Tensor) and missing and small and takes_kernels(x):
            return F.pad(x, (0, missing))
        return x

    @cached_property
    def pattern(self) -> Pattern:
        """The sparsity pattern of Ã = A + I."""
        return self.whole_adjacency.pattern

    @property
    def adjacency(self) -> SparseMatrix | StackedMatrix:
        """The normalised adjacency matrix Â of the unmodified graph; its own rows if the graph is sharded."""
        return self.whole_adjacency if self.part is None else self._sharded_adjacency

    @cached_property
    def whole_adjacency(self) -> SparseMatrix:
        """Â of the whole graph."""
        row, col, pair = self._entries
        weight = None if self.weight is None else F.pad(self.weight, (0, 1), value=1.0)[pair]
        if self.outside is not None:
            weight = torch.ones(row.numel(), device=self.device) if weight is None else weight
            weight = weight + torch.where(row == col, self.outside[row], 0.0)
        return gcn_adjacency(row, col, self.num_nodes, weight)

    @cached_property
    def _sharded_adjacency(self) -> StackedMatrix:
        entries = self.own_entries
        weight = None if self.weight is None else F.pad(self.weight, (0, 1), value=1.0)
        scale = (self.degree + 1).float().rsqrt()
        value = scale[entries.row + entries.part.start] * scale[entries.node]
        return entries.matrix(value if weight is None else weight[entries.pair] * value)

    @cached_property
    def own_entries(self) -> Entries:
        """The entries of Ã in the rows of this rank."""
        assert self.part is not None, "only a sharded graph has entries of its own"
        return Entries(self.part, self.pairs[0] * self.num_nodes + self.pairs[1])

    @property
    def _entries(self) -> tuple[Tensor, Tensor, Tensor]:
        return self_looped_entries(self.pairs[0] * self.num_nodes + self.pairs[1], self.num_nodes)

    @cached_property
    def edges(self) -> SparseMatrix:
        """The adjacency matrix A in the pattern of Ã: the weights of the pairs or 1, and 0 on the diagonal."""
        adjacency = self.whole_adjacency
        value = (~self.pattern.loop).to(adjacency.dtype)
        if self.weight is not None:
            value = F.pad(self.weight, (0, 1))[self._entries[2]]
        return SparseMatrix(adjacency.rowptr, adjacency.col, value, adjacency.shape, symmetric=True)

    @cached_property
    def degree(self) -> Tensor:
        """The sum of the weights of each node's pairs, float32; without weights, the number of pairs, int64."""
        if self.part is not None:  # without the whole adjacency matrix
            ends = self.pairs.flatten()
            if self.weight is None:
                return torch.bincount(ends, minlength=self.num_nodes)
            total = torch.zeros(self.num_nodes, dtype=torch.float64, device=self.device)
            return total.index_add_(0, ends, self.weight.double().repeat(2)).float()
        if self.weight is None and self.outside is None:
            return self.whole_adjacency.rowptr.diff() - 1
        inside = multiply(self.edges, self.edges.value.new_ones(self.num_nodes, 1))[:, 0]  # adds up in a fixed order
        return inside if self.outside is None else inside + self.outside

    def related(self, relation: int) -> SparseMatrix:
        """Return the adjacency matrix of a relation: row i has the weights of the messages that node i receives.

        It is kept as long as the graph.
        """
        if relation not in self._related:
            assert self.relations is not None
            weight = self.relations[relation].flatten()
            row, col = torch.cat([self.pairs, self.pairs.flip(0)], dim=1)[:, weight > 0]
            shape = (self.num_nodes, self.num_nodes)
            self._related[relation] = SparseMatrix.from_coo(row, col, weight[weight > 0], shape)
        return self._related[relation]

    @cached_property
    def _related(self) -> dict[int, SparseMatrix]:
        return {}

    def hidden(self, p: float, view: int) -> tuple[Tensor, Tensor]:
        """Return masks of the pairs and of the feature columns that a subsample lacks.

        The choice depends only on ``view``, so that all methods and seeds are measured on the same subsample.

        Args:
            p: probability that a pair is dropped, and that a feature column is set to zero.
            view: number of the subsample.
        """
        counter = self.pairs[0] * self.num_nodes + self.pairs[1]
        columns = torch.arange(self.num_features, device=self.device)
        return uniform(counter, 0, Stream.HEALTH, 1, view) < p, uniform(columns, 0, Stream.HEALTH, 2, view) < p

    def masked(self, columns: Tensor) -> Tensor | SparseMatrix:
        """Return the features with all columns set to zero except those of a mask ``[F]``."""
        x, mask = self.x, columns.float()
        if isinstance(x, SparseMatrix):
            return SparseMatrix(x.rowptr, x.col, x.value * mask[x.col.long()], x.shape)
        return x * mask

    def subsample(self, p: float, view: int) -> "Graph":
        """Return a copy without the pairs and feature columns of :meth:`hidden`."""
        pairs, columns = self.hidden(p, view)
        weight = None if self.weight is None else self.weight[~pairs]
        relations = None if self.relations is None else self.relations[..., ~pairs]
        x = self.masked(~columns)
        return Graph(x, self.pairs[:, ~pairs], self.num_nodes, weight, relations, self.relation_names, part=self.part)


def _kinds(value: object, num_nodes: int, device: torch.device | str) -> Tensor | None:
    """Return ``node_type`` if it has one number per node; other values mean something else."""
    if not isinstance(value, Tensor) or value.shape != (num_nodes,) or value.is_floating_point():
        return None
    return value.long().to(device)


def _relations(value: Tensor, edge_index: Tensor, pairs: Tensor, num_nodes: int) -> Tensor:
    """Return the weights of the messages in both directions of each pair, ``[R, 2, E]``, from ``edge_relation``."""
    row, col = edge_index
    low, high = torch.minimum(row, col), torch.maximum(row, col)
    place = torch.searchsorted(pairs[0] * num_nodes + pairs[1], low * num_nodes + high)
    relations = value.new_zeros(value.shape[1], 2, pairs.shape[1])
    relations[:, (row > col).long(), place] = value.T
    return relations


def shard_over(graph: Graph, ranks: Ranks, device: torch.device | str, *, identified: bool = False) -> Graph:
    """Return the shard of this rank of a graph that every rank has read. Raise unless all have read the same.

    Args:
        graph: the whole graph, on the CPU.
        ranks: the ranks.
        device: the device of the shard.
        identified: whether a checkpoint needs the fingerprint of the whole graph.

    Examples:
        >>> graph = Graph(x=torch.eye(3), pairs=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> shard_over(graph, Ranks(0, 1), "cpu").part.sizes
        [3]
    """
    digest = hashlib.sha256(graph.pairs.cpu().contiguous().numpy().data).hexdigest()
    seen = ranks.gathered((graph.num_nodes, graph.num_features, digest))
    if different := [rank for rank, other in enumerate(seen) if other != seen[0]]:
        raise InputError(f"rank {different[0]} has read another graph than rank 0; give all machines the same files")
    if graph.relations is not None:
        fix = "give type='none' and directed='symmetric', or start it without torchrun"
        raise InputError(f"kinds and directions of edges are used on one rank only; {fix}")
    fingerprint = graph.fingerprint if identified and ranks.is_first else ""
    return graph.shard(Part(ranks, graph.num_nodes), device, fingerprint=fingerprint)


def _features(x: Tensor, device: torch.device | str) -> Tensor | SparseMatrix:
    if sparse_entries(x) is None:
        return (x if x.layout == torch.strided else x.to_dense()).to(device)
    return SparseMatrix.from_torch(x).to(device)


def sparse_entries(x: Tensor) -> int | None:
    """Return the number of entries of features that a graph keeps sparse; None if it keeps them dense.

    Examples:
        >>> sparse_entries(torch.eye(100)), sparse_entries(torch.eye(100).to_sparse())
        (100, 100)
        >>> sparse_entries(torch.ones(2, 2).to_sparse_csr()) is None
        True
    """
    x_values = x if x.layout == torch.strided else x.coalesce().values() if x.is_sparse else x.values()
    entries = int(x_values.count_nonzero())
    return None if entries > DENSE_ABOVE * x.numel() else entries


def row_normalise(x: Tensor, by: str = "sum") -> Tensor:
    """Return x with each row divided by its sum, its largest absolute value or its length, in the layout of ``x``.

    Rows of zeros, and rows whose sum is 0, are left unchanged. PyG's ``NormalizeFeatures`` differs: it first
    subtracts the minimum of the whole matrix, and it never divides by less than 1.

    Args:
        x: dense or sparse features ``[N, F]``.
        by: ``"sum"``, Σ_j x_ij; ``"max"``, max_j |x_ij|; ``"norm"``, (Σ_j x_ij²)^½.

    Examples:
        >>> row_normalise(torch.tensor([[1.0, 3.0], [0.0, 0.0]])).tolist()
        [[0.25, 0.75], [0.0, 0.0]]
    """
    matrix = None if x.layout == torch.strided else SparseMatrix.from_torch(x)
    if matrix is None:
        scale = torch.cat([_row_scale(part.double(), by) for part in x.split(ROWS)])
        return (x / scale.where(scale != 0, 1.0)[:, None]).to(x.dtype)
    scale = torch.zeros(x.shape[0], dtype=torch.float64, device=x.device)
    entries = matrix.value.double()
    if by == "max":
        scale.scatter_reduce_(0, matrix.row, entries.abs(), "amax")
    else:
        scale.index_add_(0, matrix.row, entries.square() if by == "norm" else entries)
        scale = scale.sqrt() if by == "norm" else scale
    value = matrix.value / scale.where(scale != 0, 1.0)[matrix.row]
    return SparseMatrix(matrix.rowptr, matrix.col, value.to(x.dtype), matrix.shape).csr


def _row_scale(rows: Tensor, by: str) -> Tensor:
    return rows.sum(1) if by == "sum" else rows.abs().amax(1) if by == "max" else rows.norm(dim=1)
