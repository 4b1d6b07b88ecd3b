"""Views of a graph: which pairs to drop and to add, with which probability (Algorithm 1, Eq. 7), and their sampling."""

from dataclasses import dataclass
from math import isqrt

import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, uniform64
from epagcl.data.checking import undirected_pairs
from epagcl.epr.alpha import alpha_add, alpha_drop
from epagcl.epr.rate import check_edge_index


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


def normalise_from_min(w: Tensor) -> Tensor:
    """(w − min)/(mean − min): mean 1, 0 at the smallest weight; 1 everywhere if all weights are equal."""
    # Equality is asked of the weights, not of mean − min: a mean of equal numbers may be off by a rounding.
    if w.numel() == 0 or w.min() == w.max():
        return torch.ones_like(w)
    return (w - w.min()) / (w.mean() - w.min())


def normalise_from_max(w: Tensor) -> Tensor:
    """(max − w)/(max − mean): mean 1, 0 at the largest weight; 1 everywhere if all weights are equal."""
    return normalise_from_min(-w)


_DROP_RULES = {"eq7": normalise_from_min, "text": normalise_from_max, "uniform": torch.ones_like}


_ADD_RULES = {"eq7": normalise_from_max, "uniform": torch.ones_like}


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
    drop = (normalise_from_max(score) * p_drop).clamp(max=cutoff)
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
