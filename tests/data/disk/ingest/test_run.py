"""An ingested graph is the one that ``read_graph`` returns, also if the ingestion is stopped in any stage."""

import errno
import gzip
import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import epagcl
from epagcl.core.errors import InputError, OutputError
from epagcl.data.disk.ingest import run
from epagcl.data.disk.ingest.run import ingest
from tests.data.disk.test_graph import same

EDGES = "source,target\nann,bob\nbob,eve\nbob,ann\neve,zoe\nzoe,zoe\n"
FEATURES = "id,age,city\nzoe,30,Rome\nbob,,Oslo\neve,50,Rome\nann,4,Oslo\nlone,2,Rome\n"


def expected(**parts):
    data = epagcl.read_graph(**parts, need_features=parts.get("features") is not None)
    if "raw_features" in data:
        del data["raw_features"]
    return data


def write(folder, files):
    paths = {}
    for part, (name, content) in files.items():
        path = paths[part] = folder / name
        if isinstance(content, pd.DataFrame):
            content.to_parquet(path) if name.endswith(".parquet") else content.to_csv(path, index=False)
        elif isinstance(content, np.ndarray):
            np.save(path, content)
        elif name.endswith(".gz"):
            path.write_bytes(gzip.compress(content.encode()))
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return paths


def compare(tmp_path, files, **options):
    """Assert that both readers return the same graph. Return the ingested one."""
    paths = write(tmp_path, files)
    reference = expected(**paths, **options)
    graph = ingest(paths.pop("edges"), tmp_path / "graph", **paths, **options)
    graph.verify()
    same(graph.to_data(features=False), reference)
    assert not (tmp_path / "graph" / "ingest").exists()
    return graph


def random_tables(seed):
    """Return random tables: ids of several kinds, repeats, self-loops, both directions, and weights."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(3, 40)), int(rng.integers(2, 120))
    ends = rng.integers(0, n, (m, 2))
    ends[0] = 0, 1
    kind = ("integers", "text", "padded", "floats", "from 1")[seed % 5]
    names = {
        "integers": lambda k: int(k) * 3 - 1,
        "text": lambda k: f"node {k}, é" if k % 3 else f"k{k}",
        "padded": lambda k: f"{k:03d}",
        "floats": lambda k: f"{k}.0" if k % 2 else str(k),
        "from 1": lambda k: int(k) + 1,
    }[kind]
    edges = pd.DataFrame({"source": [names(k) for k in ends[:, 0]], "target": [names(k) for k in ends[:, 1]]})
    if seed % 2:
        edges["weight"] = rng.integers(0, 4, m) / 4 + (seed % 3 == 0)
    order = rng.permutation(n)
    features = pd.DataFrame({"id": [names(k) for k in order], "a": rng.random(n), "b": rng.random(n)})
    if seed % 4 == 1:
        features["c"] = rng.choice(["x", "y", None], n)
    labels = pd.DataFrame({"id": [names(k) for k in order[: n // 2 + 1]], "label": rng.choice(["p", "q"], n // 2 + 1)})
    return edges, features, labels


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_tables_give_the_graph_of_read_graph(tmp_path, seed):
    edges, features, labels = random_tables(seed)
    suffix = (".csv", ".parquet")[seed // 2 % 2]
    files = {"edges": (f"e{suffix}", edges)}
    if seed % 3:
        files["features"] = (f"f{suffix}", features)
    if seed % 4:
        files["labels"] = ("l.csv", labels)
    compare(tmp_path, files)


@pytest.mark.parametrize(
    "files",
    [
        {"edges": ("e.txt", "# from SNAP\n% x\n 1   2\n2\t 3 \n\n3 1\n"), "features": ("f.npy", np.eye(4)[:, :3])},
        {"edges": ("e.tsv", "b\ta\na\tc\nc\tb\n"), "features": ("f.npy", np.eye(3)), "nodes": ("n.txt", "a\nb\nc\n")},
        {"edges": ("e.csv.gz", "source;target;n\na;b;1,5\nb;c;2\n"), "labels": ("l.npy", np.array([3, 5, 3]))},
        {"edges": ("e.csv", '"a, x","b ""q"""\r\n"b ""q""",c\r\n'), "nodes": ("n.csv", "id\nd\nc\n")},
        {"edges": ("e.csv", "p,q\na,b\nb,c\n"), "features": ("f.csv", "id,v\na,1\nb,2\nc,3\n")},  # a header after all
        {"edges": ("e.csv", "0,1\n1,2\n"), "labels": ("l.csv", "0,7\n3,9\n1,-1\n")},
        {"edges": ("e.csv", "x,y\n2,3\n3,1\n"), "features": ("f.csv", "1.5,2\n2.5,1\n1,1\n")},
        {"edges": ("e.csv", EDGES), "features": ("f.csv", FEATURES)},
    ],
    ids=["snap", "listed", "semicolons", "quotes", "header", "isolated", "from-1", "encoded"],
)
def test_special_tables_give_the_graph_of_read_graph(tmp_path, files):
    compare(tmp_path, files)


