"""The graph in a report: degrees, EPR, probabilities and sampled views."""

import pytest
import torch

from epagcl import DGI, EPAGCL, GRACE, error_passing_rate
from epagcl.data import block_model
from epagcl.data.graph import Graph
from epagcl.report.structure import EPOCHS, structure


@pytest.fixture(scope="module")
def data():
    return block_model(300, num_classes=3, num_features=30, topic_words=8, seed=1)


def test_degrees_are_counted(data):
    degrees = structure(data, EPAGCL(device="cpu"))["degree"]
    degree = torch.bincount(data.edge_index[0], minlength=300).tolist()
    assert dict(zip(degrees["degree"], degrees["nodes"], strict=True)) == {d: degree.count(d) for d in set(degree)}


def test_rates_are_those_of_error_passing_rate(data):
    content = structure(data, EPAGCL(device="cpu"))["epr"]
    first, loops, hops = content["rows"]
    assert first["per_node"] == error_passing_rate(data.edge_index, data.y)
    assert loops["per_edge"] == error_passing_rate(data.edge_index, data.y, per="edge", self_loops=True)
    assert hops["per_node"] == error_passing_rate(data.edge_index, data.y, hops=2)
    assert f"{100 * first['per_node']:.0f}% of the messages that a node receives" in content["words"]


def test_probabilities_follow_eq_7(data):
    content = structure(data, EPAGCL(p_drop_2=0.3, p_add=0.1, device="cpu"))["probabilities"]
    drop, add = content["drop"], content["add"]
    assert drop["degree"] == sorted(drop["degree"])
    assert drop["mean"][0] > 0.3 > drop["mean"][-1]  # large α, low degree: dropped more
    assert add["mean"][0] < 0.1 < add["mean"][-1]  # small α, high degree: added more
    for part in (drop, add):
        assert all(low <= mean <= high for low, mean, high in zip(part["low"], part["mean"], part["high"], strict=True))
    assert "View 2 drops 30% of the edges" in content["words"]
    assert structure(data, GRACE(device="cpu"))["probabilities"]["add"] is None


def test_views_are_those_of_training(data):
    model = EPAGCL(p_drop_1=0.2, p_drop_2=0.5, seed=4, device="cpu")
    content = structure(data, model)["views"]
    assert content["original"] == pytest.approx(error_passing_rate(data.edge_index, data.y))
    assert content["edges"] == data.edge_index.shape[1] // 2
    for sample, sampler in zip(content["samples"], model.views(Graph.from_data(data)), strict=True):
        assert len(sample["edges"]) == len(sample["epr"]) == EPOCHS
        for epoch in (0, EPOCHS - 1):
            pairs = sampler.pairs(epoch)
            assert sample["edges"][epoch] == pairs.shape[1]
            assert sample["epr"][epoch] == pytest.approx(error_passing_rate(pairs, data.y), abs=1e-5)


def test_unavailable_parts_are_none(data):
    content = structure(data, DGI(device="cpu"))
    assert content["probabilities"] is None
    assert content["views"] is None
    partly = data.clone()
    partly.y = data.y.clone()
    partly.y[3] = -1  # EPR needs the classes of both ends
    content = structure(partly, EPAGCL(device="cpu"))
    assert content["epr"] is None
    assert content["views"]["original"] is None
    assert content["views"]["samples"][0]["edges"][0] > 0


def test_a_method_with_views_of_its_own_kind(data):
    """A method may sample its views by other rules; the report shows them in the same form."""
    from epagcl.paper.variants.random_adding import RandomAdding

    views = structure(data, RandomAdding(device="cpu"))["views"]
    assert [sample["view"] for sample in views["samples"]] == [1, 2]
    assert all(len(sample["epr"]) == len(sample["edges"]) == EPOCHS for sample in views["samples"])
