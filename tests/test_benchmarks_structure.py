import sys

import numpy as np
import pytest
import torch

from benchmarks import structure
from epagcl.core.errors import InputError
from epagcl.data import block_model
from epagcl.data.structural.features import _neighbours
from epagcl.data.structural.positions import leading_eigenvectors

PROVENANCE = {"hardware": {"cpu": "some CPU"}, "date": "2026-01-02T03:04:05", "node2vec": None}


@pytest.fixture
def graph():
    return block_model(200, num_classes=3, num_features=12, topic_words=4, words_per_node=3)


def test_the_eigenvectors_of_arpack_are_ours(graph):
    reference = structure.laplacian_eigenvectors(graph, 4)
    assert torch.allclose(reference.square().mean(0), torch.ones(4), atol=1e-4)
    # Isolated nodes and components have the same eigenvalue; the span of well separated ones is compared.
    value = torch.linalg.eigvalsh(_neighbours(graph, None).walk.to_dense()).flip(0)
    if value[3] - value[4] > 1e-3:
        ours = leading_eigenvectors(_neighbours(graph, None), 4)
        assert torch.allclose(ours @ ours.T, reference @ reference.T, atol=0.05)


def test_propagated_has_the_given_width(graph):
    assert structure.propagated(graph, 16).shape == (200, 16)


def test_times_are_those_of_the_computation():
    timed = structure.timed(lambda: torch.ones(2, 2))
    assert timed["seconds"] > 0
    assert torch.equal(timed["z"], torch.ones(2, 2))


def test_an_interpreter_without_pecanpy_is_named(graph):
    with pytest.raises(InputError, match=r"^--node2vec .*give an interpreter with pecanpy installed"):
        structure.run_node2vec(graph, sys.executable, 8, {})


def test_the_table_shows_accuracy_and_time():
    def row(method, dim, graph):
        accuracy = {"mean": 0.5, "std": 0.01, "runs": [0.49, 0.51]}
        return {"graph": graph, "method": method, "dim": dim, "accuracy": accuracy, "processor_seconds": 1.25}

    rows = [row("ours", 128, "Cora"), row("ours", 128, "Flickr"), row("theirs", 64, "Cora")]
    text = structure.table({"rows": rows, **PROVENANCE})
    assert "| ours | 128 | 50.0 ± 1.0, 1.2 s | 50.0 ± 1.0, 1.2 s |" in text
    assert "| theirs | 64 | 50.0 ± 1.0, 1.2 s | – |" in text
    versions = {"versions": {"pecanpy": "2", "gensim": "4"}}
    assert "PecanPy 2 with gensim 4" in structure.table({"rows": rows, **PROVENANCE, "node2vec": versions})


def test_the_protocol_runs_end_to_end(graph, monkeypatch):
    monkeypatch.setattr(structure, "load", lambda name, features: graph)
    monkeypatch.setattr(structure, "SPLITS", 2)
    monkeypatch.setattr(structure, "DIMS", (16, 20))
    monkeypatch.setattr(structure, "EIGENVECTORS", 4)
    result = structure.structure(graphs=("Cora",))
    assert [row["method"] for row in result["rows"]][:2] == ["structural features"] * 2
    assert all(len(row["accuracy"]["runs"]) == 2 for row in result["rows"])
    assert np.mean(result["rows"][0]["accuracy"]["runs"]) > 1 / 3


def test_missing_widths_are_added_with_their_provenance(graph, monkeypatch):
    monkeypatch.setattr(structure, "load", lambda name, features: graph)
    monkeypatch.setattr(structure, "DIMS", (16, 20))
    monkeypatch.setattr(structure, "SPLITS", 2)
    accuracy = {"mean": 0.5, "std": 0.01, "runs": [0.49, 0.51]}
    earlier = [
        {"graph": "Cora", "method": method, "dim": 20, "accuracy": accuracy, "processor_seconds": 1.0, "seconds": 1.0}
        for method in ("structural features", "node2vec")
    ]
    result = structure.add_widths({"rows": earlier, **PROVENANCE}, ("Cora",))
    assert [(row["method"], row["dim"]) for row in result["rows"]] == [
        *(("structural features", 16), ("structural features", 20)),
        ("node2vec", 20),
    ]
    assert result["rows"][1:] == earlier
    assert (result["added"]["rows"], result["date"]) == (1, PROVENANCE["date"])
