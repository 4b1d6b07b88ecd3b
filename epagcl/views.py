"""Views of a graph: which pairs to drop and to add, with which probability (Algorithm 1, Eq. 7), and their sampling."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt

import torch
from torch import Tensor

from epagcl.data.check import undirected_pairs
from epagcl.epr import alpha_add, alpha_drop, check_edge_index
from epagcl.errors import InputError
from epagcl.hardware import has_triton
from epagcl.randomness import Stream, uniform, uniform64
from epagcl.sparse import SparseMatrix, StackedMatrix, entries, gcn_adjacency, rowptr_of


@dataclass(frozen=True, eq=False)
class EdgeProbabilities:
    """How likely each pair is to change in a view.

    Attributes:
        pairs: the graph's pairs ``[2, E]``, i < j.
        drop: probability that each is dropped, ``[E]``.
        candidates: absent pairs that may be added, ``[2, C]``, i < j.
        add: probability that each is added, ``[C]``.
    """

    pairs: Tensor
    drop: Tensor
    candidates: Tensor
    add: Tensor

    def to(self, device: torch.device | str) -> "EdgeProbabilities":
        """On another device, probabilities in float32: what sampling uses, and all that mps has."""
        pairs, candidates = self.pairs.to(device), self.candidates.to(device)
        return EdgeProbabilities(pairs, self.drop.float().to(device), candidates, self.add.float().to(device))


@dataclass(frozen=True, eq=False)
class EdgeWeights:
    """Algorithm 1's output: α of each pair if dropped, and α of each candidate if added."""

    pairs: Tensor
    w_drop: Tensor
    candidates: Tensor
    w_add: Tensor

    def probabilities(
        self,
        p_drop: float,
        p_add: float,
        *,
        drop: str = "eq7",
        add: str = "eq7",
        drop_cutoff: float = 1.0,
        add_cutoff: float = 0.9,
    ) -> EdgeProbabilities:
        r"""Eq. 7: weights to probabilities whose mean is ``p_drop`` (``p_add``) before the cut-off.

        .. math::
            p^d_{ij} = \min\left(\frac{w^d_{ij} - \min w^d}{\mu_{w^d} - \min w^d}\, p_{drop},\ p'_\tau\right), \qquad
            p^a_{ij} = \min\left(\frac{\max w^a - w^a_{ij}}{\max w^a - \mu_{w^a}}\, p_{add},\ p_\tau\right)

        Where all weights are equal this is 0/0, and every pair gets ``p_drop`` (``p_add``).

        Args:
            p_drop: mean drop probability.
            p_add: mean add probability over the candidates.
            drop: ``"eq7"``: large α is dropped more, as the formula says; ``"text"``: small α is dropped more, as the
                paper's text argues; ``"uniform"``: all alike.
            add: ``"eq7"``: small α is added more; ``"uniform"``: all alike.
            drop_cutoff: p'_τ.
            add_cutoff: p_τ.
        """
        for name, value in (
            ("p_drop", p_drop),
            ("p_add", p_add),
            ("drop_cutoff", drop_cutoff),
            ("add_cutoff", add_cutoff),
        ):
            if not 0 <= value <= 1:
                raise InputError(f"{name}={value}: a probability lies between 0 and 1")
        return EdgeProbabilities(
            pairs=self.pairs,
            drop=(_share(self.w_drop, _DROP_RULES, "drop", drop) * p_drop).clamp(max=drop_cutoff),
            candidates=self.candidates,
            add=(_share(self.w_add, _ADD_RULES, "add", add) * p_add).clamp(max=add_cutoff),
        )


def share_of_large(w: Tensor) -> Tensor:
    """(w − min)/(mean − min): mean 1, 0 at the smallest weight; 1 everywhere if all weights are equal."""
    # Equality is asked of the weights, not of mean − min: a mean of equal numbers may be off by a rounding.
    if w.numel() == 0 or w.min() == w.max():
        return torch.ones_like(w)
    return (w - w.min()) / (w.mean() - w.min())


def share_of_small(w: Tensor) -> Tensor:
    """(max − w)/(max − mean): mean 1, 0 at the largest weight; 1 everywhere if all weights are equal."""
    return share_of_large(-w)


_DROP_RULES = {"eq7": share_of_large, "text": share_of_small, "uniform": torch.ones_like}
_ADD_RULES = {"eq7": share_of_small, "uniform": torch.ones_like}


def _share(w: Tensor, rules: dict, name: str, rule: str) -> Tensor:
    if rule not in rules:
        raise InputError(f"{name}={rule!r}: choose one of {', '.join(rules)}")
    return rules[rule](w)


def edge_weights(edge_index: Tensor, num_nodes: int, *, add: str = "eq7", seed: int = 0) -> EdgeWeights:
    """Algorithm 1: w^d = 2/√(d_i d_j) on the edges, w^a = 2/√((d_i+1)(d_j+1)) on the candidates.

    The candidates are all absent pairs among V_a, the ⌈√(2l)⌉ nodes of highest degree (ties: smaller id first), where
    l counts both directions of each edge. Time O(E log E + |V_a|²).

    Args:
        edge_index: the graph, in one or both directions.
        num_nodes: N.
        add: ``"eq7"``: candidates as above; ``"uniform"``: as many absent pairs, drawn from the whole graph alike
            (the ablation's random adding).
        seed: of that draw.
    """
    pairs = undirected_pairs(check_edge_index(edge_index, num_nodes), num_nodes)
    degree = torch.bincount(pairs.flatten(), minlength=num_nodes)
    present = pairs[0] * num_nodes + pairs[1]
    candidates = _top_degree_pairs(degree, present, pairs.shape[1])
    if add == "uniform":
        candidates = _random_pairs(candidates.shape[1], present, num_nodes, seed)
    return EdgeWeights(pairs, alpha_drop(degree, pairs), candidates, alpha_add(degree, candidates))


