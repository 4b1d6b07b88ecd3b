"""Views of a graph: which pairs to drop and to add, with which probability (Algorithm 1, Eq. 7), and their sampling."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor

from epagcl.core.adjacency import gcn_adjacency, self_looped_entries
from epagcl.core.hardware import has_triton
from epagcl.core.randomness import Stream, uniform
from epagcl.core.sparse import SparseMatrix, StackedMatrix, rowptr_of
from epagcl.views.probabilities import EdgeProbabilities, drop_probabilities


class ViewSampler:
    """Samples a view's edges: each pair that can occur has one keep probability, and both directions share its fate.

    keep(pair) = u(seed, epoch, view, pair) < p: the view of an epoch does not depend on those drawn before it.
    """

    def __init__(self, probabilities: EdgeProbabilities, num_nodes: int, *, seed: int, view: int):
        possible = probabilities.add > 0
        self.num_nodes, self.seed, self.view = num_nodes, seed, view
        pairs = torch.cat([probabilities.pairs, probabilities.candidates[:, possible]], dim=1)
        #: i·N + j of the pairs that can occur, and the probability of each.
        self.counter = pairs[0] * num_nodes + pairs[1]
        self.keep = torch.cat([1 - probabilities.drop, probabilities.add[possible]]).float()

    def kept(self, epoch: int | Tensor) -> Tensor:
        """Which of the pairs that can occur are in this epoch's view."""
        return uniform(self.counter, self.seed, Stream.EDGES, epoch, self.view) < self.keep

    def pairs(self, epoch: int | Tensor) -> Tensor:
        """The pairs of this epoch's view, ``[2, K]``."""
        kept = self.counter[self.kept(epoch)]
        return torch.stack([kept // self.num_nodes, kept % self.num_nodes])

    @cached_property
    def _entries(self) -> tuple[Tensor, Tensor, Tensor]:
        """Rows and columns of Ã with everything that can occur, and the pair each belongs to."""
        return self_looped_entries(self.counter, self.num_nodes)

    def adjacency(self, epoch: int | Tensor) -> SparseMatrix:
        """Â of this epoch's view: the part of Ã that is kept, in its order."""
        row, col, pair = self._entries
        kept = torch.nn.functional.pad(self.kept(epoch), (0, 1), value=True)[pair]  # the last: loops
        return gcn_adjacency(row[kept], col[kept], self.num_nodes)


class Views:
    """The views of an epoch together, as a GPU takes them: weights on one fixed pattern, 0 for what is not in a view.

    Static shapes can be captured as a CUDA graph, and a kernel passes over the zeros. Without that kernel each view is
    compacted, and the views stand under each other.
    """

    def __init__(self, samplers: Sequence[ViewSampler]):
        self.samplers = tuple(samplers)

    def __iter__(self) -> Iterator[ViewSampler]:
        return iter(self.samplers)

    def adjacency(self, epoch: int | Tensor) -> SparseMatrix | StackedMatrix:
        """Â of each view of this epoch."""
        if not has_triton(self.samplers[0].counter.device):
            return StackedMatrix([sampler.adjacency(epoch) for sampler in self.samplers])
        from epagcl.core.kernels.draws import view_weights

        pattern, keep = self._pattern
        if not isinstance(epoch, Tensor):
            epoch = torch.tensor(epoch, device=keep.device)
        stream = self.samplers[0].seed, Stream.EDGES
        chunks, col, value = view_weights(pattern.chunks, pattern.col, keep, stream, epoch)
        adjacency = SparseMatrix(pattern.rowptr, col, value, pattern.shape, symmetric=True)
        adjacency.chunks = chunks
        return adjacency

    @cached_property
    def _pattern(self) -> tuple[SparseMatrix, Tensor]:
        """Ã with everything that can occur in any view, and each entry's probability in each, ``[V, entries]``."""
        n = self.samplers[0].num_nodes
        assert [s.view for s in self.samplers] == list(range(len(self.samplers)))
        counter = torch.unique(torch.cat([sampler.counter for sampler in self.samplers]))
        row, col, pair = self_looped_entries(counter, n)
        keep = torch.zeros(len(self.samplers), counter.numel() + 1, device=counter.device)
        keep[:, -1] = 2  # loops: always
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
) -> Views:
    """Views that drop pairs at these mean rates, those of a high score less often; without scores, all alike."""
    score = torch.zeros(pairs.shape[1]) if score is None else score
    probabilities = (drop_probabilities(pairs.cpu(), score, rate, cutoff) for rate in rates)
    return Views(
        ViewSampler(p.to(pairs.device), num_nodes, seed=seed, view=view) for view, p in enumerate(probabilities)
    )
