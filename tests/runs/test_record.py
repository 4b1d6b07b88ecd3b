"""Provenance: the graph, the hardware, the versions and the commit."""

import importlib
import subprocess
from datetime import datetime
from pathlib import Path

import pytest
import torch

import epagcl
from epagcl import error_passing_rate
from epagcl.data import block_model, check
from epagcl.runs.record import describe, peak_memory_gib, provenance

module = importlib.import_module("epagcl.runs.record")  # the package has a function of the same name


@pytest.fixture
def data():
    return block_model(80, num_classes=3, num_features=30, topic_words=8, seed=1)


def test_a_graph_in_numbers(data):
    assert describe(data, "g") == {
        "name": "g",
        "nodes": 80,
        "edges": data.edge_index.shape[1] // 2,
        "features": 30,
        "classes": 3,
        "epr_per_node": error_passing_rate(data.edge_index, data.y),
        "epr_per_edge": error_passing_rate(data.edge_index, data.y, per="edge"),
    }


def test_epr_needs_a_label_on_every_node(data):
    data.y[3] = -1
    partly = describe(data, "g")
    assert (partly["classes"], partly["epr_per_node"], partly["epr_per_edge"]) == (3, None, None)
    del data.y
    assert describe(data, "g")["classes"] is None


def test_provenance_names_date_hardware_and_versions():
    record = provenance("cpu")
    assert datetime.fromisoformat(record["date"]).tzinfo is not None
    assert record["hardware"]["device"] == "cpu"
    assert record["hardware"]["cpu"]
    assert record["hardware"]["threads"] == torch.get_num_threads()
    assert record["versions"]["epagcl"] == epagcl.__version__
    assert record["versions"]["torch"] == torch.__version__


def test_the_commit_is_that_of_the_repository_of_the_code(monkeypatch):
    monkeypatch.delenv("EPAGCL_COMMIT", raising=False)
    root = Path(epagcl.__file__).resolve().parent.parent
    assert root == module.ROOT
    answers = {"rev-parse": f"{root}\nabc123\n", "status": ""}

    def git(command, **options):
        assert options["cwd"] == root
        return subprocess.CompletedProcess(command, 0, answers[command[1]], "")

    monkeypatch.setattr(module.subprocess, "run", git)
    assert provenance("cpu")["commit"] == "abc123"
    answers["status"] = " M epagcl/epr/rate.py\n"
    assert provenance("cpu")["commit"] == "abc123+"
    answers["rev-parse"] = "/somewhere/else\nabc123\n"  # an installed copy inside another repository
    assert provenance("cpu")["commit"] is None


def test_the_commit_without_git(monkeypatch):
    def missing(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(module.subprocess, "run", missing)
    monkeypatch.delenv("EPAGCL_COMMIT", raising=False)
    assert provenance("cpu")["commit"] is None
    monkeypatch.setenv("EPAGCL_COMMIT", "from-outside")
    assert provenance("cpu")["commit"] == "from-outside"


def test_peak_memory_grows_with_what_is_held():
    before = peak_memory_gib("cpu")
    held = torch.ones(2**26)  # 256 MiB
    assert peak_memory_gib("cpu") >= before
    assert peak_memory_gib("cpu") > held.numel() * 4 / 2**30


def test_kinds_of_edges_have_their_own_rates(data):
    data.edge_type = (data.edge_index.sum(0) % 2).long()
    first, second = describe(check(data, quiet=True), "g")["relations"]
    assert (first["name"], second["name"]) == ("0", "1")
    assert first["edges"] + second["edges"] == data.num_edges // 2
    even = data.edge_index[:, data.edge_type == 0]
    assert first["epr_per_node"] == pytest.approx(error_passing_rate(even, data.y))
