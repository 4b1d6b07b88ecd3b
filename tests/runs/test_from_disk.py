import numpy as np
import pytest
import torch

import epagcl
from epagcl.core.errors import InputError
from epagcl.data import OnDiskGraph, block_model
from epagcl.methods import plan
from epagcl.runs import from_disk, read_embeddings
from epagcl.runs.evaluation import Plan
from epagcl.runs.from_disk import labelled_sample, run_from_disk, stays_on_disk, write_embedding

SMALL = {"epochs": 2, "hidden": 8, "dim": 4, "projection": 4, "device": "cpu", "subgraph_nodes": 60}


@pytest.fixture
def graph(tmp_path):
    data = block_model(150, num_classes=3, num_features=12, topic_words=4, words_per_node=3, seed=3)
    data.y[::5] = -1
    return OnDiskGraph.write(data, tmp_path / "graph")


def test_subgraphs_and_graphs_that_do_not_fit_stay_on_disk(graph, monkeypatch):
    assert stays_on_disk(graph, epagcl.GRACE(**SMALL, subgraphs="neighbours"))
    assert not stays_on_disk(graph, epagcl.GRACE(**SMALL))
    assert not stays_on_disk(graph, epagcl.DGI())
    monkeypatch.setattr(plan, "available_memory", lambda device: 1000)
    assert stays_on_disk(graph, epagcl.GRACE(**SMALL))
    assert not stays_on_disk(graph, epagcl.GRACE(**SMALL, subgraphs="off"))


def test_the_sample_has_labelled_nodes_only_and_is_the_same_each_time(graph, monkeypatch):
    nodes, sample = labelled_sample(graph)
    assert np.array_equal(nodes, np.flatnonzero(graph.labels >= 0))
    assert sample.y.tolist() == graph.labels[nodes].tolist()
    monkeypatch.setattr(from_disk, "EVALUATED", 50)
    nodes, sample = labelled_sample(graph)
    assert len(nodes) == 50
    assert (np.diff(nodes) > 0).all()
    assert sample.y.min() >= 0
    assert np.array_equal(nodes, labelled_sample(graph)[0])


def test_an_array_is_written_in_chunks_with_its_ids(graph, tmp_path, monkeypatch):
    model = epagcl.GRACE(**SMALL, subgraphs="partitions").fit(graph)
    monkeypatch.setattr(from_disk, "ID_ROWS", 40)
    files, dim = write_embedding(graph, model, tmp_path / "z.npy")
    assert ([path.name for path in files], dim) == (["z.npy", "z.ids.txt"], 4)
    z, ids = read_embeddings(tmp_path / "z.npy")
    assert torch.equal(torch.from_numpy(np.array(z)), model.embed(graph))
    assert [int(node) for node in ids] == list(range(150))
    with pytest.raises(InputError, match="write .npy, or a folder of shards"):
        write_embedding(graph, model, tmp_path / "z.csv")


def test_an_interrupted_run_goes_on_to_the_same_result(graph, tmp_path):
    class Stop(Exception):
        pass

    def stop(row):
        if row["epoch"] == 2:
            raise Stop

    settings = {**SMALL, "epochs": 3, "subgraphs": "neighbours"}
    whole = run_from_disk(graph, epagcl.GRACE(**settings), tmp_path / "whole", plan=Plan(runs=1))
    with pytest.raises(Stop):
        run_from_disk(graph, epagcl.GRACE(**settings), tmp_path / "parts", plan=Plan(runs=1), callback=stop)
    parts = run_from_disk(graph, epagcl.GRACE(**settings), tmp_path / "parts", plan=Plan(runs=1))
    assert parts["evaluation"] == whole["evaluation"]
    assert "references" not in parts
    again = run_from_disk(graph, epagcl.GRACE(**settings), tmp_path / "parts", plan=Plan(runs=1))
    assert again["date"] == parts["date"]


def test_columns_of_another_name_are_refused(tmp_path):
    data = block_model(60, num_features=12, topic_words=4)
    graphs = []
    for prefix in "ab":
        data.feature_names = [f"{prefix}{column}" for column in range(12)]
        graphs.append(OnDiskGraph.write(data, tmp_path / prefix))
    model = epagcl.GRACE(**SMALL).fit(graphs[0])
    with pytest.raises(InputError, match="other feature columns"):
        model.embed(graphs[1])
