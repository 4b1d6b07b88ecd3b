import math

import numpy as np
import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.data.graph import Graph
from epagcl.diffusion import power, ppr
from epagcl.epr import error_passing_rate
from epagcl.epr.operators import chance_epr, layer_operator, operator_epr, operator_rates
from epagcl.epr.rate import Rates


def random_graph(num_nodes, num_edges, seed=0):
    edges = torch.randint(num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(seed))
    edges = edges[:, edges[0] != edges[1]]
    pairs = torch.unique(edges.sort(dim=0).values, dim=1)
    return Graph(x=torch.ones(num_nodes, 1), pairs=pairs, num_nodes=num_nodes)


def classes(num_nodes, count, seed=0):
    return torch.randint(count, (num_nodes,), generator=torch.Generator().manual_seed(seed))


def brute_force(matrix, y):
    """Return EPR per node and per edge by loops over the entries of a dense matrix."""
    shares, wrong_sum, total_sum = [], 0.0, 0.0
    for i in range(len(y)):
        if y[i] < 0:
            continue
        wrong = sum(matrix[i, j] for j in range(len(y)) if y[j] >= 0 and y[j] != y[i])
        total = sum(matrix[i, j] for j in range(len(y)) if y[j] >= 0)
        if total > 0:
            shares.append(wrong / total)
            wrong_sum, total_sum = wrong_sum + wrong, total_sum + total
    return np.mean(shares), wrong_sum / total_sum


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("labelled", [True, False])
def test_rates_equal_brute_force(seed, labelled):
    graph, y = random_graph(30, 50, seed), classes(30, 4, seed)
    if not labelled:
        y[::4] = -1
    dense = graph.adjacency.to_dense().double()
    inverse = torch.linalg.inv(torch.eye(30, dtype=torch.float64) - 0.8 * dense)
    for operator, matrix in (
        (power(graph, 1), dense),
        (power(graph, 3), torch.linalg.matrix_power(dense, 3)),
        (ppr(graph, 0.2), 0.2 * inverse),
    ):
        per_node, per_edge = brute_force(matrix.numpy(), y.tolist())
        assert operator_epr(operator, y) == pytest.approx(per_node, abs=1e-4)
        assert operator_epr(operator, y, per="edge") == pytest.approx(per_edge, abs=1e-4)


def test_own_message_is_never_wrong():
    assert operator_rates(lambda h: h, classes(10, 3)) == Rates(per_node=0.0, per_edge=0.0)
    graph, y = random_graph(40, 80), classes(40, 3)
    along_edges = error_passing_rate(graph.pairs, y, per="edge", self_loops=True)
    assert operator_epr(power(graph, 1), y, per="edge") < along_edges


def test_random_messages_have_the_rate_of_chance():
    y = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)
    assert chance_epr(y) == pytest.approx(1 - 0.25 - 0.09 - 0.04)
    assert operator_epr(lambda h: h.mean(dim=0).expand_as(h), y) == pytest.approx(chance_epr(y))


def test_many_classes_are_multiplied_in_blocks(monkeypatch):
    graph, y = random_graph(30, 60), classes(30, 9)
    whole = operator_rates(power(graph, 2), y)
    monkeypatch.setattr("epagcl.epr.operators._MAX_ENTRIES", 60)
    blocks = operator_rates(power(graph, 2), y)
    assert (blocks.per_node, blocks.per_edge) == pytest.approx((whole.per_node, whole.per_edge))


def test_layer_counts_the_norms_of_its_messages():
    generator = torch.Generator().manual_seed(0)
    graph, y = random_graph(25, 40), classes(25, 3)
    x, w, r = (torch.randn(shape, generator=generator) for shape in ((25, 6), (6, 4), (6, 4)))
    dense = graph.adjacency.to_dense()
    norms = torch.stack(
        [torch.stack([(dense[i, j] * x[j] @ w + (i == j) * x[i] @ r).norm() for j in range(25)]) for i in range(25)]
    )
    own = (dense.diagonal()[:, None] * (x @ w) + x @ r).norm(dim=1)
    operator = layer_operator(graph.adjacency, (x @ w).norm(dim=1), own)
    assert torch.allclose(operator(torch.eye(25)), norms, atol=1e-5)
    per_node, per_edge = brute_force(norms.double().numpy(), y.tolist())
    rates = operator_rates(operator, y)
    assert (rates.per_node, rates.per_edge) == pytest.approx((per_node, per_edge), abs=1e-5)


def test_larger_own_messages_lower_the_rate():
    graph, y, ones = random_graph(25, 40), classes(25, 3), torch.ones(25)
    plain = operator_epr(layer_operator(graph.adjacency, ones, graph.adjacency.to_dense().diagonal()), y)
    assert plain == pytest.approx(operator_epr(power(graph, 1), y), abs=1e-6)
    assert operator_epr(layer_operator(graph.adjacency, ones, ones), y) < plain


def test_nodes_without_messages_are_left_out():
    y = torch.tensor([0, 1, 1])
    matrix = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert operator_epr(lambda h: matrix @ h, y) == pytest.approx(0.25)
    assert math.isnan(operator_epr(torch.zeros_like, y))


def test_wrong_arguments_are_errors():
    graph = random_graph(5, 8)
    with pytest.raises(InputError, match="per='path'; pass 'node' or 'edge'"):
        operator_epr(power(graph, 1), torch.zeros(5), per="path")
    with pytest.raises(InputError, match=r"y has shape \(5, 1\)"):
        operator_epr(power(graph, 1), torch.zeros(5, 1))
    with pytest.raises(InputError, match="no node has a class"):
        operator_epr(power(graph, 1), torch.full((5,), -1))
    with pytest.raises(InputError, match=r"own_norm= has shape \(4,\); pass one norm per node, \[5\]"):
        layer_operator(graph.adjacency, torch.ones(5), torch.ones(4))
