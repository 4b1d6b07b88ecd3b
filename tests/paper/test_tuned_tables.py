import pytest

from epagcl.paper.tuned_tables import (
    against,
    figures,
    outer_of,
    ranking_of,
    reading,
    standing,
    tables,
    untrained_gains,
)
from tests.paper.conftest import cell, result


def search(validation, epochs=100):
    trials = [{"state": "complete", "validation": value, "epochs": epochs, "seconds": 2.0} for value in validation]
    return {"outer": 0, "settings": {"epochs": epochs}, "trials": trials}


def row(title, graph, runs, untrained=None, searches=()):
    made = cell(title, graph, runs)
    made["untrained"] = None if untrained is None else cell(title, graph, untrained)["protocols"]["strict"]
    return made | {"searches": list(searches)}


@pytest.fixture
def made():
    """Two graphs on which EPAGCL+ leads, and DGI, tuned, is below the propagated features."""
    cells = []
    for graph in ("Cora", "Texas"):
        cells += [
            row("raw features", graph, [60, 61, 62]),
            row("propagated", graph, [80, 81, 82.1]),
            row("DGI", graph, [78, 79.2, 80], [70, 71, 72], [search([0.7, 0.8])]),
            row("EPAGCL+", graph, [85, 86.1, 87], [80, 81, 82], [search([0.9, 0.8], 200)]),
        ]
    return result(cells, datasets=("cora", "texas"), protocols=("strict",))


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


def test_tests_and_text(made):
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
    text = " ".join(reading(made))
    assert "EPAGCL+ 1.0, propagated 2.0, untrained EPAGCL+ 3.0, DGI 4.0" in text
    assert "No pair differs (Wilcoxon's test of each pair, Holm: 15 pairs)." in text
    assert "Tuned, and on average over the graphs below propagated, in points: DGI 2.0." in text
    assert "untrained encoder has a higher mean" not in text
    made["cells"][2]["untrained"] = row("DGI", "Cora", [80, 80, 81])["protocols"]["strict"]
    words = "A method's own untrained encoder has a higher mean than the tuned method in 1 of 4 cases (Cora 1;"
    assert f"{words} EPAGCL+: none). No test decides any of them." in " ".join(reading(made))
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


def test_the_standing_in_words(made):
    words = standing(made)
    assert words.startswith("mean rank 1.0 of 6 rows over 2 graphs, and a significant lead over no other row;")
    assert words.endswith("of 2 tests against the other trained methods on single graphs, 2 find it better and 0 worse")
    made["cells"] = [one for one in made["cells"] if one["row"] != "EPAGCL+"]
    assert standing(made) == ""


def test_nothing_is_drawn_without_methods():
    assert figures(result([], datasets=("cora",), protocols=("strict",))) == {}


def test_rows_that_differ_over_many_graphs_are_named():
    means = {"raw features": 50.0, "propagated": 60.0, "EPAGCL+": 70.0}
    cells = [
        row(title, f"graph {k}", [mean + (k % 3 if title != "propagated" else 0) + 0.1 * seed for seed in range(3)])
        for k in range(9)
        for title, mean in means.items()
    ]
    graphs = [f"graph {k}" for k in range(9)]
    text = " ".join(reading(result(cells, datasets=graphs, protocols=("strict",))))
    assert "These differ significantly: EPAGCL+ from every other row; propagated from raw features." in text
    assert "No other pair does (Wilcoxon's test of each pair, Holm: 3 pairs)." in text
