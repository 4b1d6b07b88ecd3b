import numpy as np
import pytest
from scipy import stats

from epagcl.paper.overlap_simulation import (
    PENALTIES,
    Scenario,
    ridge_is_correct,
    shared_variance,
    shared_variance_of_nodes,
    simulate,
    size,
    tuned_ridge_is_correct,
)
from epagcl.study.paired_test import OVERLAP


def test_ridge_separates_clear_classes():
    y = np.arange(40) % 2
    z = np.column_stack([np.where(y == 0, -1.0, 1.0), np.ones(40)])
    assert ridge_is_correct(z, y, np.arange(10), np.arange(10, 40)).all()
    both = ridge_is_correct(np.stack([z, 0 * z]), y, np.arange(10), np.arange(10, 40))
    assert both.shape == (2, 30)
    assert both[1].mean() == 0.5  # without information, one class is predicted everywhere


def test_the_penalty_is_chosen_on_validation_nodes():
    rng = np.random.default_rng(2)
    y = rng.integers(2, size=300)
    z = np.column_stack([0.3 * (2.0 * y - 1) + rng.normal(size=300), *rng.normal(size=(30, 300))])
    train, val, test = np.arange(40), np.arange(40, 80), np.arange(80, 300)
    by_penalty = {p: ridge_is_correct(z, y, train, np.arange(40, 300), p) for p in PENALTIES}
    best = max(sorted(PENALTIES, reverse=True), key=lambda p: by_penalty[p][:40].mean())
    assert (tuned_ridge_is_correct(z, y, train, val, test) == by_penalty[best][40:]).all()


def test_the_size_of_the_tests_is_right_on_runs_of_known_correlation():
    rng = np.random.default_rng(0)
    runs = rng.normal(size=(4000, 10)) + OVERLAP**0.5 * rng.normal(size=(4000, 1))
    assert shared_variance(runs) == pytest.approx(OVERLAP, abs=0.03)
    assert size(runs, OVERLAP) == pytest.approx(0.05, abs=0.01)
    assert size(runs, 0.0) > 0.25
    assert size(runs, 8.0) == 0.0
    independent = rng.normal(size=(4000, 10)) + 3.0
    assert size(independent, 0.0, truth=3.0) == pytest.approx(0.05, abs=0.01)
    plain = (stats.ttest_1samp(independent, 2.9, axis=1).pvalue < 0.05).mean()
    assert size(independent, 0.0, truth=2.9) == pytest.approx(plain)


@pytest.mark.slow
def test_on_overlapping_splits_only_the_corrected_test_has_about_the_right_size():
    runs, truth, of_nodes = simulate(Scenario(nodes=200, noise=2.0, seed_noise=0.0), graphs=150, runs=20, further=20)
    assert runs.shape == (150, 20)
    assert 0.0 < of_nodes.mean() < shared_variance(runs) < OVERLAP  # too low on small graphs
    assert size(runs, OVERLAP) <= 0.05
    assert size(runs, 0.0) > 0.1  # the plain t test takes the luck of a graph for a difference of methods
    assert size(runs, 0.0, truth, 1 / 20) < 0.1  # but is right about this very graph
    assert size(runs, 8.0) == 0.0  # Nadeau and Bengio's formula decides nothing on 10/10/80 splits
    assert abs(runs.mean()) < 1.0  # neither method is better


def test_shared_variance_of_single_nodes_equals_that_of_graphs():
    rng = np.random.default_rng(1)
    nodes, runs = 400, 30
    own = 0.5 * rng.normal(size=nodes)  # the expected difference of each node
    outcomes = own + rng.normal(size=(runs, nodes)) + 0.1 * rng.normal(size=(runs, 1))
    outcomes[rng.random((runs, nodes)) < 0.2] = np.nan
    within = np.nanmean(outcomes, axis=1).var(ddof=1)
    assert shared_variance_of_nodes(outcomes) == pytest.approx(0.25 / nodes / within, rel=0.2)
    same = rng.normal(size=(runs, nodes))  # all nodes are alike: nothing is shared
    assert shared_variance_of_nodes(same) < 0.1
