"""How likely each pair of nodes is to be dropped or added in a view (Algorithm 1, Eq. (9), and GCA's rule)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple

import torch
from torch import Tensor

from epagcl.core.checks import check_seed, check_whole
from epagcl.core.config import warn_of_old_value
from epagcl.core.errors import InputError
from epagcl.core.memory import check_memory
from epagcl.core.randomness import Stream, uniform64
from epagcl.data.checking import undirected_pairs
from epagcl.epr.alpha import alpha_add, alpha_drop
from epagcl.epr.rate import check_edge_index, check_pair_weights, sum_per_node


@dataclass(frozen=True, eq=False)
class EdgeProbabilities:
    """The probability that each pair is dropped from or added to a view.

    Attributes:
        pairs: edges of the graph, ``[2, E]`` with i < j.
        drop: probability that each edge is dropped, ``[E]``.
        candidates: absent pairs that may be added, ``[2, C]`` with i < j.
        add: probability that each candidate is added, ``[C]``.

    Examples:
        >>> import torch
        >>> edge, no_pairs = torch.tensor([[0], [1]]), torch.empty(2, 0, dtype=torch.int64)
        >>> EdgeProbabilities(edge, torch.tensor([0.5]), no_pairs, torch.empty(0)).drop
        tensor([0.5000])
    """

    pairs: Tensor
    drop: Tensor
    candidates: Tensor
    add: Tensor

    def to(self, device: torch.device | str) -> "EdgeProbabilities":
        """Return a copy on another device, with probabilities in float32.

        Sampling works in float32, and the mps device has no float64.
        """
        pairs, candidates = self.pairs.to(device), self.candidates.to(device)
        return EdgeProbabilities(pairs, self.drop.float().to(device), candidates, self.add.float().to(device))


class WeightRange(NamedTuple):
    """The smallest, mean and largest weight of the pairs of a whole graph, if a part of it stands for it.

    Examples:
        >>> import torch
        >>> normalise_from_min(torch.tensor([1.0, 2.0]), WeightRange(low=0.0, mean=2.0, high=4.0))
        tensor([0.5000, 1.0000])
    """

    low: float
    mean: float
    high: float


@dataclass(frozen=True, eq=False)
class EdgeWeights:
    """The output of Algorithm 1, see :func:`edge_weights`.

    Attributes:
        pairs: edges of the graph, ``[2, E]`` with i < j.
        w_drop: α of each edge if dropped, ``[E]``.
        candidates: absent pairs that may be added, ``[2, C]`` with i < j.
        w_add: α of each candidate if added, ``[C]``.
        drop_range: the range of ``w_drop`` over the whole graph, if ``pairs`` are a part of it.
        add_range: the range of ``w_add`` over all candidates of the whole graph.

    Examples:
        >>> import torch
        >>> weights = edge_weights(torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> weights.probabilities(p_drop=0.3, p_add=0.1).drop
        tensor([0.3000, 0.3000], dtype=torch.float64)
    """

    pairs: Tensor
    w_drop: Tensor
    candidates: Tensor
    w_add: Tensor
    drop_range: WeightRange | None = None
    add_range: WeightRange | None = None

    def probabilities(
        self,
        p_drop: float,
        p_add: float,
        *,
        drop: str = "eq9",
        add: str = "eq9",
        drop_cutoff: float = 1.0,
        add_cutoff: float = 0.9,
    ) -> EdgeProbabilities:
        r"""Convert the weights to probabilities by Eq. (9). Their mean before the cut-off is ``p_drop`` (``p_add``).

        .. math::
            p^d_{ij} = \min\left(\frac{w^d_{ij} - \min w^d}{\mu_{w^d} - \min w^d}\, p_{drop},\ p'_\tau\right), \qquad
            p^a_{ij} = \min\left(\frac{\max w^a - w^a_{ij}}{\max w^a - \mu_{w^a}}\, p_{add},\ p_\tau\right)

        If all weights are equal, the formula is 0/0. Every pair then gets ``p_drop`` (``p_add``).

        Args:
            p_drop: mean drop probability.
            p_add: mean add probability over the candidates.
            drop: ``"eq9"`` drops edges of large α more often, as the formula does; ``"text"`` drops edges of small α
                more often, as the paper's text argues; ``"uniform"`` gives all edges the same probability.
            add: ``"eq9"`` adds candidates of small α more often; ``"uniform"`` gives all the same probability.
            drop_cutoff: maximum drop probability p'_τ.
            add_cutoff: maximum add probability p_τ.
        """
        drop, add = warn_of_old_value("drop", drop), warn_of_old_value("add", add)
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
            drop=(_normalise(self.w_drop, _DROP_RULES, "drop", drop, self.drop_range) * p_drop).clamp(max=drop_cutoff),
            candidates=self.candidates,
            add=(_normalise(self.w_add, _ADD_RULES, "add", add, self.add_range) * p_add).clamp(max=add_cutoff),
        )


def normalise_from_min(w: Tensor, of: WeightRange | None = None) -> Tensor:
    """Return (w − min)/(mean − min), which has mean 1 and is 0 at the smallest weight.

    If all weights are equal, the result is 1 everywhere.

    Args:
        w: the weights.
        of: minimum, mean and maximum of all weights, if ``w`` are some of them; None: ``w`` are all.

    Examples:
        >>> import torch
        >>> normalise_from_min(torch.tensor([1.0, 2.0, 3.0]))
        tensor([0., 1., 2.])
    """
    if of is not None:
        return torch.ones_like(w) if of.low == of.high else (w - of.low) / (of.mean - of.low)
    # Compare the weights, not mean and min: the mean of equal numbers may differ from them by rounding.
    if w.numel() == 0 or w.min() == w.max():
        return torch.ones_like(w)
    return (w - w.min()) / (w.mean() - w.min())


def normalise_from_max(w: Tensor, of: WeightRange | None = None) -> Tensor:
    """Return (max − w)/(max − mean), which has mean 1 and is 0 at the largest weight.

    If all weights are equal, the result is 1 everywhere.

    Args:
        w: the weights.
        of: as in :func:`normalise_from_min`.

    Examples:
        >>> import torch
        >>> normalise_from_max(torch.tensor([1.0, 2.0, 3.0]))
        tensor([2., 1., 0.])
    """
    return normalise_from_min(-w, None if of is None else WeightRange(-of.high, -of.mean, -of.low))


_Rule = Callable[[Tensor, WeightRange | None], Tensor]


def _uniform(w: Tensor, of: WeightRange | None) -> Tensor:
    return torch.ones_like(w)


_DROP_RULES: Mapping[str, _Rule] = {
    "eq9": normalise_from_min,
    "text": normalise_from_max,
    "uniform": _uniform,
}
_ADD_RULES: Mapping[str, _Rule] = {"eq9": normalise_from_max, "uniform": _uniform}


def _normalise(w: Tensor, rules: Mapping[str, _Rule], argument: str, rule: str, of: WeightRange | None) -> Tensor:
    """Return the weights normalised to mean 1 by the named rule."""
    if rule not in rules:
        raise InputError(f"{argument}={rule!r}: choose one of {', '.join(rules)}")
    return rules[rule](w, of)


def edge_weights(
    edge_index: Tensor, num_nodes: int, *, add: str = "eq9", seed: int = 0, edge_weight: Tensor | None = None
) -> EdgeWeights:
    """Run Algorithm 1: w^d = 2/√(d_i d_j) on the edges, w^a = 2/√((d_i+1)(d_j+1)) on the candidates.

    The candidates are all absent pairs among V_a, the ⌈√(2l)⌉ nodes of highest degree. Among nodes of equal degree,
    smaller ids come first. l counts both directions of each edge. The time is O(E log E + |V_a|²).

    Args:
        edge_index: edges in one or both directions, ``[2, E]``.
        num_nodes: number of nodes N.
        add: ``"eq9"`` uses the candidates above; ``"uniform"`` draws the same number of absent pairs uniformly from the
            whole graph (random adding in the ablation).
        seed: random seed of that draw.
        edge_weight: positive weight of each edge, ``[E]``. Degrees are then sums of weights, and w^d is multiplied by
            the weight of the edge, relative to the mean of all weights.

    Examples:
        >>> import torch
        >>> weights = edge_weights(torch.tensor([[0, 0, 0], [1, 2, 3]]), num_nodes=4)
        >>> weights.candidates  # absent pairs
        tensor([[1, 1, 2],
                [2, 3, 3]])
        >>> weights.w_add
        tensor([1., 1., 1.], dtype=torch.float64)
    """
    add, num_nodes = warn_of_old_value("add", add), check_whole(num_nodes, "num_nodes")
    pairs = undirected_pairs(check_edge_index(edge_index, num_nodes), num_nodes)
    check_memory(8 * num_nodes, f"num_nodes={num_nodes:,}: their degrees", "give the number of nodes of this graph")
    seed, weight = check_seed(seed), check_pair_weights(edge_index, edge_weight, num_nodes)
    degree = torch.bincount(pairs.flatten(), minlength=num_nodes)
    if weight is not None:
        degree = sum_per_node(pairs, weight, num_nodes)
    present = pairs[0] * num_nodes + pairs[1]
    candidates = _top_degree_pairs(degree, present, pairs.shape[1])
    if add == "uniform":
        candidates = _random_pairs(candidates.shape[1], present, num_nodes, seed)
    return EdgeWeights(pairs, alpha_drop(degree, pairs, weight), candidates, alpha_add(degree, candidates))


def edge_probabilities(
    edge_index: Tensor,
    num_nodes: int,
    p_drop: float = 0.3,
    p_add: float = 0.05,
    *,
    drop: str = "eq9",
    add: str = "eq9",
    seed: int = 0,
    edge_weight: Tensor | None = None,
) -> EdgeProbabilities:
    """Return the drop and add probabilities of a graph's pairs, by Algorithm 1 and Eq. (9).

    See :func:`edge_weights` and :meth:`EdgeWeights.probabilities` for the two steps.

    Args:
        edge_index: edges in one or both directions, ``[2, E]``.
        num_nodes: number of nodes N.
        p_drop: mean drop probability.
        p_add: mean add probability over the candidates.
        drop: ``"eq9"``, ``"text"`` or ``"uniform"``.
        add: ``"eq9"`` or ``"uniform"``.
        seed: random seed of the candidates for ``add="uniform"``.
        edge_weight: positive weight of each edge, ``[E]``; see :func:`edge_weights`.

    Examples:
        >>> import torch
        >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> edge_probabilities(path, num_nodes=4, p_drop=0.3).drop  # α is smallest in the middle
        tensor([0.4500, 0.0000, 0.4500], dtype=torch.float64)
    """
    drop, add = warn_of_old_value("drop", drop), warn_of_old_value("add", add)
    weights = edge_weights(edge_index, num_nodes, add=add, seed=seed, edge_weight=edge_weight)
    return weights.probabilities(p_drop, p_add, drop=drop, add=add)


def drop_probabilities(
    pairs: Tensor, score: Tensor, p_drop: float, cutoff: float = 0.7, of: WeightRange | None = None
) -> EdgeProbabilities:
    """Return drop probabilities by GCA's rule: min(p_drop·(s_max − s)/(s_max − mean s), cutoff).

    Pairs of high score are dropped less often. No pairs are added. Equal scores give ``p_drop`` everywhere, which is
    GRACE's rule.

    Args:
        pairs: edges of the graph, ``[2, E]`` with i < j.
        score: importance of each edge, ``[E]``.
        p_drop: mean drop probability before the cut-off.
        cutoff: maximum drop probability.
        of: the range of the scores over the whole graph, if ``pairs`` are a part of it.

    Examples:
        >>> import torch
        >>> drop_probabilities(torch.tensor([[0, 1], [1, 2]]), torch.tensor([1.0, 3.0]), p_drop=0.2).drop
        tensor([0.4000, 0.0000])
    """
    drop = (normalise_from_max(score, of) * p_drop).clamp(max=cutoff)
    return EdgeProbabilities(pairs, drop, pairs[:, :0], drop[:0])


def top_degree_nodes(degree: Tensor, num_pairs: int) -> Tensor:
    """Return V_a of Algorithm 1, ascending: the ⌈√(2l)⌉ nodes of highest degree, l = 2·``num_pairs``.

    Examples:
        >>> import torch
        >>> top_degree_nodes(torch.tensor([1, 3, 1, 1]), num_pairs=1)  # among equal degrees, smaller numbers
        tensor([0, 1])
    """
    l = 2 * num_pairs
    size = min(isqrt(2 * l - 1) + 1 if l else 0, degree.numel())  # ⌈√(2l)⌉ in integer arithmetic
    return torch.argsort(degree, descending=True, stable=True)[:size].sort().values


def _top_degree_pairs(degree: Tensor, present: Tensor, num_pairs: int) -> Tensor:
    """Return V_a × V_a − E as pairs i < j."""
    top = top_degree_nodes(degree, num_pairs)
    size = top.numel()
    i, j = torch.triu_indices(size, size, offset=1, device=degree.device)
    key = top[i] * degree.numel() + top[j]
    key = key[~torch.isin(key, present, assume_unique=True)]
    return torch.stack([key // degree.numel(), key % degree.numel()])


def _random_pairs(count: int, present: Tensor, num_nodes: int, seed: int) -> Tensor:
    """Draw ``count`` distinct absent pairs uniformly, or all absent pairs if there are fewer."""
    n = num_nodes
    if n * (n - 1) // 2 - present.numel() <= 2 * count:  # the graph is nearly complete: list all absent pairs
        i, j = torch.triu_indices(n, n, offset=1, device=present.device)
        absent = i * n + j
        absent = absent[~torch.isin(absent, present, assume_unique=True)]
        order = torch.argsort(uniform64(absent, seed, Stream.CANDIDATES))[:count]
        key = absent[order]
    else:
        key = present[:0]
        start = 0
        while key.numel() < count:  # each round finds at least half of the missing pairs on average
            counter = torch.arange(start, start + 2 * count, device=present.device)
            i = (uniform64(counter, seed, Stream.CANDIDATES, 0) * n).long()
            j = (uniform64(counter, seed, Stream.CANDIDATES, 1) * n).long()
            drawn = (torch.minimum(i, j) * n + torch.maximum(i, j))[i != j]
            drawn = drawn[~torch.isin(drawn, present)]
            # Keep pairs in the order of their draw. Truncating a sorted list would favour small ids.
            every = torch.cat([key, drawn])
            unique, where = torch.unique(every, return_inverse=True)
            first = torch.full_like(unique, every.numel())
            first.scatter_reduce_(0, where, torch.arange(every.numel(), device=every.device), "amin")
            key = every[first.sort().values[:count]]
            start += 2 * count
    key = key.sort().values
    return torch.stack([key // n, key % n])
