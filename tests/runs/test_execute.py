"""Runs from the graph to the finished folder, with one seed or several."""

import json
import tomllib
from contextlib import contextmanager

import numpy as np
import pytest

from epagcl import EPAGCL, SupervisedGCN, linear_evaluation, load_model
from epagcl.core.config import read_config
from epagcl.core.errors import InputError
from epagcl.core.outputs import RUN_FILES
from epagcl.data import block_model, random_split
from epagcl.report.content import read_content
from epagcl.report.files import write_comparison
from epagcl.runs import execute
from epagcl.runs.evaluation import Plan
from epagcl.runs.execute import run, run_seeds, trained_metrics
from epagcl.runs.export import export_run
from epagcl.runs.record import describe

SMALL = {"hidden": 32, "dim": 16, "projection": 16, "device": "cpu"}


@pytest.fixture(scope="module")
def data():
    return block_model(300, num_classes=3, num_features=60, topic_words=20, seed=1)


@pytest.mark.slow
def test_a_run_writes_its_folder(tmp_path, data):
    folder = tmp_path / "run"
    metrics = run(
        data, EPAGCL(epochs=2, **SMALL), folder, name="g", plan=Plan(references=True), source={"file": "g.npz"}
    )
    assert {path.name for path in folder.iterdir()} == set(RUN_FILES) - {
        "checkpoint.safetensors",
        "columns.json",
    }  # no checkpoint, and no table of columns
    assert json.loads((folder / "metrics.json").read_text()) == json.loads(json.dumps(metrics))
    config = read_config(folder / "config.toml")
    assert config["method"]["epochs"] == 2
    assert config["data"].items() >= {"name": "g", "file": "g.npz"}.items()
    assert config["evaluation"] == {"protocol": "strict", "runs": 5, "references": True}
    assert np.load(folder / "embeddings.npy").shape == (300, 16)
    assert len(metrics["evaluation"]["accuracy"]["runs"]) == 5
    assert list(metrics["references"]) == ["raw features", "untrained encoder", "propagated"]
    assert metrics["evaluation"]["accuracy"]["mean"] > metrics["references"]["raw features"]["accuracy"]["mean"] - 0.3
    for key in ("date", "hardware", "versions"):
        assert metrics[key]
    assert metrics["graph"]["epr_per_node"] == pytest.approx(describe(data, "g")["epr_per_node"])
    for name in ("training.png", "embedding.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_graph_without_labels_is_not_evaluated(tmp_path, data):
    unlabelled = data.clone()
    del unlabelled.y
    metrics = run(unlabelled, EPAGCL(epochs=1, **SMALL), tmp_path / "run", plan=Plan())
    assert "evaluation" not in metrics
    assert metrics["graph"]["epr_per_node"] is None


@pytest.mark.slow
def test_a_finished_run_is_read_not_repeated(tmp_path, data, monkeypatch):
    first = run(data, EPAGCL(epochs=1, **SMALL), tmp_path / "run")
    monkeypatch.setattr(EPAGCL, "fit", lambda *a, **k: pytest.fail("trained again"))
    assert run(data, EPAGCL(epochs=1, **SMALL), tmp_path / "run")["date"] == first["date"]


def test_an_unknown_map_is_refused_before_training(tmp_path, data):
    with pytest.raises(InputError, match="map_kind='star': choose one of auto, tsne, umap, pca, none"):
        run(data, EPAGCL(epochs=1, **SMALL), tmp_path / "run", map_kind="star")
    assert not (tmp_path / "run").exists()


def test_the_results_of_training_are_kept_if_evaluation_fails(tmp_path, data, monkeypatch):
    monkeypatch.setattr(execute, "evaluate", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(data, EPAGCL(epochs=1, **SMALL), tmp_path / "run", plan=Plan())
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"embeddings.npy", "model.safetensors", "history.csv"} <= names
    assert "metrics.json" not in names


def test_metrics_of_an_untrained_model(data):
    metrics = trained_metrics(data, EPAGCL(epochs=0, **SMALL).fit(data), "g")
    training = metrics["training"]
    assert (training["final_loss"], training["effective_rank"]) == (None, None)
    assert (training["epochs"], training["seconds"], training["seconds_per_epoch"]) == (0, 0.0, 0.0)
    assert [finding["name"] for finding in metrics["health"]] == ["effective rank", "uniformity", "alignment"]


@pytest.mark.slow
def test_seeds_are_scored_on_their_own_splits(tmp_path, data):
    methods = [EPAGCL(epochs=1, seed=s, **SMALL) for s in (4, 5)]
    metrics = run_seeds(data, methods, tmp_path, plan=Plan(runs=5, references=True))
    assert metrics["seeds"] == [4, 5]
    assert read_config(tmp_path / "config.toml")["seeds"] == {"seeds": [4, 5]}
    assert (metrics["evaluation"]["split"], metrics["evaluation"]["split_seeds"]) == ("random 10/10/80", [4, 5])
    single = [json.loads((tmp_path / f"seed-{s}" / "metrics.json").read_text()) for s in (4, 5)]
    assert metrics["evaluation"]["accuracy"]["runs"] == [m["evaluation"]["accuracy"]["mean"] for m in single]
    assert metrics["training"]["final_loss"] == [m["training"]["final_loss"] for m in single]
    assert set(metrics["references"]) == {"raw features", "untrained encoder", "propagated"}
    assert json.loads((tmp_path / "metrics.json").read_text()) == json.loads(json.dumps(metrics))


def test_the_health_of_several_seeds_is_that_of_the_worst():
    def result(verdict):
        finding = {"name": "effective rank", "value": 1.0, "shown": "1 of 16", "verdict": verdict, "words": ""}
        return {"training": {"epochs": 1}, "health": [finding]}

    for verdicts, worst in ((("good", "fair"), "fair"), (("poor", "good"), "poor"), (("good", "good"), "good")):
        metrics = execute._merge_metrics([result(verdict) for verdict in verdicts], [0, 1])
        assert [finding["verdict"] for finding in metrics["health"]] == [worst]
        assert metrics["training"] == {"epochs": [1, 1]}


@pytest.mark.slow
def test_each_seed_reports_its_progress(tmp_path, data):
    received = []

    class Line:
        def __init__(self, seed):
            self.seed = seed

        def __call__(self, row):
            received.append((self.seed, row["epoch"]))

        def say(self, words):
            received.append((self.seed, words))

    @contextmanager
    def line(seed):
        yield Line(seed)

    methods = [EPAGCL(epochs=1, seed=seed, **SMALL) for seed in (0, 1)]
    run_seeds(data, methods, tmp_path, plan=None, progress=[line(0), line(1)], map_kind="none")
    for seed in (0, 1):
        own = [value for number, value in received if number == seed]
        assert own[:2] == [1, "embedding"]
        assert own[-1] == "report"


@pytest.mark.slow
def test_a_supervised_method_and_its_references_are_scored_on_one_split(tmp_path, data):
    metrics = run(data, SupervisedGCN(epochs=5, seed=3, device="cpu"), tmp_path / "run", plan=Plan(references=True))
    split = random_split(data.y, seed=3)
    prediction = SupervisedGCN(epochs=5, seed=3, device="cpu").fit(data, split=split).predict(data)
    expected = (prediction[split.test] == data.y[split.test]).double().mean().item()
    assert metrics["evaluation"]["accuracy"]["runs"] == pytest.approx([expected])
    assert metrics["evaluation"]["split_seeds"] == [3]
    assert metrics["health"] == []
    raw = metrics["references"]["raw features"]["accuracy"]["runs"]
    assert raw == pytest.approx(linear_evaluation(data.x, data.y, runs=1, seed=3).runs)
    header = (tmp_path / "run" / "history.csv").read_text().splitlines()[0].split(",")
    assert header == [
        "epoch",
        "loss",
        "seconds",
        "effective_rank",
        "alignment",
        "distance",
        "uniformity",
        "validation_loss",
    ]


@pytest.mark.slow
def test_several_seeds_of_a_supervised_method_have_a_split_each(tmp_path, data):
    methods = [SupervisedGCN(epochs=2, seed=seed, device="cpu") for seed in range(2)]
    metrics = run_seeds(data, methods, tmp_path, plan=Plan())
    assert metrics["evaluation"]["split_seeds"] == [0, 1]
    assert len(metrics["evaluation"]["accuracy"]["runs"]) == 2
    assert "health" not in metrics


def rename_to_version_0_1(folder):
    """Give a run folder the form of version 0.1: ``features`` for ``feature_scaling``, and ``eq7`` for ``eq9``."""
    import gzip

    config = folder / "config.toml"
    config.write_text(config.read_text().replace("feature_scaling =", "features =").replace('"eq9"', '"eq7"'))
    assert tomllib.loads(config.read_text())["method"]["features"] == "given"
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["method"]["features"] = metrics["method"].pop("feature_scaling")
    metrics["method"] |= {"drop": "eq7", "add": "eq7"}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    content = json.loads(gzip.decompress((folder / "report.json.gz").read_bytes()))
    for setting in content["settings"]:
        if setting["name"] == "feature_scaling":
            setting.update(name="features", meaning="an earlier text")
        if setting["value"] == "eq9":
            setting["value"] = "eq7"
    (folder / "report.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))


@pytest.mark.slow
def test_a_folder_of_version_0_1_is_read(tmp_path, data, monkeypatch):
    method = EPAGCL(epochs=1, **SMALL)
    z = method.fit_embed(data)
    for name in ("old", "new"):
        run(data, EPAGCL(epochs=1, **SMALL), tmp_path / name, plan=Plan(), map_kind="pca")
    rename_to_version_0_1(tmp_path / "old")
    model = load_model(tmp_path / "old", device="cpu")
    assert model.feature_scaling == "given"
    np.testing.assert_array_equal(model.embed(data).numpy(), z.numpy())
    assert export_run(tmp_path / "old", tmp_path / "z.csv", None, columns=True) == [tmp_path / "z.csv"]
    page = write_comparison([tmp_path / "old"], tmp_path / "old.html", kind="pca")
    assert page.is_file()
    settings = {setting["name"]: setting["value"] for setting in read_content(tmp_path / "old")["settings"]}
    assert (settings["feature_scaling"], settings["drop"], settings["add"]) == ("given", "eq9", "eq9")
    # Neither the old name nor another description of the setting makes it another run.
    pages = {}
    monkeypatch.setattr("epagcl.report.files.write_page", lambda content, path: pages.update({path: content}))
    both = write_comparison([tmp_path / "old", tmp_path / "new"], tmp_path / "both.html")
    assert pages[both]["agreement"]["verdict"] == "good"
    # Resumed, the finished run is read; it counts as the same run.
    assert run(data, method, tmp_path / "old", plan=Plan())["method"]["features"] == "given"
    with pytest.raises(InputError, match="was started with feature_scaling = given, now feature_scaling = row-sum"):
        run(data, EPAGCL(epochs=1, feature_scaling="row-sum", **SMALL), tmp_path / "old", plan=Plan())
