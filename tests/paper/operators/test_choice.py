import math

import pytest

from epagcl.paper.operators.choice import CRITERIA, accuracies, choices, choose, fixed, rank_correlation
from tests.paper.operators_demo import invented

LOWEST, ESTIMATED, GAIN, ESTIMATED_GAIN = CRITERIA


def test_accuracies_are_means_in_percent():
    assert accuracies(invented()["graphs"]["calm"]) == pytest.approx({"X": 61, "A": 81, "P": 85})


def test_lowest_rate_chooses_raw_features():
    for criterion in (LOWEST, ESTIMATED):
        made = choices(invented(), criterion)
        assert {name: choice.chosen for name, choice in made.items()} == {"calm": "X", "noisy": "X"}
        assert made["calm"].loss == pytest.approx(24)
        assert made["calm"].correlation == -1
        assert (made["noisy"].loss, made["noisy"].correlation) == (0, 1)


def test_gain_weighs_errors_against_messages():
    made = choices(invented(), GAIN)
    assert made["calm"].chosen == "P"  # (1 − 0.5)² · 20 = 5 against (1 − 0.1)² · 4 = 3.24
    assert made["noisy"].chosen == "X"  # 1 against (1 − 0.75)² · 4 = 0.25 and (1 − 0.9)² · 20 = 0.2
    assert [choice.correlation for choice in made.values()] == [1, 1]
    assert choices(invented(), ESTIMATED_GAIN)["noisy"].chosen == "P"  # (1 − 0.7)² · 20 = 1.8


def test_choice_among_operators_that_propagate():
    assert {name: choice.chosen for name, choice in choices(invented(), LOWEST, propagated=True).items()} == {
        "calm": "A",
        "noisy": "A",
    }
    choice = choose(invented()["graphs"]["calm"], LOWEST, ["A", "P"])
    assert (choice.chosen, choice.correlation, choice.loss) == ("A", -1, pytest.approx(4))


def test_losses_of_a_fixed_operator():
    assert fixed(invented(), "A") == pytest.approx({"calm": 4, "noisy": 20})


def test_rank_correlation():
    assert rank_correlation([1, 2, 3, 4], [2, 4, 6, 9]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 1, 2], [1, 2, 3]) == pytest.approx(math.sqrt(3) / 2)  # ties have mean ranks
    assert math.isnan(rank_correlation([1, 1], [1, 2]))
