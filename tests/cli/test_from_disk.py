import json

import numpy as np
import pytest

from epagcl.data import OnDiskGraph, block_model
from epagcl.methods import load_model, plan
from epagcl.runs import read_embeddings
from tests.cli.conftest import FAST

SUBGRAPHS = ("--subgraphs", "neighbours", "--subgraph-nodes", 60, "--quiet")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Write a graph on disk with text ids and labels, which cannot be read into memory."""
    data = block_model(200, num_classes=3, num_features=30, topic_words=10, words_per_node=6, seed=1)
    data.node_ids = np.array([f"user-{k:03d}" for k in range(200)])
    OnDiskGraph.write(data, tmp_path / "graph")
    monkeypatch.setattr(OnDiskGraph, "to_data", None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", ["neighbours", "partitions"])
def test_a_graph_on_disk_is_embedded_from_there(run, folder, kind):
    options = (*FAST, "--subgraphs", kind, "--subgraph-nodes", 60, "--quiet")
    code, _, error = run("embed", "graph", *options, "--out", "z.npy", "--save", "model")
    assert code == 0, error
    z, ids = read_embeddings(folder / "z.npy")
    assert z.shape == (200, 8)
    assert ids[:2] == ["user-000", "user-001"]
    graph = OnDiskGraph.open(folder / "graph")
    np.testing.assert_allclose(z, load_model(folder / "model").embed(graph).numpy(), atol=1e-5)
    code, out, error = run("embed", "graph", "--model", "model", "--out", "shards", "--json")
    assert code == 0, error
    assert json.loads(out)["dim"] == 8
    again, names = read_embeddings(folder / "shards")
    np.testing.assert_allclose(again, z, atol=1e-6)
    assert names == ids


def test_a_graph_that_does_not_fit_stays_on_disk(run, folder, monkeypatch, caplog):
    monkeypatch.setattr(plan, "available_memory", lambda device: 1000)
    code, _, error = run("embed", "graph", *FAST, "--subgraph-nodes", 60, "--out", "z.npy")
    assert code == 0, error
    assert "graph: read from disk as it is needed; there will be no report" in caplog.text
    assert read_embeddings(folder / "z.npy")[0].shape == (200, 8)


def test_a_run_from_disk_has_a_model_an_embedding_and_scores(run, folder):
    code, out, error = run("train", "graph", *FAST, *SUBGRAPHS, "--runs", 1, "--out", "run", "--json")
    assert code == 0, error
    metrics = json.loads(out)
    assert (metrics["graph"]["nodes"], metrics["graph"]["classes"], metrics["training"]["epochs"]) == (200, 3, 2)
    assert metrics["evaluation"]["split"] == "random 10/10/80 of 200 random nodes"
    assert list(metrics["references"]) == ["raw features"]
    files = {path.name for path in (folder / "run").iterdir()}
    assert {"config.toml", "metrics.json", "history.csv", "model.safetensors", "README.md", "embeddings.npy"} <= files
    z, _ = read_embeddings(folder / "run")
    np.testing.assert_allclose(z, load_model(folder / "run").embed(OnDiskGraph.open(folder / "graph")), atol=1e-5)
    code, _, error = run("train", "graph", *FAST, *SUBGRAPHS, "--out", "run")
    assert (code, "already exists" in error) == (2, True)
    code, out, error = run("train", "graph", *FAST, *SUBGRAPHS, "--runs", 1, "--out", "run", "--resume", "--json")
    assert (code, json.loads(out)["evaluation"]) == (0, metrics["evaluation"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("embed", "--out", "z.csv"), "z.csv: a graph on disk is embedded in parts; write .npy, or a folder of shards"),
        (("embed", "--out", "z.parquet", "--vectors"), "--vectors: not for a graph that is read from disk"),
        (("train", "--seeds", 2), "--seeds: not for a graph that is read from disk; leave it out"),
        (("train", "--protocol", "public"), "public"),
    ],
    ids=["csv", "vectors", "seeds", "protocol"],
)
def test_mistakes_end_in_one_line(run, folder, words, message):
    command, *options = words
    code, _, error = run(command, "graph", *FAST, *SUBGRAPHS, *options)
    assert code == 2
    assert message in error
    assert error.count("\n") == 1
    assert not (folder / "runs").exists() or command == "train"


def test_small_graphs_and_whole_graph_training_are_read_into_memory(run, tmp_path, monkeypatch):
    OnDiskGraph.write(block_model(60, num_classes=3, num_features=12, topic_words=4), tmp_path / "graph")
    monkeypatch.chdir(tmp_path)
    code, _, error = run("embed", "graph", *FAST, "--out", "z.csv", "--quiet")
    assert code == 0, error
    assert (tmp_path / "z.csv").is_file()
