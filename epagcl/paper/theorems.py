"""What Section 3 says of changes of EPR, counted: Theorem 3.3, Theorem 3.5, and the EPR of augmented views."""

import numpy as np
import torch
from torch import Tensor

from epagcl.epr.alpha import alpha_add, alpha_drop
from epagcl.epr.change import epr_change, epr_change_predicted, theorem_3_3_conditions
from epagcl.epr.rate import error_passing_rate
from epagcl.study.store import Record
from epagcl.views.probabilities import (
    EdgeProbabilities,
    EdgeWeights,
    edge_weights,
    normalise_from_max,
    normalise_from_min,
)
from epagcl.views.sampling import ViewSampler

RATES = (0.3, 0.1)  # changed edges, as a share of |E|
P_ADD = 0.1  # of |E|, in EPAGCL's second view
ADD_CUTOFF = 0.9  # p_τ of Eq. 7
SAMPLE = 20_000  # pairs of a kind
POINTS = 100  # of a kind, in a figure
ROUNDING = 1e-15  # a change this small is 0


#: Random graphs within Theorem 3.3's conditions: smallest and largest degree. Each is made of every size, number of
#: classes and share of edges held within a class, several times.
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


# (a) Theorem 3.3: additions within a class lower EPR, those between classes raise it; drops the other way round.


