"""Small requests, and results that are made up."""

import pytest

from epagcl import evaluation
from epagcl.evaluation.protocol import Rule
from epagcl.evaluation.scores import spread
from epagcl.paper.artefact import Request
from epagcl.study.store import Store

SMALL = {"hidden": 8, "dim": 8, "projection": 8, "epochs": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def request_(tmp_path_factory):
    """A request whose store lives as long as a file of tests."""
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
    """A request on the packaged graph, with a short form of the paper's protocol."""
    monkeypatch.setattr(evaluation, "PAPER", Rule((0.0,), 20, 1, False, True))

    def make(**options):
        asked = {"datasets": ("demo",), "methods": ("epagcl",), "runs": 2, "protocols": ("strict", "paper")}
        return Request(**{**asked, "store": Store(tmp_path / "store"), "settings": dict(SMALL), **options})

    return make


def cell(row, graph, runs, protocol="strict", **more):
    """A row on a graph as the comparison gives it, with accuracies of the seeds 0, 1, ... in percent."""
    shares = [run / 100 for run in runs]
    seeds = list(range(len(runs)))
    found = {"accuracy": spread(shares), "macro_f1": spread(shares)}
    scores = {"protocol": protocol, "split": "random 10/10/80", "seeds": seeds, **found}
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
    """What an artefact that is made of such cells measures."""
    asked = {"datasets": list(datasets), "protocols": list(protocols)}
    made = {"command": "epagcl paper x", "date": "2026-01-01T", "commit": "c", "hardware": {"device": "cpu"}}
    return {**made, "asked": asked, "cells": cells, "absent": absent or {}, **more}
