import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import epagcl
from epagcl import terminal
from epagcl.data import block_model, write_npz
from epagcl.evaluation.protocol import Rule

# A map by principal components: t-SNE of the demo takes seconds.
FAST = ["--epochs", "2", "--hidden", "16", "--dim", "8", "--projection", "8", "--device", "cpu", "--map", "pca"]


@pytest.fixture
def files(tmp_path):
    """A small graph as a string-id edge list, features and labels."""
    data = block_model(120, num_classes=3, num_features=30, topic_words=10, words_per_node=6, seed=1)
    ids = np.array([f"user-{k:03d}" for k in range(120)])
    row, col = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    pd.DataFrame({"source": ids[row], "target": ids[col]}).to_csv(tmp_path / "e.csv", index=False)
    table = pd.DataFrame(data.x.to_dense().numpy()).add_prefix("w")
    table.insert(0, "id", ids)
    table.to_csv(tmp_path / "f.csv", index=False)
    pd.DataFrame({"id": ids, "label": np.array(["red", "green", "blue"])[data.y]}).to_csv(
        tmp_path / "l.csv", index=False
    )
    np.save(tmp_path / "f.npy", data.x.to_dense().numpy())
    (tmp_path / "ids.txt").write_text("\n".join(ids) + "\n")
    return tmp_path


def test_train_a_named_graph(run, tmp_path):
    code, out, err = run("train", "demo", *FAST, "--references", "--runs", 2)
    assert code == 0
    assert re.search(r"raw features +\d\d\.\d\d ± \d", out)
    assert re.search(r"untrained encoder +\d\d\.\d\d ± \d", out)
    assert re.search(r"EPAGCL +\d\d\.\d\d ± \d", out)
    assert "EPR: 0.194 per node" in out
    assert "protocol strict, 2 runs, splits random 10/10/80 (seeds 0, 1), measured here" in out
    assert "run folder: runs/demo-epagcl" in out
    assert (tmp_path / "runs" / "demo-epagcl" / "model.safetensors").exists()
    assert "Traceback" not in err


def test_a_long_run_is_told_how_to_be_short(run, monkeypatch, caplog):
    monkeypatch.setattr(terminal, "LONG_MINUTES", 0)
    monkeypatch.setattr(terminal, "SETTLED_SECONDS", 0)
    assert run("train", "demo", *FAST, "--runs", 1)[0] == 0
    assert any("--batch-size 512 is faster" in message for message in caplog.messages)
    caplog.clear()
    assert run("train", "demo", *FAST, "--runs", 1, "--batch-size", 64, "--overwrite")[0] == 0
    assert not any("--batch-size 512" in message for message in caplog.messages)


def test_the_first_epoch_in_which_a_gpu_compiles_is_no_pace(caplog):
    caplog.set_level("INFO", "epagcl")
    with terminal.Line(terminal.console_for(), epagcl.EPAGCL(epochs=500)) as line:
        for epoch, seconds in ((1, 30.0), (2, 30.1), (400, 36.0)):
            line({"epoch": epoch, "loss": 1.0, "seconds": seconds})
    assert caplog.messages[1:] == []  # epoch 1 was long enough to be spoken of, and to no more
    caplog.clear()
    with terminal.Line(terminal.console_for(), epagcl.EPAGCL(epochs=500)) as line:
        for epoch, seconds in ((1, 30.0), (2, 40.0)):
            line({"epoch": epoch, "loss": 1.0, "seconds": seconds})
    assert "about 83 minutes; --batch-size 512 is faster (negatives inside batches only)" in caplog.messages


def test_the_time_left_of_a_resumed_run_is_by_all_its_epochs(caplog):
    caplog.set_level("INFO", "epagcl")
    with terminal.Line(terminal.console_for(), epagcl.EPAGCL(epochs=100)) as line:
        line({"epoch": 50, "loss": 1.0, "seconds": 300.0})  # the first that this process sees
    assert "epoch 50 of 100, loss 1.0000, 5.0 minutes left" in caplog.messages[0]


def test_progress_without_a_terminal_is_a_line_now_and_then(run, monkeypatch, caplog):
    monkeypatch.setattr(terminal, "LOG_SECONDS", 0)
    assert run("train", "demo", *FAST, "--runs", 1)[0] == 0
    lines = [message for message in caplog.messages if message.startswith("EPAGCL seed 0: epoch")]
    assert [
        re.match(r"EPAGCL seed 0: epoch (\d) of 2, loss \d\.\d+, 0\.\d minutes left", line)[1] for line in lines
    ] == [
        "1",
        "2",
    ]


