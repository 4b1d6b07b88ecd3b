"""Weights of edges in every method."""

import pytest
import torch

import epagcl
from epagcl.data import block_model
from tests.methods.test_all import create, every_method

#: Methods that weight the edges themselves.
UNWEIGHTED = {"greet", "gat"}


@pytest.fixture(scope="module")
def data():
    return block_model(40, num_classes=3, num_features=12, topic_words=4, words_per_node=3)


def weighted(data, weight):
    """Return the graph with weights that are equal in both directions of an edge."""
    data = data.clone()
    i, j = data.edge_index.sort(dim=0).values
    data.edge_weight = weight(i, j)
    return data


def varied(i, j):
    return 0.2 + ((7 * i + 3 * j) % 5).float()


@every_method
def test_equal_weights_change_no_bit(name, data):
    plain = create(name).fit_embed(data)
    assert torch.equal(create(name).fit_embed(weighted(data, lambda i, j: torch.full(i.shape, 3.0))), plain)


@every_method
def test_weights_matter_unless_the_method_says_that_it_does_not_use_them(name, data, caplog):
    plain, other = create(name).fit_embed(data), create(name).fit_embed(weighted(data, varied))
    warnings = [record.getMessage() for record in caplog.records if "edge weights" in record.getMessage()]
    if name in UNWEIGHTED:
        assert torch.equal(other, plain)
        assert len(warnings) == 1
        assert warnings[0].startswith(f"{epagcl.method(name).title} does not use edge weights")
    else:
        assert not torch.allclose(other, plain)
        assert warnings == []


@every_method
def test_the_unit_of_the_weights_does_not_matter(name, data):
    one, other = (weighted(data, lambda i, j, f=f: f * varied(i, j)) for f in (1.0, 1024.0))
    assert torch.equal(create(name).fit_embed(one), create(name).fit_embed(other))


def test_a_light_edge_is_nearly_no_edge(data):
    pairs = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    without = data.clone()
    without.edge_index = pairs[:, 1:]
    light = data.clone()
    light.edge_index, light.edge_weight = pairs, torch.cat([torch.tensor([1e-7]), torch.ones(pairs.shape[1] - 1)])
    z, expected = (epagcl.Propagated(dim=6, device="cpu").fit_embed(graph) for graph in (light, without))
    # The mean weight is slightly below 1, so that self-loops count slightly less.
    torch.testing.assert_close(z.abs(), expected.abs(), rtol=0.1, atol=0.02)


@pytest.mark.parametrize("reload", [False, True])
def test_a_graph_to_embed_with_weights_only_there_or_only_in_training_is_told(reload, data, caplog, tmp_path):
    heavy = weighted(data, varied)
    for trained, other, words in (
        (heavy, data, "the model was trained with edge weights, and the graph has none"),
        (data, heavy, "the graph has edge weights, and the model was trained without"),
    ):
        model = create("epagcl").fit(trained)
        if reload:
            model.save(tmp_path / "model")
            model = epagcl.load_model(tmp_path / "model")
        caplog.clear()
        model.embed(trained)
        assert caplog.text == ""
        model.embed(other)
        assert caplog.text.count(words) == 1
        model.embed(other, nodes=[0])
        assert caplog.text.count(words) == 2
        list(model.embed_chunks(other))
        assert caplog.text.count(words) == 3
