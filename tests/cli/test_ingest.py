"""``epagcl ingest``, and its folder in place of files in every command."""

import json

import numpy as np
import pytest

from tests.cli.conftest import FAST

pytest.importorskip("duckdb", reason="needs the extra ingest")

SMALL_SEARCH = ["--method", "propagated", "--dim", "8", "--device", "cpu"]


@pytest.fixture
def folder(run, files):
    tables = ["--edges", files / "e.csv", "--features", files / "f.csv", "--labels", files / "l.csv"]
    code, out, err = run("ingest", *tables, "--out", files / "graph", "--name", "friends", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert (result["name"], result["nodes"], result["features"]) == ("friends", 120, 30)
    assert result["rows"]["bad"] == 0
    return files / "graph"


@pytest.mark.slow
def test_commands_take_the_folder_in_place_of_files(run, files, folder):
    code, _, err = run("embed", folder, "--out", files / "a.npy", *FAST, "--quiet")
    assert code == 0, err
    run("embed", "--edges", files / "e.csv", "--features", files / "f.csv", "--out", files / "b.npy", *FAST, "--quiet")
    assert np.array_equal(np.load(files / "a.npy"), np.load(files / "b.npy"))
    assert (files / "a.ids.txt").read_text() == (files / "b.ids.txt").read_text()
    code, out, _ = run("epr", folder, "--json")
    assert code == 0
    assert json.loads(out)["name"] == "friends"
    code, _, err = run("train", folder, "--out", files / "run", "--seeds", "1", *FAST, "--quiet")
    assert code == 0, err
    assert 'epagcl.read_graph("' in (files / "run" / "README.md").read_text()
    for command in (
        ("compare", folder, "--methods", "propagated", "--seeds", "1", "--out", files / "store"),
        ("links", folder, *SMALL_SEARCH),
        ("anomalies", files / "a.npy", "--graph", folder),
        ("embed", folder, "--model", files / "run", "--out", files / "c.npy", "--map", "none"),
    ):
        code, _, err = run(*command)
        assert code == 0, (command, err)


def test_structure_is_computed_for_a_graph_without_features(run, files):
    assert run("ingest", "--edges", files / "e.csv", "--out", files / "g")[0] == 0
    code, _, err = run("embed", files / "g", "--out", files / "z.npy", *FAST)
    assert code == 2
    assert "no node features; ingest the graph with some, or give --features structure" in err
    code, _, err = run("embed", files / "g", "--features", "roles", "--out", files / "z.npy", "--quiet", *FAST)
    assert code == 0, err
    assert np.load(files / "z.npy").shape == (103, 8)  # those with edges


def test_the_summary_says_what_to_do_next(run, files, caplog):
    caplog.set_level("INFO")
    code, out, _ = run("ingest", "--edges", files / "e.csv", "--out", files / "g")
    assert code == 0
    assert "103 nodes, " in out
    assert "no features" in out
    assert f"next: epagcl embed {files / 'g'} --features structure --out z.npy" in out.replace("\n", " ")
    assert "replacing ids by numbers" in caplog.messages


def test_mistakes_are_one_line_with_options(run, files):
    (files / "bad.csv").write_text("source,target\na,b\n,b\n")
    cases = [
        (["--edges", files / "bad.csv"], "1 bad row of 2: line 3 (the source id is missing); correct them, or give "),
        (["--edges", files / "e.csv", "--bad-rows", "drop"], "--bad-rows drop: must be refuse or skip"),
        (["--edges", files / "e.csv", "--memory", "0.1"], "--memory 0.1: must be at least 1 GiB"),
        ([], "no edges given; give --edges"),
    ]
    for options, message in cases:
        code, _, err = run("ingest", *options, "--out", files / "g")
        assert code == 2
        assert message in err.splitlines()[-1]
    assert "--bad-rows skip" in run("ingest", "--edges", files / "bad.csv", "--out", files / "g")[2]
    assert run("ingest", "--edges", files / "bad.csv", "--out", files / "g", "--bad-rows", "skip")[0] == 0
    code, _, err = run("ingest", "--edges", files / "bad.csv", "--out", files / "g", "--bad-rows", "skip")
    assert code == 2
    assert "holds a graph already; give another folder, or --overwrite" in err


def test_a_folder_that_is_not_finished_is_told(run, files):
    (files / "g" / "ingest").mkdir(parents=True)
    code, _, err = run("embed", files / "g", *FAST)
    assert code == 2
    assert "its ingestion is not finished; run it again to continue" in err


def test_tables_beside_a_folder_are_refused(run, files):
    assert run("ingest", "--edges", files / "e.csv", "--out", files / "g", "--quiet")[0] == 0
    code, _, err = run("epr", files / "g", "--labels", files / "l.csv")
    assert code == 2
    assert "a graph file is complete; leave out --labels" in err


@pytest.mark.parametrize("option", [("--type", "kind"), ("--directed", "both")])
def test_kinds_and_directions_are_refused(run, files, option):
    """They were ignored."""
    code, _, err = run("ingest", "--edges", files / "e.csv", "--out", files / "g", *option)
    assert code == 2
    assert f"{option[0]} {option[1]}: a graph on disk has edges of one kind; leave it out to merge them, or" in err
    assert not (files / "g").exists()
