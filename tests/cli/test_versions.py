"""New nodes, earlier embeddings and their axes in ``epagcl embed``."""

import json

import numpy as np
import pandas as pd
import pytest

import epagcl
from epagcl.data.io.columns.text import TextColumn
from epagcl.methods.local import embed_nodes
from tests.cli.conftest import FAST

TODAY = ["--edges", "e.csv", "--features", "f.csv", "--device", "cpu", "--map", "none"]


@pytest.fixture
def grown(run, files):
    """A model and embeddings of yesterday's graph, which lacks the last 20 nodes."""
    edges, features = (pd.read_csv(files / name) for name in ("e.csv", "f.csv"))
    old = set(features["id"][:100])
    edges[edges["source"].isin(old) & edges["target"].isin(old)].to_csv(files / "e0.csv", index=False)
    features[:100].to_csv(files / "f0.csv", index=False)
    (files / "new.txt").write_text("\n".join(features["id"][100:]) + "\n")
    arguments = ["--edges", "e0.csv", "--features", "f0.csv", "--save", "m", "--out", "z0.csv", "--quiet"]
    assert run("embed", *arguments, *FAST, "--map", "none")[0] == 0
    return files


def test_only_new_nodes_are_embedded_from_their_neighbourhood(run, grown):
    code, out, _ = run("embed", "--model", "m", *TODAY, "--only", "new.txt", "--out", "new.csv")
    assert code == 0
    assert "20 nodes × 8 dimensions" in out
    assert "from 2 hops around them, " in out
    assert "of 120 nodes: exact" in out
    assert not (grown / "new.report.html").exists()
    table = pd.read_csv(grown / "new.csv")
    assert table["id"].tolist() == (grown / "new.txt").read_text().split()
    data = epagcl.read_graph(edges=grown / "e.csv", features=grown / "f.csv")
    z = epagcl.load_model(grown / "m", device="cpu").embed(data)[100:]
    np.testing.assert_allclose(table.drop(columns="id").to_numpy(), z.numpy(), atol=1e-5)
    code, out, _ = run("embed", "--model", "m", *TODAY, "--only", "new.txt", "--hops", 1, "--out", "n.csv", "--json")
    used = json.loads(out)["neighbourhood"]
    assert (used["hops"], used["exact"], used["nodes_in_graph"]) == (1, False, 120)
    assert used["error"] > 0


@pytest.mark.slow
def test_the_shift_of_old_nodes_is_reported(run, grown):
    code, out, _ = run("embed", "--model", "m", *TODAY, "--previous", "z0.csv", "--out", "z1.csv")
    assert code == 0
    assert "100 old nodes moved by" in out
    code, out, _ = run("embed", "--model", "m", *TODAY, "--previous", "z0.csv", "--out", "z1.csv", "--json")
    moved = json.loads(out)["drift"]
    assert moved["common"] == 100
    assert 0 < moved["median"] < moved["p95"]
    assert 0 <= moved["novelty"] < 20 / 120
    assert moved["train_again"] is (moved["median"] > 0.6 or moved["novelty"] > 0.15)


@pytest.mark.slow
def test_a_new_model_keeps_the_axes_of_the_earlier_embedding(run, grown):
    arguments = ["embed", *TODAY[:4], *FAST, "--map", "none", "--seed", 5]
    assert run(*arguments, "--out", "plain.npy", "--quiet")[0] == 0
    code, out, _ = run(*arguments, "--align", "z0.csv", "--save", "m1", "--out", "z1.npy", "--json")
    assert code == 0
    result = json.loads(out)
    assert result["alignment"]["common"] == 100
    assert (result["drift"]["train_again"], "rain again" in result["drift"]["words"]) == (False, False)
    assert 0 < result["alignment"]["residual"] < 1.5
    plain, z = np.load(grown / "plain.npy"), np.load(grown / "z1.npy")
    np.testing.assert_allclose(z @ z.T, plain @ plain.T, rtol=1e-3, atol=1e-4)  # a rotation
    before = pd.read_csv(grown / "z0.csv").drop(columns="id").to_numpy()
    assert np.linalg.norm(z[:100] - before) < np.linalg.norm(plain[:100] - before)
    code, _, _ = run("embed", "--model", "m1", *TODAY, "--out", "again.npy", "--quiet")
    assert code == 0
    np.testing.assert_allclose(np.load(grown / "again.npy"), z, atol=1e-5)


