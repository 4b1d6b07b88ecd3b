import pytest

from epagcl.evaluation.scores import spread
from epagcl.study.joining import joined
from tests.paper.conftest import cell


def seeds_from(first, made):
    """Return a result whose seeds begin at ``first``."""
    seeds = [first + seed for seed in made["seeds"]]
    protocols = {name: {**scores, "seeds": seeds} for name, scores in made["protocols"].items()}
    return {**made, "seeds": seeds, "protocols": protocols}


def test_seeds_of_two_computations_are_one_result():
    old = cell("GRACE", "Cora", [80, 82], hardware=["cpu"], dates=["2026-01-01"], commits=["a"])
    new = seeds_from(2, cell("GRACE", "Cora", [90], hardware=["H200"], dates=["2026-02-01"], commits=["b"]))
    both = joined(old, new)
    scores = both["protocols"]["strict"]
    assert both["seeds"] == scores["seeds"] == [0, 1, 2]
    assert scores["accuracy"]["runs"] == pytest.approx([0.8, 0.82, 0.9])
    assert scores["accuracy"]["mean"] == pytest.approx(0.84)
    assert both["training"] == {"epochs": [10, 10, 10], "seconds": [1.0, 1.0, 1.0]}
    assert (both["hardware"], both["dates"]) == (["H200", "cpu"], ["2026-01-01", "2026-02-01"])
    assert both["commits"] == ["a", "b"]


def test_new_scores_replace_old_ones_of_the_same_seed():
    both = joined(cell("GRACE", "Cora", [80, 82]), seeds_from(1, cell("GRACE", "Cora", [50])))
    assert both["protocols"]["strict"]["accuracy"]["runs"] == pytest.approx([0.8, 0.5])


def test_a_result_whose_scores_are_all_replaced_leaves_no_trace():
    old = cell("GRACE", "Cora", [80, 82], hardware=["cpu"], dates=["2026-01-01"], commits=["a"])
    new = cell("GRACE", "Cora", [90, 91, 92], hardware=["H200"], dates=["2026-02-01"], commits=["b"])
    assert joined(old, new) == new
    assert joined(new, old)["commits"] == ["a", "b"]


def test_protocols_of_either_computation_are_kept():
    both = joined(cell("GRACE", "Cora", [80], "paper"), cell("GRACE", "Cora", [82]))
    assert {name: scores["accuracy"]["mean"] for name, scores in both["protocols"].items()} == {
        "paper": 0.8,
        "strict": 0.82,
    }


def test_what_one_computation_did_not_record_is_none():
    old = cell("GRACE", "Cora", [80])
    new = seeds_from(1, cell("GRACE", "Cora", [81], training={"epochs": [5], "seconds": [2.0], "memory": [3]}))
    assert joined(old, new)["training"] == {"epochs": [10, 5], "seconds": [1.0, 2.0], "memory": [None, 3]}
    raw = [cell("raw features", "Cora", [60], training=None), cell("raw features", "Cora", [61], training=None)]
    assert joined(*raw)["training"] is None


def test_validation_is_joined_if_both_have_it():
    old, new = cell("GRACE", "Cora", [80, 82]), seeds_from(1, cell("GRACE", "Cora", [50]))
    assert "validation" not in joined(old, new)["protocols"]["strict"]
    old["protocols"]["strict"]["validation"] = spread([0.7, 0.6])
    assert "validation" not in joined(old, new)["protocols"]["strict"]
    new["protocols"]["strict"]["validation"] = spread([0.9])
    assert joined(old, new)["protocols"]["strict"]["validation"]["runs"] == [0.7, 0.9]
