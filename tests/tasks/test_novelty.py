"""The novelty of the new nodes of a grown graph."""

import pytest
import torch
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.data import block_model
from epagcl.tasks.novelty import check_same_nodes, novelty


@pytest.fixture(scope="module")
def data():
    return block_model(600, num_classes=2, num_features=60, topic_words=15, words_per_node=10)


def test_nodes_of_a_new_class_are_novel_by_their_share(data):
    many = novelty(data, data.y == 1)
    assert 0.4 < many <= 0.5
    fewer = torch.cat([(data.y == 0).nonzero().flatten(), (data.y == 1).nonzero().flatten()[:60]])
    dense = data.clone()
    dense.x = data.x.to_dense()
    part = dense.subgraph(fewer)
    few = novelty(part, part.y == 1)
    assert 0.1 < few <= 60 / 360


def test_more_nodes_of_the_same_kind_are_not_novel(data):
    assert novelty(data, range(300, 600)) < 0.1
    assert novelty(data, torch.arange(540, 600)) < 0.05


@pytest.mark.parametrize(
    "new",
    [[], torch.zeros(600, dtype=torch.bool), [3], list(range(595))],
    ids=["none", "empty mask", "one", "nearly all"],
)
def test_too_few_nodes_tell_nothing(data, new):
    assert novelty(data, new) == 0


def test_the_graph_must_be_that_of_the_embedding():
    with pytest.raises(InputError, match="data= has 3 nodes for 2 embeddings"):
        check_same_nodes(Data(num_nodes=3), 2)


@pytest.mark.parametrize(
    ("new", "reason"),
    [([1.5], "give a list of node numbers, or a mask"), ([600], "600 is no node"), (torch.ones(3) > 0, "give a list")],
    ids=["fraction", "number", "mask"],
)
def test_errors_name_the_argument(data, new, reason):
    with pytest.raises(InputError, match=f"^new=: {reason}"):
        novelty(data, new)


def test_nodes_are_compared_with_those_of_their_kind(data):
    """More nodes of one of two kinds are not novel, though they are unlike the other kind."""
    mixed = data.clone()
    new = (data.y == 1) & (torch.arange(600) % 3 == 0)
    assert novelty(mixed, new) > 0.06
    mixed.node_type = data.y
    assert novelty(mixed, new) < 0.03
    assert novelty(mixed, data.y == 1) == pytest.approx(float((data.y == 1).double().mean()))
