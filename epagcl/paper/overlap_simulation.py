"""Runs on overlapping 10/10/80 splits: generated graphs on which two methods are equal, and the correlation of runs."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import t

from epagcl.study.statistics import ALPHA

Array = npt.NDArray[np.float64]
Nodes = npt.NDArray[np.int64]
Correct = npt.NDArray[np.bool_]

CLASSES, DIM = 4, 16
#: Strength of the ridge penalty per training node on generated graphs, and those to choose from on named graphs.
PENALTY, PENALTIES = 0.1, (0.001, 0.01, 0.1, 1.0)


class Scenario(NamedTuple):
    """A kind of generated graph: number of nodes, noise of a node's features, and noise that each seed adds."""

    nodes: int
    noise: float
    seed_noise: float


SCENARIOS = (
    *(Scenario(nodes, 2.0, 0.0) for nodes in (200, 400, 1000, 3000)),
    *(Scenario(nodes, 2.0, 1.5) for nodes in (1000, 3000)),
)
#: Graphs of each scenario, runs on each, and further runs, whose mean stands for the graph's true difference.
GRAPHS, RUNS, FURTHER = 400, 20, 40


class Differences(NamedTuple):
    """Differences of two equal methods.

    Attributes:
        runs: in points, ``[graphs, runs]``.
        truth: the true difference of each graph in points.
        of_nodes: c of each graph by :func:`shared_variance_of_nodes`.
    """

    runs: Array
    truth: Array
    of_nodes: Array


def ridge_is_correct(z: Array, y: Nodes, train: Nodes, test: Nodes, penalty: float = PENALTY) -> Correct:
    """Return which test nodes a ridge classifier gets right, given one or several embeddings ``[..., N, d]``."""
    rows = z[..., train, :]
    across = np.swapaxes(rows, -1, -2)
    gram = across @ rows + penalty * len(train) * np.eye(z.shape[-1])
    weight = np.linalg.solve(gram, across @ np.eye(int(y.max()) + 1)[y[train]])
    correct: Correct = (z[..., test, :] @ weight).argmax(-1) == y[test]
    return correct


def tuned_ridge_is_correct(z: Array, y: Nodes, train: Nodes, val: Nodes, test: Nodes) -> Correct:
    """Return the same for one embedding, with the penalty of the highest validation accuracy; the largest wins ties."""
    nodes = np.concatenate([val, test])
    outcomes = [ridge_is_correct(z, y, train, nodes, penalty) for penalty in sorted(PENALTIES, reverse=True)]
    return max(outcomes, key=lambda correct: correct[: len(val)].mean())[len(val) :]


def simulate(scenario: Scenario, graphs: int = GRAPHS, runs: int = RUNS, further: int = FURTHER) -> Differences:
    """Score two methods of the same distribution on random splits of generated graphs.

    The features of both methods are a class centre plus independent noise of the same strength. So neither is better on
    graphs of this kind. On a given graph one of them is, by chance, and all splits of this graph show it.
    """
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLASSES, DIM))
    nodes, differences, of_nodes = scenario.nodes, np.empty((graphs, runs + further)), np.empty(graphs)
    for graph in range(graphs):
        outcomes = np.full((runs, nodes), np.nan)
        y = rng.integers(CLASSES, size=nodes)
        z = np.ones((2, nodes, DIM + 1))
        features = centres[y] + scenario.noise * rng.normal(size=(2, nodes, DIM))
        for run in range(runs + further):
            order = rng.permutation(nodes)
            z[..., :DIM] = features + scenario.seed_noise * rng.normal(size=features.shape)
            test = order[nodes // 5 :]
            one, other = ridge_is_correct(z, y, order[: nodes // 10], test).astype(float)
            differences[graph, run] = 100 * (one - other).mean()
            if run < runs:
                outcomes[run, test] = one - other
        of_nodes[graph] = shared_variance_of_nodes(outcomes)
    return Differences(differences[:, :runs], differences[:, runs:].mean(axis=1), of_nodes)


def size(differences: Array, overlap: float, truth: Array | float = 0.0, truth_variance: float = 0.0) -> float:
    """Return the share of rows whose mean differs significantly from the truth.

    Args:
        differences: one row per graph, one column per run.
        overlap: c of the test.
        truth: the true difference of each graph.
        truth_variance: variance of an estimated truth, in units of the variance of the differences.
    """
    n = differences.shape[1]
    error = np.sqrt((1 / n + overlap + truth_variance) * differences.var(axis=1, ddof=1))
    distance = np.abs(differences.mean(axis=1) - truth)
    return float((distance > error * t.ppf(1 - ALPHA / 2, n - 1)).mean())


def shared_variance(differences: Array) -> float:
    """Return c of several graphs: the variance of the means between graphs, beyond that of independent runs."""
    within = differences.var(axis=1, ddof=1).mean()
    return float((differences.mean(axis=1).var(ddof=1) - within / differences.shape[1]) / within)


def shared_variance_of_nodes(outcomes: Array) -> float:
    """Return c of a single graph from single nodes.

    With the nodes as a sample, the mean difference of a graph has the variance σ²/N. Here σ² is the variance over nodes
    of their expected difference: the variance of their mean differences less the part that is due to few runs.

    Args:
        outcomes: by run and node, 1 if only the first method is right, −1 if only the second, 0 otherwise; NaN for
            nodes outside the test part of a run. Nodes that were tested only once are left out.
    """
    counts = (~np.isnan(outcomes)).sum(axis=0)
    often = outcomes[:, counts > 1]
    within = np.nanvar(often, axis=0, ddof=1) / counts[counts > 1]
    between = max(float(np.nanmean(often, axis=0).var(ddof=1) - within.mean()), 0.0)
    return float(between / outcomes.shape[1] / np.nanmean(outcomes, axis=1).var(ddof=1))
