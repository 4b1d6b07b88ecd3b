import json

import pytest

from epagcl.core.errors import InputError
from epagcl.study.summary import (
    accuracies,
    paired_against,
    ranking_of,
    read_comparison,
    runs_by_seed,
    summarise,
    write_comparison,
)
from tests.study.invented import invented


@pytest.fixture
def results():
    """Three rows on two graphs; one row lacks a graph."""
    return invented(
        {"raw features": {"A": [60, 62], "B": [50]}, "EPAGCL": {"A": [80, 82], "B": [45]}, "DGI": {"A": [70]}}
    )


def test_accuracies_are_means_in_percent(results):
    scores = accuracies(results, "strict")
    assert scores["raw features"] == pytest.approx({"A": 61, "B": 50})
    assert scores["DGI"] == pytest.approx({"A": 70})
    assert accuracies(results, "public") == {}


def test_means_of_few_runs_count_only_where_no_row_has_more():
    results = invented({"a": {"x": [1.0] * 5, "y": [2.0]}, "b": {"x": [3.0] * 4, "y": [4.0] * 2}})
    assert accuracies(results, "strict") == {"a": {"x": 1.0, "y": 2.0}, "b": {"y": 4.0}}
    assert accuracies(results, "strict", min_runs=1) == {"a": {"x": 1.0, "y": 2.0}, "b": {"x": 3.0, "y": 4.0}}


def test_a_users_graph_is_an_observation_of_its_own():
    rows = {
        "a": {"Texas": [3.0], "Cornell": [1.0], "Cora": [3.0]},
        "b": {"Texas": [2.0], "Cornell": [2.0], "Cora": [1.0]},
    }
    results = invented(rows)
    for cells in results.values():
        for cell in cells:
            cell["named"] = True
    ranking = ranking_of(results, "strict")
    assert ranking.observations == ("Texas and Cornell", "Cora")
    assert ranking.mean_ranks == {"a": 1.25, "b": 1.75}  # they tie on the two together
    assert ranking.same_nodes_note.startswith("Texas and Cornell have the same nodes")
    for cell in results["Texas"]:
        cell["named"] = False
    ranking = ranking_of(results, "strict")
    assert ranking.observations == ("Texas", "Cornell", "Cora")
    assert ranking.mean_ranks == pytest.approx({"a": 4 / 3, "b": 5 / 3})
    assert ranking.same_nodes_note == ""


def test_rows_with_all_graphs_are_ranked(results):
    ranking = ranking_of(results, "strict")
    assert ranking.mean_ranks == {"raw features": 1.5, "EPAGCL": 1.5}
    assert ranking.means["EPAGCL"] == pytest.approx(63)
    assert ranking.unranked == ("DGI",)
    assert ranking_of(results, "public") is None


def test_the_file_has_results_ranking_and_provenance(results, tmp_path):
    comparison = summarise(results, command="epagcl compare a b", seeds=2, protocols=["paper", "strict"])
    write_comparison(comparison, tmp_path / "new" / "comparison.json")
    content = read_comparison(tmp_path / "new" / "comparison.json")
    assert content["results"] == results
    assert content["ranking"]["mean_ranks"] == {"raw features": 1.5, "EPAGCL": 1.5}
    assert (content["command"], content["seeds"], content["protocol"]) == ("epagcl compare a b", 2, "strict")
    assert {"date", "hardware", "versions", "commit"} <= set(content)
    assert content == json.loads(json.dumps(comparison))


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_another_file_is_refused(tmp_path, text):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(InputError, match=r"c.json: not a comparison; write one with `epagcl compare --save`"):
        read_comparison(tmp_path / "c.json")


def test_rows_are_tested_on_common_seeds_with_correction():
    rows = {
        "a": {"x": [80.0, 81.0, 82.0, 83.0], "y": [70.0, 71.0, 72.0, 73.5]},
        "b": {"x": [70.0, 71.1, 72.2], "y": [70.1, 70.9, 72.2, 73.3]},
        "c": {"x": [90.0, 91.0, 92.1]},
    }
    results = invented(rows)
    tests = paired_against(results, "strict", "a")
    assert set(tests) == {("x", "b"), ("y", "b"), ("x", "c")}
    assert tests["x", "b"].n == 3
    assert tests["x", "b"].mean == pytest.approx(9.9)
    assert {pair: test.verdict for pair, test in tests.items()} == {
        ("x", "b"): "better",
        ("y", "b"): "undecided",
        ("x", "c"): "worse",
    }
    assert all(test.corrected >= test.p for test in tests.values())
    assert runs_by_seed(results, "strict")["c"] == {"x": pytest.approx({0: 90.0, 1: 91.0, 2: 92.1})}
    assert paired_against(results, "strict", "d") == {}
