import networkx as nx
import numpy as np
import pytest
import torch

from epagcl.data.structural.adjacency import Neighbours
from epagcl.data.structural.roles import (
    RETURNS,
    SAMPLED_PAIRS,
    clustering,
    log_core_number,
    log_degree,
    log_pagerank,
    return_probabilities,
)


def neighbours(graph: nx.Graph) -> Neighbours:
    pairs = sorted((min(edge), max(edge)) for edge in graph.edges)
    return Neighbours(torch.tensor(pairs).T, graph.number_of_nodes())


@pytest.fixture(params=["karate", "random", "tree", "isolated"])
def network(request) -> nx.Graph:
    if request.param == "karate":
        return nx.karate_club_graph()
    if request.param == "tree":
        return nx.balanced_tree(3, 4)
    graph = nx.gnp_random_graph(80, 0.08, seed=3)
    if request.param == "isolated":
        graph.add_nodes_from(range(80, 90))
    return graph


def by_node(values: dict) -> np.ndarray:
    return np.array([values[node] for node in sorted(values)], dtype=float)


def test_degree(network):
    expected = np.log1p(by_node(dict(network.degree)))
    np.testing.assert_allclose(log_degree(neighbours(network))[:, 0], expected, rtol=1e-6)


def test_pagerank_is_that_of_networkx(network):
    expected = by_node(nx.pagerank(network, alpha=0.85, weight=None, tol=1e-12, max_iter=500))
    rank = log_pagerank(neighbours(network))[:, 0].exp() / network.number_of_nodes()
    np.testing.assert_allclose(rank, expected, rtol=2e-3)
    assert float(rank.sum()) == pytest.approx(1, abs=1e-5)


def test_core_number_is_that_of_networkx(network):
    core = log_core_number(neighbours(network))[:, 0].expm1()
    np.testing.assert_allclose(core, by_node(nx.core_number(network)), atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_core_number_of_graphs_with_many_cores(seed):
    graph = nx.compose(nx.barabasi_albert_graph(100, 1 + seed, seed=seed), nx.complete_graph(5 + seed))
    core = log_core_number(neighbours(graph))[:, 0].expm1()
    np.testing.assert_allclose(core, by_node(nx.core_number(graph)), atol=1e-4)


def test_clustering_is_exact_for_small_degrees(network):
    found = clustering(neighbours(network))[:, 0].numpy()
    expected = by_node(nx.clustering(network))
    small = by_node(dict(network.degree)) <= 16
    np.testing.assert_allclose(found[small], expected[small], atol=1e-6)
    np.testing.assert_allclose(found, expected, atol=0.15)


@pytest.mark.parametrize("edges", [[(0, 1)], [(0, 1), (2, 3)]])
def test_clustering_is_0_if_no_node_has_two_neighbours(edges):
    graph = nx.Graph(edges)
    graph.add_nodes_from(range(4))
    assert clustering(neighbours(graph)).tolist() == [[0.0]] * 4


def test_clustering_of_hubs_is_unbiased():
    graph = nx.gnp_random_graph(60, 0.5, seed=1)
    assert min(d * (d - 1) // 2 for _, d in graph.degree) > SAMPLED_PAIRS
    estimates = torch.stack([clustering(neighbours(graph), seed)[:, 0] for seed in range(30)])
    expected = by_node(nx.clustering(graph))
    np.testing.assert_allclose(estimates.mean(0), expected, atol=5 * 0.044 / 30**0.5)
    assert float(estimates.std(0).mean()) < 0.05


def test_return_probabilities_are_those_of_the_walk(network):
    walk = nx.to_numpy_array(network, nodelist=sorted(network), weight=None)
    walk = walk / np.maximum(walk.sum(1, keepdims=True), 1)
    expected = np.stack([np.linalg.matrix_power(walk, k).diagonal() for k in range(2, RETURNS + 2)], 1)
    graph = neighbours(network)
    np.testing.assert_allclose(return_probabilities(graph)[:, 0], expected[:, 0], rtol=1e-5)
    mean = torch.stack([return_probabilities(graph, seed) for seed in range(20)]).mean(0)
    np.testing.assert_allclose(mean, expected, atol=0.1)


def test_roles_do_not_depend_on_the_numbering():
    graph = nx.gnp_random_graph(50, 0.1, seed=4)  # degrees of at most 16, so that nothing is sampled
    order = np.random.default_rng(0).permutation(50)
    renamed = nx.relabel_nodes(graph, dict(enumerate(order.tolist())))
    for role in (log_degree, log_pagerank, log_core_number, clustering):
        torch.testing.assert_close(role(neighbours(renamed))[order], role(neighbours(graph)))
