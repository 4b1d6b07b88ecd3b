import json
import re
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import epagcl
from epagcl.data import block_model, write_npz
from tests.cli.conftest import FAST, SMALL


def test_a_method_without_training(run, tmp_path):
    command = ["train", "demo", "--method", "propagated", "--dim", 16, "--device", "cpu", "--map", "none"]
    code, out, err = run(*command, "--references", "--runs", 1)
    assert code == 0, err
    assert [name for name in ("raw features", "untrained encoder") if name in out] == ["raw features"]
    assert "no sign that the computation went wrong" in out or "worth a look" in out
    assert "training went" not in out
    assert "train longer" not in out
    card = (tmp_path / "runs" / "demo-propagated" / "README.md").read_text()
    assert "Node embeddings, computed without training." in card
    assert "The model was computed on all nodes" in card
    assert "- training-free" in card
    assert not [words for words in ("epochs", "final loss", "training time") if words in card]
    assert (tmp_path / "runs" / "demo-propagated" / "history.csv").read_text().count("\n") == 1
    code, _, err = run(*command, "--overwrite", "--epochs", 3)
    assert code == 2
    assert "no option --epochs" in err


@pytest.fixture
def tiny(tmp_path):
    """Write a graph of 80 nodes with labels."""
    write_npz(block_model(80, num_classes=3, num_features=30, topic_words=10, seed=3), tmp_path / "tiny.npz")
    return "tiny.npz"


@pytest.mark.slow
def test_the_default_method_on_a_users_graph_and_its_references(run, tiny, tmp_path):
    code, out, err = run("train", tiny, *SMALL, "--references", "--runs", 1)
    assert code == 0, err
    rows = [line.split("  ")[0].strip() for line in out.splitlines() if re.search(r"\d\d\.\d\d", line)]
    assert rows == ["raw features", "untrained EPAGCL+", "propagated", "EPAGCL+"]
    note = "encoders with initial weights, and everything that it computes without training"
    assert f"untrained EPAGCL+: {note}\n" in out
    assert "run folder: runs/tiny-epagcl+" in out
    folder = tmp_path / "runs" / "tiny-epagcl+"
    card = (folder / "README.md").read_text()
    assert "# EPAGCL+ on tiny" in card
    assert "It has no paper of its own; it is EPAGCL (Xu et al., AAAI 2025)" in card
    assert f"Untrained EPAGCL+: {note}." in card


@pytest.mark.parametrize(
    ("graph", "options", "name"),
    [
        ("demo", [], "epagcl+"),
        ("Demo", [], "epagcl+"),
        ("cora", [], "epagcl"),
        ("tiny.npz", [], "epagcl+"),
        ("tiny.npz", ["--method", "dgi"], "dgi"),
        ("tiny.npz", ["--config", "c.toml"], "grace"),
        ("cora", ["--config", "c.toml"], "grace"),
        ("demo", ["--config", "unnamed.toml"], "epagcl+"),
    ],
)
def test_the_default_method_depends_on_the_graph(run, tiny, tmp_path, monkeypatch, graph, options, name):
    (tmp_path / "c.toml").write_text('[method]\nname = "grace"\nlr = 0.005\n')
    (tmp_path / "unnamed.toml").write_text("[method]\nlr = 0.005\n")
    monkeypatch.setattr("epagcl.data.load", lambda name, *_, **__: Data(name=name.lower()))
    monkeypatch.setattr("epagcl.runs.evaluation.unfit_labels", lambda *_: None)
    asked = []

    def stop(folder, **_):
        asked.append(folder.name)
        raise epagcl.errors.InputError("enough")

    monkeypatch.setattr("epagcl.runs.folder.claim", stop)
    code, _, err = run("train", graph, *options)
    assert (code, err) == (2, "epagcl: enough\n")
    assert asked == [f"{graph.lower().removesuffix('.npz')}-{name}"]


def test_a_configuration_file_for_another_method_than_the_given_one_is_refused(run, tiny, tmp_path):
    (tmp_path / "c.toml").write_text('[method]\nname = "grace"\n')
    code, _, err = run("train", tiny, "--method", "epagcl+", "--config", "c.toml")
    assert (code, err) == (2, "epagcl: c.toml: is for grace; give --method grace\n")


@pytest.mark.slow
def test_the_default_method_resumes_to_the_same_result(run, tiny, monkeypatch, tmp_path):
    original = epagcl.EPAGCLPlus.loss

    def interrupted(self, network, graph, prepared, epoch):
        if epoch == 2:
            signal.raise_signal(signal.SIGINT)
        return original(self, network, graph, prepared, epoch)

    arguments = ["train", tiny, *SMALL, "--epochs", "4", "--runs", "1", "--quiet"]
    monkeypatch.setattr(epagcl.EPAGCLPlus, "loss", interrupted)
    assert run(*arguments)[0] == 130
    monkeypatch.setattr(epagcl.EPAGCLPlus, "loss", original)
    assert run(*arguments, "--resume")[0] == 0
    assert run(*arguments, "--out", "whole")[0] == 0
    resumed, whole = (np.load(tmp_path / name / "embeddings.npy") for name in ("runs/tiny-epagcl+", "whole"))
    assert np.array_equal(resumed, whole)


