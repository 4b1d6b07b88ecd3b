import pytest

from epagcl.paper.cell_scores import OURS
from epagcl.paper.page.first_page import GAINS, RANKS, figures, first_page
from epagcl.study.summary import summarise
from tests.paper.conftest import cell, result
from tests.study.invented import invented


@pytest.fixture
def comparison():
    rows = {
        "raw features": {"A": [60.0, 61.0, 62.0], "B": [50.0, 51.0, 52.0]},
        "propagated": {"A": [70.0, 71.0, 72.0], "B": [60.0, 61.0, 62.0]},
        "untrained EPAGCL+": {"A": [71.0, 72.0, 73.0], "B": [61.0, 62.0, 63.0]},
        "GRACE": {"A": [68.0, 69.0, 70.1], "B": [55.0, 56.1, 57.0]},
        OURS: {"A": [80.0, 81.0, 82.0], "B": [70.0, 71.0, 72.0]},
    }
    return summarise(invented(rows), command="epagcl compare", seeds=3, protocols=["strict"])


def test_sentences_have_the_numbers_of_the_comparison(comparison):
    text = " ".join(first_page({}, comparison).split())
    assert "A row is a method or a reference" in text
    assert (
        "1. **EPAGCL+ has the best mean rank over 2 graphs: 1.0 of 5 rows; tests over the graphs find it "
        "significantly better than no other row.**" in text
    )
    assert (
        "1. Tests against the other trained methods on single graphs find EPAGCL+ better in 2 of 2 cases and "
        "worse in 0." in text
    )
    assert (
        "2. **By a linear classifier with a penalty, 1 of 2 trained methods have a lower mean accuracy and a worse "
        "mean rank than propagated features, which need no training.**" in text
    )
    assert (
        "2. Methods below propagated features have means of 62.5 to 62.5; propagated features have 66.0, raw "
        "features 56.0 and EPAGCL+ 76.0." in text
    )
    assert "Tests over the graphs separate neither from propagated features." in text
    assert f"figures/paper/{RANKS}.png" in text
    assert f"figures/paper/{GAINS}.svg" in text


def test_the_tuned_track_is_in_the_same_sentences(comparison):
    rows = {"propagated": 70.0, "GRACE": 60.0, "GCA": 65.0, "EPAGCL": 68.0, OURS: 80.0}
    noise = [0.0, 0.1, -0.1]
    cells = [
        cell(title, graph, [mean + (1 + place) * shift for shift in noise]) | {"untrained": None}
        for graph in ("Cora", "Texas")
        for place, (title, mean) in enumerate(rows.items())
    ]
    tuned = result(cells, datasets=("cora", "texas"), protocols=("strict",))
    runs = {
        "EPAGCL": [80.0, 80.1, 80.2],
        "GRACE": [70.0, 70.0, 71.0],
        "GCA": [80.0, 80.2, 80.1],
        OURS: [60.0, 60.1, 60.3],
    }
    measured = [cell(title, graph, own) for graph in ("Cora", "Texas") for title, own in runs.items()]
    for one in measured:
        one["protocols"]["paper"] = one["protocols"]["strict"]
    accuracy = result(measured, datasets=("cora", "texas"), protocols=("strict", "paper"))
    text = " ".join(first_page({"tuned": tuned, "accuracy": accuracy}, comparison).split())
    assert (
        "over 2 graphs: 1.0 of 5 rows, and 1.0 of 5 if every method is tuned with one budget; tests over the "
        "graphs find it significantly better than no other row.**" in text
    )
    assert "(tuned: 6 of 6, and 0). Tuned, EPAGCL+ is significantly better than no other row." in text
    assert (
        "With the paper's classifier, which has no penalty, EPAGCL+ has mean rank 4.0 of 4 over 2 graphs: use one with "
        "a penalty." in text
    )
    assert "Of the tests that find it worse, 0 are against EPAGCL+." in text
    assert (
        "**EPAGCL, with its paper's settings, is better than another method in 4 of 6 tests, and worse in 0.**" in text
    )
    assert (
        "EPAGCL has mean rank 3.0 of 5 rows, against 5.0 (GRACE) and 4.0 (GCA). Tests over the graphs separate "
        "neither from EPAGCL." in text
    )
    without = result([one for one in cells if one["row"] != "GCA"], datasets=("cora", "texas"), protocols=("strict",))
    text = " ".join(first_page({"tuned": without, "accuracy": accuracy}, comparison).split())
    assert "against 5.0" not in text


