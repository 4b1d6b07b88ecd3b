"""Downloads are compared with the graphs that results were measured on."""

import os
from pathlib import Path

import pytest

from epagcl.data import load
from epagcl.data.catalogue import CATALOGUE
from epagcl.data.catalogue.known import check_download, content_digest, known_digests

NAMES = sorted(known_digests())


def test_the_digests_are_of_named_graphs_with_their_sizes():
    entries = {entry.name: entry for entry in CATALOGUE.values()}
    assert len(NAMES) > 10
    for name, digest in known_digests().items():
        entry, (nodes, edges, features, *_) = entries[name], digest.split("-")
        assert (int(nodes), int(features)) == (entry.nodes, entry.features)
        assert int(edges) == entry.edges or not entry.edges_known


@pytest.mark.parametrize("name", ["Cora", "Texas"])
def test_the_files_have_these_digests(name):
    if not Path(os.environ.get("EPAGCL_DATA", ""), f"{name}.npz").is_file():
        pytest.skip("needs EPAGCL_DATA")
    assert content_digest(load(name)) == known_digests()[name]


def test_a_download_that_differs_is_told(caplog):
    data = load("demo")
    with caplog.at_level("INFO", logger="epagcl"):
        check_download("demo", data)
        assert caplog.text == ""
        check_download("other", data)
        assert "other: no digest of its content is known" in caplog.messages[0]
        data.y[0] = (data.y[0] + 1) % 7
        check_download("demo", data)
    assert caplog.records[1].levelname == "WARNING"
    assert "demo: the download differs from the graph that our results were measured on (2700-5016-1400-" in caplog.text
