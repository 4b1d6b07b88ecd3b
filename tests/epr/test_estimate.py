import os
from pathlib import Path

import pytest
import torch

from epagcl.core.sparse import SparseMatrix
from epagcl.data import block_model, load
from epagcl.data.graph import Graph
from epagcl.diffusion import power, ppr
from epagcl.epr import estimate
from epagcl.epr.estimate import (
    SharedSignal,
    column_halves,
    effective_messages,
    estimated_epr,
    propagation_gain,
    shared_signal,
)
from epagcl.epr.operators import chance_epr, operator_epr


def noisy_classes(num_nodes=1200, count=6, num_features=90, noise=1.0, seed=0):
    """Return features that are the mean of their class plus noise, and the classes."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(count, (num_nodes,), generator=generator)
    means = torch.randn(count, num_features, generator=generator)
    return means[y] + noise * torch.randn(num_nodes, num_features, generator=generator), y


def mixed_edges(y, wrong, seed=0):
    """Return edges of which a share goes to a random node and the others to a random node of the class."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.arange(len(y)).repeat(5)
    target = torch.randint(len(y), source.shape, generator=generator)
    for c in y.unique():
        members = (y == c).nonzero().flatten()
        rows = (y[source] == c).nonzero().flatten()
        rows = rows[torch.rand(len(rows), generator=generator) >= wrong]
        target[rows] = members[torch.randint(len(members), rows.shape, generator=generator)]
    edges = torch.stack([source, target])[:, source != target]
    return torch.unique(edges.sort(dim=0).values, dim=1)


@pytest.mark.parametrize("wrong", [0.0, 0.3, 0.8, 1.0])
def test_estimate_is_the_relative_rate_if_features_are_class_plus_noise(wrong):
    x, y = noisy_classes()
    graph = Graph(x, mixed_edges(y, wrong), len(y))
    signal = shared_signal(graph.x)
    for operator in (power(graph, 1), power(graph, 2), ppr(graph, 0.15)):
        truth = operator_epr(operator, y) / chance_epr(y)
        assert estimated_epr(operator, signal) == pytest.approx(truth, abs=0.08)


def test_halves_have_orthogonal_scores_with_their_correlations():
    x, _ = noisy_classes()
    left, right, correlation = shared_signal(x)
    assert left.shape == right.shape == (1200, 8)
    assert torch.allclose(left.T @ right / len(left), correlation.diag(), atol=1e-4)
    assert (correlation[:5] > 0.8).all()  # six classes span five directions
    assert (correlation[5:] < 0.35).all()  # 45 noisy columns of each half still agree a little by chance


def test_sparse_features_give_the_same_signal():
    data = block_model(150, num_classes=3, num_features=40, topic_words=10, words_per_node=6)
    dense = data.x.to_dense()
    sparse = SparseMatrix.from_torch(dense.to_sparse_csr())
    graph = Graph.from_data(data)
    a, b = (estimated_epr(power(graph, 1), shared_signal(x)) for x in (dense, sparse))
    assert a == pytest.approx(b, abs=1e-3)
    assert torch.allclose(shared_signal(dense).correlation, shared_signal(sparse).correlation, atol=1e-4)


def test_no_signal_without_two_columns_or_variation():
    assert shared_signal(torch.randn(10, 1)) is None
    assert shared_signal(torch.randn(1, 10)) is None
    assert shared_signal(torch.zeros(10, 4)) is None
    assert shared_signal(torch.ones(10, 4)) is None


def test_effective_messages_of_means():
    assert effective_messages(lambda h: h, 7) == 1
    groups = torch.block_diag(*[torch.full((4, 4), 3.0)] * 50)  # each node receives four equal messages
    assert effective_messages(lambda h: groups @ h, 200) == pytest.approx(4, rel=0.05)
    weights = torch.rand(60, 60, generator=torch.Generator().manual_seed(0))
    shares = weights / weights.sum(dim=1, keepdim=True)
    exact = float(1 / shares.square().sum(dim=1).mean())
    assert effective_messages(lambda h: weights @ h, 60) == pytest.approx(exact, rel=0.1)


def test_gain_is_that_of_the_signal_to_noise_ratio():
    assert propagation_gain(0.0, 1.0) == 1
    assert propagation_gain(0.25, 16.0) == pytest.approx(9)
    assert propagation_gain(1.2, 16.0) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tolerance"), [("CiteSeer", 0.12), ("Actor", 0.05)])
def test_estimates_of_real_graphs(name, tolerance):
    root = os.environ.get("EPAGCL_DATA")
    if not root or not (Path(root) / f"{name}.npz").exists():
        pytest.skip(f"{name}.npz is not in EPAGCL_DATA")
    data = load(name)
    graph = Graph.from_data(data)
    signal = shared_signal(graph.x)
    for operator in (power(graph, 1), ppr(graph, 0.15)):
        truth = operator_epr(operator, data.y) / chance_epr(data.y)
        assert estimated_epr(operator, signal) == pytest.approx(truth, abs=tolerance)


def test_halves_that_do_not_agree_give_the_estimate_of_random_messages():
    signal = SharedSignal(torch.tensor([[1.0], [-1.0]]), torch.tensor([[1.0], [1.0]]), torch.tensor([0.0]))
    assert estimated_epr(lambda h: h, signal) == 1.0


def test_an_operator_without_messages_has_none():
    assert effective_messages(torch.zeros_like, num_nodes=3) == 0.0


def test_the_halves_of_the_columns_are_always_the_same(monkeypatch):
    monkeypatch.setattr(estimate, "_half", lambda x, columns, part: columns.flatten().nonzero().flatten().tolist())
    assert column_halves(torch.ones(3, 9)) == ([0, 2, 6, 8], [1, 3, 4, 5, 7])


def test_a_node_without_messages_has_none_that_agree():
    x = torch.eye(2).repeat_interleave(4, dim=0).repeat(1, 8)
    reached = torch.ones(8, 1)
    reached[0] = 0
    assert estimated_epr(lambda h: reached * h, shared_signal(x)) == pytest.approx(1 / 8)


def test_halves_are_the_components_of_centred_unit_rows():
    x = torch.randn(12, 6, generator=torch.Generator().manual_seed(0)) * torch.logspace(-2, 2, 12)[:, None]
    columns = torch.tensor([1.0, 1, 0, 1, 1, 0])[:, None]
    unit = torch.nn.functional.normalize(x * columns[:, 0], dim=1)
    centred = unit - unit.mean(0)
    half = estimate._half(x, columns)
    torch.testing.assert_close(half @ half.T, centred @ centred.T, rtol=1e-4, atol=1e-5)


def test_two_nodes_have_a_signal_and_one_has_none():
    x = torch.eye(2).repeat(1, 8)
    assert shared_signal(x) is not None
    assert shared_signal(x[:1]) is None


def test_no_messages_at_all():
    assert effective_messages(lambda h: 0 * h, num_nodes=5) == 0.0
    half = torch.tensor([1.0, 1, 1, 1, 0, 0, 0, 0])[:, None]
    assert effective_messages(lambda h: half * h, num_nodes=8) == pytest.approx(2)  # half of the shares are 0
