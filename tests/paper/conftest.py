"""Small requests, and invented results."""

import pytest

from epagcl.evaluation.protocol import Rule
from epagcl.evaluation.scores import spread
from epagcl.paper.artefact import Request
from epagcl.study.store import Store

SMALL = {"hidden": 8, "dim": 8, "projection": 8, "epochs": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def request_(tmp_path_factory):
    """A request whose store is shared by the tests of a module."""
    return Request(
        datasets=("demo",),
        methods=("epagcl",),
        runs=2,
        protocols=("strict", "paper"),
        store=Store(tmp_path_factory.mktemp("store")),
        settings={**SMALL, "epochs": 4, "hidden": 16},
    )


@pytest.fixture
def request_of(tmp_path, monkeypatch):
    """A request for the packaged graph, with classifiers of few steps and penalties."""
    monkeypatch.setattr("epagcl.evaluation.protocol.PAPER", Rule((0.0,), 20, 1, False, True))
    monkeypatch.setattr("epagcl.evaluation.protocol.STRICT", Rule((0.1, 0.01), 40, 20, True, False))

    def make(**options):
        defaults = {"datasets": ("demo",), "methods": ("epagcl",), "runs": 2, "protocols": ("strict", "paper")}
        return Request(**{**defaults, "store": Store(tmp_path / "store"), "settings": dict(SMALL), **options})

    return make


def cell(row, graph, runs, protocol="strict", **more):
    """Return the result of a row on a graph, given the accuracies of the seeds 0, 1, ... in percent."""
    shares = [run / 100 for run in runs]
    seeds = list(range(len(runs)))
    spreads = {"accuracy": spread(shares), "macro_f1": spread(shares)}
    scores = {"protocol": protocol, "split": "random 10/10/80", "seeds": seeds, **spreads}
    return {
        "row": row,
        "graph": {"name": graph, "nodes": 100, "edges": 200},
        "named": True,
        "source": "ours",
        "settings": {"name": "epagcl"},
        "seeds": seeds,
        "code": "c",
        "hardware": ["H200"],
        "dates": ["2026-01-01"],
        "commits": ["abcdefgh"],
        "training": {"epochs": [10] * len(runs), "seconds": [1.0] * len(runs)},
        "protocols": {protocol: scores},
        **more,
    }


def result(cells, absent=None, datasets=("Cora",), protocols=("strict",), **more):
    """Return the result of an artefact that consists of such cells."""
    asked = {"datasets": list(datasets), "protocols": list(protocols)}
    origin = {"command": "epagcl paper x", "date": "2026-01-01T", "commit": "c", "hardware": {"device": "cpu"}}
    return {**origin, "asked": asked, "cells": cells, "absent": absent or {}, **more}


def stored(one, seeds, seconds=2.0, **more):
    """Return the result of a cell of a study, with its settings and times."""
    epochs = one.models[0].epochs if one.models else 0
    training = {"epochs": [epochs] * seeds, "seconds": [seconds] * seeds}
    made = cell(one.title, one.name, [80.0] * seeds, settings=one.resolved, training=training, **more)
    return made | {"graph": one.about}


def demo():
    """Return the packaged graph and its name."""
    import epagcl

    return epagcl.load("demo"), "demo"