def test_the_axes_of_a_new_training_do_not_count_as_a_shift(run, grown):
    """The same training, rotated: no node has moved."""
    arguments = ["embed", *TODAY[:4], *FAST, "--map", "none", "--no-report"]
    assert run(*arguments, "--out", "z1.npy", "--quiet")[0] == 0
    z = np.load(grown / "z1.npy")
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]
    np.save(grown / "turned.npy", (z @ turn).astype(np.float32))
    (grown / "turned.ids.txt").write_text((grown / "z1.ids.txt").read_text())
    code, out, _ = run(*arguments, "--previous", "turned.npy", "--out", "z2.npy", "--json")
    assert code == 0
    assert json.loads(out)["drift"]["median"] < 1e-4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "ids.txt"], "--only needs a trained model; give --model"),
        (["--hops", 2], "--hops is the neighbourhood of --only"),
        (
            ["--model", "m", "--only", "ids.txt", "--previous", "z.csv"],
            "--previous compares the embeddings of old nodes",
        ),
        (["--model", "m", "--only", "ids.txt", "--align", "z.csv"], "--align compares the embeddings of old nodes"),
        (["--previous", "z.csv", "--align", "z.csv"], "leave out --previous"),
    ],
    ids=["no model", "hops", "previous", "align", "both"],
)
def test_options_that_do_not_fit_are_refused(run, files, options, message):
    code, _, err = run("embed", *TODAY, *options)
    assert code == 2
    assert message in err


def test_unknown_nodes_and_other_dimensions_are_refused(run, grown):
    (grown / "wrong.txt").write_text("user-000\nnobody\n")
    code, _, err = run("embed", "--model", "m", *TODAY, "--only", "wrong.txt")
    assert code == 2
    assert "--only wrong.txt: nobody: no such node" in err
    code, _, err = run("embed", *TODAY[:4], *FAST, "--dim", 4, "--align", "z0.csv")
    assert code == 2
    assert "--align z0.csv: has 8 dimensions, the model 4; train with --dim 8" in err


@pytest.mark.slow
def test_a_graph_on_disk_in_place_of_files(run, tmp_path, monkeypatch):
    """The tables of today are encoded as those of yesterday, and only the neighbourhood is read."""
    monkeypatch.chdir(tmp_path)
    rows = MIXED.splitlines()
    (tmp_path / "f.csv").write_text(MIXED)
    (tmp_path / "f0.csv").write_text("\n".join(rows[:51]) + "\n")
    for name, last in (("e.csv", 59), ("e0.csv", 49)):
        (tmp_path / name).write_text("source,target\n" + "".join(f"u{k},u{k + 1}\n" for k in range(last)))
    (tmp_path / "new.txt").write_text("u55\nu59\n")
    (tmp_path / "wrong.txt").write_text("u55\nu60\n")
    yesterday = ("--edges", "e0.csv", "--features", "f0.csv", "--save", "m", "--map", "none", "--quiet")
    assert run("embed", *yesterday, *FAST)[0] == 0
    assert run("ingest", *TODAY[:4], "--out", "other", "--quiet")[0] == 0
    assert run("ingest", *TODAY[:4], "--out", "g", "--model", "m", "--quiet")[0] == 0
    code, _, err = run("embed", "other", "--model", "m", "--only", "new.txt", "--out", "new.csv")
    assert code == 2
    assert "its columns were encoded otherwise than those of the training graph; ingest its tables with" in err
    assert run("embed", *TODAY, "--model", "m", "--only", "new.txt", "--out", "a.csv")[0] == 0
    assert run("embed", *TODAY, "--model", "m", "--out", "whole.csv")[0] == 0
    monkeypatch.setattr(epagcl.data.OnDiskGraph, "to_data", None)
    code, out, err = run("embed", "g", "--model", "m", "--only", "new.txt", "--out", "b.csv")
    assert code == 0, err
    assert "from 2 hops around them, 7 of 60 nodes: exact" in out
    a, b, whole = (pd.read_csv(name, index_col=0) for name in ("a.csv", "b.csv", "whole.csv"))
    np.testing.assert_allclose(a.loc[["u55", "u59"]], whole.loc[["u55", "u59"]], atol=1e-5)
    pd.testing.assert_frame_equal(a, b, atol=1e-6)
    code, _, err = run("embed", "g", "--model", "m", "--only", "wrong.txt", "--out", "b.csv")
    assert code == 2
    assert "--only wrong.txt: u60: no such node; the ids are u0, u1, u2, ..." in err


