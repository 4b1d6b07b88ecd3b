import json
import os
import sys
from dataclasses import replace

import pytest

from epagcl.cli import paper as commands
from epagcl.evaluation.protocol import Rule
from epagcl.paper import ARTEFACTS, find_artefact

TINY = ["--epochs", 2, "--hidden", 8, "--dim", 8, "--projection", 8, "--device", "cpu"]


@pytest.fixture(autouse=True)
def short_paper_protocol(monkeypatch):
    monkeypatch.setattr("epagcl.evaluation.protocol.PAPER", Rule((0.0,), 20, 1, False, True))


def test_without_a_subcommand_the_artefacts_are_listed(run):
    code, out, _ = run("paper")
    assert code == 0
    for name, entry in ARTEFACTS.items():
        assert name in out
        assert entry.source in out


@pytest.mark.parametrize("name", list(ARTEFACTS))
def test_every_artefact_has_the_same_options(run, name):
    code, out, _ = run("paper", name, "--help")
    assert code == 0
    assert ARTEFACTS[name].source in out
    for option in ("--datasets", "--methods", "--runs", "--protocol", "--device", "--stored", "--out", "--json"):
        assert option in out
    assert find_artefact(name).name == name


@pytest.mark.slow
def test_lists_are_written_with_spaces_or_commas(run, tmp_path):
    words = ["--datasets", "demo", "--methods", "epagcl", "gca*", "--runs", 1, "--protocol", "strict", "paper"]
    code, out, err = run("paper", "accuracy", *words, *TINY, "--json")
    assert code == 0, err
    asked = json.loads(out)["asked"]
    assert asked["methods"] == ["epagcl", "gca*"]
    assert asked["protocols"] == ["strict", "paper"]
    commas = ["--datasets=demo", "--methods", "epagcl,gca*", "--runs", 1, "--protocol", "strict,paper"]
    code, out, err = run("paper", "accuracy", *commas, *TINY, "--json", "--stored")
    assert code == 0, err
    again = json.loads(out)
    assert again["asked"] == asked
    assert len(again["cells"]) == 5  # all from the store
    assert "--stored" not in again["command"]
    assert {path.name for path in (tmp_path / "runs" / "paper").iterdir()} >= {"accuracy.json", "accuracy.png", "store"}


@pytest.mark.slow
def test_the_table_its_note_and_the_reading_are_printed(run, caplog):
    words = ["--datasets", "demo", "--methods", "epagcl", "--runs", 1, "--protocol", "strict"]
    with caplog.at_level("INFO", "epagcl"):
        code, out, err = run("paper", "accuracy", *words, *TINY)
    assert code == 0, err
    for part in ("Accuracy of every method (Table 2)", "untrained encoder", "Protocol strict", "written: runs/paper/"):
        assert part in out
    assert "**" not in out
    assert "raw features of demo" in caplog.text  # what is being done


