import pytest

from epagcl.paper.paired import compare, corrected_tests, differences, wins_ties_losses


def pair(points):
    """Return a comparison with these differences in points, with the seeds of one side in reverse order."""
    seeds = range(len(points))
    ours = {seed: 0.8 + points[seed] / 100 for seed in seeds}
    return compare("Cora", "strict", "GRACE", ours, dict.fromkeys(reversed(seeds), 0.8))


def test_runs_are_paired_by_seed():
    comparison = compare("Cora", "strict", "GRACE", {0: 0.8, 1: 0.9, 2: 0.7}, {2: 0.6, 1: 0.9, 5: 0.1})
    assert comparison["seeds"] == [1, 2]
    assert (comparison["ours"], comparison["theirs"]) == ([0.9, 0.7], [0.9, 0.6])
    assert differences(comparison) == pytest.approx([0, 10])
    assert wins_ties_losses(comparison) == "1/1/0"
    assert compare("Cora", "strict", "GRACE", {0: 0.8}, {1: 0.8})["seeds"] == []


def test_equal_differences_tie_despite_rounding():
    assert wins_ties_losses(compare("Cora", "strict", "GRACE", {0: 0.1 + 0.2}, {0: 0.3})) == "0/1/0"


def test_verdicts_are_two_sided_and_corrected():
    better, worse, level = pair([1.0, 1.1, 0.9, 1.2]), pair([-1.0, -1.1, -0.9, -1.2]), pair([1.0, -1.0] * 3)
    few = pair([1.0] * 2)
    tests = corrected_tests([better, worse, level, few])
    assert [test.verdict for test in tests] == ["better", "worse", "undecided", "undecided"]
    assert tests[0].corrected == pytest.approx(3 * tests[0].p)
