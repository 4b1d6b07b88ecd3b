import networkx as nx
import numpy as np
import pytest
import scipy.sparse

from epagcl.tasks import edge_scores
from epagcl.tasks.edge_scores import BASELINES, baseline_scores, dot_scores, link_scores


@pytest.mark.parametrize("entries", [2_000_000, 7])
def test_classical_scores_are_those_of_networkx(entries, monkeypatch):
    monkeypatch.setattr(edge_scores, "_ENTRIES", entries)
    graph = nx.karate_club_graph()
    edges = np.array(list(graph.edges)).T
    pairs = np.stack(np.triu_indices(34, 1))
    scores = baseline_scores(edges, 34, pairs)
    ebunch = list(map(tuple, pairs.T.tolist()))
    assert scores["common neighbours"].tolist() == [len(list(nx.common_neighbors(graph, *pair))) for pair in ebunch]
    for name, function in (
        ("Adamic–Adar", nx.adamic_adar_index),
        ("resource allocation", nx.resource_allocation_index),
        ("preferential attachment", nx.preferential_attachment),
    ):
        assert scores[name] == pytest.approx([value for _, _, value in function(graph, ebunch)])
    assert tuple(scores) == BASELINES


def test_products_of_sparse_and_dense_rows_agree(monkeypatch):
    monkeypatch.setattr(edge_scores, "_PAIRS", 3)
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(10, 4)) * (generator.random((10, 4)) < 0.5)
    pairs = generator.integers(10, size=(2, 8))
    expected = (rows[pairs[0]] * rows[pairs[1]]).sum(1)
    assert dot_scores(rows, pairs) == pytest.approx(expected)
    assert dot_scores(scipy.sparse.csr_array(rows), pairs) == pytest.approx(expected)
    assert dot_scores(rows * 2, pairs, rows) == pytest.approx(2 * expected)
    assert dot_scores(rows, pairs[:, :0]).shape == (0,)


def test_metrics_in_closed_form():
    edges, others = np.array([3.0, 1.0]), np.array([2.0, 0.0])
    among = np.array([np.arange(100.0), np.zeros(100)])
    scores = link_scores(edges, others, np.array([95.5, 0.0]), among)
    assert scores.auc == 0.75
    assert scores.average_precision == pytest.approx((1 + 2 / 3) / 2)
    # The first edge has rank 5; the second ties with 100 pairs, so its rank is 51.
    assert scores.mrr == pytest.approx((1 / 5 + 1 / 51) / 2)
    assert (scores.hits10, scores.hits50) == (0.5, 0.5)
