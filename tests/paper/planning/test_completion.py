"""A study that is completed in several sittings equals one that is computed at once."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from epagcl.core.errors import InputError
from epagcl.paper import find_artefact
from epagcl.paper.planning import completion
from epagcl.paper.planning import plan as plan_module
from epagcl.paper.planning.completion import Completed, chosen, complete, ordered, write_completed
from epagcl.paper.planning.plan import COMPARISON, MissingRuns, Plan, plan
from epagcl.study.design import rows
from epagcl.study.store import Store
from epagcl.study.summary import read_comparison, summarise
from tests.paper.conftest import cell, result

SEEDS = 3


@pytest.fixture
def study(monkeypatch, request_of):
    """A study of GRACE and the references on the packaged graph with three seeds; return its request."""
    request = request_of(methods=("grace",), protocols=("strict",), runs=SEEDS)
    monkeypatch.setattr(plan_module, "seeds_of", lambda graph: SEEDS)
    monkeypatch.setattr(plan_module, "_request", lambda *_: request)
    return request


def completed(study, results, comparison=None, wanted=(), **options):
    parts = ("accuracy", COMPARISON) if comparison else ("accuracy",)
    found = plan(results, comparison, parts=parts)
    missing = chosen(found, "cpu", wanted)
    return complete(results, comparison, found, missing, study.store, **options)


def accuracies(made):
    return {one["row"]: one["protocols"]["strict"]["accuracy"]["runs"] for one in made["cells"]}


def test_a_result_that_complete_has_begun_names_it_once():
    assert completion._command("epagcl paper choices", "choices") == (
        "epagcl paper choices && epagcl paper complete --parts choices"
    )
    once = "epagcl paper complete --parts choices"
    assert completion._command(once, "choices") == completion._command(f"{once} && {once}", "choices") == once


def test_runs_are_added_to_the_stored_ones(study, tmp_path):
    whole = study.runs_of(study.cells(lambda *_: rows(study.methods)))
    part = result(json.loads(json.dumps(whole["cells"])), datasets=("demo",))
    for one in part["cells"]:  # as if the first sitting had computed one seed
        scores = one["protocols"]["strict"]
        one["seeds"] = scores["seeds"] = [0]
        for spread in (scores[name] for name in ("accuracy", "macro_f1", "validation")):
            spread["runs"] = spread["runs"][:1]
        one["training"] = one["training"] and {name: values[:1] for name, values in one["training"].items()}
    study.store.folder = tmp_path / "new"
    made = completed(study, {"accuracy": part}).results["accuracy"]
    assert accuracies(made) == accuracies(whole)
    assert [one["row"] for one in made["cells"]] == [one["row"] for one in whole["cells"]]
    assert (made["asked"]["runs"], made["asked"]["seeds"]) == (SEEDS, [0, 1, 2])
    assert made["command"] == "epagcl paper x && epagcl paper complete --parts accuracy"
    stored = [json.loads(path.read_text())["key"]["seed"] for path in (tmp_path / "new").rglob("*.json")]
    assert set(stored) == {1, 2}  # the first seed is not computed again
    assert plan({"accuracy": made}, None, parts=("accuracy",)).runs == []


def test_only_some_rows_and_only_stored_runs(study):
    before = {"accuracy": result([cell("GCN", "demo", [50])], datasets=("demo",))}
    assert completed(study, before, train=False) == Completed({}, None)
    made = completed(study, before, wanted=["Raw Features"]).results["accuracy"]
    assert list(accuracies(made)) == ["raw features", "GCN"]


def test_the_first_seeds_of_every_row(study):
    found = plan({"accuracy": result([], datasets=("demo",))}, None, parts=("accuracy",))
    first = chosen(found, "cpu", seeds=2)
    assert [(runs.row, runs.seeds, runs.cell.seeds) for runs in first] == [(one.row, [0, 1], 2) for one in found.runs]
    assert [runs.seeds for runs in chosen(found, "cpu", seeds=9)] == [runs.seeds for runs in found.runs]
    later = replace(found, runs=[replace(found.runs[0], seeds=[2])])
    assert chosen(later, "cpu", seeds=2) == []


def test_a_row_that_does_not_exist_is_refused(study):
    with pytest.raises(InputError, match=r"no row is titled 'GRACY'; choose from .*GRACE"):
        chosen(plan({}, None, parts=("accuracy",)), "cpu", ["grace", "GRACY"])
    assert chosen(Plan([], {"Cora": "data are absent"}, {}), "cpu", ["GRACE"]) == []
    for part in ("tuned", "leakage"):  # which have no cells
        with pytest.raises(InputError, match=r"no row is titled 'GRACY'; choose from .*EPAGCL"):
            chosen(Plan([], {}, {part: []}), "cpu", ["grace", "GRACY"])


def test_a_new_graph_enters_a_result_with_all_its_rows(study):
    empty = {"accuracy": result([], datasets=("demo",))}
    assert completed(study, empty, wanted=["raw features"]) == Completed({}, None)
    assert list(accuracies(completed(study, empty).results["accuracy"]))[-1] == "GRACE"


def test_a_new_graph_needs_only_the_rows_that_are_planned_on_it():
    planned = [SimpleNamespace(name=name, title=title) for name, title in (("a", "x"), ("a", "y"), ("b", "x"))]
    runs = [(one, result([])) for one in planned]
    none = result([])
    assert completion._entering(none, runs, planned) == runs
    assert completion._entering(none, [runs[0], runs[2]], planned) == [runs[2]]  # a lacks y, b needs only x
    present = result([cell("x", "a", [50])], datasets=("a",))
    assert completion._entering(present, [runs[0]], planned) == [runs[0]]


def test_stored_results_with_other_settings_are_replaced(study):
    old = cell("GRACE", "demo", [99, 99], settings={"name": "grace", "lr": 7.0})
    made = completed(study, {"accuracy": result([old], datasets=("demo",))}, wanted=["grace"]).results["accuracy"]
    (only,) = made["cells"]
    assert only["seeds"] == [0, 1, 2]
    assert max(only["protocols"]["strict"]["accuracy"]["runs"]) < 0.99


def test_the_comparison_is_completed_too(study, monkeypatch, tmp_path):
    monkeypatch.setattr(completion, "GRAPHS", ("demo",))
    before = summarise({"demo": []}, command="epagcl compare", seeds=1, protocols=["strict"])
    made = completed(study, {}, before, wanted=["raw features", "propagated"])
    assert made.results == {}
    written = write_completed(made, tmp_path / "paper", Store(tmp_path))
    assert written == [tmp_path / "comparison.json"]
    assert [one["row"] for one in read_comparison(written[0])["results"]["demo"]] == ["raw features", "propagated"]
    assert read_comparison(written[0])["seeds"] == SEEDS


def test_runs_of_one_part_enter_the_others_that_need_them(study, monkeypatch):
    monkeypatch.setattr(completion, "GRAPHS", ("demo",))
    found = study.cells(lambda *_: rows(study.methods))
    [settings] = [one.resolved for one in found if one.title == "GRACE"]
    lent = cell("GRACE", "demo", [10, 20, 30], settings=settings)
    own = cell("GRACE", "demo", [40], settings=settings)
    results = {"accuracy": result([lent], datasets=("demo",))}

    def scores(stored):
        before = summarise({"demo": stored}, command="epagcl compare", seeds=1, protocols=["strict"])
        made = completed(study, results, before, wanted=["grace"], train=False).comparison
        return made and [one["protocols"]["strict"]["accuracy"]["runs"] for one in made["results"]["demo"]]

    assert scores([]) == [[0.1, 0.2, 0.3]]
    assert scores([own]) == [[0.4, 0.2, 0.3]]  # a part keeps its own scores
    assert scores([lent]) is None  # nothing is new
    lent["settings"] = {"name": "grace", "lr": 7.0}
    assert scores([own]) is None


def test_the_tests_of_appendix_e_use_the_runs_of_the_accuracies(study, monkeypatch):
    monkeypatch.setattr(completion, "GRAPHS", ("demo",))
    accuracies = result([cell("EPAGCL", "demo", [80, 81, 82]), cell("GRACE", "demo", [70, 71, 73])], datasets=("demo",))
    tests = {"comparisons": [], "methods": ["GRACE"], "protocols": ["strict"], "command": "epagcl paper significance"}
    results = {"accuracy": accuracies, "significance": {**tests, "asked": {"datasets": ["demo"]}}}
    made = completed(study, results, None, wanted=["grace"], train=False).results["significance"]
    assert [one["theirs"] for one in made["comparisons"]] == [[0.7, 0.71, 0.73]]
    assert made["command"] == "epagcl paper significance && epagcl paper complete --parts accuracy"
    results["significance"] = made
    assert "significance" not in completed(study, results, None, wanted=["grace"], train=False).results


def test_journals_are_packed_with_a_tuned_result(tmp_path, monkeypatch):
    packed = []

    def pack(result_, store, folder):
        packed.append((result_, store.folder, folder, (tmp_path / "paper" / "tuned.json").exists()))
        return [folder / "Cora.tar.xz"]

    monkeypatch.setattr(completion, "pack_journals", pack)
    (tmp_path / "paper").mkdir()
    made = result([])
    written = write_completed(Completed({"tuned": made}, None), tmp_path / "paper", Store(tmp_path / "store"))
    assert written == [tmp_path / "paper" / "tuned.json", tmp_path / "tuning" / "Cora.tar.xz"]
    assert packed == [(made, tmp_path / "store", tmp_path / "tuning", False)]  # before the result is written


def test_results_are_written_to_their_folder(tmp_path):
    made = result([cell("GRACE", "Cora", [80])])
    written = write_completed(Completed({"accuracy": made}, None), tmp_path, Store(tmp_path))
    assert written == [tmp_path / "accuracy.json"]
    assert json.loads((tmp_path / "accuracy.json").read_text()) == made


def test_unknown_graphs_and_rows_come_last():
    cells = [cell(row, graph, [80]) for graph in ("mine", "Cora") for row in ("x", "GRACE", "DGI")]
    places = [(one["graph"]["name"], one["row"]) for one in ordered(cells, ["cora"], ["DGI", "GRACE"])]
    assert places == [
        ("Cora", "DGI"),
        ("Cora", "GRACE"),
        ("Cora", "x"),
        *(("mine", row) for row in ("DGI", "GRACE", "x")),
    ]


@pytest.mark.parametrize("part", ["tuned", "leakage"])
def test_searches_and_models_scored_during_training_are_completed(study, monkeypatch, tmp_path, part):
    """Their own module computes and joins them; the study says which, where, and how."""
    asked = []

    def with_missing(stored, request, titles):
        asked.append((stored, request, titles))
        return {**stored, "cells": ["new"]} if request.train else None

    monkeypatch.setitem(completion.JOBS, part, with_missing)
    before = result([], datasets=("demo",))
    runs = [
        MissingRuns((part,), graph, row, [0, 1], 5, 2.0, "", "", None)
        for graph, row in (("demo", "GRACE"), ("Cora", "GCA"))
    ]
    found = Plan(runs, {}, {part: []})
    missing = chosen(found, "cpu", ["grace", "gca"])
    assert missing == runs
    first = [one.seeds for one in chosen(found, "cpu", seeds=1)]
    assert first == ([[0, 1]] * 2 if part == "tuned" else [[0]] * 2)  # a search serves several seeds
    options = {"device": "cpu", "root": tmp_path}
    made = complete({part: before}, None, found, missing, study.store, **options).results[part]
    ((stored, request, titles),) = asked
    assert (stored, titles) == (before, {"GRACE", "GCA"})
    assert (request.datasets, request.device, request.root) == (("demo", "Cora"), "cpu", tmp_path)
    assert (request.methods, request.runs) == (find_artefact(part).methods, 2)
    assert (made["cells"], made["command"]) == (["new"], f"epagcl paper x && epagcl paper complete --parts {part}")
    assert complete({part: before}, None, found, missing, study.store, train=False).results == {}
    assert complete({}, None, found, missing, study.store).results == {}  # no result to join with