def edge_probabilities(
    edge_index: Tensor,
    num_nodes: int,
    p_drop: float = 0.3,
    p_add: float = 0.05,
    *,
    drop: str = "eq7",
    add: str = "eq7",
    seed: int = 0,
) -> EdgeProbabilities:
    """Algorithm 1 and Eq. 7 in one call: see :func:`edge_weights` and :meth:`EdgeWeights.probabilities`."""
    weights = edge_weights(edge_index, num_nodes, add=add, seed=seed)
    return weights.probabilities(p_drop, p_add, drop=drop, add=add)


def drop_probabilities(pairs: Tensor, score: Tensor, p_drop: float, cutoff: float = 0.7) -> EdgeProbabilities:
    """GCA's rule: min(p_drop·(s_max − s)/(s_max − mean s), cutoff), so that high scores stay; nothing is added.

    Equal scores give ``p_drop`` everywhere, which is GRACE.
    """
    drop = (share_of_small(score) * p_drop).clamp(max=cutoff)
    return EdgeProbabilities(pairs, drop, pairs[:, :0], drop[:0])


def _top_degree_pairs(degree: Tensor, present: Tensor, num_pairs: int) -> Tensor:
    """V_a × V_a − E as pairs i < j."""
    l = 2 * num_pairs
    size = min(isqrt(2 * l - 1) + 1 if l else 0, degree.numel())  # ⌈√(2l)⌉ in whole numbers
    top = torch.argsort(degree, descending=True, stable=True)[:size].sort().values
    i, j = torch.triu_indices(size, size, offset=1, device=degree.device)
    key = top[i] * degree.numel() + top[j]
    key = key[~torch.isin(key, present, assume_unique=True)]
    return torch.stack([key // degree.numel(), key % degree.numel()])


def _random_pairs(count: int, present: Tensor, num_nodes: int, seed: int) -> Tensor:
    """``count`` distinct absent pairs drawn alike from all of them (fewer if there are fewer)."""
    n = num_nodes
    if n * (n - 1) // 2 - present.numel() <= 2 * count:  # nearly all of them: list them, and take the first by hash
        i, j = torch.triu_indices(n, n, offset=1, device=present.device)
        absent = i * n + j
        absent = absent[~torch.isin(absent, present, assume_unique=True)]
        order = torch.argsort(uniform64(absent, seed, Stream.CANDIDATES))[:count]
        key = absent[order]
    else:
        key = present[:0]
        start = 0
        while key.numel() < count:  # each round finds at least half of what is missing
            counter = torch.arange(start, start + 2 * count, device=present.device)
            i = (uniform64(counter, seed, Stream.CANDIDATES, 0) * n).long()
            j = (uniform64(counter, seed, Stream.CANDIDATES, 1) * n).long()
            drawn = (torch.minimum(i, j) * n + torch.maximum(i, j))[i != j]
            drawn = drawn[~torch.isin(drawn, present)]
            # First come, first kept: cutting a sorted list would favour small ids.
            every = torch.cat([key, drawn])
            unique, where = torch.unique(every, return_inverse=True)
            first = torch.full_like(unique, every.numel())
            first.scatter_reduce_(0, where, torch.arange(every.numel(), device=every.device), "amin")
            key = every[first.sort().values[:count]]
            start += 2 * count
    key = key.sort().values
    return torch.stack([key // n, key % n])


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
        return entries(self.counter, self.num_nodes)

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
        from epagcl.kernels import view_weights

        pattern, keep = self._pattern
        if not isinstance(epoch, Tensor):
            epoch = torch.tensor(epoch, device=keep.device)
        stream = self.samplers[0].seed, Stream.EDGES
        pieces, col, value = view_weights(pattern.pieces, pattern.col, keep, stream, epoch)
        adjacency = SparseMatrix(pattern.rowptr, col, value, pattern.shape, symmetric=True)
        adjacency.pieces = pieces
        return adjacency

    @cached_property
    def _pattern(self) -> tuple[SparseMatrix, Tensor]:
        """Ã with everything that can occur in any view, and each entry's probability in each, ``[V, entries]``."""
        n = self.samplers[0].num_nodes
        assert [s.view for s in self.samplers] == list(range(len(self.samplers)))
        counter = torch.unique(torch.cat([sampler.counter for sampler in self.samplers]))
        row, col, pair = entries(counter, n)
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


def feature_mask(
    num_features: int, p: float | Tensor, *, seed: int, epoch: int | Tensor, view: int, device="cpu"
) -> Tensor | None:
    """0 for the feature columns that this view hides (each with probability p, for all nodes alike), 1 elsewhere.

    ``p`` may be one number for each column. None for p = 0. A mask goes on the weights: (X ∘ mask) W = X (mask ∘ W),
    so that X is never copied.
    """
    if not isinstance(p, Tensor):
        if not 0 <= p <= 1:
            raise InputError(f"p_mask={p}: a probability lies between 0 and 1")
        if p == 0:
            return None
    columns = torch.arange(num_features, device=device)
    return (uniform(columns, seed, Stream.FEATURES, epoch, view) >= p).float()


def feature_masks(
    num_features: int, p: Sequence[float | Tensor], *, seed: int, epoch: int | Tensor, device
) -> Tensor | None:
    """:func:`feature_mask` of each view, ``[V, F]``; None if no view hides anything."""
    masks = [feature_mask(num_features, q, seed=seed, epoch=epoch, view=v, device=device) for v, q in enumerate(p)]
    if all(mask is None for mask in masks):
        return None
    return torch.stack([torch.ones(num_features, device=device) if mask is None else mask for mask in masks])
