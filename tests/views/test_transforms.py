import pickle

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import Compose
from torch_geometric.utils import is_undirected

from epagcl.data.checking import both_directions, undirected_pairs
from epagcl.views.masks import feature_mask
from epagcl.views.transforms import EdgePerturbation, FeatureMask


def test_perturbation_draws_views_and_leaves_the_graph_alone(small_graph):
    before = small_graph.edge_index.clone()
    transform = EdgePerturbation(p_drop=0.4, p_add=0.2, seed=1)
    first, second = transform(small_graph), transform(small_graph)
    assert torch.equal(small_graph.edge_index, before)
    assert is_undirected(first.edge_index)
    assert not torch.equal(first.edge_index, second.edge_index)
    again = EdgePerturbation(p_drop=0.4, p_add=0.2, seed=1)
    assert torch.equal(again(small_graph).edge_index, first.edge_index)
    assert first.num_nodes == 60
    assert torch.equal(first.y, small_graph.y)


def test_no_change_only_drop_and_only_add(small_graph):
    original = {tuple(e) for e in small_graph.edge_index.T.tolist()}

    def edges(**options):
        return {tuple(e) for e in EdgePerturbation(**options)(small_graph).edge_index.T.tolist()}

    assert edges(p_drop=0, p_add=0) == original
    assert edges(p_drop=0.5, p_add=0) < original
    assert edges(p_drop=0, p_add=0.3) > original


def test_feature_mask_hides_columns(small_graph):
    sparse_view = FeatureMask(0.5, seed=2)(small_graph)
    small_graph.x = small_graph.x.to_dense()
    view = FeatureMask(0.5, seed=2)(small_graph)
    assert torch.equal(sparse_view.x.to_dense(), view.x)
    hidden = (view.x == 0).all(0) & (small_graph.x != 0).any(0)
    assert 5 < hidden.sum() < 35
    shown = ~hidden
    assert torch.equal(view.x[:, shown], small_graph.x[:, shown])


def test_the_default_seed_is_0_and_the_kth_call_draws_mask_k():
    data, mask = Data(x=torch.ones(2, 50)), FeatureMask(p=0.5)
    for k in range(3):
        expected = feature_mask(50, 0.5, seed=0, epoch=k, view=0)
        assert torch.equal(mask(data).x[0], expected)


def test_transforms_compose(small_graph):
    small_graph.x = small_graph.x.to_dense()
    small_graph.edge_attr = torch.ones(small_graph.edge_index.shape[1])
    view = Compose([EdgePerturbation(), FeatureMask()])(small_graph)
    assert "edge_attr" not in view
    assert "edge_attr" in small_graph


def test_edge_level_attributes_are_removed(small_graph):
    count = small_graph.edge_index.shape[1]
    small_graph.edge_type = torch.zeros(count, dtype=torch.int64)
    small_graph.weights = torch.ones(count, 2)
    small_graph.train_mask = torch.ones(60, dtype=torch.bool)
    before = set(small_graph.keys())
    view = EdgePerturbation()(small_graph)
    assert set(view.keys()) == before - {"edge_type", "weights"}
    assert set(small_graph.keys()) == before
    small_graph.edge_label_index, small_graph.edge_label = torch.tensor([[0, 1], [2, 3]]), torch.ones(2)
    view = EdgePerturbation()(small_graph)
    # Target pairs of link prediction are no edges of the graph.
    assert torch.equal(view.edge_label_index, small_graph.edge_label_index)
    assert "edge_label" in view


def test_probabilities_are_computed_again_after_a_change_in_place(small_graph):
    transform, whole = EdgePerturbation(p_drop=0.4, p_add=0.2), EdgePerturbation(p_drop=0, p_add=0)
    transform(small_graph)
    whole(small_graph)
    small_graph.edge_index.add_(1).remainder_(60)
    assert torch.equal(whole(small_graph).edge_index, both_directions(undirected_pairs(small_graph.edge_index, 60), 60))
    fresh = EdgePerturbation(p_drop=0.4, p_add=0.2)
    fresh(small_graph)
    assert torch.equal(transform(small_graph).edge_index, fresh(small_graph).edge_index)


def test_probabilities_are_computed_again_for_another_number_of_nodes(small_graph):
    transform, fresh = (EdgePerturbation(p_drop=0.4, p_add=0.2, add="uniform") for _ in range(2))
    transform(small_graph)
    small_graph.num_nodes = 70
    fresh(small_graph)
    assert torch.equal(transform(small_graph).edge_index, fresh(small_graph).edge_index)


def test_probabilities_are_computed_once(small_graph, monkeypatch):
    calls = []
    original = EdgePerturbation.probabilities
    monkeypatch.setattr(EdgePerturbation, "probabilities", lambda *args: calls.append(1) or original(*args))
    transform = EdgePerturbation()
    for _ in range(3):
        transform(small_graph)
    assert len(calls) == 1


def test_tensors_created_in_inference_mode_work(small_graph):
    expected = EdgePerturbation(seed=1)(small_graph).edge_index
    with torch.inference_mode():
        small_graph.edge_index = small_graph.edge_index.clone()
        assert torch.equal(EdgePerturbation(seed=1)(small_graph).edge_index, expected)


def test_a_used_transform_can_be_pickled(small_graph):
    transform = EdgePerturbation(seed=1)
    transform(small_graph)
    again = pickle.loads(pickle.dumps(transform))
    assert torch.equal(again(small_graph).edge_index, transform(small_graph).edge_index)


def test_the_former_name_of_a_rule_is_accepted_with_a_warning(small_graph):
    with pytest.warns(DeprecationWarning, match="^drop='eq7' is now drop='eq9'$") as warned:
        former = EdgePerturbation(drop="eq7")
    assert warned[0].filename == __file__
    assert repr(former) == repr(EdgePerturbation())
    assert torch.equal(former(small_graph).edge_index, EdgePerturbation()(small_graph).edge_index)
    stored = EdgePerturbation()
    stored.drop = stored.add = "eq7"  # as in a pickle of an earlier version
    assert repr(pickle.loads(pickle.dumps(stored))) == repr(EdgePerturbation())
