import json
import os
import sys
from dataclasses import replace

import pytest

from tests.cli.conftest import assert_refused


@pytest.fixture
def planned(monkeypatch):
    """Replace the plan by an invented one, and the results by none."""
    from epagcl.paper.planning.plan import MissingRuns, Plan

    monkeypatch.setattr("epagcl.paper.page.assembly.read_results", lambda _: {})
    runs = MissingRuns(("accuracy",), "Cora", "GRACE", [3, 4], 20, 1800.0, "the same cell", "the rank of GRACE", None)
    made = [Plan([runs], {"WikiCS": "data are absent"}, {})]
    monkeypatch.setattr("epagcl.paper.planning.plan.plan", lambda *_, **__: made[0])
    return made


def test_plan_lists_the_missing_runs_and_their_time(run, planned):
    code, out, err = run("paper", "plan", "--processes", 2)
    assert code == 0, err
    for part in ("the rank of GRACE", "2 of 20", "1800.0", "60.0", "WikiCS: data are absent"):
        assert part in out
    assert "2 runs of 1 cell are missing: about 0.5 hours with 2 processes" in out
    assert "2 runs of 1 cell in all: about 1.0 hours with one process" in run("paper", "plan", "--fresh")[1]
    code, out, _ = run("paper", "plan", "--json")
    assert code == 0
    assert (
        json.loads(out)["runs"][0] | {"graph": "Cora", "seeds": [3, 4], "total": 3600.0} == json.loads(out)["runs"][0]
    )


def test_plan_names_what_other_artefacts_lack(run, planned):
    planned[0] = replace(planned[0], unmeasured={"epr": ["Texas", "Actor"]})
    assert "epagcl paper epr lacks Texas, Actor" in run("paper", "plan")[1]
    planned[0] = replace(planned[0], runs=[], absent={})
    assert run("paper", "plan")[1].splitlines() == ["no run is missing", "epagcl paper epr lacks Texas, Actor"]


def test_complete_says_what_has_changed(run, planned, monkeypatch, tmp_path):
    from epagcl.paper.planning.completion import Completed

    code, out, err = run("paper", "complete", "--stored", "--store", tmp_path / "store")
    assert (code, out.strip()) == (0, "nothing has changed"), err
    made = Completed({"accuracy": {"artefact": "accuracy"}}, None)
    monkeypatch.setattr("epagcl.paper.planning.completion.complete", lambda *_, **__: made)
    code, out, _ = run("paper", "complete", "--results", tmp_path)
    assert (code, "accuracy.json" in out) == (0, True)
    assert json.loads((tmp_path / "accuracy.json").read_text()) == {"artefact": "accuracy"}


def test_processes_fill_the_store_and_their_runs_are_added(run, planned, monkeypatch, tmp_path, caplog):
    from epagcl.paper.planning.completion import Completed

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
    monkeypatch.setattr("epagcl.paper.planning.completion.complete", completed)
    words = ["--datasets", "cora", "citeseer", "--parts", "views", "--store", tmp_path, "--device", "cpu", "--quiet"]
    code, out, err = run("paper", "complete", *words, "--processes", 3, "--minutes", 1.5)
    assert (code, out.strip()) == (1, "nothing has changed"), err  # a process failed
    ((command, count, logs, seconds),) = started
    assert (count, seconds) == (3, 90.0)
    assert logs.parent == tmp_path / "logs"
    assert logs.name.endswith(f"-{os.getpid()}")
    assert command[:5] == [sys.executable, "-m", "epagcl", "paper", "complete"]
    text = " ".join(command)
    assert "--datasets cora --datasets citeseer --parts views --quiet --compute-only" in text
    assert f"--device cpu --store {tmp_path}" in text
    assert "1 of 3 processes failed; their runs are still missing" in caplog.messages
    assert run(*command[3:])[:2] == (0, "")  # what a process does
    assert run("paper", "complete", "--stored", "--processes", 2)[0] == 0
    assert trained == [False, True, False]
    assert len(started) == 1


