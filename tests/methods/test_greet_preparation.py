"""What GREET computes once before training: structural codes and nearest neighbours in feature space."""

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data

from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.methods import greet
from epagcl.methods.greet import GREET, structural_codes
from tests.conftest import Largest, random_edges
from tests.methods.test_greet import graph_of, start


def walk_codes(graph):
    """Return diag(R^k) in float64 from dense powers."""
    a = (graph.adjacency.to_dense() > 0).double().fill_diagonal_(0)
    r = a / a.sum(0).clamp(min=1)
    return torch.stack([torch.linalg.matrix_power(r, k).diagonal() for k in range(1, 17)], 1)


def test_codes_of_a_tree_and_of_a_triangle():
    tree = structural_codes(graph_of(torch.tensor([[0, 0, 1, 1, 4], [1, 2, 3, 4, 5]]), 6))
    assert torch.equal(tree[:, 0::2], torch.zeros(6, 8))  # a walk cannot return in an odd number of steps
    assert (tree[:, 1::2] > 0).all()
    triangle = structural_codes(graph_of(torch.tensor([[0, 0, 1], [1, 2, 2]]), 3))
    torch.testing.assert_close(triangle[:, :3], torch.tensor([0.0, 0.5, 0.25]).expand(3, 3))


@pytest.mark.parametrize("block", [1, 50, 2**24])
@pytest.mark.parametrize("seed", range(3))
def test_codes_are_diagonals_of_powers_of_the_walk_matrix(monkeypatch, seed, block):
    monkeypatch.setattr(greet, "BLOCK", block)
    graph = graph_of(random_edges(14, 0.15, seed), 14)  # some nodes have no edges
    torch.testing.assert_close(structural_codes(graph), walk_codes(graph).float(), rtol=1e-5, atol=1e-6)


def test_probes_estimate_the_codes():
    graph = graph_of(random_edges(30, 0.2, 1), 30)
    exact = structural_codes(graph)
    errors = [(structural_codes(graph, probes) - exact).square().mean().sqrt() for probes in (64, 4096)]
    assert errors[1] < 0.01
    assert 4 < errors[0] / errors[1] < 16  # the variance falls by a factor of 64
    assert not torch.equal(structural_codes(graph, 8, seed=1), structural_codes(graph, 8, seed=2))


def test_codes_are_computed_once_for_a_graph(monkeypatch, small_graph):
    method, graph, prepared, network = start(small_graph)
    monkeypatch.setattr(greet, "structural_codes", None)
    method.represent(network, graph)
    assert method.codes(graph) is prepared.codes
    with pytest.raises(TypeError):
        method.codes(Graph.from_data(check(small_graph)))


@pytest.mark.parametrize("block", [1, 300, 2**24])
@pytest.mark.parametrize("sparse", [True, False])
def test_positives_are_the_node_and_its_nearest_by_cosine(monkeypatch, sparse, block):
    monkeypatch.setattr(greet, "BLOCK", block)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(40, 100, generator=generator) * (torch.rand(40, 100, generator=generator) < 0.04)
    x = x if sparse else x + torch.randn(40, 100, generator=generator)
    x[7] = 0
    graph = Graph.from_data(check(Data(x=x, edge_index=torch.tensor([[0], [1]]))))
    assert isinstance(graph.x, torch.Tensor) != sparse
    positives = GREET(k=5).prepare(graph).positives
    assert torch.equal(positives[:, 0], torch.arange(40))
    assert all(len(set(row)) == 6 for row in positives.tolist())
    unit = F.normalize(x, dim=1)
    cosine = unit @ unit.T
    best = cosine.clone().fill_diagonal_(-2).topk(5).values
    nearest = cosine.gather(1, positives[:, 1:]).sort(1, descending=True).values
    torch.testing.assert_close(nearest, best)


def test_at_least_one_negative_remains_if_possible():
    for n, k, expected in ((2, 20, 1), (3, 20, 2), (6, 20, 5), (6, 2, 3), (6, 0, 1)):
        graph = graph_of(torch.tensor([[0], [1]]), n)
        assert GREET(k=k).prepare(graph).positives.shape == (n, expected)


def test_nothing_of_size_n_squared_is_allocated(monkeypatch):
    n, block = 1200, 2**15
    data = block_model(n, num_features=60, topic_words=20, seed=1)
    for name in ("losses.neighbours.PANEL", "methods.greet.BLOCK"):
        monkeypatch.setattr(f"epagcl.{name}", block)
    with Largest() as largest:
        method, graph, prepared, network = start(data)
        for step in method.steps():
            step.loss(network, graph, prepared, 0).backward()
        method.represent(network, graph)
    assert largest.bytes < n**2  # a quarter of an N×N matrix
