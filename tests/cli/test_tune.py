import json
import re
import tomllib

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("optuna")

from epagcl.data import write_npz

FAST = ["--method", "epagcl", "--epochs", "2", "--hidden", "8", "--dim", "6", "--projection", "6", "--device", "cpu"]
SHORT = [*FAST, "--trials", "2", "--seeds", "1", "--space", "lr=1e-3:1e-1:log", "p_drop=0:0.6"]


@pytest.fixture
def mine(tuning_graph, tmp_path):
    write_npz(tuning_graph, tmp_path / "mine.npz")
    return "mine.npz"


@pytest.mark.slow
def test_tune_then_train(run, mine, tmp_path):
    code, out, err = run("tune", mine, *SHORT, "--out", "t")
    assert (code, err) == (0, "")
    assert "mine, EPAGCL: 2 complete trials in" in out
    assert re.search(r"validation +\d\d\.\d\d +\d\d\.\d\d", out)
    assert re.search(r"default +\d\d\.\d\d +\d\d\.\d\d", out)
    assert re.search(r"tuned against default on test nodes: [+-]\d+\.\d\d\n", out)
    assert "protocol strict, split random 10/10/80, seed 0, 1 model each, measured here" in out
    metrics = json.loads((tmp_path / "t" / "metrics.json").read_text())
    assert metrics["search"]["space"] == {"lr": "0.001:0.1:log", "p_drop_1": "0:0.6", "p_drop_2": "0:0.6"}
    assert metrics["graph"]["nodes"] == 600
    assert "torch" in metrics["versions"]
    use = re.search(r"use them: epagcl (.*)", out)[1].split()
    assert use == ["train", "mine.npz", "--method", "epagcl", "--config", "t/best.toml"]
    code, out, _ = run(*use, "--runs", 1, "--json")
    assert code == 0
    trained = json.loads(out)
    best = tomllib.loads((tmp_path / "t" / "best.toml").read_text())["method"]
    assert trained["method"] == best == metrics["best"]
    # Seed 0's strict split is the search's first: the run is the tuned model of the closing table.
    assert trained["evaluation"]["accuracy"]["runs"] == metrics["scores"]["tuned"]["test"]["runs"]


@pytest.mark.slow
def test_json_quiet_and_resume(run, mine, caplog):
    assert run("tune", mine, *SHORT, "--out", "t", "--quiet") == (0, "", "")
    assert caplog.messages == []
    code, out, _ = run("tune", mine, *SHORT, "--out", "t", "--resume", "--trials", 3, "--json", "--no-test")
    assert code == 0
    result = json.loads(out)
    assert result["folder"] == "t"
    assert sum(result["search"]["trials"].values()) == 3
    code, _, err = run("tune", mine, *SHORT, "--out", "t")
    assert code == 2
    assert "t: already exists; give another --out, or --resume to continue its study" in err


def test_tables_with_few_labels(run, tuning_graph, tmp_path):
    graph = tuning_graph
    row, col = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    pd.DataFrame({"source": row, "target": col}).to_csv(tmp_path / "e.csv", index=False)
    np.save(tmp_path / "f.npy", graph.x.to_dense().numpy())
    pd.DataFrame({"id": range(60), "label": graph.y[:60]}).to_csv(tmp_path / "l.csv", index=False)
    files = ["--edges", "e.csv", "--features", "f.npy"]
    code, out, _ = run("tune", *files, "--labels", "l.csv", *SHORT, "--ratios", "0.4,0.3", "--no-test")
    assert code == 0
    assert "use them: epagcl train --edges e.csv --features f.npy --labels l.csv --method epagcl" in out
    assert "split random 40/30/30, seed 0" in out
    code, _, err = run("tune", *files, *SHORT, "--out", "other")
    assert code == 2
    assert "e: tuning needs labels on some nodes" in err
    assert not (tmp_path / "other").exists()


