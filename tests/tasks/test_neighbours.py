import sys

import numpy as np
import pytest

from epagcl.core.errors import InputError, MissingExtra
from epagcl.tasks import nearest_neighbours
from epagcl.tasks.neighbours import neighbour_table, recall_of

Z = np.random.default_rng(0).normal(size=(300, 16))


def by_brute_force(z, k, metric):
    z = z.astype(np.float64)
    if metric == "cosine":
        z = z / np.linalg.norm(z, axis=1, keepdims=True)
        cost = -z @ z.T
    else:
        cost = np.linalg.norm(z[:, None] - z[None], axis=2)
    np.fill_diagonal(cost, np.inf)
    order = np.argsort(cost, axis=1)[:, :k]
    scores = np.take_along_axis(cost, order, 1)
    return order, -scores if metric == "cosine" else scores


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_exact_neighbours_are_those_of_brute_force(metric):
    nodes, scores = by_brute_force(Z, 7, metric)
    found = nearest_neighbours(Z, 7, metric=metric)
    assert found.nodes.tolist() == nodes.tolist()
    assert np.allclose(found.scores, scores, atol=1e-5)
    assert found.recall is None
    some = nearest_neighbours(Z, 7, nodes=[5, 2], metric=metric)
    assert some.nodes.tolist() == nodes[[5, 2]].tolist()


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_approximate_neighbours_have_exact_scores_and_a_measured_recall(metric):
    pytest.importorskip("usearch")
    nodes, _ = by_brute_force(Z, 5, metric)
    found = nearest_neighbours(Z, 5, metric=metric, index="hnsw")
    assert found.recall == pytest.approx(recall_of(found.nodes, nodes))
    assert found.recall > 0.95
    unit = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    exact = (unit[:, None] * unit[found.nodes]).sum(2)
    if metric == "euclidean":
        exact = np.linalg.norm(Z[:, None] - Z[found.nodes], axis=2)
    assert np.allclose(found.scores, exact, atol=1e-5)
    assert (found.nodes != np.arange(len(Z))[:, None]).all()


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_approximate_neighbours_of_a_single_node(metric):
    pytest.importorskip("usearch")
    nodes, scores = by_brute_force(Z[:40], 5, metric)
    found = nearest_neighbours(Z[:40], 5, nodes=[7], metric=metric, index="hnsw")
    assert found.nodes.tolist() == nodes[[7]].tolist()
    assert np.allclose(found.scores, scores[[7]], atol=1e-5)
    assert nearest_neighbours(Z[:4], 10, nodes=[2], index="hnsw").nodes.shape == (1, 3)


def test_equal_rows_are_neighbours_and_a_node_is_not_its_own():
    z = np.ones((4, 3))
    for index in ("exact", "hnsw"):
        if index == "hnsw":
            pytest.importorskip("usearch")
        found = nearest_neighbours(z, 10, index=index)
        assert [sorted(row) for row in found.nodes.tolist()] == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]


@pytest.mark.parametrize("count", [1, 2])
def test_one_node_has_the_neighbours_that_it_has_among_all(count):
    pytest.importorskip("usearch")
    wanted = np.arange(3, 3 + count)
    found = nearest_neighbours(Z, 4, nodes=wanted, index="hnsw")
    assert np.array_equal(found.nodes, nearest_neighbours(Z, 4, index="exact").nodes[wanted])
    every = nearest_neighbours(np.eye(3) + 0.1, 10, nodes=[1], index="hnsw")  # fewer than asked for
    assert sorted(every.nodes[0].tolist()) == [0, 2]


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(MissingExtra, match=r"^approximate search needs usearch: pip install '\.\[ann\]'"):
        nearest_neighbours(Z, index="hnsw")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "dot"}, "metric='dot': choose one of cosine, euclidean"),
        ({"index": "faiss"}, "index='faiss': choose one of exact, hnsw"),
        ({"k": 0}, "k=0: must be at least 1"),
        ({"nodes": [300]}, "nodes: give node numbers from 0 to 299"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        nearest_neighbours(Z, **options)


def test_recall():
    assert recall_of(np.zeros((0, 2), int), np.zeros((0, 2), int)) == 1.0


def test_the_table_has_a_row_per_neighbour():
    table = neighbour_table(nearest_neighbours(Z, 2), range(300), None, "cosine")
    assert table.columns.tolist() == ["id", "rank", "neighbour", "cosine"]
    assert len(table) == 600
    assert table["rank"].tolist()[:4] == [1, 2, 1, 2]
