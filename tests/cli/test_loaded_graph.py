"""The graph that the command line names."""

from pathlib import Path

import pytest

import epagcl
from epagcl.cli.loaded_graph import graph_of
from epagcl.core.errors import InputError


def test_a_named_graph_has_a_recipe_and_no_source():
    graph = graph_of("demo", None)
    assert (graph.name, graph.source, graph.recipe_name) == ("demo", {}, "demo")


def test_a_file_is_its_source(tmp_path):
    path = tmp_path / "mine.npz"
    epagcl.data.write_npz(epagcl.data.block_model(30, num_features=8, topic_words=3), path)
    graph = graph_of(str(path), None)
    assert (graph.name, graph.source, graph.recipe_name) == ("mine", {"file": str(path)}, None)


def test_tables_of_a_named_graph_are_refused():
    with pytest.raises(InputError, match=r"^demo is a named graph; leave out --edges$"):
        graph_of("demo", None, edges=Path("e.csv"))
    with pytest.raises(InputError, match=r"^no graph given; name one"):
        graph_of(None, None)
