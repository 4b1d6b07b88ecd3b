import json

import numpy as np
import pytest

from epagcl import EPAGCL, SupervisedGCN, linear_evaluation
from epagcl.core.config import read_config
from epagcl.core.errors import InputError
from epagcl.data import block_model, geom_splits, random_split
from epagcl.data.splits import published_splits
from epagcl.runs.evaluation import Plan, unfit_labels
from epagcl.runs.execute import merge, run, run_seeds
from epagcl.runs.folder import RUN_FILES, claim
from epagcl.runs.provenance import describe

SMALL = {"hidden": 32, "dim": 16, "projection": 16, "device": "cpu"}


@pytest.fixture(scope="module")
def data():
    return block_model(300, num_classes=3, num_features=60, topic_words=20, seed=1)


def test_a_run_leaves_its_folder(tmp_path, data):
    folder = tmp_path / "run"
    metrics = run(
        data, EPAGCL(epochs=2, **SMALL), folder, name="g", plan=Plan(references=True), source={"file": "g.npz"}
    )
    assert {path.name for path in folder.iterdir()} == set(RUN_FILES) - {"checkpoint.safetensors"}
    assert json.loads((folder / "metrics.json").read_text()) == json.loads(json.dumps(metrics))
    config = read_config(folder / "config.toml")
    assert config["method"]["epochs"] == 2
    assert config["data"].items() >= {"name": "g", "file": "g.npz"}.items()
    assert config["evaluation"] == {"protocol": "strict", "runs": 5, "references": True}
    assert np.load(folder / "embeddings.npy").shape == (300, 16)
    assert len(metrics["evaluation"]["accuracy"]["runs"]) == 5
    assert list(metrics["references"]) == ["raw features", "untrained encoder"]
    assert metrics["evaluation"]["accuracy"]["mean"] > metrics["references"]["raw features"]["accuracy"]["mean"] - 0.3
    for key in ("date", "hardware", "versions"):
        assert metrics[key]
    assert metrics["graph"]["epr_per_node"] == pytest.approx(describe(data, "g")["epr_per_node"])
    for name in ("training.png", "embedding.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_without_labels_nothing_is_evaluated(tmp_path, data):
    blind = data.clone()
    del blind.y
    metrics = run(blind, EPAGCL(epochs=1, **SMALL), tmp_path / "run", plan=Plan())
    assert "evaluation" not in metrics
    assert metrics["graph"]["epr_per_node"] is None


def test_a_finished_run_is_read_not_repeated(tmp_path, data, monkeypatch):
    first = run(data, EPAGCL(epochs=1, **SMALL), tmp_path / "run")
    monkeypatch.setattr(EPAGCL, "fit", lambda *a, **k: pytest.fail("trained again"))
    assert run(data, EPAGCL(epochs=1, **SMALL), tmp_path / "run")["date"] == first["date"]


def test_a_run_with_other_settings_is_refused(tmp_path, data):
    run(data, EPAGCL(epochs=1, **SMALL), tmp_path / "run")
    with pytest.raises(InputError, match="was started with epochs = 1, now epochs = 2"):
        run(data, EPAGCL(epochs=2, **SMALL), tmp_path / "run")


def test_a_run_on_another_graph_or_with_another_evaluation_is_refused(tmp_path, data):
    run(data, EPAGCL(epochs=1, **SMALL), tmp_path / "run", plan=Plan())
    other = block_model(300, num_classes=3, num_features=60, topic_words=20, seed=2)
    with pytest.raises(InputError, match="was started with another graph"):
        run(other, EPAGCL(epochs=1, **SMALL), tmp_path / "run", plan=Plan())
    with pytest.raises(InputError, match="was started with protocol = strict, now protocol = paper"):
        run(data, EPAGCL(epochs=1, **SMALL), tmp_path / "run", plan=Plan("paper"))


def test_labels_that_cannot_be_evaluated_are_known_before_training(data):
    import torch

    assert unfit_labels(data, Plan()) is None
    for y, words in (
        (torch.full((300,), -1), "0 labelled nodes"),
        (torch.zeros(300, dtype=torch.long), "1 class among the labels"),
        (torch.where(torch.arange(300) < 4, data.y, -1), "4 labelled nodes"),
    ):
        other = data.clone()
        other.y = y
        assert words in unfit_labels(other, Plan())
    assert "no public split" in unfit_labels(data, Plan("public"))


def test_what_training_gave_is_kept_if_evaluation_fails(tmp_path, data, monkeypatch):
    monkeypatch.setattr("epagcl.runs.evaluation.evaluate", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(data, EPAGCL(epochs=1, **SMALL), tmp_path / "run", plan=Plan())
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"embeddings.npy", "model.safetensors", "history.csv"} <= names
    assert "metrics.json" not in names


def test_seeds_are_scored_on_their_own_splits(tmp_path, data):
    methods = [EPAGCL(epochs=1, seed=s, **SMALL) for s in (4, 5)]
    metrics = run_seeds(data, methods, tmp_path, plan=Plan(runs=5, references=True))
    assert metrics["seeds"] == [4, 5]
    assert read_config(tmp_path / "config.toml")["seeds"] == {"seeds": [4, 5]}
    assert (metrics["evaluation"]["split"], metrics["evaluation"]["split_seeds"]) == ("random 10/10/80", [4, 5])
    single = [json.loads((tmp_path / f"seed-{s}" / "metrics.json").read_text()) for s in (4, 5)]
    assert metrics["evaluation"]["accuracy"]["runs"] == [m["evaluation"]["accuracy"]["mean"] for m in single]
    assert set(metrics["references"]) == {"raw features", "untrained encoder"}


def test_merge():
    parts = [
        {
            "protocol": "strict",
            "split": "a",
            "split_seeds": [],
            "classes": [0, 1],
            "accuracy": {"runs": [r]},
            "macro_f1": {"runs": [r]},
            "confusion": [[1, 2], [0, k]],
        }
        for k, r in enumerate((0.2, 0.4))
    ]
    assert merge(parts)["confusion"] == [[2, 4], [0, 1]]
    assert merge(parts)["accuracy"] == {"mean": pytest.approx(0.3), "std": pytest.approx(0.02**0.5), "runs": [0.2, 0.4]}


def test_claim(tmp_path):
    claim(tmp_path / "new" / "run")
    assert (tmp_path / "new" / "run").is_dir()
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "metrics.json").write_text("{}")
    (folder / "notes.txt").write_text("mine")
    (folder / "seed-3").mkdir()
    (folder / "seed-3" / "model.safetensors").write_text("")
    with pytest.raises(InputError, match="already there; give another --out"):
        claim(folder)
    with pytest.raises(InputError, match="no run of one seed to resume"):
        claim(folder, resume=True)
    (folder / "config.toml").write_text("")
    claim(folder, resume=True)
    (folder / "seed-3" / "config.toml").write_text("")
    with pytest.raises(InputError, match="no run of one seed to resume"):
        claim(folder, resume=True)
    claim(folder, resume=True, seeds=2)
    (folder / "seed-3" / "config.toml").unlink()
    with pytest.raises(InputError, match="no run of several seeds to resume"):
        claim(folder, resume=True, seeds=2)
    assert (folder / "metrics.json").exists()
    claim(folder, overwrite=True)
    assert not (folder / "metrics.json").exists()
    assert not (folder / "seed-3").exists()
    assert (folder / "notes.txt").read_text() == "mine"  # only a run's own files go
    with pytest.raises(InputError, match="no run of one seed to resume"):
        claim(tmp_path / "none", resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: is a file; give the name of a folder with --out"):
        claim(tmp_path / "file", overwrite=True)
    own = tmp_path / "project"
    own.mkdir()
    (own / "README.md").write_text("mine")
    with pytest.raises(InputError, match="project: holds other files and no run; give another --save"):
        claim(own, overwrite=True, option="--save")
    assert (own / "README.md").read_text() == "mine"
    claim(tmp_path / "later", make=False)
    assert not (tmp_path / "later").exists()
    with pytest.raises(InputError, match="cannot be made"):
        claim(tmp_path / "file" / "run")


def test_published_splits_prefers_what_the_graph_has(data):
    import torch

    graph = data.clone()
    for part, index in vars(random_split(data.y)).items():
        mask = torch.zeros(300, 2, dtype=torch.bool)
        mask[index] = True
        graph[f"geom_{part}_mask"] = mask
    assert len(published_splits(graph)) == len(geom_splits(graph)) == 2
    with pytest.raises(InputError, match="no public split"):
        published_splits(data)


def test_a_supervised_method_and_its_references_are_scored_on_one_split(tmp_path, data):
    metrics = run(data, SupervisedGCN(epochs=5, seed=3, device="cpu"), tmp_path / "run", plan=Plan(references=True))
    split = random_split(data.y, seed=3)
    prediction = SupervisedGCN(epochs=5, seed=3, device="cpu").fit(data, split=split).predict(data)
    expected = (prediction[split.test] == data.y[split.test]).double().mean().item()
    assert metrics["evaluation"]["accuracy"]["runs"] == pytest.approx([expected])
    assert metrics["evaluation"]["split_seeds"] == [3]
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


def test_several_seeds_of_a_supervised_method_have_a_split_each(tmp_path, data):
    methods = [SupervisedGCN(epochs=2, seed=seed, device="cpu") for seed in range(2)]
    metrics = run_seeds(data, methods, tmp_path, plan=Plan())
    assert metrics["evaluation"]["split_seeds"] == [0, 1]
    assert len(metrics["evaluation"]["accuracy"]["runs"]) == 2
