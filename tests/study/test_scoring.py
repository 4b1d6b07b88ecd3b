from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import epagcl
from epagcl.core.errors import InputError
from epagcl.core.progress import SilentProgress
from epagcl.data import block_model
from epagcl.evaluation.linear import linear_evaluation
from epagcl.methods.supervised import Supervised
from epagcl.study import scoring
from epagcl.study.comparison import collect, fill
from epagcl.study.design import cells, rows
from epagcl.study.store import Store
from tests.study.conftest import SMALL, compare, row


def test_seed_k_is_scored_on_split_k(tmp_path, data):
    result = compare(data, "g", row("grace"), tmp_path, seeds=3, protocols=["strict"], settings=SMALL)
    expected = [
        linear_evaluation(epagcl.method("grace")(**SMALL, seed=seed).fit_embed(data), data.y, runs=1, seed=seed).runs[0]
        for seed in range(3)
    ]
    assert result["protocols"]["strict"]["accuracy"]["runs"] == pytest.approx(expected, abs=1e-6)
    assert result["protocols"]["strict"]["seeds"] == result["seeds"] == [0, 1, 2]
    assert result["protocols"]["strict"]["split"] == "random 10/10/80"
    assert result["training"]["epochs"] == [2, 2, 2]
    assert result["source"] == "ours"  # settings were given


def test_references_are_raw_features_and_the_untrained_encoder(tmp_path, data):
    raw, untrained = rows(["grace"])[:2]
    result = compare(data, "g", raw, tmp_path, seeds=2, protocols=["strict"], settings=SMALL)
    expected = linear_evaluation(data.x, data.y, runs=2)
    assert result["protocols"]["strict"]["accuracy"]["runs"] == pytest.approx(expected.runs, abs=1e-6)
    assert result["training"] is None
    result = compare(data, "g", untrained, tmp_path, seeds=1, protocols=["strict"], settings=SMALL)
    assert result["training"]["epochs"] == [0]


def test_a_supervised_method_learns_from_the_split_it_is_scored_on(tmp_path, data):
    settings = {"epochs": 30, "device": "cpu"}
    protocols = ["strict", "paper", "public"]
    result = compare(data, "g", row("gcn"), tmp_path, seeds=2, protocols=protocols, settings=settings)
    scores = result["protocols"]
    assert scores["strict"]["accuracy"] == scores["paper"]["accuracy"] != scores["public"]["accuracy"]
    assert scores["strict"]["seeds"] == [0, 1]
    for seed in range(2):
        split = epagcl.data.random_split(data.y, seed=seed)
        model = epagcl.method("gcn")(**settings, seed=seed).fit(data, split=split)
        accuracy = (model.predict(data)[split.test] == data.y[split.test]).double().mean()
        assert scores["strict"]["accuracy"]["runs"][seed] == pytest.approx(accuracy.item())


def test_methods_marked_as_supervised_are_those_that_predict_classes():
    classes = [epagcl.method(name) for name in epagcl.methods()]
    assert {cls for cls in classes if cls.supervised} == {cls for cls in classes if issubclass(cls, Supervised)}


def test_scoring_does_not_import_the_design():
    text = Path(scoring.__file__).read_text(encoding="utf-8")
    assert "from epagcl.study.design" not in text


def test_a_graph_without_published_splits_has_no_public_scores(tmp_path):
    graph = block_model(120, num_classes=3, num_features=30, topic_words=10, seed=1)
    result = compare(graph, "g", rows(["dgi"])[0], tmp_path, seeds=1, protocols=["strict", "public"])
    assert list(result["protocols"]) == ["strict"]


def test_each_seed_has_its_own_published_split(tmp_path, data):
    graph = data.clone()
    for part in ("train", "val", "test"):
        mask = graph[f"{part}_mask"]
        graph[f"geom_{part}_mask"] = torch.stack([mask, mask.roll(7), mask.roll(31)], 1)
    result = compare(graph, "g", rows(["dgi"])[0], tmp_path, seeds=2, protocols=["public"])
    splits = epagcl.data.geom_splits(graph)[:2]
    expected = linear_evaluation([graph.x] * 2, graph.y, "public", splits=splits)
    assert result["protocols"]["public"]["accuracy"]["runs"] == pytest.approx(expected.runs)


class Interrupted(SilentProgress):
    """Ends a training after an epoch, and records the epochs that were reported."""

    def __init__(self, last=None):
        self.last, self.epochs = last, []

    @contextmanager
    def training(self, title, epochs):
        def callback(row):
            self.epochs.append(row["epoch"])
            if row["epoch"] == self.last:
                raise KeyboardInterrupt

        yield callback


@pytest.mark.parametrize("name", ["epagcl", "bgrl", "greet", "epagcl+"])
def test_an_interrupted_training_is_finished_later(tmp_path, data, monkeypatch, name):
    monkeypatch.setenv("EPAGCL_CHECKPOINT_SECONDS", "0")
    settings = {"dim": 8, "epochs": 6, "device": "cpu"}
    (cell,) = cells(data, "g", [row(name)], seeds=1, protocols=["strict"], settings=settings)
    whole, broken = Store(tmp_path / "whole"), Store(tmp_path / "broken")
    fill([cell], whole)
    with pytest.raises(KeyboardInterrupt):
        fill([cell], broken, Interrupted(last=4))
    path = broken.checkpoint(cell.key(0))
    assert path.exists()
    assert collect(cell, broken) is None
    later = Interrupted()
    fill([cell], broken, later)
    assert later.epochs == [5, 6]
    assert not path.exists()
    found, expected = collect(cell, broken), collect(cell, whole)
    assert found["protocols"] == expected["protocols"]
    assert found["training"]["epochs"] == [6]
    assert found["training"]["effective_rank"] == expected["training"]["effective_rank"]


def test_a_training_whose_saved_state_is_damaged_starts_over(tmp_path, data, caplog):
    (cell,) = cells(data, "g", [row("dgi")], seeds=1, protocols=["strict"], settings={"epochs": 2, "device": "cpu"})
    store = Store(tmp_path)
    path = store.checkpoint(cell.key(0))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"damaged")
    fill([cell], store)
    assert collect(cell, store)["training"]["epochs"] == [2]
    assert not path.exists()
    assert "DGI, seed 0 starts over: " in caplog.text


def test_another_error_is_not_blamed_on_a_saved_state(tmp_path, data, caplog, monkeypatch):
    def fail(*_, **__):
        raise InputError("another error")

    monkeypatch.setattr(epagcl.DGI, "_fit", fail)
    (cell,) = cells(data, "g", [row("dgi")], seeds=1, protocols=["strict"], settings={"device": "cpu"})
    with pytest.raises(InputError, match="another error"):
        fill([cell], Store(tmp_path))
    assert "starts over" not in caplog.text
