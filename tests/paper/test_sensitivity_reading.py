import numpy as np
import pytest
from scipy.stats import studentized_range

from epagcl.paper.sensitivity_reading import (
    Sweep,
    components,
    mean_ranges,
    reading,
    signed,
    sweeps,
    that_matter,
)
from epagcl.paper.sweeps import SETTINGS
from epagcl.study.paired_test import OVERLAP, paired_test
from tests.paper.conftest import result
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
    assert that_matter([two_seeds]) == set()
    same = {0: 80.0, 1: 81.0, 2: 82.0}
    assert Sweep("g", "m", "τ", 1, {1: same, 2: same}, {}).p == 1.0
    shifted = {seed: run + 1 for seed, run in same.items()}
    assert Sweep("g", "m", "τ", 1, {1: same, 2: shifted}, {}).p == 0.0


def test_only_common_seeds_count():
    one = Sweep("g", "m", "τ", 1, {1: {0: 80.0, 1: 82.0, 2: 84.0}, 2: {0: 81.0, 2: 85.0, 3: 0.0}}, {})
    assert one.seeds == [0, 2]
    assert one.means == {1: 82.0, 2: 83.0}


def test_settings_without_influence_do_not_matter(found):
    matter = that_matter(found)
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


def test_words_and_numbers_agree(made):
    first, second, tuning, variance, scores, rule = reading(made)
    assert first.startswith("**EPAGCL is most sensitive to τ, and least to ")
    assert "as a mean over 2 graphs: τ 8.0, epochs 4.0, " in first
    assert "explains: τ on 2, epochs on 2, " in first
    assert "The widest sweep is τ on Cora: 66.0 at 0.1, 74.0 at 1, and 70.0 at the default 0.3." in first
    assert second.startswith("**EPAGCL+ is most sensitive to width, and least to ")
    assert "width on 2, " in second
    # Validation follows the test accuracy: τ to 1 (+4), epochs to 1000 (+1) and width to 512 (+0.5), on both graphs.
    assert f"by {signed(2 * (4 + 1 + 0.5) / 24, 2)} points on average** over 24 sweeps" in tuning
    assert "from +0.0 to +4.0); in 18 the validation nodes keep the default" in tuning
    assert "the largest gain is +4.0 (EPAGCL on Cora, τ 0.3 to 1)" in tuning
    # Variance of seeds: 1 and 16; of splits: 5.
    assert "spend on seeds first" in variance
    assert "splits make up 24% to 83%, training seeds 17% to 76%, and their interaction 0%." in variance
    assert "in 2 of 4 pairs of graph and method; seeds do for EPAGCL+ on Cora, EPAGCL+ on Chameleon." in variance
    errors = [
        np.mean([(seeds + 5 / 10) ** 0.5 for seeds in (1, 16)]),
        np.mean([(seeds / 10 + 5) ** 0.5 for seeds in (1, 16)]),
        np.mean([((seeds + 5) / 10) ** 0.5 for seeds in (1, 16)]),
    ]
    for error in errors:
        assert f"{error:.2f}" in scores
    assert rule.startswith("**Nothing was chosen here.**")


def test_the_advice_follows_the_larger_variance(made):
    only = {**made, "crossed": [one for one in made["crossed"] if one["row"] == "EPAGCL"]}
    assert "**Seeds or splits: spend on splits first.**" in " ".join(reading(only))
    assert "in 2 of 2 pairs of graph and method. Another" in " ".join(reading(only))


def test_without_validation_or_runs_there_is_less_to_say():
    assert not [one for one in reading(demo_result(("Cora",), validation=False)) if "Tuning one setting" in one]
    assert reading(result([], crossed=[])) == []


def test_differences_have_a_sign_and_no_negative_zero():
    assert [signed(-0.04), signed(0.06), signed(-1.26, 2)] == ["+0.0", "+0.1", "-1.26"]
