import pytest

from epagcl.paper.paired import ENOUGH, compare, correct, verdict


def pair(differences):
    """Return a comparison with these differences in points, with the seeds of one side in reverse order."""
    seeds = range(len(differences))
    ours = {seed: 0.8 + differences[seed] / 100 for seed in seeds}
    return compare("Cora", "strict", "GRACE", ours, dict.fromkeys(reversed(seeds), 0.8))


def test_runs_are_paired_by_seed():
    comparison = compare("Cora", "strict", "GRACE", {0: 0.8, 1: 0.9, 2: 0.7}, {2: 0.6, 1: 0.9, 5: 0.1})
    assert comparison["seeds"] == [1, 2]
    assert (comparison["ours"], comparison["theirs"]) == ([0.9, 0.7], [0.9, 0.6])
    assert comparison["mean_difference"] == pytest.approx(5)
    assert (comparison["wins"], comparison["ties"], comparison["losses"]) == (1, 1, 0)
    assert comparison["p"] is None
    assert "p" not in compare("Cora", "strict", "GRACE", {0: 0.8}, {1: 0.8})


def test_equal_differences_tie_despite_rounding():
    comparison = compare("Cora", "strict", "GRACE", {0: 0.1 + 0.2}, {0: 0.3})
    assert (comparison["wins"], comparison["ties"]) == (0, 1)


def test_verdicts_are_two_sided_and_corrected():
    better, worse, level = pair([1.0] * ENOUGH), pair([-1.0] * ENOUGH), pair([1.0, -1.0] * (ENOUGH // 2))
    few = pair([1.0] * (ENOUGH - 1))
    family = [better, worse, level, few]
    correct(family)
    assert [verdict(comparison) for comparison in family] == ["better", "worse", "undecided", "untested"]
    assert better["holm"]["two_sided"] == pytest.approx(3 * 2 * 2.0**-ENOUGH)
    assert set(better["holm"]) == {"better", "worse", "two_sided"}
    assert few["holm"] == {}