def test_a_fresh_store_is_filled_with_all_runs(run, planned, monkeypatch, tmp_path):
    asked, started = [], []
    monkeypatch.setattr("epagcl.paper.planning.plan.plan", lambda *_, **options: asked.append(options) or planned[0])
    planned[0] = replace(planned[0], runs=[replace(planned[0].runs[0], parts=("tuned",))])
    monkeypatch.setattr("epagcl.study.workers.run_workers", lambda command, *_: started.append(command) or 0)
    monkeypatch.setattr("epagcl.paper.planning.completion.complete", lambda *_, **__: None)
    words = ["paper", "complete", "--fresh", "--compute-only", "--parts", "comparison", "--store", tmp_path]
    assert run(*words, "--processes", 3)[:2] == (0, "")
    assert (asked[0]["fresh"], asked[0]["processes"]) == (True, 3)
    assert "--parts comparison --fresh --compute-only" in " ".join(started[0])
    monkeypatch.setenv("EPAGCL_PROCESSES", "3")
    assert run(*started[0][3:])[0] == 0  # what a process does
    assert asked[1] == asked[0]


def test_plan_of_a_complete_study(run, planned):
    planned[0] = replace(planned[0], runs=[], absent={})
    code, out, _ = run("paper", "plan")
    assert (code, out.strip()) == (0, "nothing is missing")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "--results", "nowhere"], "nowhere: no results"),
        (["plan", "--processes", "0"], "--processes 0: at least 1"),
        (["plan", "--parts", "views", "x"], "--parts x: choose from accuracy, heterophily"),
        (["complete", "--results", "nowhere"], "nowhere: no results"),
        (["complete", "--seeds", "0"], "--seeds 0: at least 1"),
        (["complete", "--processes", "0"], "--processes 0: at least 1"),
        (["complete", "--minutes", "-1"], "--minutes -1: must be positive"),
        (["complete", "--fresh", "--parts", "views"], "--fresh: give --compute-only too, which fills a store"),
        (["complete", "--fresh", "--compute-only"], "--parts is missing: with --fresh, choose from accuracy, "),
        (["complete", "--fresh", "--compute-only", "--parts", "views", "tuned"], "--parts tuned: with --fresh, choose"),
    ],
)
def test_mistakes_are_one_line(run, arguments, message):
    assert_refused(run, ["paper", *arguments], message)


def test_two_commands_do_not_change_the_same_results(run, planned, tmp_path):
    from epagcl.core.files import locked

    with locked(tmp_path / ".lock"):
        assert_refused(run, ["paper", "complete", "--results", tmp_path], "another `epagcl paper complete`")
        code, _, err = run("paper", "complete", "--results", tmp_path, "--compute-only", "--stored")
        assert code == 0, err
    assert list(tmp_path.glob(".lock")) == []


def test_times_are_measured_by_one_process_that_is_asked_for_them(run, planned, monkeypatch, tmp_path):
    from epagcl.paper.planning.completion import Completed

    planned[0] = replace(planned[0], runs=[], unmeasured={"burden": ["GREET on Cora"]})
    asked = []
    completed = lambda *_, burden, **__: asked.append(burden) or Completed({}, None)  # noqa: E731
    monkeypatch.setattr("epagcl.paper.planning.completion.complete", completed)
    for words in ((), ("--parts", "burden"), ("--parts", "burden", "--datasets", "cora")):
        code, _, err = run("paper", "complete", "--store", tmp_path, *words)
        assert code == 0, err
    assert asked == [None, (), ("cora",)]
    for words in (("--processes", 2), ("--minutes", 3)):
        message = "--parts burden: times need a machine without other work; omit --processes and --minutes"
        assert_refused(run, ["paper", "complete", "--parts", "burden", *words], message)