@pytest.mark.slow
def test_quiet_prints_nothing(run):
    words = ["--datasets", "demo", "--methods", "epagcl", "--runs", 1, "--protocol", "strict", "--quiet"]
    code, out, err = run("paper", "accuracy", *words, *TINY)
    assert (code, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["accuracy", "--datasets", "coar"], "did you mean Cora?"),
        (["accuracy", "--methods", "gcl"], "no method 'gcl'"),
        (["accuracy", "--protocol", "loose"], "--protocol loose: choose from strict, paper, public"),
        (["accuracy", "--runs", "-1"], "--runs -1: at least 1"),
        (["accuracy", "--seed", "3"], "no option --seed"),
        (["accuracy", "--epcohs", "3"], "no option --epcohs; did you mean --epochs?"),
        (["accuracy", "--device", "tpu"], "device='tpu' is not available here"),
        (["accuracy", "--datasets", "demo", "--methods", "epagcl", "--epochs", "-1"], "epochs=-1: must be at least 0"),
        (["acuracy"], "acuracy"),
        (["page", "--results", "nowhere"], "nowhere: no results"),
        (["plan", "--results", "nowhere"], "nowhere: no results"),
        (["plan", "--processes", "0"], "--processes 0: at least 1"),
        (["plan", "--parts", "views", "x"], "--parts x: choose from accuracy, heterophily"),
        (["complete", "--results", "nowhere"], "nowhere: no results"),
        (["complete", "--seeds", "0"], "--seeds 0: at least 1"),
        (["complete", "--processes", "0"], "--processes 0: at least 1"),
        (["complete", "--minutes", "-1"], "--minutes -1: must be positive"),
    ],
)
def test_mistakes_are_one_line(run, arguments, message):
    code, _, err = run("paper", *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.slow
def test_all_artefacts_share_one_store(run, tmp_path, monkeypatch):
    few = {name: ARTEFACTS[name] for name in ("accuracy", "heterophily", "epr")}
    small = {"datasets": ("demo",), "methods": ("epagcl",), "protocols": ("strict",)}
    monkeypatch.setattr(commands, "ARTEFACTS", few)
    monkeypatch.setattr(commands, "find_artefact", lambda name: replace(find_artefact(name), **small))
    code, _, err = run("paper", "all", "--runs", 1, *TINY)
    assert code == 0, err
    folder = tmp_path / "runs" / "paper"
    assert {path.name for path in folder.glob("*.json")} == {"accuracy.json", "heterophily.json", "epr.json"}
    runs = [path for path in (folder / "store" / "demo").rglob("*.json") if path.parent.name != "epr"]
    assert len(runs) == 4  # features, untrained, propagated, EPAGCL: once for both tables
    code, _, err = run("paper", "page", "--results", folder, "--docs", tmp_path / "page")
    assert code == 0, err
    text = (tmp_path / "page" / "results.md").read_text(encoding="utf-8")
    assert text.count("\n## ") == 6  # the first page, claims, three artefacts, and what is missing


@pytest.fixture
def planned(monkeypatch):
    """Replace the plan by an invented one, and the results by none."""
    from epagcl.paper.plan import MissingRuns, Plan

    monkeypatch.setattr("epagcl.paper.page.read_results", lambda _: {})
    runs = MissingRuns(("accuracy",), "Cora", "GRACE", [3, 4], 20, 1800.0, "the same cell", "the rank of GRACE", None)
    made = [Plan([runs], {"WikiCS": "data are absent"}, {})]
    monkeypatch.setattr("epagcl.paper.plan.plan", lambda *_: made[0])
    return made


def test_plan_lists_the_missing_runs_and_their_time(run, planned):
    code, out, err = run("paper", "plan", "--processes", 2)
    assert code == 0, err
    for part in ("the rank of GRACE", "2 of 20", "1800.0", "60.0", "WikiCS: data are absent"):
        assert part in out
    assert "2 runs of 1 cells are missing: about 0.5 hours with 2 processes" in out
    assert "2 runs of 1 cells in all: about 1.0 hours with one process" in run("paper", "plan", "--fresh")[1]
    code, out, _ = run("paper", "plan", "--json")
    assert code == 0
    assert (
        json.loads(out)["runs"][0] | {"graph": "Cora", "seeds": [3, 4], "total": 3600.0} == json.loads(out)["runs"][0]
    )


def test_complete_says_what_has_changed(run, planned, monkeypatch, tmp_path):
    from epagcl.paper.completion import Completed

    code, out, err = run("paper", "complete", "--stored", "--store", tmp_path / "store")
    assert (code, out.strip()) == (0, "nothing has changed"), err
    made = Completed({"accuracy": {"artefact": "accuracy"}}, None)
    monkeypatch.setattr("epagcl.paper.completion.complete", lambda *_, **__: made)
    code, out, _ = run("paper", "complete", "--results", tmp_path)
    assert (code, "accuracy.json" in out) == (0, True)
    assert json.loads((tmp_path / "accuracy.json").read_text()) == {"artefact": "accuracy"}


def test_processes_fill_the_store_and_their_runs_are_added(run, planned, monkeypatch, tmp_path, caplog):
    from epagcl.paper.completion import Completed

    runs = planned[0].runs[0]
    planned[0] = replace(planned[0], runs=[replace(runs, parts=("tuned",))])
    started, trained = [], []

    def workers(command, count, logs, seconds):
        started.append((command, count, logs, seconds))
        return 1

    def completed(*_, train, **__):
        trained.append(train)
        return Completed({}, None)

    monkeypatch.setattr("epagcl.study.workers.run_workers", workers)
    monkeypatch.setattr("epagcl.paper.completion.complete", completed)
    words = ["--datasets", "cora", "citeseer", "--parts", "tuned", "--store", tmp_path, "--device", "cpu", "--quiet"]
    code, out, err = run("paper", "complete", *words, "--processes", 3, "--minutes", 1.5)
    assert (code, out.strip()) == (1, "nothing has changed"), err  # a process failed
    ((command, count, logs, seconds),) = started
    assert (count, seconds) == (3, 90.0)
    assert logs.parent == tmp_path / "logs"
    assert logs.name.endswith(f"-{os.getpid()}")
    assert command[:5] == [sys.executable, "-m", "epagcl", "paper", "complete"]
    text = " ".join(command)
    assert "--datasets cora --datasets citeseer --parts tuned --quiet --compute-only" in text
    assert f"--device cpu --store {tmp_path}" in text
    assert "1 of 3 processes failed; their runs are still missing" in caplog.messages
    assert run(*command[3:])[:2] == (0, "")  # what a process does
    assert run("paper", "complete", "--stored", "--processes", 2)[0] == 0
    assert trained == [False, True, False]
    assert len(started) == 1


def test_plan_of_a_complete_study(run, planned):
    planned[0] = replace(planned[0], runs=[], absent={})
    code, out, _ = run("paper", "plan")
    assert (code, out.strip()) == (0, "nothing is missing")
