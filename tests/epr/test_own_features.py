import numpy as np
import pytest
import torch

from epagcl.core.sparse import SparseMatrix
from epagcl.data import block_model
from epagcl.epr import own_advantage
from epagcl.epr.estimate import column_halves
from epagcl.epr.own_features import MAX_NODES


def brute_force(data):
    """Return the advantage from dense matrices in float64, over all pairs of nodes."""
    n = data.num_nodes
    a = torch.zeros(n, n, dtype=torch.float64)
    a[data.edge_index[0], data.edge_index[1]] = 1
    degree = a.sum(1).clamp(min=1)
    a = a / (degree[:, None] * degree).sqrt()
    reach = a + a @ a
    reach.fill_diagonal_(0)
    halves = [half.double() for half in column_halves(data.x.to_dense())]

    def cosines(z):
        z = z - z.mean(0)
        z = z / z.norm(dim=1, keepdim=True).clamp(min=1e-12)
        return (z @ z.T).numpy()[np.triu_indices(n, 1)]

    own, received = [cosines(h) for h in halves], [cosines(reach @ h) for h in halves]
    correlation = np.corrcoef([*own, *received])
    return correlation[0, 1] - (correlation[0, 3] + correlation[1, 2]) / 2


@pytest.mark.parametrize("homophily", [0.1, 0.5, 0.9])
def test_it_equals_dense_matrices(homophily):
    data = block_model(80, homophily=homophily, num_features=60, topic_words=10, words_per_node=12, topic_share=0.5)
    assert own_advantage(data.edge_index, 80, data.x.to_dense()) == pytest.approx(brute_force(data), abs=1e-4)


def test_sparse_and_dense_features_agree():
    data = block_model(80, num_features=60, topic_words=10, words_per_node=12, topic_share=0.5)
    sparse = own_advantage(data.edge_index, 80, SparseMatrix.from_torch(data.x))
    assert sparse == pytest.approx(own_advantage(data.edge_index, 80, data.x.to_dense()), abs=1e-4)


def test_it_falls_with_homophily():
    graphs = [block_model(300, homophily=h, topic_share=0.4, words_per_node=60) for h in (0.1, 0.5, 0.9)]
    values = [own_advantage(data.edge_index, 300, data.x.to_dense()) for data in graphs]
    assert values[0] > values[1] > values[2]


def test_weak_features_have_no_advantage():
    data = block_model(300, homophily=0.1, topic_share=0.0)
    assert own_advantage(data.edge_index, 300, data.x.to_dense()) == pytest.approx(0.0, abs=0.03)


@pytest.mark.parametrize(
    "x",
    [torch.ones(5, 4), torch.zeros(5, 4), torch.ones(5, 1), torch.eye(5)],
    ids=["equal", "zero", "one column", "eye"],
)
def test_degenerate_features_give_a_number(x):
    value = own_advantage(torch.tensor([[0, 1], [1, 2]]), 5, x)
    assert -2 <= value <= 2


@pytest.mark.slow
def test_a_sample_of_nodes_represents_the_graph():
    data = block_model(
        2 * MAX_NODES, homophily=0.1, num_features=100, topic_share=0.5, topic_words=10, words_per_node=30
    )
    assert own_advantage(data.edge_index, data.num_nodes, data.x.to_dense()) == pytest.approx(
        brute_force(data), abs=0.02
    )


def test_two_columns_are_enough():
    data = block_model(200, homophily=0.1, num_classes=2, num_features=40, topic_words=5)
    two = (2.0 * data.y - 1)[:, None] * torch.tensor([1.0, 2.0])  # the signs tell the classes
    assert own_advantage(data.edge_index, 200, two) > 0.2
    assert own_advantage(data.edge_index, 200, two[:, :1]) == 0
