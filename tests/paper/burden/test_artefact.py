"""The burden artefact: a small measurement, its tables, figures and text."""

import json
from dataclasses import replace

import pytest

from epagcl.core.errors import InputError, MissingFeatures
from epagcl.data import load
from epagcl.paper.artefact import Request
from epagcl.paper.burden import artefact as burden
from epagcl.paper.burden.artefact import ARTEFACT, Subject, costs
from epagcl.paper.burden.reading import encoder_pass
from epagcl.study.store import Store

SMALL = {"hidden": 16, "dim": 8, "projection": 12, "batch_size": 128}


def test_absent_features_are_replaced_by_random_ones(monkeypatch):
    def without(name, root, features=True):
        if features:
            raise MissingFeatures("none")
        data = load(name)
        data.x = None
        return data

    monkeypatch.setattr(burden, "load", without)
    subject = Subject.from_name("demo", None)
    assert subject.sizes()["feature_entries"] == 2700 * 1400
    assert "random features" in subject.note
    assert subject.graph.fingerprint == Subject.from_name("demo", None).graph.fingerprint


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    settings = {"device": "cpu", "epochs": 2, **SMALL}
    store = Store(tmp_path_factory.mktemp("store"))
    request = Request(("demo",), ("grace", "gca*", "epagcl"), 1, ("strict",), store, settings)
    return request, json.loads(json.dumps(ARTEFACT.measure(request)))


@pytest.mark.slow
def test_a_measurement_is_complete_and_stored(measured, monkeypatch):
    request, result = measured
    assert [cell["method"] for cell in result["cells"]] == ["GRACE", "GCA", "EPAGCL"]
    for cell in result["cells"]:
        assert 0 <= cell["seconds_before"] < 5
        assert 0 < cell["seconds_per_epoch"] < 5
        assert 0 <= cell["gib"] < 2
        assert cell["settings"]["hidden"] == 16
        # An epoch takes more than one pass of the encoder.
        assert 1 < cell["flops"] / encoder_pass(result["graphs"]["demo"], 16, 8) < 100
    monkeypatch.setattr(costs, "burden", None)
    monkeypatch.setattr(costs, "flops", None)
    assert json.loads(json.dumps(ARTEFACT.measure(request))) == result  # read from the store


def test_damaged_records_are_measured_again(tmp_path, monkeypatch):
    record = {"seconds_before": 1.0, "seconds_per_epoch": 2.0, "gib": None, "captured": False}
    monkeypatch.setattr(costs, "burden", lambda *_: record)
    monkeypatch.setattr(costs, "flops", lambda *_: 7)
    options = {"settings": {"device": "cpu", "epochs": 2, **SMALL}}
    request = Request(("demo",), ("grace",), 1, ("strict",), Store(tmp_path), **options)
    (whole,) = ARTEFACT.measure(request)["cells"]
    assert (whole["seconds_per_epoch"], whole["flops"]) == (2.0, 7)
    for path in tmp_path.rglob("*.json"):
        path.write_text(json.dumps({"key": json.loads(path.read_text())["key"]}))
    stored = Request(("demo",), ("grace",), 1, ("strict",), Store(tmp_path), train=False, **options)
    with pytest.raises(InputError, match="no stored results"):
        ARTEFACT.measure(stored)
    (again,) = ARTEFACT.measure(request)["cells"]
    assert (again["seconds_per_epoch"], again["flops"]) == (2.0, 7)


def test_tables_figures_and_text_of_a_small_measurement(measured, tmp_path):
    _, result = measured
    (table,) = ARTEFACT.tables(result)
    assert table.columns[:3] == ["method", "demo: pre-processing, s", "demo: FLOPs an epoch"]
    assert [str(row[0]) for row in table.rows] == ["GRACE", "GCA", "EPAGCL"]
    words = " ".join(ARTEFACT.reading(result))
    assert "demo: compared with GCA, EPAGCL has" in words
    assert "–: not measured on this hardware" in table.note
    assert all(path.stat().st_size > 5000 for path in ARTEFACT.draw(result, tmp_path))


def test_nothing_measured_gives_an_empty_table():
    nothing = {"cells": [], "graphs": {}, "absent": {"Cora": "data are absent"}}
    (table,) = ARTEFACT.tables(nothing)
    assert table.rows == []
    assert ARTEFACT.reading(nothing)
    assert ARTEFACT.figures(nothing)


def test_missing_times_are_joined_with_a_result(tmp_path, monkeypatch):
    record = {"seconds_before": 1.0, "seconds_per_epoch": 2.0, "gib": None, "captured": False}
    asked = []
    monkeypatch.setattr(costs, "burden", lambda cls, *_: asked.append(cls.name) or record)
    monkeypatch.setattr(costs, "flops", lambda *_: 7)
    options = {"settings": {"device": "cpu", "epochs": 2, **SMALL}}
    request = Request(("demo",), ("grace", "gca"), 1, ("strict",), Store(tmp_path), **options)
    whole = ARTEFACT.measure(request)
    grace, gca = whole["cells"]
    assert burden.with_missing(whole, request) is None
    lacking = {**whole, "cells": [grace, {**gca, "hardware": None}]}
    stored = replace(request, store=Store(tmp_path / "new"), train=False)
    assert burden.with_missing(lacking, stored) is None  # nothing is stored there
    assert burden.with_missing(lacking, replace(request, datasets=("Cora",))) is None
    asked.clear()
    joined = burden.with_missing(lacking, replace(stored, train=True))
    assert asked == ["gca"]
    assert joined["cells"][0] == grace
    assert (joined["cells"][1]["hardware"], joined["cells"][1]["seconds_per_epoch"]) == (gca["hardware"], 2.0)


def test_a_graph_that_is_absent_does_not_end_the_others(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(costs, "burden", lambda *_: {"seconds_before": 1.0, "seconds_per_epoch": 2.0, "gib": None})
    monkeypatch.setattr(costs, "flops", lambda *_: 7)
    options = {"settings": {"device": "cpu", "epochs": 2, **SMALL}}
    request = Request((), ("grace",), 1, ("strict",), Store(tmp_path), root=tmp_path, **options)
    lacking = [
        {"graph": name, "method": "GRACE", "hardware": None, "settings": {"name": "grace"}} for name in ("Cora", "demo")
    ]
    joined = burden.with_missing({"cells": lacking}, request)
    assert [cell["hardware"] is None for cell in joined["cells"]] == [True, False]
    assert "Cora: skipped" in caplog.text
