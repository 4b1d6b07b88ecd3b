"""Variants of the views with everything else equal."""

import pytest
import torch
from torch import nn

import epagcl
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.methods.epagcl import EPAGCL
from epagcl.methods.epagcl_plus import two_hop_candidates
from epagcl.methods.gca import GCA
from epagcl.paper.variants.views import CENTRAL, COMMON, MASKS, NONE, UNTRAINED, NeighbourAdding, view_rows
from epagcl.views.probabilities import edge_weights
from tests.paper.conftest import SMALL


@pytest.fixture(scope="module")
def graph():
    return Graph.from_data(check(epagcl.load("demo"), quiet=True))


def test_all_variants_share_encoder_loss_and_budget():
    for row in view_rows():
        (model,), _ = row.models("Cora", 1, {})  # the recipe of Cora has no say
        changed = {name for name, value in COMMON.items() if getattr(model, name) != value}
        allowed = {NONE: {"p_mask_1", "p_mask_2", "p_drop_1", "p_drop_2"}, UNTRAINED: {"epochs"}}
        assert changed <= allowed.get(row.title, {"p_drop_1", "p_drop_2"}), row.title
        assert type(model.build(4).head) is type(EPAGCL().build(4).head)
        assert model.head_activation is nn.ReLU


def test_settings_of_the_request_hold_for_all_but_the_untrained():
    epochs = {row.title: row.models(None, 1, {})[0][0].epochs for row in view_rows({"epochs": 3})}
    assert epochs.pop(UNTRAINED) == 0
    assert set(epochs.values()) == {3}


def test_central_views_are_those_of_gca(graph):
    (row,) = [row for row in view_rows() if row.title == CENTRAL]
    (model,), _ = row.models(None, 1, {})
    same = GCA(**model.get_params())
    ours, gca = model.prepare(graph), same.prepare(graph)
    assert torch.equal(ours.views.samplers[0].keep, gca.views.samplers[0].keep)
    assert torch.equal(ours.p_masks[0], gca.p_masks[0])


def test_neighbours_are_added_to_the_second_view_as_often_as_candidates_of_algorithm_1(graph):
    model = NeighbourAdding(**SMALL, p_add=0.05, p_drop_1=0.0, p_drop_2=0.0)
    views = model.prepare(graph).views
    candidates = two_hop_candidates(graph, 10)
    allowed = torch.cat([graph.pairs, candidates], 1)
    key = allowed[0] * graph.num_nodes + allowed[1]
    wanted = 0.05 * edge_weights(graph.pairs, graph.num_nodes).candidates.shape[1]
    added = []
    for epoch in range(20):
        first, second = (sampler.pairs(epoch) for sampler in views.samplers)
        assert first.shape[1] == graph.pairs.shape[1]
        assert torch.isin(second[0] * graph.num_nodes + second[1], key).all()
        added.append(second.shape[1] - graph.pairs.shape[1])
    assert sum(added) / len(added) == pytest.approx(wanted, rel=0.1)


def test_masks_only_changes_no_edge(graph):
    (row,) = [row for row in view_rows() if row.title == MASKS]
    (model,), _ = row.models(None, 1, {})
    assert [sampler.pairs(3).shape[1] for sampler in model.prepare(graph).views.samplers] == [graph.pairs.shape[1]] * 2