def test_named_columns_labels_in_the_features_and_sparse_features(tmp_path):
    files = {
        "edges": ("e.csv", "n,u,v,w\n1,a,b,2\n2,b,c,1\n"),
        "features": ("f.csv", "k,a0,y\nb,1,no\na,0,yes\nc,3,NA\n"),
    }
    graph = compare(tmp_path, files, source="u", target="v", weight="w", id="k", label="y")
    assert graph.label_names == ["no", "yes"]
    assert graph.manifest["source"]["weight"] == "w"
    folder = tmp_path / "sparse"
    folder.mkdir()
    paths = write(folder, {"edges": ("e.csv", "0,1\n1,2\n")})
    scipy.sparse.save_npz(folder / "f.npz", scipy.sparse.eye_array(3, 50, format="csr"))
    graph = ingest(paths["edges"], folder / "graph", features=folder / "f.npz")
    same(graph.to_data(), expected(edges=paths["edges"], features=folder / "f.npz"))


def test_ids_of_two_kinds(tmp_path):
    files = {
        "edges": ("e.csv", "user_id,item_id\n1,1\n2,1\n1,7\n"),
        "features": ("f.csv", "id,v\nuser:1,1\n2,2\nitem:1,3\n7,4\n"),
    }
    graph = compare(tmp_path, files, bipartite=True)
    assert graph.ids.tolist() == ["user:1", "user:2", "item:1", "item:7"]
    with pytest.raises(
        InputError, match=r"1 id \(1\) in user_id and in item_id; if these are two kinds of nodes, give"
    ):
        ingest(tmp_path / "e.csv", tmp_path / "other")


def test_large_tables_are_read_in_blocks_with_the_same_result(tmp_path, monkeypatch):
    edges, features, labels = random_tables(13)
    files = {"edges": ("e.csv", edges), "features": ("f.csv", features), "labels": ("l.csv", labels)}
    monkeypatch.setattr("epagcl.data.disk.ingest.adjacency._CHUNK", 7)
    monkeypatch.setattr("epagcl.data.disk.ingest.adjacency._SORT_SHARE", 200 / 2**32)
    monkeypatch.setattr("epagcl.data.disk.ingest.work.BATCH_ROWS", 5)
    defaults = run.blocks.__defaults__
    monkeypatch.setattr(run.blocks, "__defaults__", (100, 10))
    compare(tmp_path, files)
    monkeypatch.setattr(run.blocks, "__defaults__", defaults)