def random_graph(degree: np.ndarray, y: np.ndarray, stay: float, rng: np.random.Generator) -> Tensor:
    """A random graph of given degrees, ``[2, E]``: half-edges are paired at random until none is left.

    A share ``stay`` of the half-edges looks for a partner in its own class at first. Pairs that would be loops or
    double edges are taken apart and tried again; where that leads nowhere, all begins anew.
    """
    n = degree.size
    while True:
        stubs, keys = np.repeat(np.arange(n), degree), np.empty(0, dtype=np.int64)
        for turn in range(100):
            if stubs.size == 0:
                return torch.from_numpy(np.stack([keys // n, keys % n]))
            home = rng.random(stubs.size) < stay * (turn == 0)
            rank = np.where(home, y[stubs], y.max() + 1) + rng.random(stubs.size)
            i, j = np.sort(stubs[np.argsort(rank)].reshape(-1, 2), axis=1).T
            key = i * n + j
            first = np.zeros(key.size, dtype=bool)
            first[np.unique(key, return_index=True)[1]] = True
            good = first & (i != j) & ~np.isin(key, keys)
            keys = np.concatenate([keys, key[good]])
            stubs = np.concatenate([i[~good], j[~good]])


def absent_pairs(pairs: Tensor, num_nodes: int, draws: int, rng: np.random.Generator) -> Tensor:
    """Distinct absent pairs i < j in random order: what is left of ``draws`` drawn alike from all pairs."""
    i, j = np.sort(rng.integers(num_nodes, size=(2, draws)), axis=0)
    key = np.unique(i[i != j] * num_nodes + j[i != j])
    key = rng.permutation(key[~np.isin(key, (pairs[0] * num_nodes + pairs[1]).numpy())])
    return torch.from_numpy(np.stack([key // num_nodes, key % num_nodes]))


def contradictions(pairs: Tensor, y: Tensor, changed: Tensor, *, dropped: bool, self_loops: bool) -> Record:
    """Of changes within a class and between classes: how many there are, how many go against Theorem 3.3, and the sums
    of |r_{G'} − r_G| over those and these.
    """
    change = epr_change(pairs, y, changed, self_loops=self_loops) * (-1 if dropped else 1)
    differs = y[changed[0]] != y[changed[1]]
    against = torch.where(differs, change < -ROUNDING, change > ROUNDING)
    size = change.abs()
    return {
        where: [
            int(group.sum()),
            int((group & against).sum()),
            float(size[group].sum()),
            float(size[group & against].sum()),
        ]
        for where, group in (("within", ~differs), ("between", differs))
    }


def both_degrees(pairs: Tensor, y: Tensor, changed: Tensor, *, dropped: bool = False) -> Record:
    """:func:`contradictions` with d and with d + 1 under the root."""
    return {form: contradictions(pairs, y, changed, dropped=dropped, self_loops=form == "d1") for form in ("d", "d1")}


def random_graphs() -> Record:
    """Theorem 3.3 where its conditions are met, by family and by how classes lie."""
    rng, rows = np.random.default_rng(0), []
    for family, (low, high) in FAMILIES.items():
        for stay in STAYS:
            found = []
            for n, classes in [(n, c) for n in SIZES for c in CLASSES for _ in range(REPEATS)]:
                degree, y = rng.integers(low, high + 1, n), rng.integers(classes, size=n)
                if degree.sum() % 2:
                    degree[np.argmin(degree)] += 1  # half-edges come in pairs
                pairs = random_graph(degree, y, stay, rng)
                assert theorem_3_3_conditions(pairs, n).holds
                changed = absent_pairs(pairs, n, 2 * PAIRS_OF_RANDOM_GRAPH, rng)[:, :PAIRS_OF_RANDOM_GRAPH]
                found.append(both_degrees(pairs, torch.from_numpy(y), changed))
            rows.append({"family": family, "stay": stay, "graphs": len(found), "added": _total(found)})
    return {"rows": rows}


def _total(found: list[Record]) -> Record:
    return {
        form: {
            where: [sum(column) for column in zip(*(f[form][where] for f in found), strict=True)]
            for where in ("within", "between")
        }
        for form in ("d", "d1")
    }


def changed_pairs(pairs: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Of each kind the pairs to change: at most ``SAMPLE`` within a class and as many between classes."""
    rng = np.random.default_rng(0)
    candidates = edge_weights(pairs, y.numel()).candidates
    kinds = {
        "added": absent_pairs(pairs, y.numel(), 40 * SAMPLE, rng),
        "candidates": candidates[:, rng.permutation(candidates.shape[1])],
        "dropped": pairs[:, rng.permutation(pairs.shape[1])],
    }
    sampled = {}
    for kind, every in kinds.items():
        differs = y[every[0]] != y[every[1]]
        place = torch.cat([group.nonzero()[:SAMPLE, 0] for group in (differs, ~differs)]).sort().values
        sampled[kind] = every[:, place]
    return sampled


def theorem_3_3(pairs: Tensor, y: Tensor) -> Record:
    """Whether a graph meets the conditions, and how often changes of its pairs go against the theorem all the same."""
    met = vars(theorem_3_3_conditions(pairs, y.numel()))
    kinds = changed_pairs(pairs, y)
    return {"conditions": met} | {
        kind: both_degrees(pairs, y, kinds[kind], dropped=kind == "dropped") for kind in kinds
    }


# (b) Theorem 3.5 as an approximation.


def theorem_3_5(pairs: Tensor, y: Tensor) -> Record:
    """Exact change of EPR against the predicted, by kind: sign, correlation, |predicted|/|exact|, points to draw."""
    return {kind: _agreement(pairs, y, changed) for kind, changed in changed_pairs(pairs, y).items()}


def _agreement(pairs: Tensor, y: Tensor, changed: Tensor) -> Record:
    exact, predicted = (f(pairs, y, changed).numpy() for f in (epr_change, epr_change_predicted))
    moved = np.abs(exact) > ROUNDING
    steady = min(exact.std(), predicted.std()) <= ROUNDING  # correlates with nothing
    order = np.random.default_rng(0).permutation(exact.size)[:POINTS]
    return {
        "pairs": exact.size,
        "sign": float((np.sign(exact) == np.sign(predicted)).mean()),
        "pearson": None if steady else float(np.corrcoef(exact, predicted)[0, 1]),
        "ratio": float(np.median(np.abs(predicted[moved] / exact[moved]))),
        "points": [
            [float(f"{value:.3g}") for value in point] for point in zip(exact[order], predicted[order], strict=True)
        ],
    }


# (c) The EPR of views.


def at_count(share: Tensor, count: float, cutoff: float = 1.0) -> Tensor:
    """min(c·share, cutoff) with the c that makes them sum to ``count``: Eq. 7 at equal expected numbers.

    Eq. 7 has c = p_drop, and then its cut-off takes from the mean, on some graphs a third.
    """
    clipped = torch.zeros_like(share, dtype=torch.bool)
    while (rest := float(share[~clipped].sum())) > 0:
        c = (count - cutoff * int(clipped.sum())) / rest
        over = share * c > cutoff
        if torch.equal(over, clipped):
            break
        clipped = over  # c only grows, and so does what is cut: this ends
    return (share * c).clamp(max=cutoff)


def augmentations(guided: EdgeWeights, anywhere: EdgeWeights, y: Tensor, rate: float) -> dict[str, EdgeProbabilities]:
    """Each augmentation with ``rate``·|E| changes expected; the second view drops as many and adds ``P_ADD``·|E|.

    The oracle knows the classes: it drops an edge between classes 0.85/0.15 times as readily as one within a class.

    Args:
        guided: Algorithm 1's weights.
        anywhere: those with candidates from the whole graph.
        y: class of each node.
        rate: changed edges, as a share of |E|.
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


def view_rates(pairs: Tensor, y: Tensor) -> Record:
    """EPR of the graph, and by rate and augmentation the mean and deviation of EPR(view) − EPR(graph).

    ``wrong``: the share of changed edges that lie between classes; ``alpha``: their mean weight 2/√(d_i d_j) (added:
    d + 1). Both are expectations. ``changed``: how many edges there are, as a share of |E|.
    """
    views = 10 if pairs.shape[1] < 10**6 else 3
    base = {per: error_passing_rate(pairs, y, per=per) for per in ("edge", "node")}
    degree = torch.bincount(pairs.flatten(), minlength=y.numel())
    weights = edge_weights(pairs, y.numel()), edge_weights(pairs, y.numel(), add="uniform")
    record: Record = {"epr": base, "views": views, "rates": {}}
    for rate in RATES:
        record["rates"][str(rate)] = {}
        for name, p in augmentations(*weights, y, rate).items():
            sampler = ViewSampler(p, y.numel(), seed=0, view=0)
            drawn = [sampler.pairs(epoch) for epoch in range(views)]
            change = {
                per: torch.tensor([error_passing_rate(view, y, per=per) - base[per] for view in drawn]).double()
                for per in base
            }
            every, weight = torch.cat([p.pairs, p.candidates], dim=1), torch.cat([p.drop, p.add]).double()
            alpha = torch.cat([alpha_drop(degree, p.pairs), alpha_add(degree, p.candidates)])
            record["rates"][str(rate)][name] = {
                **{per: [float(values.mean()), float(values.std())] for per, values in change.items()},
                "changed": float(weight.sum()) / pairs.shape[1],
                "wrong": float(weight @ (y[every[0]] != y[every[1]]).double() / weight.sum()),
                "alpha": float(weight @ alpha / weight.sum()),
            }
    return record
