import pytest

from epagcl.paper.first_page import GAINS, OURS, RANKS, figures, first_page
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
    assert "1. **EPAGCL+ has the best mean rank, 1.0 of 5 rows over 2 graphs**" in text
    assert "is the highest on 2, and of 2 paired tests against the other trained methods, 2 find it better" in text
    assert "reach 66.0 on average, raw features 56.0" in text
    assert "GRACE stay below (62.5 on average), and only EPAGCL+ (76.0; 67.0 untrained) is above." in text
    assert f"figures/paper/{RANKS}.png" in text
    assert f"figures/paper/{GAINS}.svg" in text


def test_the_tuned_track_is_in_the_same_sentences(comparison):
    rows = {"propagated": 70.0, "GRACE": 60.0, "GCA": 65.0, "EPAGCL": 68.0, OURS: 80.0}
    noise = [0.0, 0.1, -0.1]
    cells = [
        cell(title, graph, [mean + shift for shift in noise[place % 3 :] + noise[: place % 3]])
        for graph in ("Cora", "Texas")
        for place, (title, mean) in enumerate(rows.items())
    ]
    tuned = result(cells, datasets=("cora", "texas"), protocols=("strict",))
    family = {"graph": "Cora", "protocol": "strict", "method": "GRACE", "seeds": [0, 1, 2]}
    tested = {"protocols": ["strict"], "comparisons": [{**family, "ours": [0.8, 0.8, 0.8], "theirs": [0.7, 0.7, 0.71]}]}
    text = " ".join(first_page({"tuned": tuned, "significance": tested}, comparison).split())
    assert (
        "tuned with one budget for every method, EPAGCL+ has mean rank 1.0 of 5 rows over 2 graphs (without untrained "
        "encoders), a significant lead over none of the 4 others" in text
    )
    assert "of 8 tests on single graphs, 8 find it better and 0 worse." in text
    words = "the mean rank of EPAGCL is 3.0 of 5 rows, against 5.0 (GRACE) and 4.0 (GCA), which is no significant"
    assert words in text
    without = result([one for one in cells if one["row"] != "GCA"], datasets=("cora", "texas"), protocols=("strict",))
    text = " ".join(first_page({"tuned": without, "significance": tested}, comparison).split())
    assert "against 5.0" not in text


def test_another_winner_is_named(comparison):
    rows = {"raw features": 60.0, "propagated": 70.0, "GRACE": 90.0, "DGI": 65.0, OURS: 80.0}
    runs = {title: {graph: [mean] * 3 for graph in "AB"} for title, mean in rows.items()}
    made = summarise(invented(runs), command="epagcl compare", seeds=3, protocols=["strict"])
    text = first_page({}, made)
    assert "**GRACE has the best mean rank over 2 graphs**" in text
    assert "only GRACE (90.0) and EPAGCL+ (80.0) are above." in " ".join(text.split())


def test_sentences_on_rates_and_claims():
    cells = [cell(f"{kind} {rate}", "Cora", runs) for rate in (0.1, 0.5) for kind, runs in RUNS.items()]
    text = " ".join(first_page({"add-vs-drop": result(cells, rates=[0.1, 0.5])}, None).split())
    assert "1. **Dropping edges is better than adding them at every rate on Cora**" in text
    assert "is +10.0 points on Cora (better at 2 of 2 rates)" in text
    assert "there are too few runs" in text
    assert "2. **Of the paper's 1 claims that were tested, 0 hold**, 0 hold in part" in text
    assert "and 1 are undecided" in text  # two runs of adding new pairs decide nothing
    assert "add-vs-drop-curves" in text
    assert RANKS not in text


RUNS = {"add": [70.0, 71.0], "pool": [70.0, 71.0, 72.0], "drop": [80.0, 81.1, 81.9]}


def test_new_random_pairs_are_compared_if_they_have_all_runs():
    cells = [cell(f"{kind} 0.1", "Cora", runs) for kind, runs in {**RUNS, "add": [75.0, 76.2, 77.0]}.items()]
    text = " ".join(first_page({"add-vs-drop": result(cells, rates=[0.1])}, None).split())
    assert "dropping minus adding new random pairs to every view is +4.9 points on Cora" in text
    assert "too few" not in text


def test_figures_show_every_ranked_row(comparison):
    drawn = figures(comparison)
    assert set(drawn) == {RANKS, GAINS}
    labels = [label.get_text() for label in drawn[GAINS].axes[0].get_yticklabels()]
    assert labels[0] == OURS
    assert set(labels) == {OURS, "GRACE", "raw features", "untrained EPAGCL+"}
    comparison["results"] = {"A": comparison["results"]["A"]}
    assert figures(comparison) == {}