def test_train_json_is_json_alone(run):
    code, out, _ = run("train", "demo", *FAST, "--runs", 1, "--json", "--out", "r")
    assert code == 0
    result = json.loads(out)
    assert result["folder"] == "r"
    assert result["method"]["epochs"] == 2
    assert len(result["evaluation"]["accuracy"]["runs"]) == 1


def test_recipe_config_and_options_rise_in_rank(run, tmp_path, caplog):
    (tmp_path / "c.toml").write_text('[method]\nname = "epagcl"\nlr = 0.005\ntemperature = 0.7\n')
    code, out, _ = run("train", "demo", *FAST, "--config", "c.toml", "--temperature=0.9", "--runs", 1, "--json")
    assert code == 0
    settings = json.loads(out)["method"]
    assert (settings["lr"], settings["temperature"], settings["p_drop_2"]) == (0.005, 0.9, 0.3)
    assert "recipe for demo: our settings" in caplog.messages


def test_seeds(run, tmp_path):
    code, out, _ = run("train", "demo", *FAST, "--seeds", 2, "--seed", 5, "--json", "--out", "r")
    assert code == 0
    assert json.loads(out)["seeds"] == [5, 6]
    assert (tmp_path / "r" / "seed-6" / "embeddings.npy").exists()


def test_folder_that_is_taken_and_overwrite_and_resume(run):
    assert run("train", "demo", *FAST, "--runs", 1, "--quiet")[0] == 0
    code, _, err = run("train", "demo", *FAST, "--quiet")
    assert code == 2
    assert "already there; give another --out, --resume to continue it, or --overwrite" in err
    assert run("train", "demo", *FAST, "--runs", 1, "--quiet", "--resume")[0] == 0
    assert run("train", "demo", *FAST, "--runs", 1, "--quiet", "--overwrite")[0] == 0


def test_quiet_is_silent(run, caplog):
    assert run("train", "demo", *FAST, "--runs", 1, "--quiet") == (0, "", "")
    assert caplog.messages == []


def test_train_on_own_files_and_on_a_file(run, files):
    code, out, _ = run(
        "train", "--edges", "e.csv", "--features", "f.csv", "--labels", "l.csv", *FAST, "--json", "--runs", 1
    )
    assert code == 0
    assert json.loads(out)["graph"]["classes"] == 3
    write_npz(epagcl.load("demo"), files / "mine.npz")
    code, out, _ = run("train", "mine.npz", *FAST, "--json", "--runs", 1)
    assert code == 0
    assert json.loads(out)["folder"] == "runs/mine-epagcl"


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".tsv", ".parquet"])
def test_embed_gives_ids_back(run, files, suffix):
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


def test_embed_features_without_ids(run, files):
    code, _, err = run("embed", "--edges", "e.csv", "--features", "f.npy", "--nodes", "ids.txt", *FAST)
    assert code == 0
    assert "order of first appearance" not in err


def test_embed_with_a_trained_model(run, files):
    run("train", "--edges", "e.csv", "--features", "f.csv", "--out", "m", *FAST, "--quiet")
    arguments = ["embed", "--edges", "e.csv", "--features", "f.csv", "--model", "m", "--device", "cpu"]
    code, _, _ = run(*arguments, "--out", "again.npy")
    assert code == 0
    assert np.array_equal(np.load(files / "again.npy"), np.load(files / "m" / "embeddings.npy"))
    code, _, err = run(*arguments, "--epochs", 3)
    assert code == 2
    assert "--model is trained already" in err


