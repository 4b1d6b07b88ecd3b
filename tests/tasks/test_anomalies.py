import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch

from epagcl.core.errors import InputError
from epagcl.tasks import anomaly_scores
from epagcl.tasks.anomalies import _quantiles, distance_to_neighbours


def crowd(seed=0):
    """Rows around one direction, node 3 apart; nodes on a ring, node 5 with many edges."""
    generator = np.random.default_rng(seed)
    z = np.ones((60, 6)) + 0.1 * generator.normal(size=(60, 6))
    z[3] = [1, -1, 1, -1, 1, -1]
    ring = torch.stack([torch.arange(60), (torch.arange(60) + 1) % 60])
    hub = torch.stack([torch.full((30,), 5), torch.arange(10, 40)])
    return z, torch.cat([ring, hub], 1)


@pytest.mark.parametrize("density", ["lof", "knn", "forest"])
def test_the_odd_node_has_the_highest_score_and_its_reasons(density):
    z, edges = crowd()
    table = anomaly_scores(z, edges, density=density, k=10)
    assert int(table["score"].idxmax()) == 3
    assert set(table.loc[3, "reason"].split("; ")) == {"unlike its neighbours", "far from all other nodes"}
    assert table.loc[5, "reason"].endswith("degree 32 (median 3)")
    assert table.columns.tolist() == ["score", "neighbourhood", "density", "degree", "reason"]


def test_features_are_compared_with_the_neighbours():
    z, edges = crowd()
    z[3] = z[4]
    x = torch.ones(60, 4)
    x[20] = torch.tensor([1.0, -1.0, 1.0, -1.0])
    for features in (x, x.to_sparse_csr()):
        table = anomaly_scores(z, edges, x=features, k=10)
        assert table["features"].idxmax() == 20
        assert table.loc[20, "features"] == pytest.approx(1.0)
        assert "features unlike its neighbours' features" in table.loc[20, "reason"]


def test_without_edges_only_density_is_scored():
    table = anomaly_scores(crowd()[0])
    assert table.columns.tolist() == ["score", "density", "reason"]
    assert table["density"].idxmax() == 3


def test_isolated_nodes_count_as_the_median():
    z, edges = crowd()
    table = anomaly_scores(np.concatenate([z, z[:1]]), edges, k=10)
    assert np.isnan(table.loc[60, "neighbourhood"])
    assert np.isfinite(table["score"]).all()
    assert table.loc[60, "reason"].endswith("no edges")


def test_mean_cosine_by_brute_force():
    graph = nx.karate_club_graph()
    rows = np.random.default_rng(0).normal(size=(34, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    adjacency = nx.to_scipy_sparse_array(graph, weight=None, format="csr", dtype=float)
    expected = [1 - np.mean([rows[i] @ rows[j] for j in graph[i]]) for i in range(34)]
    assert distance_to_neighbours(rows, adjacency) == pytest.approx(expected)
    assert distance_to_neighbours(scipy.sparse.csr_array(rows), adjacency) == pytest.approx(expected)


def test_quantiles():
    assert _quantiles(np.array([3.0, 1.0, np.nan, 3.0])).tolist() == pytest.approx([2 / 3, 1 / 6, 0.5, 2 / 3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"density": "kde"}, "density='kde': choose one of lof, knn, forest"),
        ({"k": 0}, "k=0: give a whole number of at least 1"),
        ({"x": torch.ones(3, 2)}, "x: 3 rows for 60 embeddings; give one per node"),
        (
            {"edge_index": torch.tensor([[0], [60]])},
            "edge_index: a node is out of range; the embedding has 60 rows",
        ),
    ],
)
def test_wrong_arguments(options, message):
    z, edges = crowd()
    with pytest.raises(InputError, match=f"^{message}$"):
        anomaly_scores(z, **{"edge_index": edges, **options})


def test_equal_embeddings_are_told_in_one_line(caplog):
    table = anomaly_scores(torch.eye(60, 5), k=20)
    assert table["score"].notna().all()
    assert caplog.messages == [
        "more than 20 nodes have the same embedding, and their densities are unknown; give a larger k"
    ]
