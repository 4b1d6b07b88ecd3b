import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epagcl.runs import write_embeddings
from epagcl.tasks import nearest_neighbours

Z = np.random.default_rng(0).normal(size=(40, 5))
IDS = [f"user-{k}" for k in range(40)]


@pytest.fixture
def z(tmp_path):
    return write_embeddings(Z, IDS, tmp_path / "z.parquet")[0]


def test_neighbours_of_a_node(run, z):
    code, out, err = run("neighbours", z, "--of", "user-7", "--k", 3)
    nodes = [IDS[node] for node in nearest_neighbours(Z, 3, nodes=[7]).nodes[0]]
    assert (code, err) == (0, "")
    assert [line.split()[2] for line in out.splitlines() if line.strip().startswith("user-7")] == nodes


def test_json_of_several_nodes(run, z):
    code, out, _ = run("neighbours", z, "--of", "user-7", "--of", "user-1", "--k", 2, "--metric", "euclidean", "--json")
    result = json.loads(out)
    assert (code, result["recall"], result["file"]) == (0, None, None)
    assert [row["id"] for row in result["neighbours"]] == ["user-7"] * 2 + ["user-1"] * 2
    assert set(result["neighbours"][0]) == {"id", "rank", "neighbour", "distance"}


def test_all_nodes_go_to_a_table_with_the_recall(run, z):
    pytest.importorskip("usearch")
    code, out, _ = run("neighbours", z, "--k", 2, "--index", "hnsw", "--out", "n.csv")
    assert (code, out) == (0, "recall against exact search: 1.0000\nwritten: n.csv\n")
    assert len(pd.read_csv("n.csv")) == 80


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give a node with --of, or --out for the neighbours of all nodes"),
        (["--of", "bob"], "--of bob: no such node; the ids are user-0, user-1, user-2, ..."),
        (["--of", "user-1", "--metric", "dot"], "--metric dot: choose one of cosine, euclidean"),
        (["--out", "n.npy"], "n.npy: cannot write .npy; use .csv, .tsv, .parquet"),
    ],
)
def test_mistakes_end_in_one_line(run, z, options, message):
    assert run("neighbours", z, *options) == (2, "", f"epagcl: {message}\n")
    assert not Path("n.npy").exists()


def test_a_missing_file(run):
    message = "epagcl: z.csv: no such file; give embeddings (.npy, .csv, .tsv, .parquet) or a run folder\n"
    assert run("neighbours", "z.csv", "--of", "a") == (2, "", message)