def test_the_recipe_is_the_start_and_options_are_fixed(run, monkeypatch):
    from epagcl.study.tuning import study

    seen = {}

    def stop(data, method, **options):
        seen.update(options)
        raise study.InputError("enough")

    monkeypatch.setattr(study, "tune", stop)
    run(
        "tune",
        "demo",
        "--method",
        "epagcl",
        "--seed",
        3,
        "--p-drop-1",
        0.6,
        "--space",
        "default",
        "dim=8,16",
        "--trials",
        7,
    )
    assert (seen["seed"], seen["trials"], seen["space"]) == (3, 7, ["default", "dim=8,16"])
    assert seen["start"]["epochs"] == 100  # demo's recipe
    assert seen["p_drop_1"] == 0.6
    assert "seed" not in seen["start"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--space", "lr=1:0"], "space: lr=1:0: the first end must be the lower"),
        (["--space", "default", "--space", "foo=1,2"], "has no setting 'foo'"),
        (["--ratios", "0.1"], "--ratios 0.1: two shares with a comma"),
        (["--ratios", "0.5,0.6"], "--ratios 0.5,0.6: give two shares above 0"),
        (["--protocol", "paper"], "--protocol paper: choose strict or public"),
        (["--trials", "0"], "--trials 0: must be a whole number, 1 or more"),
        (["--epohcs", "3"], "did you mean --epochs?"),
        (["--seeds", "0"], "--seeds 0: must be a whole number, 1 or more"),
        (["--minutes", "nan"], "--minutes nan: must be positive"),
        (["--minutes", "0"], "--minutes 0: must be positive"),
        (["--resume"], "no study to resume"),
    ],
)
def test_mistakes_are_one_line(run, mine, tmp_path, options, message):
    code, out, err = run("tune", mine, "--out", "t", "--device", "cpu", *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "t").exists()


def test_the_command_continues_after_a_kill_at_once_and_after_damage(run, mine, tmp_path, judged):
    judged(lambda model: model.lr)
    words = ["tune", mine, *SHORT, "--out", "t", "--no-test", "--quiet"]
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "0123456789ab.lock").touch()
    assert run(*words) == (0, "", "")
    with (tmp_path / "t" / "study.journal").open("a") as journal:
        journal.write("garbage\n")
    code, out, err = run(*words, "--resume")
    assert (code, out) == (2, "")
    assert err == "epagcl: t/study.journal: is damaged; delete it to start over, or give another --out\n"
    (tmp_path / "t" / "study.journal").unlink()
    assert run(*words, "--resume") == (0, "", "")
    assert len(pd.read_csv(tmp_path / "t" / "trials.csv")) == 2


def test_ctrl_c_prints_the_command_that_continues(run, mine, tmp_path, judged):
    calls = []

    def interrupted(model):
        calls.append(model)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return model.lr

    judged(interrupted)
    words = ["tune", mine, *SHORT, "--out", "t", "--no-test"]
    code, out, err = run(*words)
    assert (code, out) == (130, "")
    assert err == f"epagcl: interrupted; to continue: epagcl {' '.join(words)} --resume\n"
    assert len(pd.read_csv(tmp_path / "t" / "trials.csv")) == 1
    assert tomllib.loads((tmp_path / "t" / "best.toml").read_text())["method"]["lr"] == 0.001
    assert run(*words, "--resume", "--quiet")[0] == 0
    assert len(pd.read_csv(tmp_path / "t" / "trials.csv")) == 2


def test_the_default_method_depends_on_the_graph(run, mine, monkeypatch):
    from epagcl.study.tuning import study

    tuned = []

    def stop(data, method, **options):
        tuned.append((method, str(options["folder"])))
        raise study.InputError("enough")

    monkeypatch.setattr(study, "tune", stop)
    run("tune", mine)
    run("tune", "demo")
    assert tuned == [("epagcl+", "runs/mine-epagcl+-tune"), ("epagcl+", "runs/demo-epagcl+-tune")]


@pytest.mark.slow
def test_tune_the_default_method_then_train_with_the_result(run, mine, tmp_path):
    options = ["--epochs", "1", "--hidden", "8", "--dim", "6", "--projection", "6", "--device", "cpu", "--no-test"]
    space = ["--space", "members=1,2", "k=3,5", "p_add=0:0.2", "batch_size=16,32"]
    code, out, err = run("tune", mine, *options, *space, "--trials", "2", "--seeds", "1", "--out", "t")
    assert (code, err) == (0, "")
    assert "mine, EPAGCL+: 2 complete trials in" in out
    assert "use them: epagcl train mine.npz --method epagcl+ --config t/best.toml" in out
    code, out, _ = run("train", mine, "--config", "t/best.toml", "--runs", 1, "--map", "none", "--json")
    assert code == 0
    best = tomllib.loads((tmp_path / "t" / "best.toml").read_text())["method"]
    assert json.loads(out)["method"] == best
    assert best["name"] == "epagcl+"
