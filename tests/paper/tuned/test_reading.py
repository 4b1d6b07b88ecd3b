import pytest

from epagcl.paper.tuned.reading import reading, validation_ranking
from tests.paper.conftest import result
from tests.paper.tuned_demo import invented, row


@pytest.fixture
def made():
    return invented()


def test_text_follows_the_numbers(made):
    text = " ".join(reading(made))
    assert "EPAGCL+ 1.0, propagated 2.0, untrained EPAGCL+ 3.0, DGI 4.0" in text
    assert "No pair differs (Wilcoxon's test of each pair, Holm: 15 pairs)." in text
    assert "Tuned, and on average over the graphs below propagated, in points: DGI 2.0." in text
    assert "untrained encoder has a higher mean" not in text
    made["cells"][2]["untrained"] = row("DGI", "Cora", [80, 80, 81])["protocols"]["strict"]
    words = "A method's own untrained encoder has a higher mean than the tuned method in 1 of 4 cases (Cora 1;"
    assert f"{words} EPAGCL+: none). No test decides any of them." in " ".join(reading(made))


def test_ranks_without_the_first_trial_are_those_of_the_others(made):
    ranking = validation_ranking(made, first=1)  # DGI ties with EPAGCL+ once the recipe's trial does not count
    assert ranking.mean_ranks == {"DGI": 1.5, "EPAGCL+": 1.5}
    assert ranking.means == {"DGI": pytest.approx(80.0), "EPAGCL+": pytest.approx(80.0)}
    assert validation_ranking(made).mean_ranks == {"EPAGCL+": 1.0, "DGI": 2.0}
    (text,) = [text for text in reading(made) if text.startswith("**Without the first trial**")]
    assert "the mean ranks of 2 methods begin with DGI 1.5, EPAGCL+ 1.5" in text
    assert "By the best of all trials, they begin with EPAGCL+ 1.0, DGI 2.0." in text
    for one in made["cells"]:
        one["searches"] = [{**own, "trials": own["trials"][:1]} for own in one["searches"]]
    assert validation_ranking(made, first=1) is None
    assert not any("Without the first trial" in text for text in reading(made))


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