def test_rows_that_differ_significantly_are_named(comparison):
    graphs = [f"graph {number}" for number in range(12)]
    rows = {"propagated": 60.0, "EPAGCL": 70.0, "GRACE": 50.0, OURS: 80.0}
    scores = {title: [mean + place % 3 for place in range(12)] for title, mean in rows.items()}
    scores["GCA"] = [70.0 + place % 3 + (1 if place % 2 else -1) for place in range(12)]  # as often better as worse
    cells = [
        cell(title, graph, [own[place] + shift for shift in (0.0, 0.1, -0.1)]) | {"untrained": None}
        for title, own in scores.items()
        for place, graph in enumerate(graphs)
    ]
    tuned = result(cells, datasets=graphs, protocols=("strict",))
    accuracy = result([cell(title, "Cora", [80.0, 80.1, 80.2]) for title in ("EPAGCL", "GRACE")])
    text = " ".join(first_page({"tuned": tuned, "accuracy": accuracy}, comparison).split())
    assert "(GCA). By tests over the graphs, GRACE is significantly worse; the other difference is undecided." in text


def test_another_winner_is_named(comparison):
    rows = {"raw features": 60.0, "propagated": 70.0, "GRACE": 90.0, "DGI": 65.0, OURS: 80.0}
    runs = {title: {graph: [mean] * 3 for graph in "AB"} for title, mean in rows.items()}
    made = summarise(invented(runs), command="epagcl compare", seeds=3, protocols=["strict"])
    text = " ".join(first_page({}, made).split())
    assert (
        "**GRACE has the best mean rank over 2 graphs: 1.0 of 5 rows; tests over the graphs find EPAGCL+ "
        "significantly better than no "
        "other row.**" in text
    )
    assert "propagated features have 70.0, raw features 60.0, GRACE 90.0 and EPAGCL+ 80.0." in text


def test_sentences_on_rates_and_claims():
    cells = [cell(f"{kind} {rate}", "Cora", runs) for rate in (0.1, 0.5) for kind, runs in RUNS.items()]
    text = " ".join(first_page({"add-vs-drop": result(cells, rates=[0.1, 0.5])}, None).split())
    assert "1. **Dropping edges is better than adding random edges of a fixed pool at 2 of 2 rates on Cora.**" in text
    assert "the difference is +10.0 points on Cora." in text
    assert "no training" not in text
    assert "there are too few runs" in text
    assert "2. **Of the paper's 1 claims that were tested, 0 hold, 0 hold in part" in text
    assert "and 1 are undecided" in text  # two runs of adding new pairs decide nothing
    assert "add-vs-drop-curves" in text
    assert RANKS not in text


RUNS = {"add": [70.0, 71.0], "pool": [70.0, 71.0, 72.0], "drop": [80.0, 81.1, 81.9]}


def test_new_random_pairs_are_compared_if_they_have_all_runs():
    runs = {"add 0.1": [75.0, 76.2, 77.0], "pool 0.1": RUNS["pool"], "drop 0.1": RUNS["drop"]}
    cells = [cell(row, "Cora", own) for row, own in {**runs, "untrained encoder": [76.5, 76.6, 76.7]}.items()]
    text = " ".join(first_page({"add-vs-drop": result(cells, rates=[0.1])}, None).split())
    assert "adding new random edges at 1 of 1 rates on Cora" in text
    assert "the difference is +4.9 points on Cora" in text
    assert "On Cora, adding edges gives a lower mean than no training, at every rate." in text
    assert "too few" not in text


def test_figures_show_every_ranked_row(comparison):
    drawn = figures(comparison)
    assert set(drawn) == {RANKS, GAINS}
    labels = [label.get_text() for label in drawn[GAINS].axes[0].get_yticklabels()]
    assert labels[0] == OURS
    assert set(labels) == {OURS, "GRACE", "raw features", "untrained EPAGCL+"}
    comparison["results"] = {"A": comparison["results"]["A"]}
    assert figures(comparison) == {}
