"""Measurements of Section 3: contradictions of Theorem 3.3, errors of Theorem 3.5, and the EPR of augmented views."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from epagcl.epr.alpha import alpha_add, alpha_drop
from epagcl.epr.change import (
    epr_change,
    epr_change_predicted,
    theorem_3_3_conditions,
    theorem_3_3_repaired,
)
from epagcl.epr.rate import error_passing_rate
from epagcl.views.probabilities import (
    EdgeProbabilities,
    EdgeWeights,
    edge_weights,
    normalise_from_max,
    normalise_from_min,
)
from epagcl.views.sampling import ViewSampler

if TYPE_CHECKING:
    from epagcl.study.store import Record

RATES = (0.3, 0.1)  # changed edges, as a share of |E|
P_ADD = 0.1  # edges added in EPAGCL's second view, as a share of |E|
ADD_CUTOFF = 0.9  # p_τ of Eq. (9)
SAMPLE = 20_000  # maximum number of pairs of each kind within a class, and the same between classes
POINTS = 100  # points of each kind in a figure
ROUNDING = 1e-15  # changes up to this size count as 0


#: Families of random graphs within the conditions of Theorem 3.3, with their smallest and largest degree. Each family
#: has several graphs of every size, number of classes and share of half-edges that stay within a class.
FAMILIES = {
    "regular, d = 3": (3, 3),
    "regular, d = 4": (4, 4),
    "regular, d = 8": (8, 8),
    "degrees 1 to 3": (1, 3),
    "degrees 2 to 7": (2, 7),
    "degrees 4 to 15": (4, 15),
}
SIZES, CLASSES, STAYS, REPEATS = (30, 100, 300), (2, 4, 8), (0.0, 0.8), 5
PAIRS_OF_RANDOM_GRAPH = 1000


# (a) Theorem 3.3: additions within a class lower EPR, additions between classes raise it, and drops do the opposite.


def random_graph(
    degree: npt.NDArray[np.int64], y: npt.NDArray[np.int64], stay: float, rng: np.random.Generator
) -> Tensor:
    """Return a random graph with the given degrees, ``[2, E]``, by pairing half-edges at random.

    In the first round, a share ``stay`` of the half-edges looks for a partner in its own class. Pairs that would be
    self-loops or duplicate edges are split and tried again. After 100 rounds the whole graph is drawn again.
    """
    n = degree.size
    while True:
        stubs, keys = np.repeat(np.arange(n), degree), np.empty(0, dtype=np.int64)
        for attempt in range(100):
            if stubs.size == 0:
                return torch.from_numpy(np.stack([keys // n, keys % n]))
            home = rng.random(stubs.size) < stay * (attempt == 0)
            rank = np.where(home, y[stubs], y.max() + 1) + rng.random(stubs.size)
            i, j = np.sort(stubs[np.argsort(rank)].reshape(-1, 2), axis=1).T
            key = i * n + j
            first = np.zeros(key.size, dtype=bool)
            first[np.unique(key, return_index=True)[1]] = True
            good = first & (i != j) & ~np.isin(key, keys)
            keys = np.concatenate([keys, key[good]])
            stubs = np.concatenate([i[~good], j[~good]])


def absent_pairs(pairs: Tensor, num_nodes: int, draws: int, rng: np.random.Generator) -> Tensor:
    """Draw ``draws`` pairs uniformly and return the distinct absent ones, i < j, in random order."""
    i, j = np.sort(rng.integers(num_nodes, size=(2, draws)), axis=0)
    key = np.unique(i[i != j] * num_nodes + j[i != j])
    key = rng.permutation(key[~np.isin(key, (pairs[0] * num_nodes + pairs[1]).numpy())])
    return torch.from_numpy(np.stack([key // num_nodes, key % num_nodes]))


def contradictions(pairs: Tensor, y: Tensor, changed: Tensor, *, dropped: bool, self_loops: bool) -> "Record":
    """Count the changes within a class and between classes that contradict Theorem 3.3.

    Returns:
        For "within" and "between": the number of changes, the number of contradictions, the sum of |r_{G'} − r_G| over
        the changes and over the contradictions, and the numbers of changes and of contradictions that meet the
        condition of the repaired theorem.
    """
    change = epr_change(pairs, y, changed, self_loops=self_loops) * (-1 if dropped else 1)
    differs = y[changed[0]] != y[changed[1]]
    against = torch.where(differs, change < -ROUNDING, change > ROUNDING)
    covered, size = theorem_3_3_repaired(pairs, y.numel(), changed, self_loops=self_loops), change.abs()
    return {
        where: [
            int(group.sum()),
            int((group & against).sum()),
            float(size[group].sum()),
            float(size[group & against].sum()),
            int((group & covered).sum()),
            int((group & covered & against).sum()),
        ]
        for where, group in (("within", ~differs), ("between", differs))
    }


def both_degrees(pairs: Tensor, y: Tensor, changed: Tensor, *, dropped: bool = False) -> "Record":
    """Return :func:`contradictions` with d and with d + 1 under the root."""
    return {form: contradictions(pairs, y, changed, dropped=dropped, self_loops=form == "d1") for form in ("d", "d1")}


def random_graphs() -> "Record":
    """Count contradictions of Theorem 3.3 on random graphs within its conditions, by family and homophily."""
    rng, rows = np.random.default_rng(0), []
    for family, (low, high) in FAMILIES.items():
        for stay in STAYS:
            counts = []
            for n, classes in [(n, c) for n in SIZES for c in CLASSES for _ in range(REPEATS)]:
                degree, y = rng.integers(low, high + 1, n), rng.integers(classes, size=n)
                if degree.sum() % 2:
                    degree[np.argmin(degree)] += 1  # the number of half-edges must be even
                pairs = random_graph(degree, y, stay, rng)
                assert theorem_3_3_conditions(pairs, n).holds
                changed = absent_pairs(pairs, n, 2 * PAIRS_OF_RANDOM_GRAPH, rng)[:, :PAIRS_OF_RANDOM_GRAPH]
                counts.append(both_degrees(pairs, torch.from_numpy(y), changed))
            rows.append({"family": family, "stay": stay, "graphs": len(counts), "added": _total(counts)})
    return {"rows": rows}


def _total(counts: list["Record"]) -> "Record":
    """Return the sums of several results of :func:`both_degrees`."""
    return {
        form: {
            where: [sum(column) for column in zip(*(count[form][where] for count in counts), strict=True)]
            for where in ("within", "between")
        }
        for form in ("d", "d1")
    }


def changed_pairs(pairs: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Return the pairs to change by kind: at most ``SAMPLE`` within a class and ``SAMPLE`` between classes."""
    rng = np.random.default_rng(0)
    candidates = edge_weights(pairs, y.numel()).candidates
    kinds = {
        "added": absent_pairs(pairs, y.numel(), 40 * SAMPLE, rng),
        "candidates": candidates[:, rng.permutation(candidates.shape[1])],
        "dropped": pairs[:, rng.permutation(pairs.shape[1])],
    }
    sampled = {}
    for kind, available in kinds.items():
        differs = y[available[0]] != y[available[1]]
        place = torch.cat([group.nonzero()[:SAMPLE, 0] for group in (differs, ~differs)]).sort().values
        sampled[kind] = available[:, place]
    return sampled


def theorem_3_3(pairs: Tensor, y: Tensor) -> "Record":
    """Return the conditions of Theorem 3.3 on a graph, and the contradictions by kind of change."""
    conditions = vars(theorem_3_3_conditions(pairs, y.numel()))
    return {"conditions": conditions} | {
        kind: both_degrees(pairs, y, changed, dropped=kind == "dropped")
        for kind, changed in changed_pairs(pairs, y).items()
    }


# (b) Theorem 3.5 as an approximation.


def theorem_3_5(pairs: Tensor, y: Tensor) -> "Record":
    """Compare exact and predicted changes of EPR, by kind of change."""
    return {kind: _agreement(pairs, y, changed) for kind, changed in changed_pairs(pairs, y).items()}


def _agreement(pairs: Tensor, y: Tensor, changed: Tensor) -> "Record":
    """Return the agreement in sign, the correlation, the median of |predicted|/|exact|, and points for a figure."""
    exact, predicted = (f(pairs, y, changed).numpy() for f in (epr_change, epr_change_predicted))
    moved = np.abs(exact) > ROUNDING
    constant = min(exact.std(), predicted.std()) <= ROUNDING  # the correlation is undefined
    order = np.random.default_rng(0).permutation(exact.size)[:POINTS]
    return {
        "pairs": exact.size,
        "sign": float((np.sign(exact) == np.sign(predicted)).mean()),
        "pearson": None if constant else float(np.corrcoef(exact, predicted)[0, 1]),
        "ratio": float(np.median(np.abs(predicted[moved] / exact[moved]))),
        "points": [
            [float(f"{value:.3g}") for value in point] for point in zip(exact[order], predicted[order], strict=True)
        ],
    }


# (c) The EPR of views.


def at_count(share: Tensor, count: float, cutoff: float = 1.0) -> Tensor:
    """Return min(c·share, cutoff) with the factor c for which the sum is ``count``.

    Eq. (9) has c = p_drop. Its cut-off then lowers the expected number of changes, on some graphs by a third.
    """
    c, clipped = 0.0, torch.zeros_like(share, dtype=torch.bool)
    while (rest := float(share[~clipped].sum())) > 0:
        c = (count - cutoff * int(clipped.sum())) / rest
        over = share * c > cutoff
        if torch.equal(over, clipped):
            break
        clipped = over  # c and the clipped set only grow, so that the loop ends
    return (share * c).clamp(max=cutoff)


def augmentations(guided: EdgeWeights, anywhere: EdgeWeights, y: Tensor, rate: float) -> dict[str, EdgeProbabilities]:
    """Return the probabilities of each augmentation, with ``rate``·|E| expected changes.

    The second view drops ``rate``·|E| edges and adds ``P_ADD``·|E|. The oracle knows the classes and drops an edge
    between classes 0.85/0.15 times as often as one within a class.

    Args:
        guided: the weights of Algorithm 1.
        anywhere: the weights with candidates drawn from the whole graph.
        y: class of each node.
        rate: expected number of changed edges, as a share of |E|.
    """
    pairs, w_drop, candidates, w_add = guided.pairs, guided.w_drop, guided.candidates, guided.w_add
    none, num_edges = pairs[:, :0], pairs.shape[1]
    differs = y[pairs[0]] != y[pairs[1]]

    def drop(share: Tensor) -> EdgeProbabilities:
        return EdgeProbabilities(pairs, at_count(share, rate * num_edges), none, w_drop[:0])

    def add(share: Tensor, among: Tensor, cutoff: float = 1.0) -> EdgeProbabilities:
        return EdgeProbabilities(pairs, torch.zeros_like(w_drop), among, at_count(share, rate * num_edges, cutoff))

    added = at_count(normalise_from_max(w_add), P_ADD * num_edges, ADD_CUTOFF)
    return {
        "uniform_drop": drop(torch.ones_like(w_drop)),
        "eq7_drop": drop(normalise_from_min(w_drop)),
        "text_drop": drop(normalise_from_max(w_drop)),
        "uniform_add": add(torch.ones_like(anywhere.w_add), anywhere.candidates),
        "eq7_add": add(normalise_from_max(w_add), candidates, ADD_CUTOFF),
        "second_view": EdgeProbabilities(pairs, drop(normalise_from_min(w_drop)).drop, candidates, added),
        "oracle_drop": drop(torch.where(differs, 0.85, 0.15).double()),
    }


def view_rates(pairs: Tensor, y: Tensor) -> "Record":
    """Return EPR of the graph, and for each rate and augmentation the mean and std of EPR(view) − EPR(graph).

    The record of an augmentation also has three expectations: ``changed``, the number of changed edges as a share of
    |E|; ``wrong``, the share of changed edges between classes; and ``alpha``, the mean weight 2/√(d_i d_j) of changed
    edges (d + 1 for added ones).
    """
    views = 10 if pairs.shape[1] < 10**6 else 3
    base = {per: error_passing_rate(pairs, y, per=per) for per in ("edge", "node")}
    degree = torch.bincount(pairs.flatten(), minlength=y.numel())
    weights = edge_weights(pairs, y.numel()), edge_weights(pairs, y.numel(), add="uniform")
    rates: dict[str, Any] = {}
    for rate in RATES:
        rates[str(rate)] = {}
        for name, p in augmentations(*weights, y, rate).items():
            sampler = ViewSampler(p, y.numel(), seed=0, view=0)
            drawn = [sampler.pairs(epoch) for epoch in range(views)]
            change = {
                per: torch.tensor([error_passing_rate(view, y, per=per) - base[per] for view in drawn]).double()
                for per in base
            }
            changed, probability = torch.cat([p.pairs, p.candidates], dim=1), torch.cat([p.drop, p.add]).double()
            alpha = torch.cat([alpha_drop(degree, p.pairs), alpha_add(degree, p.candidates)])
            differs = (y[changed[0]] != y[changed[1]]).double()
            rates[str(rate)][name] = {
                **{per: [float(values.mean()), float(values.std())] for per, values in change.items()},
                "changed": float(probability.sum()) / pairs.shape[1],
                "wrong": float(probability @ differs / probability.sum()),
                "alpha": float(probability @ alpha / probability.sum()),
            }
    return {"epr": base, "views": views, "rates": rates}
