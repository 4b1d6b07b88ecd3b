import networkx as nx
import numpy as np
import pytest
import torch

from epagcl.data import block_model
from epagcl.data.checking import undirected_pairs
from epagcl.data.structural import walks
from epagcl.data.structural.adjacency import Neighbours
from epagcl.data.structural.walks import meeting_matrix, walk_positions
from epagcl.evaluation import linear_evaluation
from tests.data.structural.test_roles import neighbours


def test_many_walks_give_the_matrix_of_the_exact_walk(monkeypatch):
    monkeypatch.setattr(walks, "WALKS", 20_000)
    graph = nx.connected_watts_strogatz_graph(12, 4, 0.3, seed=2)
    adjacency = nx.to_numpy_array(graph, nodelist=sorted(graph))
    degree = adjacency.sum(1)
    weights = walks.DECAY ** np.arange(walks.STEPS)
    weights /= weights.sum()
    visits = sum(w * np.linalg.matrix_power(adjacency / degree[:, None], k + 1) for k, w in enumerate(weights))
    expected = np.log(np.maximum(visits * degree.sum() / degree, 1))
    np.fill_diagonal(expected, 0)
    found = meeting_matrix(neighbours(graph)).to_dense().numpy()
    np.testing.assert_allclose(found, (expected + expected.T) / 2, atol=0.02)


def test_the_first_step_is_exact(monkeypatch):
    monkeypatch.setattr(walks, "DECAY", 1e-12)
    graph = nx.karate_club_graph()
    degree = np.array([d for _, d in sorted(graph.degree)], dtype=float)
    adjacency = nx.to_numpy_array(graph, weight=None)
    walked = walks.WALKS * walks.STEPS
    ratio = (walked / degree[:, None] + walks.PRIOR) / (walked * degree / degree.sum() + walks.PRIOR)
    expected = adjacency * np.log(np.maximum(ratio, 1))
    found = meeting_matrix(neighbours(graph)).to_dense().numpy()
    np.testing.assert_allclose(found, (expected + expected.T) / 2, rtol=1e-5)


def test_blocks_of_nodes_do_not_change_the_matrix(monkeypatch):
    graph = neighbours(nx.karate_club_graph())
    whole = meeting_matrix(graph, seed=3).to_dense()
    monkeypatch.setattr(walks, "BLOCK", 5 * walks.WALKS * walks.STEPS)
    assert torch.equal(meeting_matrix(graph, seed=3).to_dense(), whole)


def test_isolated_nodes_are_at_the_origin():
    graph = neighbours(nx.karate_club_graph())
    graph = Neighbours(graph.pairs, num_nodes=36)
    z = walk_positions(graph, dim=8)
    assert torch.isfinite(z).all()
    assert not z[34:].any()
    assert z[:34].norm(dim=1).min() > 0


def test_seeds():
    graph = neighbours(nx.karate_club_graph())
    assert torch.equal(walk_positions(graph, 8, seed=1), walk_positions(graph, 8, seed=1))
    assert not torch.equal(walk_positions(graph, 8, seed=1), walk_positions(graph, 8, seed=2))


@pytest.mark.slow
def test_positions_recover_communities():
    data = block_model(600, num_classes=4, num_features=12, topic_words=4, words_per_node=3, seed=1)
    graph = Neighbours(undirected_pairs(data.edge_index, data.num_nodes), data.num_nodes)
    assert linear_evaluation(walk_positions(graph, 32), data.y, runs=2).mean > 0.6
