"""Searches that are computed later join the result as if all had been computed at once."""

import copy

import pytest

from epagcl.core.errors import TrainingError
from epagcl.paper.tuned import artefact as tuned
from epagcl.paper.tuned import joining as tuned_joining
from epagcl.paper.tuned.artefact import searches
from epagcl.paper.tuned.budget import SEEDS, outer_sets
from epagcl.paper.tuned.cells import missing_searches
from epagcl.paper.tuned.joining import with_missing
from epagcl.runs.evaluation import PROPAGATED, RAW
from epagcl.study.store import Store


@pytest.fixture
def invented(monkeypatch):
    """Invent the records of searches; return the list of those that were computed."""
    computed = []

    def observe(request, name, data, row, outer):
        computed.append((row, outer))
        runs = [0.5 + 0.1 * outer + 0.01 * k for k in range(SEEDS)]
        record = {"accuracy": runs, "hardware": {"device": f"device {outer}"}, "commit": "c"}
        if row not in (RAW, PROPAGATED):
            record |= {"untrained": runs[::-1], "settings": {"epochs": 3}, "trials": [{"validation": 0.5}]}
        return record

    monkeypatch.setattr(tuned, "observe", observe)
    monkeypatch.setattr(tuned_joining, "GRAPHS", ("demo", "Cora"))
    return computed


@pytest.fixture
def whole(invented, request_of, tmp_path):
    """The result of all searches at once."""
    made = tuned.ARTEFACT.make(request_of(methods=("grace", "dgi"), protocols=("strict",)), "epagcl paper tuned")
    invented.clear()
    return made


def later(request_of, tmp_path, **options):
    """A request with a store of its own."""
    return request_of(methods=("grace", "dgi"), protocols=("strict",), store=Store(tmp_path / "later"), **options)


def test_missing_outer_sets_are_computed_and_joined(whole, invented, request_of, tmp_path):
    part = copy.deepcopy(whole)
    for cell in part["cells"]:
        if cell["row"] == "GRACE":
            cell["searches"] = cell["searches"][:1]
            cell["hardware"] = ["device 0"]
            for scores in (cell["protocols"]["strict"], cell["untrained"]):
                scores["seeds"], scores["accuracy"]["runs"] = (
                    scores["seeds"][:SEEDS],
                    scores["accuracy"]["runs"][:SEEDS],
                )
    made = with_missing(part, later(request_of, tmp_path), {"GRACE"})
    assert invented == [("grace", 1)]
    assert {cell["row"]: cell for cell in made["cells"]} == {cell["row"]: cell for cell in whole["cells"]}
    assert with_missing(whole, later(request_of, tmp_path), {"GRACE"}) is None


def test_a_search_that_started_elsewhere_is_replaced(whole, invented, request_of, tmp_path):
    stale = copy.deepcopy(whole)
    (cell,) = (cell for cell in stale["cells"] if cell["row"] == "DGI")
    cell["searches"][1]["trials"] = [{"validation": 0.9, "settings": {"lr": 0.5}}]
    cell["protocols"]["strict"]["accuracy"]["runs"][SEEDS:] = [0.0] * SEEDS
    assert missing_searches(stale, "demo")["DGI"] == [1]
    unchanged = with_missing(stale, later(request_of, tmp_path, train=False), {"DGI"})
    assert unchanged is None  # until there is a new one
    made = with_missing(stale, later(request_of, tmp_path), {"DGI"})
    assert invented == [("dgi", 1)]
    assert {cell["row"]: cell for cell in made["cells"]} == {cell["row"]: cell for cell in whole["cells"]}
    assert missing_searches(made, "demo").get("DGI") is None


def test_a_graph_enters_when_all_its_searches_are_done(whole, invented, request_of, tmp_path):
    empty = {**whole, "cells": [], "asked": {**whole["asked"], "datasets": []}}
    begun = with_missing(empty, later(request_of, tmp_path), {"GRACE"})
    assert (begun["cells"], begun["asked"]["datasets"]) == ([], [])  # DGI is missing
    assert [cell["row"] for cell in begun["incomplete"]] == [RAW, PROPAGATED, "GRACE"]
    assert {title: len(outer) for title, outer in missing_searches(begun, "demo").items()}.keys() >= {"DGI"}
    assert "GRACE" not in missing_searches(begun, "demo")
    fresh = request_of(methods=("grace", "dgi"), protocols=("strict",), store=Store(tmp_path / "another sitting"))
    made = with_missing(begun, fresh, {"DGI"})
    assert len(invented) == len(searches(fresh)) == 4 * len(outer_sets("demo"))  # none is computed twice
    assert {cell["row"]: cell for cell in made["cells"]} == {cell["row"]: cell for cell in whole["cells"]}
    assert (made["asked"]["datasets"], made["incomplete"]) == (["demo"], [])


