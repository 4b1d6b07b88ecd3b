import numpy as np
import pytest

from epagcl.core.errors import InputError
from epagcl.data import block_model, check
from epagcl.data.large import Arrays, LargeGraph
from epagcl.data.subgraphs import Subgraphs, neighbour_sample, partition


@pytest.fixture(scope="module")
def graph():
    data = block_model(1000, num_features=20, topic_words=5, average_degree=8, seed=0)
    return LargeGraph(Arrays.from_data(check(data, quiet=True)))


def neighbours(graph, node):
    return set(graph.csr.indices[graph.csr.indptr[node] : graph.csr.indptr[node + 1]].tolist())


@pytest.mark.parametrize("kind", ["neighbours", "partitions"])
def test_a_step_has_one_subgraph_of_bounded_size(graph, kind):
    subgraphs = Subgraphs(graph, kind, 300, seed=1)
    for step in (0, 3, 14):
        nodes = subgraphs.nodes(step)
        assert 0 < len(nodes) <= 300
        assert (np.diff(nodes) > 0).all()
        assert len(nodes) < 256 or len(nodes) % 64 == 0
        assert np.array_equal(nodes, Subgraphs(graph, kind, 300, seed=1).nodes(step))
    assert not np.array_equal(subgraphs.nodes(0), subgraphs.nodes(1))
    assert not np.array_equal(subgraphs.nodes(0), Subgraphs(graph, kind, 300, seed=2).nodes(0))


def test_a_sample_is_reached_by_the_edges_and_has_few_neighbours_of_each_node(graph):
    roots = np.array([5, 17, 900])
    sample = neighbour_sample(graph, roots, (3, 2), (0, 1))
    assert set(roots) <= set(sample.tolist())
    assert len(sample) <= 3 * (1 + 3 + 6)
    one_hop = set().union(*(neighbours(graph, root) for root in roots)) | set(roots)
    two_hops = set().union(*(neighbours(graph, node) for node in one_hop)) | one_hop
    assert set(sample.tolist()) <= two_hops


def test_a_large_fan_out_brings_the_whole_neighbourhood(graph):
    sample = neighbour_sample(graph, np.array([5]), (1000,), (0,))
    assert set(sample.tolist()) == neighbours(graph, 5) | {5}


def test_draws_of_a_neighbour_are_uniform():
    n = 41  # a star: node 0 and its 40 neighbours
    star = Arrays(np.r_[0, 40 + np.arange(n)], np.r_[np.arange(1, n), np.zeros(n - 1, dtype=int)], None, np.eye(n))
    graph = LargeGraph(star)
    found = np.concatenate([neighbour_sample(graph, np.array([0]), (10,), (7, step)) for step in range(200)])
    counts = np.bincount(found, minlength=n)[1:]
    expected = 200 * (1 - (1 - 1 / 40) ** 10)
    assert abs(counts - expected).max() < 5 * expected**0.5


def test_every_node_is_a_root_once_before_any_is_again(graph):
    subgraphs = Subgraphs(graph, "neighbours", 610, seed=0)
    assert subgraphs.roots == 10
    roots = np.concatenate([subgraphs._turn(1000, 10, step) for step in range(100)])
    assert np.array_equal(np.sort(roots), np.arange(1000))
    assert not np.array_equal(roots[:10], subgraphs._turn(1000, 10, 100))


@pytest.mark.parametrize(("count", "size"), [(1000, 7), (9, 8), (17, 8), (5, 8)])
def test_a_round_has_the_remainder_too(graph, count, size):
    subgraphs = Subgraphs(graph, "neighbours", 610, seed=0)
    steps = -(-count // size)
    for turn in range(2):
        drawn = [subgraphs._turn(count, size, turn * steps + step) for step in range(steps)]
        assert np.array_equal(np.sort(np.concatenate(drawn)), np.arange(count))
        assert {len(part) for part in drawn} <= {count // steps, -(-count // steps)}


def test_a_partition_covers_all_nodes_with_equal_cells(graph):
    order, bounds = partition(graph, 7, seed=0)
    assert np.array_equal(np.sort(order), np.arange(1000))
    assert set(np.diff(bounds)) <= {142, 143}


def test_cells_of_a_graph_with_clear_parts_cut_few_edges():
    n, size = 400, 20  # 20 cliques in a ring, each joined to the next by one edge
    dense = np.zeros((n, n), dtype=bool)
    for start in range(0, n, size):
        dense[start : start + size, start : start + size] = True
        dense[start, start - 1] = dense[start - 1, start] = True
    np.fill_diagonal(dense, False)
    row, col = dense.nonzero()
    graph = LargeGraph(Arrays(np.r_[0, np.bincount(row, minlength=n).cumsum()], col, None, np.zeros((n, 1))))
    order, bounds = partition(graph, 4, seed=0)
    cell = np.empty(n, dtype=int)
    cell[order] = np.repeat(np.arange(4), np.diff(bounds))
    assert (cell[row] != cell[col]).mean() < 0.2  # random cells would cut three quarters


def test_a_subgraph_of_all_nodes_is_the_whole_graph(graph):
    assert np.array_equal(Subgraphs(graph, "neighbours", 5000, seed=0).nodes(3), np.arange(1000))


def test_wrong_kinds_and_missing_packages_are_named(graph):
    with pytest.raises(InputError, match="choose one of neighbours, partitions, pyg"):
        Subgraphs(graph, "metis", 100, seed=0)
    from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE

    subgraphs = Subgraphs(graph, "pyg", 610, seed=0)
    if not (WITH_PYG_LIB or WITH_TORCH_SPARSE):
        with pytest.raises(InputError, match="pyg-lib nor torch-sparse"):
            subgraphs.nodes(0)
    else:
        assert np.array_equal(subgraphs.nodes(0), Subgraphs(graph, "pyg", 610, seed=0).nodes(0))