@pytest.mark.slow
def test_train_on_a_named_graph_prints_scores_and_writes_a_run_folder(run, tmp_path):
    code, out, err = run("train", "demo", *FAST, "--references", "--runs", 2)
    assert code == 0
    assert re.search(r"raw features +\d\d\.\d\d ± \d", out)
    assert re.search(r"untrained encoder +\d\d\.\d\d ± \d", out)
    assert re.search(r"propagated +\d\d\.\d\d ± \d", out)
    assert re.search(r"EPAGCL +\d\d\.\d\d ± \d", out)
    assert "EPR: 0.194 per node" in out
    assert "protocol strict, 2 runs, splits random 10/10/80 (seeds 0, 1), measured here" in out
    assert "run folder: runs/demo-epagcl" in out
    assert (tmp_path / "runs" / "demo-epagcl" / "model.safetensors").exists()
    assert "Traceback" not in err


@pytest.mark.slow
def test_json_output_is_json_only(run):
    code, out, _ = run("train", "demo", *FAST, "--no-references", "--runs", 1, "--json", "--out", "r")
    assert code == 0
    result = json.loads(out)
    assert result["folder"] == "r"
    assert result["method"]["epochs"] == 2
    assert len(result["evaluation"]["accuracy"]["runs"]) == 1


@pytest.mark.slow
def test_options_override_the_configuration_file_which_overrides_the_recipe(run, tmp_path, caplog):
    (tmp_path / "c.toml").write_text('[method]\nname = "epagcl"\nlr = 0.005\ntemperature = 0.7\n')
    code, out, _ = run("train", "demo", *FAST, "--config", "c.toml", "--temperature=0.9", "--runs", 1, "--json")
    assert code == 0
    settings = json.loads(out)["method"]
    assert (settings["lr"], settings["temperature"], settings["p_drop_2"]) == (0.005, 0.9, 0.3)
    assert "recipe for demo: our settings" in caplog.messages


@pytest.mark.slow
def test_several_seeds_have_a_run_folder_each(run, tmp_path):
    code, out, _ = run("train", "demo", *FAST, "--no-references", "--seeds", 2, "--seed", 5, "--json", "--out", "r")
    assert code == 0
    assert json.loads(out)["seeds"] == [5, 6]
    assert (tmp_path / "r" / "seed-6" / "embeddings.npy").exists()


@pytest.mark.slow
def test_an_existing_run_needs_resume_or_overwrite(run):
    assert run("train", "demo", *FAST, "--no-references", "--runs", 1, "--quiet")[0] == 0
    code, _, err = run("train", "demo", *FAST, "--quiet")
    assert code == 2
    assert "already exists; give another --out, --resume to continue it, or --overwrite" in err
    assert run("train", "demo", *FAST, "--no-references", "--runs", 1, "--quiet", "--resume")[0] == 0
    assert run("train", "demo", *FAST, "--no-references", "--runs", 1, "--quiet", "--overwrite")[0] == 0


