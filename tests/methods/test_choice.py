"""The choice of a method without labels."""

import json
from pathlib import Path

import pytest
import torch

from epagcl.data import block_model
from epagcl.methods.choice import EVIDENCE, SECONDS_PER_NODE, recommend
from epagcl.study.summary import ranking_of, read_comparison

RESULTS = Path(__file__).parents[2] / "results"


def graph(**options):
    return block_model(200, num_classes=3, num_features=60, topic_words=15, words_per_node=10, **options)


def test_the_evidence_is_that_of_the_comparison():
    ranking = ranking_of(read_comparison(RESULTS / "comparison.json")["results"], "strict")
    for name, title in (("epagcl+", "EPAGCL+"), ("propagated", "propagated")):
        evidence = EVIDENCE[name]
        assert (evidence.graphs, evidence.rows) == (len(ranking.graphs), len(ranking.mean_ranks))
        assert evidence.rank == pytest.approx(ranking.mean_ranks[title], abs=0.005)
    assert min(ranking.mean_ranks, key=ranking.mean_ranks.get) == "EPAGCL+"


def test_the_expected_times_are_those_of_the_benchmark():

    for device, result in json.loads((RESULTS / "benchmarks" / "plus.json").read_text()).items():
        largest = max(result["rows"], key=lambda row: row["nodes"])
        assert SECONDS_PER_NODE[device] == pytest.approx(largest["fit_seconds"] / largest["nodes"], rel=0.05)


def test_the_reason_has_two_sentences_about_evidence_and_graph():
    choice = recommend(graph(), device="cpu")
    assert choice.method == "epagcl+"
    evidence, here = choice.reason.split(". Here ")
    assert evidence == "EPAGCL+ has the best mean rank, 1.4 of 22 rows over 15 graphs"
    assert here.startswith("neighbours say as much about a node as its own features do (")
    own = recommend(_own(), device="cpu")
    assert "own features say" in own.reason


def _own():
    """Features that tell the classes, and neighbours of other classes."""
    return block_model(300, homophily=0.1, topic_share=0.5, words_per_node=60, num_features=200, topic_words=20)


def test_a_training_that_takes_too_long_is_avoided():
    choice = recommend(graph(), device="cpu", seconds=5)
    assert choice.method == "propagated"
    assert "would train for about 6.4 s on 200 nodes with this CPU." in choice.reason


def test_dense_and_sparse_features_give_the_same_choice():
    data = graph()
    dense = data.clone()
    dense.x = data.x.to_dense()
    assert recommend(dense, device="cpu") == recommend(data, device="cpu")
    assert isinstance(dense.x, torch.Tensor)