def test_embed_saves_its_model(run, files):
    code, _, _ = run("embed", "--edges", "e.csv", "--features", "f.csv", "--save", "kept", *FAST)
    assert code == 0
    data = epagcl.read_graph(edges=files / "e.csv", features=files / "f.csv")
    z = epagcl.load_model(files / "kept", device="cpu").embed(data)
    np.testing.assert_array_equal(z.numpy(), np.load(files / "z.npy"))
    arguments = ("embed", "--edges", "e.csv", "--features", "f.csv", "--save", "kept", *FAST)
    code, _, err = run(*arguments)
    assert code == 2
    assert "kept: already there; give another --save, or --overwrite" in err
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
    code, _, _ = run("embed", "--edges", "e.csv", "--features", "turned.csv", "--model", "kept", "--out", "t.npy")
    assert code == 0
    np.testing.assert_array_equal(np.load(files / "t.npy"), np.load(files / "z.npy"))
    table.rename(columns={names[2]: "new"}).to_csv(files / "other.csv", index=False)
    code, _, err = run("embed", "--edges", "e.csv", "--features", "other.csv", "--model", "kept", "--out", "t.npy")
    assert code == 2
    assert f"no feature column '{names[2]}', on which the model was trained (1 of {len(names)} are missing)" in err


def test_embed_colours_by_a_table(run, files):
    first = pd.read_csv(files / "f.csv")["id"][0]
    (files / "c.csv").write_text(f"id,city\n{first},Ulm\n")
    code, _, _ = run("embed", "--edges", "e.csv", "--features", "f.csv", "--columns", "c.csv", *FAST)
    assert code == 0
    (files / "c.csv").write_text("id,city\nnobody,Ulm\n")
    code, _, err = run("embed", "--edges", "e.csv", "--features", "f.csv", "--columns", "c.csv", *FAST)
    assert code == 2
    assert "--columns: none of its ids (such as nobody) is a node of e (such as user-" in err


def test_a_collapsed_embedding_has_its_report_without_a_warning_of_others(run, files, caplog):
    (files / "three.csv").write_text("a,b\nb,c\nc,a\n")
    np.save(files / "three.npy", np.ones((3, 2), dtype=np.float32))
    code, out, err = run("embed", "--edges", "three.csv", "--features", "three.npy", *FAST)
    assert code == 0
    assert "three.csv: all nodes have the same features; only their edges can tell them apart" in caplog.messages
    assert "Convergence" not in err
    assert "1000%" in out or "collapsed" in out
    assert (files / "z.report.html").exists()


def test_epr(run, files):
    code, out, _ = run("epr", "demo", "--top", 3)
    assert code == 0
    for words in ("EPR", "per node", "homophily", "Theorem 3.3", "degree: 0 to", "Edges whose removal lowers EPR most"):
        assert words in out
    code, out, _ = run("epr", "--edges", "e.csv", "--labels", "l.csv", "--json", "--top", 2)
    assert code == 0
    harmful = json.loads(out)["most_harmful"]
    assert len(harmful) == 2
    assert all(node.startswith("user-") for edge in harmful for node in edge["ids"])
    table = pd.read_csv(files / "l.csv")
    table[table.index > 20].to_csv(files / "part.csv", index=False)
    code, out, _ = run("epr", "--edges", "e.csv", "--labels", "part.csv", "--json")
    assert code == 0
    assert json.loads(out)["num_nodes"] == 99
    code, _, err = run("epr", "--edges", "e.csv")
    assert code == 2
    assert "no labels" in err