def test_an_id_of_only_is_a_whole_line(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people = [f"{first} {second}" for first in ("Ann", "Bob", "Eve") for second in ("Lee", "May", "Orr", "Fox")]
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"{people[k]},{people[k - 1]}\n" for k in range(12)))
    features = "".join(f"{name},{k},{k * k % 7}\n" for k, name in enumerate(people))
    (tmp_path / "f.csv").write_text(f"id,a,b\n{features}")
    (tmp_path / "new.txt").write_text("Ann Lee\nEve Fox\n")
    settings = ("--method", "propagated", "--dim", 2, "--save", "m", "--out", "z.csv", "--map", "none", "--quiet")
    assert run("embed", *TODAY[:4], *settings)[0] == 0
    code, _, err = run("embed", *TODAY, "--model", "m", "--only", "new.txt", "--out", "new.csv")
    assert code == 0, err
    assert pd.read_csv("new.csv")["id"].tolist() == ["Ann Lee", "Eve Fox"]


MIXED = "id,age,city,since,bio\n" + "".join(
    f"u{k},{'' if k % 7 == 3 else 20 + k},{['Rome', 'Oslo', 'Bern'][k % 3]},2020-01-{k % 28 + 1:02d},"
    f"likes {'tea and long walks' if k % 2 else 'coffee and short films'}\n"
    for k in range(60)
)


def test_only_the_rows_near_the_new_nodes_are_encoded(run, tmp_path, monkeypatch):
    """The result is that of the whole table, and the rest of it is not read."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.csv").write_text(MIXED)
    edges = "".join(f"u{k},u{k + 1},{k % 3 + 1}\n" for k in range(59))
    (tmp_path / "e.csv").write_text(f"source,target,weight\n{edges}")
    (tmp_path / "new.txt").write_text("u40\nu3\n")
    assert run("embed", *TODAY[:4], "--method", "propagated", "--dim", 4, "--save", "m", "--map", "none")[0] == 0
    encoded, transform = [], TextColumn.transform

    def counting(self, values):
        encoded.append(len(values))
        return transform(self, values)

    monkeypatch.setattr(TextColumn, "transform", counting)
    embed = ("embed", "--model", "m", *TODAY, "--only", "new.txt", "--hops", 3, "--out", "new.csv", "--json")
    code, out, _ = run(*embed)
    assert code == 0
    assert encoded == [17]  # u36 to u44 and u0 to u7, since the error is estimated with four hops
    assert json.loads(out)["neighbourhood"]["nodes_used"] == 14  # u37 to u43 and u0 to u6
    model, data = epagcl.load_model("m", device="cpu"), epagcl.read_graph(edges="e.csv", features="f.csv")
    z = embed_nodes(model, data, [40, 3], hops=3).z
    np.testing.assert_allclose(pd.read_csv("new.csv", index_col=0).to_numpy(), z.numpy(), atol=1e-6)
    rows = MIXED.splitlines()
    (tmp_path / "f.csv").write_text("\n".join([*rows[:39], rows[39].replace("2020-01-11", "soon"), *rows[40:]]) + "\n")
    code, _, err = run(*embed)
    assert code == 2
    assert "f.csv: column 'since' is not a date ('soon' in line 40)" in err


def test_another_method_than_that_of_the_model_is_refused(run, grown):
    code, _, err = run("embed", "--model", "m", *TODAY, "--method", "dgi", "--out", "z.csv")
    assert code == 2
    assert "--method dgi: the model is of epagcl; leave it out" in err
    assert run("embed", "--model", "m", *TODAY, "--method", "epagcl", "--only", "new.txt", "--out", "n.csv")[0] == 0