@pytest.mark.slow
def test_a_requeued_slurm_job_goes_on_or_starts_if_it_had_not_yet(run, monkeypatch, tmp_path):
    arguments = ["train", "demo", *FAST, "--no-references", "--runs", 1, "--quiet", "--out", "run"]
    code, _, err = run(*arguments, "--resume")
    assert (code, "no run of one seed to resume" in err) == (2, True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").touch()  # preempted before config.toml was written
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert run(*arguments, "--resume")[0] == 0
    written = (tmp_path / "run" / "config.toml").stat().st_mtime_ns
    assert run(*arguments)[0] == 0
    assert (tmp_path / "run" / "config.toml").stat().st_mtime_ns == written
    monkeypatch.delenv("SLURM_RESTART_COUNT")
    assert run(*arguments)[0] == 2


@pytest.mark.slow
def test_quiet_prints_nothing(run, caplog):
    assert run("train", "demo", *FAST, "--no-references", "--runs", 1, "--quiet") == (0, "", "")
    assert caplog.messages == []


@pytest.mark.slow
def test_train_on_tables_and_on_a_graph_file(run, files):
    code, out, _ = run(
        "train", "--edges", "e.csv", "--features", "f.csv", "--labels", "l.csv", *FAST, "--json", "--runs", 1
    )
    assert code == 0
    assert json.loads(out)["graph"]["classes"] == 3
    write_npz(epagcl.load("demo"), files / "mine.npz")
    code, out, _ = run("train", "mine.npz", *FAST, "--json", "--runs", 1)
    assert code == 0
    assert json.loads(out)["folder"] == "runs/mine-epagcl"


@pytest.mark.slow
def test_an_interrupted_training_can_be_resumed_with_the_printed_command(run, monkeypatch, tmp_path):
    original = epagcl.EPAGCL.loss

    def interrupted(self, network, graph, prepared, epoch):
        if epoch == 1:
            signal.raise_signal(signal.SIGINT)
        return original(self, network, graph, prepared, epoch)

    arguments = ["train", "demo", *FAST, "--epochs", "4", "--runs", "1", "--out", "a folder"]
    monkeypatch.setattr(epagcl.EPAGCL, "loss", interrupted)
    code, _, err = run(*arguments)
    assert code == 130
    assert f"to continue: epagcl {' '.join(arguments[:-1])} 'a folder' --resume" in err
    assert "Traceback" not in err
    assert (tmp_path / "a folder" / "checkpoint.safetensors").exists()
    monkeypatch.setattr(epagcl.EPAGCL, "loss", original)
    assert run(*arguments, "--resume", "--quiet")[0] == 0
    assert run(*arguments[:-1], "whole", "--quiet")[0] == 0
    files = [np.load(tmp_path / name / "embeddings.npy") for name in ("a folder", "whole")]
    assert np.array_equal(*files)
    with open(tmp_path / "a folder" / "history.csv") as file:
        assert len(file.readlines()) == 5


@pytest.mark.slow
def test_overwrite_keeps_the_old_run_if_the_new_one_cannot_start(run, tmp_path):
    assert run("train", "demo", *FAST, "--no-references", "--runs", 1, "--quiet", "--out", "good")[0] == 0
    assert run("train", "demo", *FAST[:-2], "--device", "mps", "--out", "good", "--overwrite")[0] == 2
    assert (tmp_path / "good" / "metrics.json").exists()


@pytest.mark.slow
def test_labels_that_cannot_be_evaluated_do_not_stop_training(run, files, caplog):
    pd.DataFrame({"id": ["user-001"], "label": ["red"]}).to_csv(files / "one.csv", index=False)
    code, out, _ = run("train", "--edges", "e.csv", "--features", "f.csv", "--labels", "one.csv", *FAST, "--out", "r")
    assert code == 0
    assert "run folder: r" in out
    assert any("not evaluated (1 labelled node" in message for message in caplog.messages)


def test_a_file_with_the_name_of_a_named_graph_gets_no_recipe(run, files, caplog):
    (files / "e.csv").rename(files / "cora.csv")
    code, _, _ = run("train", "--edges", "cora.csv", "--features", "f.csv", *FAST[:-2], "--device", "cpu", "--json")
    assert code == 0
    assert not any("recipe" in message for message in caplog.messages)


def test_a_loss_that_is_not_finite_is_one_line_with_exit_code_1(run, monkeypatch):
    nan = torch.tensor(float("nan"))
    monkeypatch.setattr(epagcl.EPAGCL, "loss", lambda self, network, *_: network.head[0].weight.sum() * nan)
    code, _, err = run("train", "demo", *FAST, "--quiet")
    assert code == 1
    assert "epagcl: the loss is nan at epoch 1; lower lr" in err


def test_a_supervised_method_needs_labels(run, tmp_path):
    (tmp_path / "e.csv").write_text("source,target\n0,1\n1,2\n2,3\n")
    np.save(tmp_path / "f.npy", np.eye(4, dtype=np.float32))
    files = ["--edges", tmp_path / "e.csv", "--features", tmp_path / "f.npy"]
    code, _, err = run("embed", *files, "--method", "gcn", "--device", "cpu", "--out", tmp_path / "z.npy")
    assert code == 2
    assert "gcn learns from labels: train it with `epagcl train`" in err
    code, _, err = run("train", *files, "--method", "gcn", "--device", "cpu", "--out", tmp_path / "run")
    assert code == 2
    assert "gcn learns from labels, and the graph has none; give --labels" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "name", ["bgrl", "cca-ssg", "dgi", "epagcl", "epagcl+", "gat", "gca", "gcn", "gmi", "grace", "greet", "mvgrl"]
)
def test_every_method_trains_from_the_command_line(run, tmp_path, name):
    graph = tmp_path / "g.npz"
    data = block_model(80, num_classes=3, num_features=30, topic_words=10, seed=3)
    write_npz(data, graph)
    folder = tmp_path / "run"
    code, out, err = run("train", graph, "--method", name, "--epochs", 2, "--device", "cpu", "--out", folder, "--json")
    assert code == 0, err
    metrics = json.loads(out)
    assert metrics["method"]["name"] == name
    assert metrics["training"]["epochs"] == 2
    assert 0 <= metrics["evaluation"]["accuracy"]["mean"] <= 1
    assert epagcl.load_model(folder, device="cpu").embed(data).shape[0] == 80


@pytest.mark.slow
def test_a_run_logs_to_tensorboard(run):
    pytest.importorskip("tensorboard")
    assert run(
        "train", "demo", *FAST, "--no-references", "--runs", 1, "--log", "tensorboard", "--out", "r", "--quiet"
    ) == (0, "", "")
    assert len(list(Path("r").glob("events.out.tfevents.*"))) == 1
    code, _, err = run("train", "demo", *FAST, "--log", "paper", "--out", "s")
    assert (code, err) == (2, "epagcl: no logger 'paper'; choose one of tensorboard, wandb\n")
    assert not Path("s").exists()
    assert run("train", "demo", *FAST, "--no-references", "--runs", 1, "--out", "r", "--overwrite", "--quiet")[0] == 0
    assert not list(Path("r").glob("events.*"))
