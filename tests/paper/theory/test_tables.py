import pytest

from epagcl.paper.theory.tables import _signed_mean_and_std, family_title, repaired_share, tables, three_digits, wilson
from tests.paper.theory_demo import theory_of_demo


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


def test_both_readings_stand_in_the_tables_of_theorem_3_3():
    demo = theory_of_demo()
    additions, candidates, small = (table for table in tables(demo) if table.slug.startswith("theorem-3-3"))
    assert additions.columns[3:] == [f"{what}, {q}" for what in ("within", "between", "repaired") for q in ("d", "d+1")]
    counts = demo["graphs"]["demo"]["theorem_3_3"]
    total, against = counts["added"]["d1"]["within"][:2]
    assert additions.rows[-1][4] == f"{100 * against / total:.2f}"
    assert candidates.rows[0][-1] == f"{100 * repaired_share(counts['dropped']['d1']):.2f}"
    assert all(len(row) == len(table.columns) for table in (additions, candidates, small) for row in table.rows)
    assert small.rows[0] == ["3", "d", "27", "0", "9", "0", "27", "0", "9", "0"]


def test_share_of_changes_that_meet_the_repaired_condition():
    assert repaired_share({"within": [6, 1, 0.5, 0.1, 2, 0], "between": [4, 0, 0.5, 0.0, 3, 0]}) == 0.5
    assert repaired_share({"within": [0] * 6, "between": [0] * 6}) is None
