"""Catalogue entries of the size of small graphs, and no network."""

import urllib.request
from dataclasses import replace

import pytest
import torch_geometric.io
from torch_geometric.data import Data

from epagcl.data.catalogue.entries import CATALOGUE, find


@pytest.fixture
def small(monkeypatch):
    """Return a function that gives a catalogue entry the size of a small graph."""

    def small(name: str, data: Data) -> None:
        entry = find(name)
        size = {
            "nodes": data.num_nodes,
            "edges": data.num_nodes + 3,
            "features": data.x.shape[1],
            "classes": 3,
        }
        if entry.download_features is not None:
            size["download_features"] = size["features"]
        monkeypatch.setitem(CATALOGUE, entry.name.lower(), replace(entry, **size))

    return small


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(torch_geometric.io.fs, "cp", refuse)
