"""The table of nodes, and the map with the columns to colour it by."""

import numpy as np
import pandas as pd
import pytest
import torch

from epagcl.data import block_model
from epagcl.report import nodes
from epagcl.report.nodes import (
    class_name,
    column_content,
    map_content,
    node_table,
    without_apostrophes,
    write_nodes,
)


@pytest.fixture(scope="module")
def data():
    data = block_model(80, num_classes=3, num_features=30, topic_words=8, seed=1)
    data.node_ids = np.array([f"n{k}" for k in range(80)], dtype=object)
    data.label_names = ["ape", "bee", "cat"]
    return data


def test_clusters_find_groups_and_are_numbered_by_size():
    y = torch.tensor([0] * 5 + [1] * 20 + [2] * 10)
    data = block_model(35, num_classes=3, num_features=10, topic_words=3, words_per_node=2, seed=0)
    data.y = y
    table = node_table(data, torch.eye(3)[y])
    assert table["cluster"].tolist() == [3] * 5 + [1] * 20 + [2] * 10


def test_few_named_features_are_columns(data):
    named = data.clone()
    named.x, named.feature_names = torch.rand(80, 4), ["age", "degree", "x", "map_x"]
    table = node_table(named, torch.rand(80, 4))
    assert table["age"].tolist() == named.x[:, 0].tolist()
    # A second "degree" would hide the first, and nodes.csv has its own map_x.
    assert list(table.columns) == ["id", "label", "degree", "cluster", "age", "x"]


def test_a_very_large_graph_is_sampled(monkeypatch, data):
    monkeypatch.setattr(nodes, "MAX_MAP_NODES", 20)
    z = torch.rand(80, 4, generator=torch.Generator().manual_seed(0))
    map_ = map_content(z, node_table(data, z), "pca", 0)
    assert map_["nodes"] == 80
    assert len(map_["ids"]) == len(map_["x"]) == 20
    assert max(map_["neighbours"]) < 20  # positions in the sample
    assert "a sample of 80" in map_["note"]
    place = map_["ids"].index(map_["ids"][7])
    number = int(map_["ids"][7][1:])
    assert map_["columns"][1]["values"][place] == torch.bincount(data.edge_index[0], minlength=80)[number]


@pytest.mark.parametrize(
    ("values", "kind", "written"),
    [
        ([0.5, None, 2.0], "number", [0.5, None, 2.0]),
        (["b", None, "a"], "category", [0, -1, 1]),
        ([True, False, True], "category", [0, 1, 0]),
        ([np.inf, 1.0, -np.inf], "number", [None, 1.0, None]),  # JSON has no infinities
        ([2**60, 2**60 + 1, 2**60], "category", [0, 1, 0]),  # JavaScript would round them
    ],
)
def test_numbers_stay_numbers_and_other_values_become_levels(values, kind, written):
    column = column_content(pd.Series(values, name="c"))
    assert column["kind"] == kind
    assert column["values"] == written


def test_text_with_too_many_values_is_not_offered_for_colouring():
    assert column_content(pd.Series([f"v{k}" for k in range(200)], name="c"))["colour"]
    assert not column_content(pd.Series([f"v{k}" for k in range(201)], name="c"))["colour"]
    assert column_content(pd.Series([f"v{k}" for k in range(201)], name="label"))["colour"]


def test_numeric_labels_are_in_numeric_order():
    column = column_content(pd.Series(["10", "9", "0", None], name="label"))
    assert column["levels"] == ["0", "9", "10"]
    assert column["values"] == [2, 1, 0, -1]


def test_a_column_that_spans_decades_is_logarithmic():
    assert column_content(pd.Series([1.0, 2.0, 1.0, 900.0], name="c"))["log"]
    assert not column_content(pd.Series([1.0, 2.0, 3.0], name="c"))["log"]
    assert not column_content(pd.Series([-1.0, 2.0, 1.0, 900.0], name="c"))["log"]


def test_a_column_of_labels_without_any_label():
    empty = column_content(pd.Series([None, None], name="label", dtype=object))
    assert (empty["levels"], empty["values"]) == ([], [-1, -1])
    odd = column_content(pd.Series(["²", "9" * 5000], name="label"))  # digits that are no number, and a long one
    assert odd["values"] == [0, 1]


def test_classes_without_a_name_keep_their_number():
    assert [class_name(names, 1) for names in (None, ["a"], ["a", "b"])] == ["1", "1", "b"]
    assert class_name(["a"], "text") == "text"


def test_the_table_of_nodes_is_read_back(tmp_path):
    nodes = pd.DataFrame({"id": ["=1", "-2", "a"], "label": ["@x", None, "y"], "+f": [1.5, 2, 3]})
    write_nodes(nodes, tmp_path / "nodes.csv")
    assert (tmp_path / "nodes.csv").read_text().splitlines() == ["id,label,'+f", "'=1,'@x,1.5", "-2,,2.0", "a,y,3.0"]
    back = without_apostrophes(pd.read_csv(tmp_path / "nodes.csv", dtype={"id": str}))
    assert back.columns.tolist() == ["id", "label", "+f"]
    assert back["id"].tolist() == ["=1", "-2", "a"]
    assert back["label"].tolist()[0] == "@x"
