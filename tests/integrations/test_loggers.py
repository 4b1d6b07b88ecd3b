"""Training curves in TensorBoard's files and in Weights & Biases."""

import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from epagcl import EPAGCL
from epagcl.core.errors import InputError, MissingExtra
from epagcl.integrations import loggers

SMALL = {"epochs": 3, "hidden": 8, "dim": 6, "projection": 6, "device": "cpu"}


@pytest.fixture
def curves(tmp_path):
    """A folder for TensorBoard's files; skip the test if TensorBoard is missing."""
    pytest.importorskip("tensorboard")
    return tmp_path


def events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder)).Reload()


def curve(folder, tag):
    return {event.step: pytest.approx(event.value, rel=1e-6) for event in events(folder).Scalars(tag)}


def hparams(folder):
    """Return the settings and the names of final values, as TensorBoard's HPARAMS tab reads them."""
    from tensorboard.plugins.hparams import plugin_data_pb2

    contents = {}
    for tag, value in events(folder).summary_metadata.items():
        content = plugin_data_pb2.HParamsPluginData.FromString(value.plugin_data.content)
        contents[tag.split("/")[-1]] = content
    settings = {
        key: getattr(value, value.WhichOneof("kind"))
        for key, value in contents["session_start_info"].session_start_info.hparams.items()
    }
    return settings, {info.name.tag for info in contents["experiment"].experiment.metric_infos}


def test_tensorboard_reads_the_history_and_the_settings(curves, small_graph):
    model = EPAGCL(**SMALL)
    with loggers.tensorboard(curves, model.settings()) as log:
        model.fit(small_graph, callback=log)
        log.final["accuracy"] = 0.5
    history = model.history_
    assert curve(curves, "loss") == {row["epoch"]: row["loss"] for row in history}
    assert curve(curves, "seconds") == {row["epoch"]: row["seconds"] for row in history}
    assert curve(curves, "effective_rank") == {3: history[-1]["effective_rank"]}  # None in the epochs before
    assert curve(curves, "accuracy") == {0: 0.5}
    settings, final = hparams(curves)
    assert settings.keys() == model.settings().keys()
    assert (settings["name"], settings["dim"], settings["p_add"]) == ("epagcl", 6, model.p_add)
    assert final == {*history[-1], "accuracy"} - {"epoch"}
    assert len(list(curves.iterdir())) == 1  # one run, not a second one for the settings


def test_tensorboard_replaces_epochs_that_are_trained_again(curves):
    with loggers.tensorboard(curves) as log:
        for epoch in (1, 2, 3):
            log({"epoch": epoch, "loss": 10.0 * epoch})
    with loggers.tensorboard(curves) as log:
        for epoch in (2, 3, 4):
            log({"epoch": epoch, "loss": 1.0 * epoch})
    assert curve(curves, "loss") == {1: 10, 2: 2, 3: 3, 4: 4}


def test_tensorboard_keeps_the_curves_of_a_failed_run(curves):
    log = loggers.tensorboard(curves, {"lr": 0.1})
    log({"epoch": 1, "loss": 2.0})
    with pytest.raises(ZeroDivisionError), log:
        1 / 0  # noqa: B018
    assert curve(curves, "loss") == {1: 2}
    assert all("hparams" not in tag for tag in events(curves).summary_metadata)


def test_tensorboard_of_an_untrained_model_has_its_settings(curves):
    with loggers.open_logger("tensorboard", curves, {"lr": 0.5}):
        pass
    assert hparams(curves) == ({"lr": 0.5}, set())


def test_tensorboard_accepts_values_of_any_type(curves):
    config = {
        "layers": [1, 2], "folder": Path("a") / "b", "none": None, "many": torch.ones(2),
        "rate": np.float32(0.5), "width": np.int64(8), "one": torch.tensor(3), "on": np.bool_(True),
    }  # fmt: skip
    with loggers.tensorboard(curves, config) as log:
        log({"epoch": 1, "loss": 2.0})
        log.final |= {"device": "cpu", "best": Path("c"), "classes": [0, 1], "accuracy": np.float64(0.5), "f1": None}
        log.final["rank"] = torch.tensor(4.0)
    settings, final = hparams(curves)
    assert settings == {
        "layers": "[1, 2]", "folder": str(Path("a") / "b"), "many": "tensor([1., 1.])",
        "rate": 0.5, "width": 8, "one": 3, "on": 1,
    }  # fmt: skip
    assert final == {"loss", "accuracy", "rank"}
    assert curve(curves, "accuracy") == {0: 0.5}
    assert curve(curves, "rank") == {0: 4}
    texts = {tag: event.tensor_proto.string_val[0].decode() for tag in events(curves).Tags()["tensors"]
             for event in events(curves).Tensors(tag)}  # fmt: skip
    assert texts == {"device/text_summary": "cpu", "best/text_summary": "c", "classes/text_summary": "[0, 1]"}


@pytest.fixture
def fake_wandb(monkeypatch):
    """A wandb that records its calls."""
    calls = []

    class Run:
        summary = types.SimpleNamespace(update=lambda values: calls.append(("summary", dict(values))))

        def log(self, values, step):
            calls.append(("log", step, values))

        def finish(self, exit_code):
            calls.append(("finish", exit_code))

    module = types.ModuleType("wandb")
    module.init = lambda **options: calls.append(("init", options)) or Run()
    monkeypatch.setitem(sys.modules, "wandb", module)
    return calls


def test_wandb(fake_wandb):
    with loggers.wandb("papers", {"lr": 0.1}, mode="offline") as log:
        log({"epoch": 1, "loss": 3.0, "effective_rank": None})
        log({"epoch": 2, "loss": 2.0, "effective_rank": 5.0})
    assert fake_wandb == [
        ("init", {"project": "papers", "config": {"lr": 0.1}, "mode": "offline"}),
        ("log", 1, {"loss": 3.0}),
        ("log", 2, {"loss": 2.0, "effective_rank": 5.0}),
        ("summary", {"loss": 2.0, "effective_rank": 5.0}),
        ("finish", 0),
    ]


def test_wandb_of_a_run_that_failed(fake_wandb):
    with pytest.raises(ZeroDivisionError), loggers.wandb("papers"):
        1 / 0  # noqa: B018
    assert fake_wandb[1:] == [("finish", 1)]


def test_wandb_of_a_run_folder(fake_wandb, tmp_path, monkeypatch):
    for project in ("epagcl", "mine"):
        loggers.open_logger("wandb", tmp_path / "cora-epagcl", {"lr": 0.1}).close()
        assert fake_wandb[0][1] == {
            "project": project, "config": {"lr": 0.1}, "name": "cora-epagcl", "dir": tmp_path / "cora-epagcl",
        }  # fmt: skip
        fake_wandb.clear()
        monkeypatch.setenv("WANDB_PROJECT", "mine")


@pytest.mark.parametrize(("package", "missing"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")])
def test_a_missing_package_is_named_with_its_extra(package, missing, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtra, match=rf"needs {package}: pip install '\.\[{package}\]'"):
        loggers.open_logger(package, tmp_path, {})


def test_an_unknown_logger_is_refused(tmp_path):
    with pytest.raises(InputError, match="no logger 'mlflow'; choose one of tensorboard, wandb"):
        loggers.open_logger("mlflow", tmp_path, {})
