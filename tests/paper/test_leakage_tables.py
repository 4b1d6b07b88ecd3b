import pytest

from epagcl.paper import leakage_tables


def run(test, validation=None, new_split=None, strict=0.5, seed=0, rank=20.0):
    count = len(test)
    return {
        "seed": seed,
        "device": "cpu",
        "epochs": [50 * (k + 1) for k in range(count)],
        "test": test,
        "validation": validation or test,
        "new_split": new_split or test,
        "effective_rank": [rank] * count,
        "strict": strict,
        "seconds": 1.0,
    }


def made(*runs, reported=None, method="EPAGCL"):
    row = {"graph": "Cora", "method": method, "source": "paper", "reported": reported, "runs": list(runs)}
    return {"rows": [row], "absent": {}}


def test_accuracy_by_each_rule():
    scores = leakage_tables.rule_scores(run([0.6, 0.8, 0.7], [0.5, 0.4, 0.45], [0.71, 0.7, 0.9], strict=0.65))
    assert scores == pytest.approx({"strict": 65, "paper": 70, "validation": 60, "maximum": 80, "authors": 90})
    tied = run([0.6, 0.8, 0.7], [0.4, 0.5, 0.5])
    assert leakage_tables.rule_scores(tied)["validation"] == pytest.approx(80)  # the earliest of equal ones


def test_table_has_the_difference_of_each_rule():
    result = made(
        run([0.80, 0.82], [0.5, 0.4], [0.84, 0.81], strict=0.81),
        run([0.82, 0.82], [0.5, 0.4], [0.84, 0.84], strict=0.81),
        reported=[86.07, 0.32],
    )
    table, gains = leakage_tables.tables(result)
    assert gains.columns == ["row", "Cora"]
    assert gains.rows == [["EPAGCL", "+2.0"]]  # two runs are not tested
    assert table.columns[2:7] == list(leakage_tables.RULES.values())
    expected = "81.0 ± 0.0|82.0 ± 0.0 (+1.0)|81.0 ± 1.4 (+0.0)|82.0 ± 0.0 (+1.0)|84.0 ± 0.0 (+3.0)|86.1 ± 0.3"
    assert table.rows == [["Cora", "EPAGCL", *expected.split("|")]]
    assert "2 runs" in table.note


def test_reading_separates_early_stopping_from_leakage():
    """The last look has 82, validation chooses the first with 83, and a new split has 85."""
    seen = run([0.83, 0.82], validation=[0.9, 0.8], new_split=[0.85, 0.81], strict=0.81)
    gains, gap, steady = leakage_tables.reading(made(seen, reported=[86.0, 0.3]))
    assert "in points: EPAGCL +3.0 (+1.0 and +2.0)." in gains
    assert "the paper reports 86.0. With its classifier, the last epoch reaches 82.0." in gap
    assert "Choosing the epoch on validation nodes changes this by +1.0, the authors' rule by another +2.0" in gap
    assert gap.endswith("to 85.0. This leaves 1.0 points.")
    assert steady.startswith("No run loses 5 points")
    _, gap, _ = leakage_tables.reading(made(seen, reported=[81.0, 0.3]))
    assert gap.endswith("82.0, which is not below the paper.")


def test_the_authors_rule_is_tested_against_the_last_epoch():
    runs = [run([0.80, 0.82 + k / 1000], new_split=[0.85 + k / 900, 0.81], seed=k) for k in range(5)]
    result = made(*runs)
    test = leakage_tables.rule_tests(result["rows"])["Cora", "EPAGCL"]
    assert (test.n, test.mean, test.verdict) == (5, pytest.approx(3.02, abs=0.01), "better")
    gains, *_ = leakage_tables.reading(result)
    assert (
        "Of 1 paired test of a method on a graph, 1 find the rule higher, 0 lower, and 0 are undecided (5 runs" in gains
    )


def test_collapses_hidden_by_the_maximum_are_reported_and_excluded_from_the_mean():
    result = made(run([0.92, 0.256], strict=0.25, seed=1, rank=1.2), run([0.92, 0.92], strict=0.91), method="GCA*")
    gains, hidden = leakage_tables.reading(result)
    assert r": GCA\* +0.0 (+0.0 and +0.0)." in gains  # of the stable run
    assert hidden.startswith(
        "**The maximum over looks hides a loss of 5 points or more by the last epoch in 1 of 2 runs**"
    )
    assert r"GCA\* on Cora, seed 1: 92.0 at its best look, 25.6 at the end (effective rank 1.2)" in hidden
    title = leakage_tables.figures(result)[""].axes[0].get_title()
    assert title == "Cora\nwithout 1 run that collapsed"
    [only] = leakage_tables.reading(made(run([0.92, 0.256], strict=0.25)))  # all collapsed: there is no mean
    assert "in 1 of 1 run**" in only
    assert set(leakage_tables.figures(made(run([0.92, 0.256], strict=0.25)))) == {"", "epochs"}


def test_nothing_is_measured_yet():
    none = {"rows": [], "absent": {}}
    assert leakage_tables.figures(none) == {}
    assert leakage_tables.reading(none) == ["Nothing is measured yet."]
    assert leakage_tables.tables(none)[0].rows == []


def test_panels_of_four_graphs_fill_their_grid():
    rows = [{**made(run([0.8, 0.81]))["rows"][0], "graph": graph} for graph in "abcd"]
    figure = leakage_tables.figures({"rows": rows, "absent": {}})[""]
    assert [axes.get_title() for axes in figure.axes if axes.axison] == list("abcd")
    assert len(figure.axes) == 4


def test_a_difference_of_less_than_half_a_digit_has_no_minus():
    assert [leakage_tables._signed(points) for points in (-0.04, 0.04, -0.06)] == ["+0.0", "+0.0", "−0.1"]


def test_one_run_has_no_deviation():
    table, _ = leakage_tables.tables(made(run([0.80, 0.82], [0.5, 0.4], [0.84, 0.81], strict=0.81)))
    assert table.rows[0][2:] == [
        "81.0",
        "82.0 (+1.0)",
        "80.0 (-1.0)".replace("-", "−"),
        "82.0 (+1.0)",
        "84.0 (+3.0)",
        "–",
    ]
    assert "deviation of 1 run;" in table.note
