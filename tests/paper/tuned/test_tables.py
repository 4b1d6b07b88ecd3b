import pytest

from epagcl.paper.tuned.budget import outer_of
from epagcl.paper.tuned.tables import against, figures, outer_ratios, ranking_of, standing, tables, untrained_gains
from epagcl.study.paired_test import group_ratio, grouped_tests
from tests.paper.conftest import result
from tests.paper.tuned_demo import invented, row


@pytest.fixture
def made():
    return invented()


def test_tables(made):
    accuracies, tested, differences, training, searches = tables(made)
    rows = {line[0]: [str(one) for one in line] for line in accuracies.rows}
    assert rows["EPAGCL+"][1:] == ["86.0", "86.0", "1.0"]
    assert rows["DGI"][1] == "79.1 ▼"
    assert rows["untrained DGI"] == ["untrained DGI", "71.0 ▼", "71.0 ▼", "5.0"]
    assert "number of epochs among ten, except for BGRL, whose learning rate depends on it." in accuracies.note
    assert [line[:5] for line in tested.rows] == [
        ["raw features", "+25.03", "2", "0", "0"],
        ["propagated", "+5.00", "2", "0", "0"],
        ["DGI", "+6.97", "2", "0", "0"],
        ["untrained DGI", "+15.03", "2", "0", "0"],
        ["untrained EPAGCL+", "+5.03", "2", "0", "0"],
    ]
    assert [line[0] for line in differences.rows] == [line[0] for line in tested.rows]
    assert differences.rows[2][1] == "+7.0 ▲ (0.2)"
    assert [line[:5] for line in training.rows] == [
        ["DGI", "+8.07", "2", "0", "0"],
        ["EPAGCL+", "+5.03", "2", "0", "0"],
    ]
    chosen = {line[0]: line[1:] for line in searches.rows}
    assert chosen["DGI"] == ["2", "0", "+10.0", "100", "0"]
    assert chosen["EPAGCL+"] == ["2", "2", "+0.0", "200", "0"]


def test_tests_and_figures(made):
    assert untrained_gains(made)["Cora", "DGI"].mean == pytest.approx(8.07, abs=0.01)
    assert against(made, "EPAGCL+")["Texas", "propagated"].verdict == "better"
    assert list(ranking_of(made).mean_ranks) == [
        "EPAGCL+",
        "propagated",
        "untrained EPAGCL+",
        "DGI",
        "untrained DGI",
        "raw features",
    ]
    assert set(figures(made)) == {"", "ranks"}


def test_runs_on_one_outer_test_set_are_a_group():
    """Five runs that agree on each of two test sets, but not across them, decide little."""
    runs = [80.0, 80.1, 79.9, 80.0, 80.1, 86.0, 86.1, 85.9, 86.0, 86.1]
    cells = [
        cell
        for graph in ("Cora", "Texas")
        for cell in (row("propagated", graph, [79.0, 79.1] * 5), row("EPAGCL+", graph, runs))
    ]
    tests = against(result(cells, datasets=("cora", "texas"), protocols=("strict",)), "EPAGCL+")
    assert {test.verdict for test in tests.values()} == {"undecided"}
    assert {test.n for test in tests.values()} == {10}
    assert [outer_of(seed) for seed in (0, 4, 5, 9)] == [0, 0, 1, 1]


def test_pairs_with_an_untrained_encoder_have_their_own_variance_of_test_sets():
    noise = [0.0, 0.2, -0.1, 0.1, -0.2]
    runs = {
        "GRACE": [80.0 + one for one in noise] + [86.0 + one for one in noise[::-1]],
        "EPAGCL+": [85.0 + one for one in noise[1:] + noise[:1]] * 2,
    }
    encoder = [70.0 + one for one in noise[2:] + noise[:2]] * 2
    cells = [row("GRACE", "Cora", runs["GRACE"], encoder), row("EPAGCL+", "Cora", runs["EPAGCL+"])]
    made = result(cells, datasets=("cora",), protocols=("strict",))
    grace, ours, untrained = (dict(enumerate(own)) for own in (*runs.values(), encoder))
    ratios = outer_ratios(made)["Cora"], outer_ratios(made, untrained=True)["Cora"]
    assert ratios[0] == pytest.approx(group_ratio([(grace, ours)], outer_of))
    assert ratios[1] == pytest.approx(group_ratio([(grace, untrained), (ours, untrained)], outer_of))
    tests = against(made, "EPAGCL+")
    pairs = {"GRACE": (ours, grace), "untrained GRACE": (ours, untrained)}
    expected = grouped_tests(pairs, outer_of, dict(zip(pairs, ratios, strict=True)))
    assert {title: test for (_, title), test in tests.items()} == expected


def test_the_standing_in_words(made):
    words = standing(made)
    assert words.startswith("mean rank 1.0 of 6 rows over 2 graphs, and a significant lead over no other row;")
    assert words.endswith("of 2 tests against the other trained methods on single graphs, 2 find it better and 0 worse")
    made["cells"] = [one for one in made["cells"] if one["row"] != "EPAGCL+"]
    assert standing(made) == ""


def test_nothing_is_drawn_without_methods():
    assert figures(result([], datasets=("cora",), protocols=("strict",))) == {}
