"""A small graph, and a comparison of one row on it."""

import pytest
import torch

from epagcl.data import block_model
from epagcl.evaluation.protocol import Rule
from epagcl.study.comparison import collect, fill
from epagcl.study.design import cells, rows
from epagcl.study.store import Store

#: Settings that train in milliseconds.
SMALL = {"hidden": 8, "dim": 8, "projection": 8, "epochs": 2, "device": "cpu"}


@pytest.fixture(autouse=True)
def short_paper_protocol(monkeypatch):
    """Fit the classifier of the paper's protocol in 20 steps."""
    monkeypatch.setattr("epagcl.evaluation.protocol.PAPER", Rule((0.0,), 20, 1, False, True))


@pytest.fixture(scope="module")
def data():
    """200 nodes of 3 classes, with a published split."""
    graph = block_model(200, num_classes=3, num_features=40, topic_words=15, seed=2)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    for part, nodes in zip(("train", "val", "test"), order.split([40, 60, 100]), strict=True):
        graph[f"{part}_mask"] = torch.zeros(200, dtype=torch.bool).index_fill_(0, nodes, True)
    return graph


def row(name):
    """Return the row of a method."""
    return rows([name])[-1]


def compare(data, name, row, folder, **options):
    """Return the result of one row, computed in the store of a folder."""
    store, (cell,) = Store(folder), cells(data, name, [row], **options)
    fill([cell], store)
    return collect(cell, store)
