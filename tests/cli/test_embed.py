import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import epagcl
from epagcl.runs import read_embeddings
from tests.cli.conftest import FAST, SMALL


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".tsv", ".parquet"])
def test_embeddings_are_written_with_the_users_ids(run, files, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    code, out, _ = run("embed", "--edges", "e.csv", "--features", "f.csv", "--out", f"z{suffix}", *FAST)
    assert code == 0
    assert "120 nodes × 8 dimensions" in out
    ids = (files / "ids.txt").read_text().split()
    if suffix == ".npy":
        assert np.load(files / "z.npy").shape == (120, 8)
        assert (files / "z.ids.txt").read_text().split() == ids
    else:
        read = pd.read_parquet if suffix == ".parquet" else pd.read_csv
        options = {"sep": "\t"} if suffix == ".tsv" else {}
        table = read(files / f"z{suffix}", **options)
        assert table["id"].tolist() == ids
        assert table.shape == (120, 9)


def test_nodes_gives_ids_to_features_without_ids(run, files):
    code, _, err = run("embed", "--edges", "e.csv", "--features", "f.npy", "--nodes", "ids.txt", *FAST)
    assert code == 0
    assert "order of first appearance" not in err


@pytest.mark.slow
def test_embed_with_a_trained_model(run, files):
    run("train", "--edges", "e.csv", "--features", "f.csv", "--out", "m", *FAST, "--quiet")
    arguments = ["embed", "--edges", "e.csv", "--features", "f.csv", "--model", "m", "--device", "cpu"]
    code, _, _ = run(*arguments, "--out", "again.npy")
    assert code == 0
    assert np.array_equal(np.load(files / "again.npy"), np.load(files / "m" / "embeddings.npy"))
    code, _, err = run(*arguments, "--epochs", 3)
    assert code == 2
    assert "--model is trained already" in err


def test_save_keeps_the_trained_model(run, files):
    code, _, _ = run("embed", "--edges", "e.csv", "--features", "f.csv", "--save", "kept", *FAST)
    assert code == 0
    data = epagcl.read_graph(edges=files / "e.csv", features=files / "f.csv")
    z = epagcl.load_model(files / "kept", device="cpu").embed(data)
    np.testing.assert_array_equal(z.numpy(), np.load(files / "z.npy"))
    arguments = ("embed", "--edges", "e.csv", "--features", "f.csv", "--save", "kept", *FAST)
    code, _, err = run(*arguments)
    assert code == 2
    assert "kept: already exists; give another --save, or --overwrite" in err
    code, out, _ = run(*arguments, "--overwrite", "--seed", 1, "--json")
    assert code == 0
    assert json.loads(out)["model"] == "kept"
    assert epagcl.load_model(files / "kept", device="cpu").seed == 1


def test_feature_columns_are_matched_by_name(run, files):
    """A table whose columns have another order gives the same embedding; one that lacks a column is refused."""
    assert run("embed", "--edges", "e.csv", "--features", "f.csv", "--save", "kept", *FAST)[0] == 0
    table = pd.read_csv(files / "f.csv")
    names = [name for name in table.columns if name != "id"]
    table[["id", *names[::-1]]].to_csv(files / "turned.csv", index=False)
    turned = ["--features", "turned.csv", "--model", "kept", "--out", "t.npy", "--device", "cpu"]
    assert run("embed", "--edges", "e.csv", *turned)[0] == 0
    np.testing.assert_array_equal(np.load(files / "t.npy"), np.load(files / "z.npy"))
    table.rename(columns={names[2]: "new"}).to_csv(files / "other.csv", index=False)
    code, _, err = run("embed", "--edges", "e.csv", "--features", "other.csv", "--model", "kept", "--out", "t.npy")
    assert code == 2
    assert f"no feature column '{names[2]}', on which the model was trained (1 of {len(names)} are missing)" in err


def test_columns_must_share_ids_with_the_graph(run, files):
    first = pd.read_csv(files / "f.csv")["id"][0]
    (files / "c.csv").write_text(f"id,city\n{first},Ulm\n")
    code, _, _ = run("embed", "--edges", "e.csv", "--features", "f.csv", "--columns", "c.csv", *FAST)
    assert code == 0
    (files / "c.csv").write_text("id,city\nnobody,Ulm\n")
    code, _, err = run("embed", "--edges", "e.csv", "--features", "f.csv", "--columns", "c.csv", *FAST)
    assert code == 2
    assert "--columns: none of its ids (such as nobody) is a node of e (such as user-" in err


def test_a_collapsed_embedding_gets_a_report_without_warnings_of_other_libraries(run, files, caplog):
    (files / "three.csv").write_text("a,b\nb,c\nc,a\n")
    np.save(files / "three.npy", np.ones((3, 2), dtype=np.float32))
    code, out, err = run("embed", "--edges", "three.csv", "--features", "three.npy", *FAST)
    assert code == 0
    assert "three.csv: all nodes have the same features; only their edges can tell them apart" in caplog.messages
    assert "Convergence" not in err
    assert "1000%" in out or "collapsed" in out
    assert (files / "z.report.html").exists()


def test_a_nan_in_the_features_is_located(run, files):
    x = np.load(files / "f.npy")
    x[7, 3] = np.nan
    np.save(files / "bad.npy", x)
    code, _, err = run("embed", "--edges", "e.csv", "--features", "bad.npy", "--nodes", "ids.txt", *FAST)
    assert code == 2
    assert "bad.npy" in err
    assert "row 7, column 3" in err


def test_an_embedding_can_be_resumed(run, monkeypatch, files):
    arguments = ["embed", "--edges", "e.csv", "--features", "f.csv", *FAST, "--epochs", 6]
    assert run(*arguments, "--out", "whole.npy")[0] == 0
    loss, epochs = epagcl.EPAGCL.loss, []

    def interrupted(self, network, graph, prepared, epoch):
        epochs.append(int(epoch))
        if len(epochs) == 4:
            raise KeyboardInterrupt
        return loss(self, network, graph, prepared, epoch)

    monkeypatch.setattr(epagcl.EPAGCL, "loss", interrupted)
    monkeypatch.setenv("EPAGCL_CHECKPOINT_SECONDS", "0")
    code, _, err = run(*arguments, "--resume")
    assert code == 130
    assert err.startswith("epagcl: interrupted; to continue: epagcl embed --edges e.csv")
    assert (files / "z.npy.checkpoint").is_file()
    assert not (files / "z.npy").exists()
    assert run(*arguments, "--resume")[0] == 0
    assert epochs[4] > 0  # not from the beginning
    assert np.array_equal(np.load(files / "z.npy"), np.load(files / "whole.npy"))
    assert not (files / "z.npy.checkpoint").exists()
    code, _, err = run("embed", "--edges", "e.csv", "--features", "f.csv", "--model", "m", "--resume")
    assert (code, "--resume continues a training, and --model is trained already" in err) == (2, True)


def test_no_report(run, files):
    code, out, _ = run("embed", "--edges", "e.csv", "--features", "f.csv", "--no-report", *FAST)
    assert code == 0
    assert "report" not in out
    assert (files / "z.npy").is_file()
    assert not list(files.glob("*.html"))


def test_an_interrupted_embed_writes_nothing(run, monkeypatch, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(epagcl.EPAGCL, "loss", interrupt)
    code, out, err = run("embed", "demo", *FAST)
    assert (code, out) == (130, "")
    assert err == "epagcl: interrupted; nothing was written (--resume keeps a checkpoint)\n"
    assert list(tmp_path.iterdir()) == []


def test_the_default_method_embeds_new_nodes_and_unseen_graphs(run, files):
    code, out, err = run("embed", "--edges", "e.csv", "--features", "f.csv", "--save", "m", "--out", "z.csv", *SMALL)
    assert code == 0, err
    model = epagcl.load_model(files / "m", device="cpu")
    assert isinstance(model, epagcl.EPAGCLPlus)
    assert "120 nodes × 8 dimensions" in out
    # The same graph without training is the same embedding.
    same = ["--features", "f.csv", "--model", "m", "--device", "cpu", "--map", "none"]
    assert run("embed", "--edges", "e.csv", *same, "--out", "again.csv")[0] == 0
    assert (files / "again.csv").read_bytes() == (files / "z.csv").read_bytes()
    # A new node that copies the edges and features of user-000 lies next to it.
    edges, features = pd.read_csv(files / "e.csv"), pd.read_csv(files / "f.csv")
    copied = edges[(edges == "user-000").any(axis=1)].replace("user-000", "twin")
    pd.concat([edges, copied]).to_csv(files / "e2.csv", index=False)
    pd.concat([features, features.iloc[[0]].assign(id="twin")]).to_csv(files / "f2.csv", index=False)
    grown = ["--edges", "e2.csv", "--features", "f2.csv", "--model", "m", "--device", "cpu", "--map", "none"]
    code, out, err = run("embed", *grown, "--out", "z2.csv")
    assert code == 0, err
    z = pd.read_csv(files / "z2.csv", index_col="id")
    distance = ((z - z.loc["twin"]) ** 2).sum(axis=1).drop("twin")
    assert distance.idxmin() == "user-000"


def test_the_method_of_a_configuration_file_is_used(run, files):
    (files / "c.toml").write_text('[method]\nname = "dgi"\ndim = 5\nepochs = 1\n')
    arguments = ["embed", "--edges", "e.csv", "--features", "f.csv", "--device", "cpu", "--map", "none"]
    code, out, err = run(*arguments, "--config", "c.toml")
    assert code == 0, err
    assert "120 nodes × 5 dimensions" in out
    (files / "c.toml").write_text("epochs = 1\n")
    code, _, err = run(*arguments, "--config", "c.toml")
    assert code == 2
    assert "c.toml: epochs is not a table; write it below one, such as [method]" in err


def test_features_computed_from_the_edges(run, files):
    code, _, err = run("embed", "--edges", "e.csv", *FAST)
    assert code == 2
    assert "--features structure to compute some from the edges" in err
    for features in ("structure", "structure,f.csv"):
        code, _, _ = run("embed", "--edges", "e.csv", "--features", features, "--out", "z.npy", *FAST)
        assert code == 0
        assert np.load(files / "z.npy").shape[1] == 8


def test_a_model_of_positions_is_for_one_graph(run, files, caplog):
    for features, warned in (("structure", True), ("roles", False)):
        arguments = ("embed", "--edges", "e.csv", "--features", features)
        assert run(*arguments, "--save", features, *FAST)[0] == 0
        caplog.clear()
        code, _, _ = run(*arguments, "--model", features, "--device", "cpu", "--out", "z.npy")
        assert code == 0
        assert any("for other graphs, use --features roles" in line for line in caplog.messages) == warned


def test_a_folder_gets_shards_that_tasks_read(run, files):
    pytest.importorskip("pyarrow")
    options = ("--method", "propagated", "--dim", 4, "--device", "cpu", "--json")
    code, out, _ = run("embed", "--edges", "e.csv", "--features", "f.csv", "--out", "shards", *options)
    assert code == 0
    result = json.loads(out)
    assert result["files"] == [str(Path("shards", "embeddings-00000.parquet"))]
    assert result["report"] is None
    z, ids = read_embeddings(Path("shards"))
    assert z.shape == (result["nodes"], 4)
    code, _, _ = run("embed", "--edges", "e.csv", "--features", "f.csv", "--out", "z.npy", "--map", "none", *options)
    one, names = read_embeddings(Path("z.npy"))
    assert ids == names
    np.testing.assert_allclose(z, one, atol=1e-5)
    code, _, error = run("embed", "--edges", "e.csv", "--features", "f.csv", "--out", "shards", *options)
    assert code == 2
    assert "holds shards" in error


def test_shards_are_not_compared_with_an_earlier_version(run, files):
    code, _, error = run("embed", "--edges", "e.csv", "--features", "f.csv", "--out", "shards", "--previous", "z.npy")
    assert code == 2
    assert error == "epagcl: --only, --previous and --align: these write one file; give --out a suffix, such as .npy\n"
