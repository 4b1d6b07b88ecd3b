import pytest

from epagcl.paper.theory_tables import _signed_mean_and_std, family_title, three_digits, wilson


def test_wilson_interval():
    # 5 of 50 by hand: (0.1 + 0.0384 ± 1.96·√(0.0018 + 0.000384)) / 1.0768
    low, high = wilson(5, 50)
    assert (low, high) == pytest.approx((0.0435, 0.2136), abs=1e-3)
    assert wilson(0, 10)[0] == 0
    assert wilson(10, 10)[1] == 1


def test_a_change_has_a_sign_unless_it_rounds_to_minus_zero():
    changes = {0.0123: "+1.23 ± 0.10", -0.0123: "-1.23 ± 0.10", 1e-6: "+0.00 ± 0.10", -1e-6: "0.00 ± 0.10"}
    assert {change: _signed_mean_and_std(change, 0.001) for change in changes} == changes


def test_titles_and_missing_numbers():
    assert family_title({"family": "regular, d = 3", "stay": 0.0}) == "regular, d = 3"
    assert family_title({"family": "regular, d = 3", "stay": 0.8}) == "regular, d = 3, homophilous"
    assert [three_digits(value) for value in (0.98765, None)] == ["0.988", "–"]