BAD = 'source,target,weight\na,b,1\n,b,1\na,,1\na,b,1,9\nb,c,x\nb,c,-1\n"b,c,1\nb,c,2\n'


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_bad_rows_are_counted_shown_and_refused_or_skipped(tmp_path, suffix, caplog):
    path = tmp_path / f"e{suffix}"
    if suffix == ".csv":
        path.write_bytes(BAD.encode() + b"\xff\xfe,b,1\nc,d,1\n")
        first, count, rows = "line 3 (the source id is missing), line 4 (the target id", 7, 10
    else:
        ends = {"source": ["a", None, "a", "b", "c"], "target": ["b", "b", " ", "c", "d"]}
        pd.DataFrame({**ends, "weight": [1.0, 1.0, 1.0, np.nan, 1.0]}).to_parquet(path)
        first, count, rows = "row 1 (counted from 0) (the source id is missing), row 2", 3, 5
    with pytest.raises(InputError) as caught:
        ingest(path, tmp_path / "graph")
    assert str(caught.value).startswith(f"e{suffix}: {count} bad rows of {rows}: {first}")
    assert str(caught.value).endswith("; correct them, or give bad_rows='skip'")
    graph = ingest(path, tmp_path / "graph", bad_rows="skip")  # continues after the rows are read
    assert graph.manifest["rows"]["bad"] == count
    assert any(f"{count} bad rows of {rows}" in record.message for record in caplog.records)
    if suffix == ".csv":
        assert graph.ids.tolist() == ["a", "b", "c", "d"]
        np.testing.assert_allclose(graph.weights, np.array([1, 1, 2, 2, 1, 1]) * 0.75)
    else:
        assert graph.ids.tolist() == ["a", "b", "c", "d"]
        assert graph.num_edges == 2


def test_wrong_arguments_are_told(tmp_path):
    (tmp_path / "e.csv").write_text(EDGES)
    (tmp_path / "f.csv").write_text("id,a\nann,1\nbob,2\nann,3\n")
    cases = [
        ({"bad_rows": "drop"}, "bad_rows='drop': must be refuse or skip"),
        ({"memory": 0.5}, "memory='0.5': must be at least 1 GiB"),
        ({"features": "structure"}, "features='structure': is computed from the edges; leave it out here"),
        ({"features": tmp_path / "f.csv"}, r"f\.csv: id ann is in line 2 and line 4 \(1 repeated row\); keep one row"),
        ({"label": "y"}, "no table has labels"),
        ({"source": "a", "target": "b"}, "no column 'a' for source="),
    ]
    for options, message in cases:
        with pytest.raises(InputError, match=message):
            ingest(tmp_path / "e.csv", tmp_path / "graph", **options)
    (tmp_path / "f.csv").write_text("id,a\nann,1\nbob,2\n")
    with pytest.raises(InputError, match=r"f\.csv: no row for 2 nodes of e\.csv \(eve, zoe\); give every node a row"):
        ingest(tmp_path / "e.csv", tmp_path / "graph", features=tmp_path / "f.csv")


