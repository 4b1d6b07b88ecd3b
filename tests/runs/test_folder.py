"""Run folders: claimed, resumed, overwritten, and never mixed."""

import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from epagcl import EPAGCL
from epagcl.core.config import read_config
from epagcl.core.errors import InputError
from epagcl.data import block_model
from epagcl.runs.evaluation import Plan
from epagcl.runs.execute import run
from epagcl.runs.folder import begin_run, claim, writing

SMALL = {"hidden": 32, "dim": 16, "projection": 16, "device": "cpu"}
SECTIONS = {"data": {"fingerprint": "f"}, "evaluation": {"protocol": "strict"}}


@pytest.fixture
def old_run(tmp_path):
    """A folder with the files of a run of several seeds and a file of the user's."""
    folder = tmp_path / "old"
    (folder / "seed-3").mkdir(parents=True)
    (folder / "metrics.json").write_text("{}")
    (folder / "notes.txt").write_text("mine")
    (folder / "seed-3" / "model.safetensors").write_text("")
    return folder


def test_a_new_folder_is_made_with_its_parents(tmp_path):
    claim(tmp_path / "new" / "run")
    assert (tmp_path / "new" / "run").is_dir()
    claim(tmp_path / "later", make=False)
    assert not (tmp_path / "later").exists()


def test_a_run_is_not_overwritten_unless_asked(old_run):
    with pytest.raises(
        InputError, match="already exists; give another folder=, resume=True to continue it, or overwrite=True"
    ):
        claim(old_run)
    assert (old_run / "metrics.json").exists()
    (old_run / "events.out.tfevents.1").write_text("")
    claim(old_run, overwrite=True)
    assert [path.name for path in old_run.iterdir()] == ["notes.txt"]  # only the files of the run are removed
    assert (old_run / "notes.txt").read_text() == "mine"


def test_resuming_needs_a_run_with_as_many_seeds(old_run, tmp_path):
    with pytest.raises(InputError, match=r"no run of one seed to resume; leave out resume=True to start one$"):
        claim(old_run, resume=True)
    (old_run / "config.toml").write_text("")
    claim(old_run, resume=True)
    (old_run / "seed-3" / "config.toml").write_text("")
    with pytest.raises(InputError, match="no run of one seed to resume"):
        claim(old_run, resume=True)
    claim(old_run, resume=True, seeds=2)
    (old_run / "seed-3" / "config.toml").unlink()
    with pytest.raises(InputError, match="no run of several seeds to resume"):
        claim(old_run, resume=True, seeds=2)
    with pytest.raises(InputError, match="no run of one seed to resume"):
        claim(tmp_path / "none", resume=True)
    assert (old_run / "metrics.json").exists()


def test_messages_name_the_argument_of_the_caller(old_run):
    with pytest.raises(InputError, match=r"already exists; give another save=, or overwrite=True$"):
        claim(old_run, argument="save", resumable=False)
    with pytest.raises(
        InputError, match=r"already exists; give another save=, resume=True to continue it, or overwrite=True$"
    ):
        claim(old_run, argument="save")


def test_folders_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file: is a file, not a folder; give another folder=$"):
        claim(tmp_path / "file", overwrite=True)
    own = tmp_path / "project"
    own.mkdir()
    (own / "README.md").write_text("mine")
    with pytest.raises(InputError, match=r"project: holds other files and no run; give another save=$"):
        claim(own, overwrite=True, argument="save")
    assert (own / "README.md").read_text() == "mine"
    with pytest.raises(InputError, match=r"file: is a file, not a folder; give another folder=$"):
        claim(tmp_path / "file" / "run")


def test_a_folder_without_write_permission(tmp_path, monkeypatch):
    monkeypatch.setattr("epagcl.runs.folder.os.access", lambda *_: False)  # root may write anywhere
    with pytest.raises(InputError, match=r"not writable; give another folder=$"):
        claim(tmp_path / "run")


def test_where_a_run_is_computed_may_change(tmp_path):
    begin_run(tmp_path, EPAGCL(device="cpu"), SECTIONS)
    begin_run(tmp_path, EPAGCL(device="cuda", capture="off"), SECTIONS)
    assert read_config(tmp_path / "config.toml")["method"]["device"] == "cpu"  # the configuration is not rewritten


def test_a_run_of_version_0_1_is_resumed(tmp_path):
    begin_run(tmp_path, EPAGCL(), SECTIONS)
    config = tmp_path / "config.toml"
    former = config.read_text().replace("feature_scaling =", "features =").replace('"eq9"', '"eq7"')
    assert former.count('"eq7"') == 2
    config.write_text(former)
    begin_run(tmp_path, EPAGCL(), SECTIONS)
    with pytest.raises(InputError, match="was started with drop = eq9, now drop = text"):
        begin_run(tmp_path, EPAGCL(drop="text"), SECTIONS)
    with pytest.raises(InputError, match="was started with feature_scaling = given"):
        begin_run(tmp_path, EPAGCL(feature_scaling="row-sum"), SECTIONS)