def test_datasets(run, tmp_path):
    code, out, _ = run("datasets")
    assert code == 0
    for words in ("Cora", "2,708", "5,278", "1,433", "ogbn-arxiv", "demo", "generated", "download (PyG Planetoid)"):
        assert words in out
    (tmp_path / "Cora.npz").write_bytes(b"")
    code, out, _ = run("datasets", "--data", tmp_path, "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["Cora"]["source"].startswith("file ")
    assert len(rows) == 16


def test_methods(run):
    code, out, _ = run("methods")
    assert code == 0
    for words in ("epagcl", "AAAI 2025", "cca-ssg", "labels; time E d", "Deep Graph Infomax", "needs"):
        assert words in out
    code, out, _ = run("methods", "--json")
    assert {row["name"] for row in json.loads(out)} >= {"bgrl", "dgi", "gat", "gca", "gcn", "gmi", "greet", "mvgrl"}
    code, out, _ = run("methods", "epagcl", "--json")
    settings = {row["setting"]: row for row in json.loads(out)}
    assert settings["p_add"]["default"] == 0.05
    assert settings["drop"]["choices"] == ["eq7", "text", "uniform"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "no graph given; name one"),
        (["train", "coar"], "did you mean Cora?"),
        (["train", "nothing.npz"], "nothing.npz: no such file"),
        (["train", "demo", "--epoch", "3"], "no option --epoch; did you mean --epochs?"),
        (["train", "demo", "--overwrit"], "did you mean --overwrite?"),
        (["train", "demo", "--epochs"], "--epochs needs a value"),
        (["train", "demo", "--epochs", "many"], "--epochs many: must be a whole number"),
        (["train", "demo", "--temperature", "0.001"], "temperature=0.001: must be at least 0.03"),
        (["train", "demo", "--protocol", "loose"], "choose one of strict, paper, public"),
        (["train", "demo", "--protocol", "public"], "no public split"),
        (["train", "demo", "--method", "grce"], "no method 'grce'"),
        (["train", "demo", "--seeds", "0"], "--seeds and --runs must be at least 1"),
        (["train", "demo", "--config", "none.toml"], "none.toml: no such file"),
        (["train", "demo", "--edges", "e.csv"], "demo is a named graph; leave out --edges"),
        (["train", "demo", "stray"], "unexpected extra argument"),
        (["train", "demo", "--resume"], "no run of one seed to resume"),
        (["train", "--refrences", "demo"], "no option --refrences; did you mean --references?"),
        (["train", "demo", "--lr", "nan"], "lr=nan: must be a finite number"),
        (["train", "demo", "--seed", "-1"], "seed=-1: must be 0 or more"),
        (["train", "demo", "--config", "."], "cannot be read"),
        (["embed", "demo", "--model", "m", "--save", "s"], "leave out --save and --config"),
        (["embed", "demo", "--out", "z.xlsx"], "cannot write .xlsx"),
        (["embed", "demo", "--out", "/dev/null/z.npy"], "cannot be written"),
        (["train", "demo", "--device", "tpu"], "epagcl: device='tpu': choose one of"),
        (["train", "demo", "--epochs", "-3"], "epagcl: epochs=-3: must be at least 0"),
        (["train", "demo", "--method", "gracee"], "did you mean grace?"),
        (["train", "demo", "--scale-features", "rows"], "choose one of given, row-sum, row-max"),
        (["epr"], "or --edges and --labels"),
        (["epr", "demo", "--top", "-1"], "Invalid value"),
        (["embed", "--edges", "none.csv", "--features", "f.npy"], "none.csv: no such file"),
        (["embed", "demo", "--model", "none"], "none: no such folder; give one that save() or `epagcl train` wrote"),
        (["epr", "--top", "x"], "Invalid value"),
        (["frain"], "No such command"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(run, tmp_path, arguments, message):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("epagcl: ")
    assert message in err
    assert list(tmp_path.iterdir()) == []  # nothing half-written


def test_a_nan_in_the_features_is_named(run, files):
    x = np.load(files / "f.npy")
    x[7, 3] = np.nan
    np.save(files / "bad.npy", x)
    code, _, err = run("embed", "--edges", "e.csv", "--features", "bad.npy", "--nodes", "ids.txt", *FAST)
    assert code == 2
    assert "bad.npy" in err
    assert "row 7, column 3" in err


def test_interrupt_keeps_the_epoch_and_shows_how_to_go_on(run, monkeypatch, tmp_path):
    original = epagcl.EPAGCL.loss

    def interrupted(self, network, graph, prepared, epoch):
        if epoch == 1:
            signal.raise_signal(signal.SIGINT)
        return original(self, network, graph, prepared, epoch)

    arguments = ["train", "demo", *FAST, "--epochs", "4", "--runs", "1", "--out", "a folder"]
    monkeypatch.setattr(epagcl.EPAGCL, "loss", interrupted)
    code, _, err = run(*arguments)
    assert code == 130
    assert f"to continue: epagcl {' '.join(arguments[:-1])} 'a folder' --resume" in err
    assert "Traceback" not in err
    assert (tmp_path / "a folder" / "checkpoint.safetensors").exists()
    monkeypatch.setattr(epagcl.EPAGCL, "loss", original)
    assert run(*arguments, "--resume", "--quiet")[0] == 0
    assert run(*arguments[:-1], "whole", "--quiet")[0] == 0
    files = [np.load(tmp_path / name / "embeddings.npy") for name in ("a folder", "whole")]
    assert np.array_equal(*files)
    with open(tmp_path / "a folder" / "history.csv") as file:
        assert len(file.readlines()) == 5


def test_interrupted_embed_says_so_and_writes_nothing(run, monkeypatch, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(epagcl.EPAGCL, "loss", interrupt)
    code, out, err = run("embed", "demo", *FAST)
    assert (code, out) == (130, "")
    assert "stopped; nothing was written" in err
    assert list(tmp_path.iterdir()) == []


def test_overwrite_does_not_remove_a_run_that_cannot_be_replaced(run, tmp_path):
    assert run("train", "demo", *FAST, "--runs", 1, "--quiet", "--out", "good")[0] == 0
    assert run("train", "demo", *FAST[:-2], "--device", "mps", "--out", "good", "--overwrite")[0] == 2
    assert (tmp_path / "good" / "metrics.json").exists()


def test_labels_that_cannot_be_evaluated_do_not_stop_training(run, files, caplog):
    pd.DataFrame({"id": ["user-001"], "label": ["red"]}).to_csv(files / "one.csv", index=False)
    code, out, _ = run("train", "--edges", "e.csv", "--features", "f.csv", "--labels", "one.csv", *FAST, "--out", "r")
    assert code == 0
    assert "run folder: r" in out
    assert any("not evaluated (1 labelled node" in message for message in caplog.messages)


def test_a_file_that_is_called_like_a_graph_gets_no_recipe(run, files, caplog):
    (files / "e.csv").rename(files / "cora.csv")
    code, _, _ = run("train", "--edges", "cora.csv", "--features", "f.csv", *FAST[:-2], "--device", "cpu", "--json")
    assert code == 0
    assert not any("recipe" in message for message in caplog.messages)


def test_version_and_no_arguments(run):
    assert run("--version") == (0, f"epagcl {epagcl.__version__}\n", "")
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "Commands:" in out


def test_a_mistake_in_a_real_process_is_one_line(tmp_path):
    command = [sys.executable, "-m", "epagcl", "train", "demo", "--epochs", "abc"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == "epagcl: --epochs abc: must be a whole number\n"


def test_a_broken_loss_is_one_line(run, monkeypatch):
    nan = torch.tensor(float("nan"))
    monkeypatch.setattr(epagcl.EPAGCL, "loss", lambda self, network, *_: network.head[0].weight.sum() * nan)
    code, _, err = run("train", "demo", *FAST, "--quiet")
    assert code == 1
    assert "epagcl: the loss is nan at epoch 1; lower lr" in err


def test_help_has_an_example_for_every_command(run):
    for command in ("train", "embed", "compare", "epr", "datasets", "methods"):
        code, out, _ = run(command, "--help")
        assert code == 0
        assert "Example: epagcl" in out.replace("\n", " ")


def test_as_a_module():
    result = subprocess.run([sys.executable, "-m", "epagcl", "--help"], capture_output=True, text=True)
    assert result.returncode == 0
    assert "Usage:" in result.stdout


def test_compare_prints_every_row_and_goes_on_where_it_stopped(run, tmp_path, monkeypatch):
    monkeypatch.setattr("epagcl.evaluation.protocol.PAPER", Rule((0.0,), 20, 1, False, True))
    command = ["compare", "demo", "--methods", "gcn,dgi,gca*", "--seeds", 2, "--epochs", 2, "--device", "cpu"]
    command += ["--out", tmp_path]
    code, out, err = run(*command)
    assert code == 0, err
    for words in (
        "raw features",
        "untrained encoder",
        "GCN",
        "DGI",
        "GCA*",
        "strict",
        "paper",
        "the paper",
        "seeds",
        "ours",
    ):
        assert words in out
    assert len(list((tmp_path / "demo").rglob("*.json"))) == 5 * 2
    monkeypatch.setattr("epagcl.comparison.provenance", lambda *_: pytest.fail("trained again"))
    code, out, _ = run(*command, "--json")
    assert [row["row"] for row in json.loads(out)["demo"]] == [
        "raw features",
        "untrained encoder",
        "GCN",
        "DGI",
        "GCA*",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--methods", "gcl"], "no method 'gcl'"),
        (["demo", "--protocols", "loose"], "--protocols loose: choose of strict, paper, public"),
        (["demo", "--methods", "dgi", "--temperature", "0.3"], "no option --temperature"),
        (["demo", "--seeds", "0"], "--seeds must be at least 1"),
        (["coar"], "did you mean Cora?"),
        (["demo", "--seed", "3"], "no option --seed"),
        (["demo", "--methods", "dgi,bgrl", "--norm", "foo"], "norm='foo': choose one of batch, layer"),
        (["demo", "demo"], "two graphs of one name"),
        (["demo", "--protocols", "public"], "demo: no published split"),
    ],
)
def test_compare_says_what_is_wrong(run, arguments, message):
    code, _, err = run("compare", *arguments)
    assert code == 2
    assert message in err


def test_a_supervised_method_without_labels_is_one_line(run, tmp_path):
    (tmp_path / "e.csv").write_text("source,target\n0,1\n1,2\n2,3\n")
    np.save(tmp_path / "f.npy", np.eye(4, dtype=np.float32))
    files = ["--edges", tmp_path / "e.csv", "--features", tmp_path / "f.npy"]
    code, _, err = run("embed", *files, "--method", "gcn", "--device", "cpu", "--out", tmp_path / "z.npy")
    assert code == 2
    assert "gcn learns from labels: train it with `epagcl train`" in err
    code, _, err = run("train", *files, "--method", "gcn", "--device", "cpu", "--out", tmp_path / "run")
    assert code == 2
    assert "gcn learns from labels, and the graph has none; give --labels" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "name", ["bgrl", "cca-ssg", "dgi", "epagcl", "gat", "gca", "gcn", "gmi", "grace", "greet", "mvgrl"]
)
def test_every_method_trains_from_the_command_line(run, tmp_path, name):
    graph = tmp_path / "g.npz"
    data = block_model(80, num_classes=3, num_features=30, topic_words=10, seed=3)
    write_npz(data, graph)
    folder = tmp_path / "run"
    code, out, err = run("train", graph, "--method", name, "--epochs", 2, "--device", "cpu", "--out", folder, "--json")
    assert code == 0, err
    metrics = json.loads(out)
    assert metrics["method"]["name"] == name
    assert metrics["training"]["epochs"] == 2
    assert 0 <= metrics["evaluation"]["accuracy"]["mean"] <= 1
    assert epagcl.load_model(folder, device="cpu").embed(data).shape[0] == 80


def test_every_run_has_a_report_and_says_how_training_went(run, files):
    code, out, _ = run("train", "demo", *FAST, "--runs", 1, "--out", "a")
    assert code == 0
    assert "health, no labels" in out
    assert out.splitlines()[-1] == f"report: {Path('a') / 'report.html'}"
    code, out, _ = run("embed", "--edges", "e.csv", "--features", "f.csv", *FAST, "--out", "z.csv", "--json")
    result = json.loads(out)
    assert (code, result["report"]) == (0, "z.report.html")
    assert Path("z.report.html").stat().st_size > 10**6
    assert [finding["name"] for finding in result["health"]] == ["effective rank", "uniformity", "alignment"]


def test_report_of_several_runs(run):
    for seed in (0, 1):
        assert run("train", "demo", *FAST, "--runs", 1, "--seed", seed, "--out", f"r{seed}", "--quiet")[0] == 0
    assert run("report", "r0", "r1", "--out", "both.html") == (0, "report: both.html\n", "")
    assert "2 runs" in Path("both.html").read_text()
    code, out, _ = run("report", "r0", "--json")
    assert (code, json.loads(out)) == (0, {"report": str(Path("r0") / "report.html")})
    assert run("report", "r9") == (2, "", "epagcl: r9: no such run folder; give one that `epagcl train` wrote\n")
    code, _, err = run("report", "r0", "--map", "star")
    assert (code, err) == (2, "epagcl: --map star: choose one of auto, tsne, umap, pca, none\n")


def test_a_run_logs_to_tensorboard(run):
    pytest.importorskip("tensorboard")
    assert run("train", "demo", *FAST, "--runs", 1, "--log", "tensorboard", "--out", "r", "--quiet") == (0, "", "")
    assert len(list(Path("r").glob("events.out.tfevents.*"))) == 1
    code, _, err = run("train", "demo", *FAST, "--log", "paper", "--out", "s")
    assert (code, err) == (2, "epagcl: no logger 'paper'; choose one of tensorboard, wandb\n")
    assert not Path("s").exists()
    assert run("train", "demo", *FAST, "--runs", 1, "--out", "r", "--overwrite", "--quiet")[0] == 0
    assert not list(Path("r").glob("events.*"))
