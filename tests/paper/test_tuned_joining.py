"""Searches that are computed later join the result as if all had been computed at once."""

import copy

import pytest

from epagcl.paper import tuned, tuned_joining
from epagcl.paper.tuned import searches
from epagcl.paper.tuned_joining import with_missing
from epagcl.paper.tuned_tables import OUTER, SEEDS, missing_searches
from epagcl.study.store import Store


@pytest.fixture
def invented(monkeypatch):
    """Invent the records of searches; return the list of those that were computed."""
    computed = []

    def observe(request, name, data, row, outer):
        computed.append((row, outer))
        runs = [0.5 + 0.1 * outer + 0.01 * k for k in range(SEEDS)]
        record = {"accuracy": runs, "hardware": {"device": f"device {outer}"}, "commit": "c"}
        if row not in ("raw features", "propagated"):
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


def test_a_graph_enters_when_all_its_searches_are_done(whole, invented, request_of, tmp_path):
    empty = {**whole, "cells": [], "asked": {**whole["asked"], "datasets": []}}
    begun = with_missing(empty, later(request_of, tmp_path), {"GRACE"})
    assert (begun["cells"], begun["asked"]["datasets"]) == ([], [])  # DGI is missing
    assert [cell["row"] for cell in begun["incomplete"]] == ["raw features", "propagated", "GRACE"]
    assert {title: len(outer) for title, outer in missing_searches(begun, "demo").items()}.keys() >= {"DGI"}
    assert "GRACE" not in missing_searches(begun, "demo")
    fresh = request_of(methods=("grace", "dgi"), protocols=("strict",), store=Store(tmp_path / "another sitting"))
    made = with_missing(begun, fresh, {"DGI"})
    assert len(invented) == len(searches(fresh)) == 4 * len(OUTER)  # none is computed twice
    assert {cell["row"]: cell for cell in made["cells"]} == {cell["row"]: cell for cell in whole["cells"]}
    assert (made["asked"]["datasets"], made["incomplete"]) == (["demo"], [])


def test_nothing_is_computed_without_training(whole, invented, request_of, tmp_path):
    empty = {**whole, "cells": []}
    assert with_missing(empty, later(request_of, tmp_path, train=False), {"GRACE", "DGI"}) is None
    assert invented == []