def test_nothing_is_computed_without_training(whole, invented, request_of, tmp_path):
    empty = {**whole, "cells": []}
    assert with_missing(empty, later(request_of, tmp_path, train=False), {"GRACE", "DGI"}) is None
    assert invented == []


def test_tables_have_the_outer_sets_that_all_rows_have(whole, invented, request_of, tmp_path, monkeypatch):
    monkeypatch.setattr(tuned, "outer_sets", lambda graph: range(4))
    made = with_missing(whole, later(request_of, tmp_path), {"GRACE"})
    assert sorted(invented) == sorted((row, outer) for row in (RAW, PROPAGATED, "grace") for outer in (2, 3))
    assert made["cells"] == whole["cells"]  # DGI has two test sets
    assert {cell["row"]: cell["protocols"]["strict"]["seeds"] for cell in made["incomplete"]} == {
        key: list(range(2 * SEEDS, 4 * SEEDS)) for key in [RAW, PROPAGATED, "GRACE"]
    }
    invented.clear()
    made = with_missing(made, later(request_of, tmp_path / "another sitting"), {"DGI"})
    assert sorted(invented) == [("dgi", 2), ("dgi", 3)]
    assert made["incomplete"] == []
    every = tuned.ARTEFACT.make(later(request_of, tmp_path / "at once"), "epagcl paper tuned")
    assert {cell["row"]: cell for cell in made["cells"]} == {cell["row"]: cell for cell in every["cells"]}
    (cell,) = (cell for cell in made["cells"] if cell["row"] == "DGI")
    assert cell["protocols"]["strict"]["split"] == "random 10/10/80, 4 outer test sets"
    assert [search["outer"] for search in cell["searches"]] == [0, 1, 2, 3]
    assert (made["asked"]["runs"], made["asked"]["seeds"]) == (4 * SEEDS, list(range(4 * SEEDS)))


@pytest.fixture
def failing(monkeypatch, invented):
    """Let the searches of a method fail on some outer test sets, of which a graph has four."""
    monkeypatch.setattr(tuned, "outer_sets", lambda graph: range(4))
    observe, fails = tuned.observe, set()

    def sometimes(request, name, data, row, outer):
        if (row, outer) in fails:
            raise TrainingError("collapsed")
        return observe(request, name, data, row, outer)

    monkeypatch.setattr(tuned, "observe", sometimes)
    return fails


def sets_of(cells):
    return {cell["row"]: sorted({seed // SEEDS for seed in cell["protocols"]["strict"]["seeds"]}) for cell in cells}


def test_a_row_with_fewer_test_sets_limits_the_others(failing, request_of, tmp_path):
    failing.add(("dgi", 3))
    made = tuned.ARTEFACT.make(later(request_of, tmp_path), "epagcl paper tuned")
    rows = [RAW, PROPAGATED, "GRACE", "DGI"]
    assert sets_of(made["cells"]) == {key: [0, 1, 2] for key in rows}
    assert sets_of(made["incomplete"]) == {key: [3] for key in rows[:3]}
    failing.clear()
    made = with_missing(made, later(request_of, tmp_path / "another sitting"), {"DGI"})
    assert sets_of(made["cells"]) == {key: [0, 1, 2, 3] for key in rows}


def test_a_new_row_with_fewer_test_sets_leaves_the_rest_for_later(failing, request_of, tmp_path):
    made = tuned.ARTEFACT.make(later(request_of, tmp_path), "epagcl paper tuned")
    failing |= {("gmi", 2), ("gmi", 3)}
    options = {"protocols": ("strict",), "store": Store(tmp_path / "another sitting")}
    made = with_missing(made, request_of(methods=("grace", "dgi", "gmi"), **options), {"GMI"})
    rows = [RAW, PROPAGATED, "GRACE", "DGI"]
    assert sets_of(made["cells"]) == {key: [0, 1] for key in [*rows, "GMI"]}
    assert sets_of(made["incomplete"]) == {key: [2, 3] for key in rows}


def test_a_method_that_fails_everywhere_is_no_row(failing, request_of, tmp_path):
    failing |= {("dgi", outer) for outer in range(4)}
    made = tuned.ARTEFACT.make(later(request_of, tmp_path), "epagcl paper tuned")
    assert sets_of(made["cells"]) == {key: [0, 1, 2, 3] for key in [RAW, PROPAGATED, "GRACE"]}