STAGES = ["rows", "ids", "columns", "label-rows", "nodes", "node-ids", "ends", "csr", "features", "labels"]
KILLED = """
import os, signal, sys
from epagcl.data.disk.ingest import work
write_json = work.write_json
def write(journal, path):
    write_json(journal, path)
    if list(journal["stages"])[-1] == sys.argv[2] and sys.argv[3] == "after":
        os.kill(os.getpid(), signal.SIGKILL)
work.write_json = write
stage = work.Work.stage
def run(self, name, words, job):
    def job_and_kill():
        result = job()
        if name == sys.argv[2] and sys.argv[3] == "in":
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return stage(self, name, words, job_and_kill)
work.Work.stage = run
import epagcl
f = sys.argv[1]
epagcl.ingest(f + "/e.csv", f + "/graph", features=f + "/f.csv", labels=f + "/l.csv")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "when"), [("ends", "in"), ("csr", "after")])
def test_a_killed_ingestion_continues_at_its_last_finished_stage(tmp_path, stage, when):
    edges, features, labels = random_tables(11)
    paths = write(tmp_path, {"edges": ("e.csv", edges), "features": ("f.csv", features), "labels": ("l.csv", labels)})
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), stage, when], check=False, env=os.environ)
    assert killed.returncode == -9
    assert not (tmp_path / "graph" / "manifest.json").exists()
    with pytest.raises(InputError, match="its ingestion is not finished; run it again to continue"):
        epagcl.data.OnDiskGraph.open(tmp_path / "graph")
    reached = []
    graph = ingest(paths.pop("edges"), tmp_path / "graph", **paths, progress=lambda words, _: reached.append(words))
    assert "reading the edges" not in reached
    same(graph.to_data(), expected(edges=tmp_path / "e.csv", **paths))


@pytest.mark.parametrize("stage", STAGES)
def test_an_ingestion_stopped_in_any_stage_continues_there(tmp_path, stage, monkeypatch):
    edges, features, labels = random_tables(11)
    paths = write(tmp_path, {"edges": ("e.csv", edges), "features": ("f.csv", features), "labels": ("l.csv", labels)})
    run_stage = run.Work.stage

    def stopped(self, name, words, job):
        def job_and_stop():
            job()
            raise KeyboardInterrupt

        return run_stage(self, name, words, job_and_stop if name == stage else job)

    with monkeypatch.context() as patch:
        patch.setattr(run.Work, "stage", stopped)
        with pytest.raises(KeyboardInterrupt):
            ingest(paths["edges"], tmp_path / "graph", features=paths["features"], labels=paths["labels"])
    started = []

    def watched(self, name, words, job):
        return run_stage(self, name, words, lambda: (started.append(name), job())[1])

    with monkeypatch.context() as patch:
        patch.setattr(run.Work, "stage", watched)
        graph = ingest(paths.pop("edges"), tmp_path / "graph", **paths)
    assert started == STAGES[STAGES.index(stage) :]
    same(graph.to_data(), expected(edges=tmp_path / "e.csv", **paths))


def test_changed_inputs_start_again(tmp_path, monkeypatch, caplog):
    (tmp_path / "e.csv").write_text(EDGES)
    with monkeypatch.context() as patch:
        patch.setattr(run, "write_csr", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ingest(tmp_path / "e.csv", tmp_path / "graph")
    (tmp_path / "e.csv").write_text(EDGES + "new,ann\n")
    assert "new" in ingest(tmp_path / "e.csv", tmp_path / "graph").ids
    assert any("changed since the ingestion was stopped; starts again" in each.message for each in caplog.records)


def test_a_graph_is_replaced_only_if_asked(tmp_path):
    (tmp_path / "e.csv").write_text(EDGES)
    ingest(tmp_path / "e.csv", tmp_path / "graph", name="friends")
    with pytest.raises(InputError, match="holds a graph already; give another folder, or overwrite=True"):
        ingest(tmp_path / "e.csv", tmp_path / "graph")
    assert ingest(tmp_path / "e.csv", tmp_path / "graph", overwrite=True).name == "graph"


def test_a_full_disk_is_told_before_the_start_and_during_the_work(tmp_path, monkeypatch):
    (tmp_path / "e.csv").write_text(EDGES)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))
        with pytest.raises(OutputError, match="MB will be written, but only 0 MB are free; free some space there"):
            ingest(tmp_path / "e.csv", tmp_path / "graph")

    def full(self, values):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("epagcl.data.disk.ingest.arrays.ArrayWriter.append", full)
        with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\); free some space there"):
            ingest(tmp_path / "e.csv", tmp_path / "graph")
    assert ingest(tmp_path / "e.csv", tmp_path / "graph").num_nodes == 4
    with pytest.raises(OutputError, match="cannot be written"):
        ingest(tmp_path / "e.csv", "/proc/graph")


@pytest.mark.slow
def test_two_million_edges_are_ingested(tmp_path):
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 100_000, (2_000_000, 2))
    names = np.array([f"u{k}" for k in range(100_000)], dtype=object)
    pd.DataFrame({"source": names[ends[:, 0]], "target": names[ends[:, 1]]}).to_parquet(tmp_path / "e.parquet")
    graph = ingest(tmp_path / "e.parquet", tmp_path / "graph")
    low, high = np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1).T
    assert graph.num_edges == len(np.unique(low * 100_000 + high))
    number = np.empty(100_000, dtype=np.int64)
    number[[int(name[1:]) for name in graph.ids]] = np.arange(graph.num_nodes)
    flat, first = np.unique(ends.ravel(), return_index=True)
    assert np.array_equal(number[flat[np.argsort(first)]], np.arange(len(flat)))
    keys = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr)) * graph.num_nodes + graph.indices
    assert (np.diff(keys) > 0).all()
    pair = number[low[0]], number[high[0]]
    assert pair[1] in graph.neighbours(pair[0])
    assert pair[0] in graph.neighbours(pair[1])
