import json

import pytest

from epagcl.data import OnDiskGraph, block_model
from epagcl.data.io.npz import write_npz

SIZES = ("--nodes", 1_000_000, "--edges", 10_000_000, "--features", 128)


def test_sizes_give_a_table_and_a_choice(run):
    code, out, _ = run("plan", *SIZES, "--method", "epagcl", "--device", "h200", "--gpus", 4)
    assert code == 0
    for words in ("1,000,000 nodes", "whole", "4 ranks", "subgraphs", "fits", "Choose: train on all devices"):
        assert words in out


def test_json_and_settings_of_the_method(run):
    code, out, _ = run("plan", *SIZES, "-m", "epagcl", "--device", "h200", "--memory", 16, "--epochs", 7, "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["choice"], found["epochs"], found["memory_gib"]) == ("subgraphs", 7, 16)
    assert found["graph"]["nodes"] == 1_000_000


def test_a_graph_in_a_file(run, tmp_path):
    write_npz(block_model(60, num_features=40, topic_words=10), tmp_path / "g.npz")
    code, out, _ = run("plan", tmp_path / "g.npz", "--device", "h200", "--json")
    assert code == 0
    assert json.loads(out)["graph"]["nodes"] == 60


def test_a_graph_on_disk_is_not_read(run, tmp_path, monkeypatch):
    OnDiskGraph.write(block_model(60, num_features=40, topic_words=10), tmp_path / "graph")
    monkeypatch.setattr(OnDiskGraph, "to_data", None)
    code, out, _ = run("plan", tmp_path / "graph", "--device", "h200", "--json")
    assert code == 0
    assert json.loads(out)["graph"]["nodes"] == 60


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--nodes is missing; give a graph"),
        (("--nodes", 5, "--edges", 3), "--features is missing"),
        (("demo", "--nodes", 5), "leave out --nodes, --edges and --features"),
        ((*SIZES, "--method", "dgi", "--device", "h200"), "dgi: trains on the whole graph"),
        ((*SIZES, "--device", "tpu"), "choose one of auto, cpu, cuda, h200"),
    ],
    ids=["nothing", "part", "both", "method", "device"],
)
def test_mistakes_end_in_one_line(run, words, message):
    code, _, error = run("plan", *words)
    assert code == 2
    assert message in error
    assert error.count("\n") == 1