@pytest.mark.slow
def test_a_run_with_other_settings_is_refused(tmp_path):
    data = block_model(300, num_classes=3, num_features=60, topic_words=20, seed=1)
    run(data, EPAGCL(epochs=1, **SMALL), tmp_path / "run", plan=Plan(), map_kind="none")
    with pytest.raises(InputError, match="was started with epochs = 1, now epochs = 2; resume it unchanged"):
        run(data, EPAGCL(epochs=2, **SMALL), tmp_path / "run", plan=Plan())
    other = block_model(300, num_classes=3, num_features=60, topic_words=20, seed=2)
    with pytest.raises(InputError, match="was started with another graph"):
        run(other, EPAGCL(epochs=1, **SMALL), tmp_path / "run", plan=Plan())
    with pytest.raises(InputError, match="was started with protocol = strict, now protocol = paper"):
        run(data, EPAGCL(epochs=1, **SMALL), tmp_path / "run", plan=Plan("paper"))


def test_the_old_name_of_an_argument_is_accepted(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.warns(DeprecationWarning, match="option of claim is now argument"), pytest.raises(InputError) as caught:
        claim(tmp_path, option="--save")
    assert str(caught.value) == f"{tmp_path}: holds other files and no run; give another save="


def test_a_folder_in_use_is_neither_overwritten_nor_written_by_another_process(old_run, small_graph):
    with writing(old_run), pytest.raises(InputError, match="another process is writing this run; wait for it"):
        claim(old_run, overwrite=True)
    assert (old_run / "metrics.json").exists()
    with writing(old_run / "seed-3"), pytest.raises(InputError, match="seed-3: another process is writing this run"):
        claim(old_run, overwrite=True)
    folder = old_run.parent / "new"
    with writing(folder), pytest.raises(InputError, match="new: another process is writing this run"):
        run(small_graph, EPAGCL(epochs=1, **SMALL), folder)
    claim(old_run, overwrite=True)
    assert not (old_run / "metrics.json").exists()


def test_what_a_killed_process_leaves_is_no_run_and_no_other_file(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    (tmp_path / ".lock").touch()
    (tmp_path / f".config.{process.pid}.tmp.toml").touch()
    claim(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_run_on_changed_features_labels_splits_or_ids_is_refused(tmp_path, small_graph):
    folder = tmp_path / "run"
    run(small_graph, EPAGCL(epochs=1, **SMALL), folder, map_kind="none")
    run(small_graph.clone(), EPAGCL(epochs=1, **SMALL), folder, map_kind="none")  # finished: nothing to do
    x = small_graph.x.to_dense()
    x[7] *= -1
    for change in ({"x": x}, {"y": small_graph.y.flip(0)}, {"node_ids": list(range(60))}):
        other = small_graph.clone().update(change)
        with pytest.raises(InputError, match=r"was started with another graph \(other edges, features, labels"):
            run(other, EPAGCL(epochs=1, **SMALL), folder, map_kind="none")


def test_a_run_of_an_earlier_version_says_so(tmp_path):
    method = EPAGCL(epochs=1, **SMALL)
    begin_run(tmp_path, method, {"data": {"fingerprint": "60-80-40-00c4b9d3a2f0a1b7-1.245e+04"}})
    with pytest.raises(InputError, match="was started by an earlier version, which does not identify its graph"):
        begin_run(tmp_path, method, {"data": {"fingerprint": "60-80-40-0123"}})


@pytest.mark.parametrize("content", ["", "{", "[]", "\x00"])
def test_damaged_metrics_of_a_finished_run_are_one_line(tmp_path, small_graph, content):
    begun = EPAGCL(epochs=1, **SMALL)
    run(small_graph, begun, tmp_path / "run", map_kind="none")
    (tmp_path / "run/metrics.json").write_text(content)
    with pytest.raises(InputError, match=r"metrics\.json: damaged \(.*\); overwrite the run$"):
        run(small_graph, EPAGCL(epochs=1, **SMALL), tmp_path / "run", map_kind="none")


def test_a_folder_that_cannot_be_created_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "mkdir", Mock(side_effect=PermissionError(13, "Permission denied")))
    with pytest.raises(InputError, match=r"run: cannot be created \(Permission denied\); give another folder=$"):
        claim(tmp_path / "run")
