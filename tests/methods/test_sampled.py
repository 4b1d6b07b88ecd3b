import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import epagcl
from epagcl.core import files
from epagcl.core.errors import InputError, OutOfMemory, OutputError
from epagcl.core.streamed import DiskMatrix
from epagcl.data import OnDiskGraph, block_model, check
from epagcl.data.large import Arrays
from epagcl.distributed.group import Ranks
from epagcl.methods import plan, sampled
from epagcl.methods.sampled import Sampled

SMALL = {"hidden": 16, "dim": 8, "projection": 8, "device": "cpu", "epochs": 3, "subgraph_nodes": 150}
NAMES = [name for name in epagcl.methods() if issubclass(epagcl.method(name), Sampled)]


def create(name, **settings):
    cls = epagcl.method(name)
    known = {field.name for field in cls.setting_fields()}
    return cls(**{key: value for key, value in {**SMALL, **settings}.items() if key in known})


@pytest.fixture(scope="module")
def data():
    return check(block_model(400, num_features=30, topic_words=10, words_per_node=6, average_degree=8), quiet=True)


def test_these_methods_train_on_subgraphs():
    assert {"epagcl", "epagcl+", "gca", "grace", "propagated"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_chunks_are_the_rows_of_the_embedding_of_the_whole_graph(data, name):
    model = create(name).fit(data)
    torch.testing.assert_close(torch.cat(list(model.embed_chunks(data))), model.embed(data), atol=1e-5, rtol=1e-4)


def test_gradients_are_off_in_the_generator_and_on_in_the_loop_of_the_caller(monkeypatch, data):
    model, inside = create("grace").fit(data), []

    def chunks(network, graph):
        for rows in torch.ones(400, 8).split(200):
            inside.append(torch.is_grad_enabled())
            yield rows

    monkeypatch.setattr(model, "represent_chunks", chunks)
    assert [torch.is_grad_enabled() for _ in model.embed_chunks(data)] == [True, True]
    assert inside == [False, False]


@pytest.mark.parametrize("name", NAMES)
def test_arrays_train_embed_and_are_judged_like_a_graph_in_memory(data, name):
    arrays = Arrays.from_data(data)
    model = create(name).fit(arrays)
    z = model.embed(arrays)
    assert z.shape == (400, 8)
    torch.testing.assert_close(z, model.embed(data), atol=1e-5, rtol=1e-4)
    if model.trained:
        assert [row["epoch"] for row in model.history_] == [1, 2, 3]
        again = create(name, subgraphs="neighbours").fit(data)
        assert [row["loss"] for row in again.history_] == [row["loss"] for row in model.history_]
        assert torch.equal(again.embed(data), model.embed(data))
    if name == "grace":
        assert model.health(arrays)[0].name == "effective rank"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("settings", [{}, {"hidden": 8, "dim": 16}], ids=["narrowing", "widening"])
def test_the_columns_in_temporary_files_are_known_before(monkeypatch, data, name, settings):
    alive, most = [], 0

    def append_rows(matrix, chunks, width):
        nonlocal most
        alive.append(matrix)
        write(matrix, chunks, width)
        most = max(most, sum(one.shape[1] for one in set(alive)))

    def close(matrix):
        alive[:] = [one for one in alive if one is not matrix]
        end(matrix)

    dense = data.clone()
    dense.x = data.x.to_dense()
    write, end = DiskMatrix.append_rows, DiskMatrix.close
    monkeypatch.setattr(DiskMatrix, "append_rows", append_rows)
    monkeypatch.setattr(DiskMatrix, "close", close)
    model = create(name, **settings).fit(Arrays.from_data(dense))
    model.embed(Arrays.from_data(dense))
    assert most <= model.columns_on_disk(model.network_)
    if name not in ("epagcl+", "propagated"):  # these have fewer columns than features here
        assert most == model.columns_on_disk(model.network_)


def test_too_little_space_for_temporary_files_is_said_before_training(monkeypatch, data):
    monkeypatch.setattr(files.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1))
    rows = []
    with pytest.raises(OutputError, match="set TMPDIR to another folder"):
        create("grace").fit(Arrays.from_data(data), callback=rows.append)
    assert rows == []


@pytest.mark.parametrize("kind", ["neighbours", "partitions"])
def test_a_training_on_subgraphs_resumes_to_the_same_result(monkeypatch, tmp_path, data, kind):
    class Stop(Exception):
        pass

    def stop(row):
        if row["epoch"] == 3:
            raise Stop

    whole = create("epagcl", subgraphs=kind, epochs=6).fit(data)
    monkeypatch.setenv("EPAGCL_CHECKPOINT_SECONDS", "0")
    with pytest.raises(Stop):
        create("epagcl", subgraphs=kind, epochs=6).fit(data, checkpoint=tmp_path / "c", callback=stop)
    resumed = create("epagcl", subgraphs=kind, epochs=6).fit(data, checkpoint=tmp_path / "c", resume=True)
    assert [row["loss"] for row in resumed.history_] == [row["loss"] for row in whole.history_]
    assert torch.equal(resumed.embed(data), whole.embed(data))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["neighbours", "partitions"])
