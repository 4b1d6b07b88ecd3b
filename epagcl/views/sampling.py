"""Sampling of views: the edges of each view in each epoch, and the normalised adjacency matrix Â."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.core.adjacency import gcn_adjacency, self_looped_entries
from epagcl.core.hardware import has_triton
from epagcl.core.pattern import Pattern
from epagcl.core.randomness import Stream, uniform
from epagcl.core.sparse import SparseMatrix, StackedMatrix, multiply, rowptr_of
from epagcl.distributed.matrix import Entries, gcn_views
from epagcl.distributed.partition import Part
from epagcl.views.probabilities import EdgeProbabilities, WeightRange, drop_probabilities


class ViewSampler:
    """Sampler of one view's edges.

    Each pair that can occur is kept if u(seed, epoch, view, pair) < p. The random numbers u are counter-based: the view
    of an epoch does not depend on views drawn before it. Both directions of a pair are kept or dropped together.

    Args:
        probabilities: drop and add probabilities.
        num_nodes: number of nodes N.
        seed: random seed.
        view: number of the view.
        weight: weight of each edge; candidates have weight 1. None: no weights.
        origin: if the graph is part of a larger one, the number of each node there, and N of the whole
            (:attr:`Graph.origin <epagcl.data.graph.Graph.origin>`). The view is then that part of the whole graph's
            view: a pair has the same random number in both.
        part: keep only the pairs of these nodes, which one of several ranks owns. None: keep all pairs.

    Attributes:
        counter: i·N + j for each pair that can occur: all edges, then the candidates of positive probability.
        whole_counter: i·N + j in the whole graph, by which random numbers are drawn.
        keep: probability that each of these pairs is in the view.
        weight: weight of each of these pairs; None: no weights.

    Examples:
        >>> import torch
        >>> from epagcl.views import edge_probabilities
        >>> path = torch.tensor([[0, 1], [1, 2]])
        >>> sampler = ViewSampler(edge_probabilities(path, 3, p_drop=0.0, p_add=0.0), 3, seed=0, view=0)
        >>> sampler.pairs(epoch=5)
        tensor([[0, 1],
                [1, 2]])
    """

    def __init__(
        self,
        probabilities: EdgeProbabilities,
        num_nodes: int,
        *,
        seed: int,
        view: int,
        weight: Tensor | None = None,
        origin: tuple[Tensor, int] | None = None,
        part: Part | None = None,
    ):
        possible = probabilities.add > 0
        self.num_nodes, self.seed, self.view = num_nodes, seed, view
        pairs = torch.cat([probabilities.pairs, probabilities.candidates[:, possible]], dim=1)
        self.keep = torch.cat([1 - probabilities.drop, probabilities.add[possible]]).float()
        self.weight = None if weight is None else F.pad(weight, (0, int(possible.sum())), value=1.0)
        self.part = part
        if part is not None:
            own = part.owns(pairs[0]) | part.owns(pairs[1])
            pairs, self.keep = pairs[:, own], self.keep[own]
            self.weight = None if self.weight is None else self.weight[own]
        self.counter = pairs[0] * num_nodes + pairs[1]
        self.whole_counter = self.counter
        if origin is not None:
            self.whole_counter = origin[0][pairs[0]] * origin[1] + origin[0][pairs[1]]

    def kept(self, epoch: int | Tensor) -> Tensor:
        """Return a mask over :attr:`counter`: True for the pairs in this epoch's view."""
        return uniform(self.whole_counter, self.seed, Stream.EDGES, epoch, self.view) < self.keep

    def pairs(self, epoch: int | Tensor) -> Tensor:
        """Return the pairs of this epoch's view, ``[2, K]``."""
        keys = self.counter[self.kept(epoch)]
        return torch.stack([keys // self.num_nodes, keys % self.num_nodes])

    @cached_property
    def _entries(self) -> tuple[Tensor, Tensor, Tensor]:
        """Row and column of each entry of Ã with all pairs that can occur, and the pair of each entry."""
        return self_looped_entries(self.counter, self.num_nodes)

    def adjacency(self, epoch: int | Tensor) -> SparseMatrix:
        """Return Â of this epoch's view."""
        row, col, pair = self._entries
        mask = F.pad(self.kept(epoch), (0, 1), value=True)[pair]  # the last entry: self-loops
        weight = None if self.weight is None else F.pad(self.weight, (0, 1), value=1.0)[pair[mask]]
        return gcn_adjacency(row[mask], col[mask], self.num_nodes, weight)


class Views:
    """All views of an epoch, for one pass through an encoder.

    With Triton, all views share one fixed sparsity pattern, and pairs that are not in a view have weight 0. Static
    shapes make it possible to capture an epoch as a CUDA graph, and the kernel skips the zeros. Without Triton, each
    view has its own compact matrix, and the matrices are stacked.

    Args:
        samplers: one sampler per view, with ``view`` numbered 0, 1, ...

    Attributes:
        samplers: the samplers as a tuple.

    Examples:
        >>> import torch
        >>> views = drop_views(torch.tensor([[0, 1], [1, 2]]), 3, (0.0, 0.0), seed=0)
        >>> (views.adjacency(epoch=0) @ torch.ones(3, 1)).shape  # two views of three nodes
        torch.Size([6, 1])
    """

    def __init__(self, samplers: Iterable[ViewSampler]):
        self.samplers = tuple(samplers)

    def __iter__(self) -> Iterator[ViewSampler]:
        return iter(self.samplers)

    def adjacency(self, epoch: int | Tensor) -> SparseMatrix | StackedMatrix:
        """Return Â of every view of this epoch."""
        first = self.samplers[0]
        if first.part is not None:
            return self._sharded(first.part, epoch)
        # The kernel draws by `counter`.
        if not has_triton(first.counter.device) or first.whole_counter is not first.counter:
            return StackedMatrix([sampler.adjacency(epoch) for sampler in self.samplers])
        if first.weight is not None:
            return self._weighted(epoch)
        from epagcl.core.kernels.draws import view_weights

        pattern, keep = self._pattern
        if not isinstance(epoch, Tensor):
            epoch = torch.tensor(epoch, device=keep.device)
        stream = first.seed, Stream.EDGES
        chunks, col, value = view_weights(pattern.chunks, pattern.col, keep, stream, epoch)
        adjacency = SparseMatrix(pattern.rowptr, col, value, pattern.shape, symmetric=True)
        adjacency.chunks = chunks
        return adjacency

    def _sharded(self, part: Part, epoch: int | Tensor) -> StackedMatrix:
        """Return the own rows of Â of every view. The halo is that of all pairs that can occur, the same each epoch."""
        union, entries = self._own_entries
        views = []
        for sampler, (row, column, pair) in zip(self.samplers, entries, strict=True):
            mask = F.pad(sampler.kept(epoch), (0, 1), value=True)[pair]  # the last entry: self-loops
            weight = None if sampler.weight is None else F.pad(sampler.weight, (0, 1), value=1.0)[pair[mask]]
            views.append((row[mask], column[mask], weight))
        return gcn_views(union, views)

    @cached_property
    def _own_entries(self) -> tuple[Entries, list[tuple[Tensor, Tensor, Tensor]]]:
        """All entries of Ã in the rows of this rank; for each view row, column and pair of those that can occur."""
        part = self.samplers[0].part
        assert part is not None
        union = Entries(part, torch.unique(torch.cat([sampler.counter for sampler in self.samplers])))
        entries = [Entries(part, sampler.counter) for sampler in self.samplers]
        return union, [(own.row, own.within(union), own.pair) for own in entries]

    def _weighted(self, epoch: int | Tensor) -> SparseMatrix:
        """Return Â of every view with weights, in one fixed pattern: w/√(d_i d_j), where d are the row sums of Ã."""
        pattern, weight, pair = self._weighted_pattern
        w = weight.clone()
        for view, sampler in zip(w, self.samplers, strict=True):
            view[pair[sampler.view]] *= sampler.kept(epoch)
        w = w[:, pair[-1]]
        ones = w.new_ones(pattern.shape[0], 1)
        scale = multiply(pattern.matrix(w), ones).view(len(self.samplers), -1).rsqrt()
        value = w * scale[:, pattern.row] * scale[:, pattern.col.long()]
        adjacency = SparseMatrix(pattern.rowptr, pattern.col, value, pattern.shape, symmetric=True)
        adjacency.chunks = pattern.chunks
        return adjacency

    @cached_property
    def _weighted_pattern(self) -> tuple[Pattern, Tensor, list[Tensor]]:
        """The pattern of Ã with all pairs that can occur, their weight in each view, and places in it.

        The weights are ``[V, pairs + 1]``, 0 where a pair cannot occur in a view; the last column is for self-loops.
        The list has the column of each sampler's pairs, and last the column of each entry of the pattern.
        """
        counter, (row, col, pair) = self._counter
        n = self.samplers[0].num_nodes
        places = [torch.searchsorted(counter, sampler.counter) for sampler in self.samplers]
        weight = torch.zeros(len(self.samplers), counter.numel() + 1, device=counter.device)
        weight[:, -1] = 1
        for view, place, sampler in zip(weight, places, self.samplers, strict=True):
            assert sampler.weight is not None
            view[place] = sampler.weight
        return Pattern(rowptr_of(row, n), col.int(), (n, n)), weight, [*places, pair]

    @property
    def _counter(self) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """All pairs that can occur in any view, and the entries of Ã with them."""
        assert [s.view for s in self.samplers] == list(range(len(self.samplers)))
        counter = torch.unique(torch.cat([sampler.counter for sampler in self.samplers]))
        return counter, self_looped_entries(counter, self.samplers[0].num_nodes)

    @cached_property
    def _pattern(self) -> tuple[SparseMatrix, Tensor]:
        """Ã with all pairs that can occur in any view, and the keep probability of each entry, ``[V, entries]``."""
        n = self.samplers[0].num_nodes
        counter, (row, col, pair) = self._counter
        keep = torch.zeros(len(self.samplers), counter.numel() + 1, device=counter.device)
        keep[:, -1] = 2  # self-loops are always kept
        for sampler, p in zip(self.samplers, keep, strict=True):
            p[torch.searchsorted(counter, sampler.counter)] = sampler.keep
        keep = keep[:, pair]
        return SparseMatrix(rowptr_of(row, n), col.int(), keep[0], (n, n), symmetric=True), keep


def drop_views(
    pairs: Tensor,
    num_nodes: int,
    rates: Sequence[float],
    *,
    seed: int,
    score: Tensor | None = None,
    cutoff: float = 1.0,
    weight: Tensor | None = None,
    origin: tuple[Tensor, int] | None = None,
    of: WeightRange | None = None,
    part: Part | None = None,
) -> Views:
    """Return views that drop edges, one view per rate.

    Args:
        pairs: edges of the graph, ``[2, E]`` with i < j.
        num_nodes: number of nodes N.
        rates: mean drop probability of each view.
        seed: random seed.
        score: importance of each edge, ``[E]``; edges of high score are dropped less often, see
            :func:`drop_probabilities`. None gives all edges the same probability.
        cutoff: maximum drop probability.
        weight: weight of each edge, ``[E]``; None: no weights.
        origin: as in :class:`ViewSampler`.
        of: the range of the scores over the whole graph, if the graph is part of one.
        part: the nodes of this rank, if the graph is spread over several; None: all nodes.

    Examples:
        >>> import torch
        >>> views = drop_views(torch.tensor([[0, 1], [1, 2]]), 3, (0.25, 0.5), seed=0)
        >>> [sampler.keep.tolist() for sampler in views]
        [[0.75, 0.75], [0.5, 0.5]]
    """
    score = torch.zeros(pairs.shape[1]) if score is None else score
    probabilities = (drop_probabilities(pairs.cpu(), score, rate, cutoff, of) for rate in rates)
    return Views(
        ViewSampler(p.to(pairs.device), num_nodes, seed=seed, view=view, weight=weight, origin=origin, part=part)
        for view, p in enumerate(probabilities)
    )
