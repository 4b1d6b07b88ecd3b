"""A search on a small graph."""

import pytest

import epagcl

SMALL = {"epochs": 4, "hidden": 8, "dim": 6, "projection": 6, "device": "cpu"}
SPACE = {"lr": (1e-3, 1e-1, "log"), "p_drop": (0.0, 0.8)}


@pytest.fixture
def graph(tuning_graph):
    return tuning_graph


@pytest.fixture
def small():
    """Settings that train in milliseconds."""
    return dict(SMALL)


@pytest.fixture
def tune(graph, small):
    """Search on the small graph."""

    def call(**options):
        return epagcl.tune(graph, **{"trials": 4, "seeds": 1, "space": SPACE, "test": False, **small, **options})

    return call


def rows(result):
    """Return the trials without their times, which must be reproduced exactly."""
    return [{key: value for key, value in row.items() if key != "seconds"} for row in result.trials]


def by_lr(model):
    """Return a score with its optimum at lr = 0.02."""
    return 1 - abs(model.lr - 0.02)
