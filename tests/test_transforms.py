import pickle

import torch
from torch_geometric.transforms import Compose
from torch_geometric.utils import is_undirected

from epagcl.transforms import EdgePerturbation, FeatureMask


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


def test_no_op_and_only_drop_and_only_add(small_graph):
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


def test_they_compose(small_graph):
    small_graph.x = small_graph.x.to_dense()
    small_graph.edge_attr = torch.ones(small_graph.edge_index.shape[1])
    view = Compose([EdgePerturbation(), FeatureMask()])(small_graph)
    assert "edge_attr" not in view
    assert "edge_attr" in small_graph


def test_a_used_transform_can_be_pickled(small_graph):
    transform = EdgePerturbation(seed=1)
    transform(small_graph)
    again = pickle.loads(pickle.dumps(transform))
    assert torch.equal(again(small_graph).edge_index, transform(small_graph).edge_index)
