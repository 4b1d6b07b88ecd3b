"""``--method auto``: the method is chosen for the graph, and the command says why."""

import json

import pytest

from tests.cli.conftest import SMALL

GRAPH = ["--edges", "e.csv", "--features", "f.csv", "--map", "none"]


@pytest.mark.slow
def test_auto_chooses_epagcl_plus_and_says_why(run, files, caplog):
    code, _, _ = run("embed", *GRAPH, "--method", "auto", *SMALL[:-2])
    assert code == 0
    assert "method: epagcl+. EPAGCL+ has the best mean rank" in caplog.text
    caplog.clear()
    code, out, _ = run("train", *GRAPH, "--labels", "l.csv", "--method", "auto", *SMALL[:-2], "--json", "--out", "r")
    assert code == 0
    assert json.loads(out)["method"]["name"] == "epagcl+"
    assert "method: epagcl+." in caplog.text


def test_a_graph_that_is_too_large_is_not_trained(run, files, caplog, monkeypatch):
    monkeypatch.setattr("epagcl.methods.choice.SECONDS_PER_NODE", {"cpu": 1000.0})
    code, out, _ = run("embed", *GRAPH, "--method", "auto", "--epochs", 3, "--dim", 8, "--device", "cpu", "--json")
    assert code == 0
    assert "method: propagated. propagated needs no training" in caplog.text
    assert "propagated has no --epochs; ignored" in caplog.text
    assert json.loads(out)["dim"] == 8


def test_a_graph_without_features_gets_structural_ones(run, files, caplog, monkeypatch):
    monkeypatch.setattr("epagcl.methods.choice.SECONDS_PER_NODE", {"cpu": 1000.0})
    arguments = ["embed", "--edges", "e.csv", "--dim", 8, "--device", "cpu", "--map", "none"]
    code, _, _ = run(*arguments, "--method", "auto")
    assert code == 0
    assert "no features given: computed from the edges (--features structure)" in caplog.text
    code, _, err = run(*arguments, "--method", "propagated")
    assert code == 2
    assert "no node features" in err


def test_a_mistyped_setting_is_refused(run, files):
    code, _, err = run("embed", *GRAPH, "--method", "auto", "--epocks", 3)
    assert code == 2
    assert "no option --epocks; did you mean --epochs?" in err
