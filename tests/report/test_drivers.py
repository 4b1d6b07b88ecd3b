import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from epagcl.core.neighbours import nearest
from epagcl.data import block_model
from epagcl.report import drivers as module
from epagcl.report.drivers import TOP_FEATURES, TOP_NODES, drivers

K = 4


@pytest.fixture(params=["dense", "sparse"])
def graph(request):
    data = block_model(40, num_classes=3, num_features=15, topic_words=5, words_per_node=4, seed=1)
    data.x = data.x.to_dense() if request.param == "dense" else data.x.to_dense().to_sparse_csr()
    return data


def brute_force(data, near):
    """Return Âx, the adjacency matrix, and the similarity of averaged features by feature, in float64."""
    count = data.num_nodes
    edges = np.zeros((count, count))
    edges[data.edge_index[0], data.edge_index[1]] = 1
    looped = edges + np.eye(count)
    scale = 1 / np.sqrt(looped.sum(1))
    x = data.x.to_dense().double().numpy()
    hat = scale[:, None] * looped * scale
    own, h = np.diag(hat)[:, None] * x, hat @ x
    norm = np.linalg.norm(h, axis=1, keepdims=True)
    own, h = own / norm, h / norm
    by_feature = np.stack([np.mean([h[i] * h[j] for j in near[i]], axis=0) for i in range(count)])
    both_own = np.array([np.mean([own[i] @ own[j] for j in near[i]]) for i in range(count)])
    others = h - own
    both_others = np.array([np.mean([others[i] @ others[j] for j in near[i]]) for i in range(count)])
    return edges, by_feature, both_own, both_others


def test_features_are_an_exact_decomposition(graph):
    near = nearest(torch.randn(40, 8, generator=torch.Generator().manual_seed(0)), K)[0].numpy()
    shared = drivers(graph, near.flatten().tolist(), K)
    _, by_feature, both_own, both_others = brute_force(graph, near)
    similarity = np.array(shared["similarity"]).reshape(-1, 3)
    np.testing.assert_allclose(similarity.sum(1), by_feature.sum(1), atol=2e-3)  # rounded to three digits
    np.testing.assert_allclose(similarity[:, 0], both_own, atol=1e-3)
    np.testing.assert_allclose(similarity[:, 2], both_others, atol=1e-3)
    parts = np.array(shared["parts"]).reshape(-1, TOP_FEATURES)
    np.testing.assert_allclose(parts, -np.sort(-by_feature, axis=1)[:, :TOP_FEATURES], atol=1e-3)
    first = [int(shared["names"][f].removeprefix("feature ")) for f in shared["features"][::TOP_FEATURES]]
    np.testing.assert_allclose(by_feature[np.arange(40), first], by_feature.max(1), atol=1e-6)


def test_edges(graph):
    near = nearest(torch.randn(40, 8, generator=torch.Generator().manual_seed(1)), K)[0].numpy()
    shared = drivers(graph, near.flatten().tolist(), K)
    edges = brute_force(graph, near)[0]
    joined = np.take_along_axis(edges, near, axis=1)
    np.testing.assert_array_equal(np.array(shared["joined"]).reshape(-1, K), joined)
    common = np.take_along_axis(edges @ edges, near, axis=1)
    np.testing.assert_array_equal(np.array(shared["common"]).reshape(-1, K), common)
    hubs, counts = (np.array(shared[key]).reshape(-1, TOP_NODES) for key in ("hubs", "hub_counts"))
    for i in range(40):
        times = {w: int(edges[near[i], w].sum()) for w in np.flatnonzero(edges[i])}
        expected = sorted((count for count in times.values() if count), reverse=True)[:TOP_NODES]
        assert counts[i].tolist() == expected + [0] * (TOP_NODES - len(expected))
        assert all(times[hub] == count for hub, count in zip(hubs[i], counts[i], strict=True) if hub >= 0)


def test_names_and_negative_parts():
    x = torch.tensor([[1.0, -1.0], [1.0, 1.0]])
    data = Data(x=x, edge_index=torch.zeros(2, 0, dtype=torch.long), feature_names=["age", "income"])
    shared = drivers(data, [1, 0], k=1)
    assert shared["names"] == ["age"]  # the incomes differ, so that they make the nodes unlike
    assert shared["features"][:2] == [0, -1]
    assert shared["parts"][0] == 0.5
    assert shared["similarity"] == [0.0] * 6


def test_large_graphs_have_own_features_or_none(graph, monkeypatch):
    near = nearest(torch.randn(40, 8), K)[0].flatten().tolist()
    if graph.x.layout != torch.strided:
        monkeypatch.setattr(module, "MAX_ENTRIES", 10)
        similarity = np.array(drivers(graph, near, K)["similarity"]).reshape(-1, 3)
        assert np.abs(similarity[:, 1:]).max() == 0
    monkeypatch.setattr(module, "MAX_NODES", 39)
    assert drivers(graph, near, K) is None
