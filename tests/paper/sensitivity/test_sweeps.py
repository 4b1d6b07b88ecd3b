import numpy as np
import pytest
from scipy.stats import studentized_range

from epagcl.paper.sensitivity.settings import SETTINGS
from epagcl.paper.sensitivity.sweeps import Sweep, components, mean_ranges, significant_sweeps, sweeps
from epagcl.study.paired_test import OVERLAP, paired_test
from tests.paper.sensitivity_demo import NOISE, SEED_EFFECTS, SLOPES, SPLIT_EFFECTS, demo_result


@pytest.fixture(scope="module")
def made():
    return demo_result()


@pytest.fixture(scope="module")
def found(made):
    return sweeps(made)


def by_place(found):
    return {(one.graph, one.method, one.label): one for one in found}


def test_sweeps_have_all_settings_and_known_ranges(found):
    assert len(found) == 2 * 2 * len(SETTINGS)
    for one in found:
        assert one.range == pytest.approx(SLOPES.get((one.method, one.label), 0.0))
        assert one.seeds == [0, 1, 2, 3, 4]
        assert one.default in one.test
    tau = by_place(found)["Cora", "EPAGCL", "τ"]
    assert (tau.worst, tau.best, tau.default) == (0.1, 1.0, 0.3)
    assert list(tau.test) == [0.1, 0.2, 0.3, 0.5, 1.0]


def test_two_values_give_the_p_of_the_paired_test_of_the_study():
    random = np.random.default_rng(0)
    runs = random.normal(80, 1, (2, 6))
    one = Sweep(
        "g", "m", "τ", 0.1, {value: dict(enumerate(row)) for value, row in zip((0.1, 0.2), runs, strict=True)}, {}
    )
    test = paired_test(runs[0] - runs[1])
    assert one.range == pytest.approx(abs(test.mean))
    assert one.error == pytest.approx(test.sd / 2**0.5 * (1 / 6 + OVERLAP) ** 0.5)
    assert one.p == pytest.approx(test.p, rel=1e-4)


def test_error_and_p_by_their_formulas():
    table = np.array([[80.0, 82.0, 81.0], [81.0, 82.5, 83.0], [79.0, 80.0, 81.5]])
    one = Sweep("g", "m", "τ", 1, {value: dict(enumerate(row)) for value, row in enumerate(table)}, {})
    rest = table - table.mean(1, keepdims=True) - table.mean(0) + table.mean()
    error = ((rest**2).sum() / 4 * (1 / 3 + OVERLAP)) ** 0.5
    assert one.error == pytest.approx(error)
    assert one.p == pytest.approx(studentized_range.sf(one.range / error, 3, 4))


def test_few_seeds_decide_nothing_and_equal_runs_are_certain():
    two_seeds = Sweep("g", "m", "τ", 1, {1: {0: 80.0, 1: 81.0}, 2: {0: 90.0, 1: 91.0}}, {})
    assert (two_seeds.error, two_seeds.p) == (None, None)
    assert significant_sweeps([two_seeds]) == set()
    same = {0: 80.0, 1: 81.0, 2: 82.0}
    assert Sweep("g", "m", "τ", 1, {1: same, 2: same}, {}).p == 1.0
    shifted = {seed: run + 1 for seed, run in same.items()}
    assert Sweep("g", "m", "τ", 1, {1: same, 2: shifted}, {}).p == 0.0


def test_only_common_seeds_count():
    one = Sweep("g", "m", "τ", 1, {1: {0: 80.0, 1: 82.0, 2: 84.0}, 2: {0: 81.0, 2: 85.0, 3: 0.0}}, {})
    assert one.seeds == [0, 2]
    assert one.means == {1: 82.0, 2: 83.0}


def test_settings_without_influence_do_not_matter(found):
    matter = significant_sweeps(found)
    assert matter == {(graph, *place) for graph in ("Cora", "Chameleon") for place in SLOPES}
    assert max(NOISE) < min(SLOPES.values())


def test_mean_ranges_are_ordered_and_need_all_graphs(found):
    means = mean_ranges(found)
    assert list(means)[:3] == [("EPAGCL", "τ"), ("EPAGCL", "epochs"), ("EPAGCL+", "width")]
    fewer = [one for one in found if (one.graph, one.method, one.label) != ("Chameleon", "EPAGCL", "τ")]
    assert ("EPAGCL", "τ") not in mean_ranges(fewer)
    one_graph = [one for one in found if one.method == "EPAGCL" or one.graph == "Cora"]
    assert len(mean_ranges(one_graph)) == 2 * len(SETTINGS)  # each method by its own number of graphs


def test_a_sweep_that_lacks_a_value_or_its_default_is_left_out(made):
    without = {**made, "cells": [one for one in made["cells"] if one["row"] != "EPAGCL, τ = 0.2"]}
    assert {(one.method, one.label) for one in sweeps(made)} - {(one.method, one.label) for one in sweeps(without)} == {
        ("EPAGCL", "τ")
    }
    no_default = {**made, "cells": [one for one in made["cells"] if one["row"] != "EPAGCL, default"]}
    assert {one.method for one in sweeps(no_default)} == {"EPAGCL+"}


def test_validation_chooses_and_the_test_nodes_judge():
    seeds = range(3)
    test = {value: dict.fromkeys(seeds, score) for value, score in ((1, 80.0), (2, 85.0), (3, 83.0))}
    validation = {value: dict.fromkeys(seeds, score) for value, score in ((1, 80.0), (2, 80.0), (3, 81.0))}
    one = Sweep("g", "m", "τ", 1, test, validation)
    assert (one.chosen, one.best) == (3, 2)  # test nodes have no say
    assert one.gain == pytest.approx(3.0)
    tied = Sweep("g", "m", "τ", 2, test, {value: dict.fromkeys(seeds, 80.0) for value in test})
    assert (tied.chosen, tied.gain) == (2, 0.0)  # a tie keeps the default
    assert Sweep("g", "m", "τ", 1, test, {}).chosen is None


def test_components_are_those_of_the_crossed_tables(made):
    parts = components(made)
    for title, effects in SEED_EFFECTS.items():
        assert parts["Cora", title].of_rows == pytest.approx(effects.var(ddof=1))
        assert parts["Cora", title].of_columns == pytest.approx(SPLIT_EFFECTS.var(ddof=1))
        assert parts["Cora", title].rest == pytest.approx(0.0, abs=1e-9)