def test_training_on_subgraphs_learns(kind):
    data = block_model(
        2000, num_classes=5, average_degree=12, homophily=0.7, num_features=64, topic_words=16, words_per_node=8,
        topic_share=0.15, seed=0,
    )  # fmt: skip
    model = create("epagcl", subgraphs=kind, subgraph_nodes=400, epochs=40, hidden=64, dim=32, projection=32, lr=0.005)
    z = model.fit(data).embed(data)
    assert model.history_[-1]["loss"] < model.history_[0]["loss"] - 0.5
    raw = epagcl.linear_evaluation(data.x.to_dense(), data.y, runs=1).mean
    assert epagcl.linear_evaluation(z, data.y, runs=1).mean > raw + 0.1


def test_the_whole_graph_gives_the_same_with_and_without_the_setting(data):
    one, two = create("epagcl").fit(data), create("epagcl", subgraphs="off").fit(data)
    assert torch.equal(one.embed(data), two.embed(data))


def test_subgraphs_are_chosen_when_the_whole_graph_does_not_fit(monkeypatch, caplog, data):
    monkeypatch.setattr(plan, "available_memory", lambda device: 2**20)
    model = create("grace")
    with caplog.at_level(logging.WARNING, logger="epagcl"):
        model.fit(data)
    assert "training on all 400 nodes at once needs about" in caplog.text
    assert "training on subgraphs of 150 nodes" in caplog.text
    assert model.embed(data).shape == (400, 8)


def test_a_graph_on_disk_with_other_columns_is_refused(data):
    arrays = Arrays.from_data(data)
    model = create("grace").fit(arrays)
    with pytest.raises(InputError, match="29 feature columns, the model has 30"):
        model.embed(arrays._replace(features=arrays.features[:, :29]))
    with pytest.raises(InputError, match="subgraphs='off'"):
        create("grace", subgraphs="off").fit(arrays)
    with pytest.raises(InputError, match="add='uniform'"):
        create("epagcl", add="uniform").fit(arrays)


def test_other_methods_say_that_they_train_on_the_whole_graph(data):
    class OnDisk:
        indptr = indices = features = np.zeros(1)

        def to_data(self):
            return data

    with pytest.raises(InputError, match=r"takes one in memory; give graph\.to_data"):
        epagcl.DGI(epochs=1, dim=4, device="cpu").fit(OnDisk())


@pytest.mark.parametrize("name", ["epagcl", "propagated"])
def test_a_folder_of_arrays_trains_and_embeds(data, name, tmp_path):
    graph = OnDiskGraph.write(data, tmp_path / "graph")
    model = create(name).fit(graph)
    model.save(tmp_path / "model")
    z = epagcl.load_model(tmp_path / "model", "cpu").embed(graph)
    torch.testing.assert_close(z, model.embed(data), atol=1e-5, rtol=1e-4)
    rotation = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(0)))[0]
    model.rotation_ = rotation
    torch.testing.assert_close(torch.cat(list(model.embed_chunks(graph))), z @ rotation, atol=1e-5, rtol=1e-4)


def test_subgraphs_merge_relations_and_say_so(data, caplog):
    kinds = data.clone()
    kinds.edge_type = (data.edge_index.sum(0) % 2).long()
    with caplog.at_level(logging.WARNING, "epagcl"):
        model = create("epagcl+", subgraphs="neighbours").fit(kinds)
    assert caplog.messages == ["epagcl+ merges the 2 kinds of edges; epagcl+ and propagated use them on whole graphs"]
    assert model.relation_names_ == []
    assert torch.equal(model.embed(kinds), model.embed(data))


def test_a_model_with_relations_embeds_graphs_in_memory_only(data):
    kinds = data.clone()
    kinds.edge_type = (data.edge_index.sum(0) % 2).long()
    model = create("propagated").fit(kinds)
    (z,) = model.embed_chunks(kinds)
    assert torch.equal(z, model.embed(kinds))
    with pytest.raises(InputError, match=r"the model uses kinds or directions of edges; give a graph in memory"):
        model.embed(Arrays.from_data(data))


def test_several_ranks_train_on_the_whole_graph(data, monkeypatch):
    monkeypatch.setattr(sampled, "active_ranks", lambda: Ranks(0, 2))
    monkeypatch.setattr(sampled, "too_large", lambda *_, **__: "too large")
    assert create("epagcl")._kind(data) == "off"
    with pytest.raises(InputError, match="subgraphs='partitions': for one rank; set subgraphs='off'"):
        create("epagcl", subgraphs="partitions").fit(data)
    with pytest.raises(InputError, match="a graph on disk, and on several ranks; give a graph in memory"):
        create("epagcl").fit(Arrays.from_data(data))


def test_a_full_memory_is_told_on_subgraphs_too(data, monkeypatch):
    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr(sampled, "train", full)
    with pytest.raises(OutOfMemory, match="out of memory; "):
        create("epagcl", subgraphs="neighbours").fit(data)
