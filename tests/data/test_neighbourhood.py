"""Parts of a graph: rows of Â, degrees and features are those of the whole graph."""

import numpy as np
import pytest
import torch

from epagcl.data.generators import block_model
from epagcl.data.graph import Graph
from epagcl.data.large import Arrays, LargeGraph
from epagcl.data.neighbourhood import neighbourhood, within


def graph_of(seed: int, *, weighted: bool = False, dense: bool = False) -> Graph:
    data = block_model(120, num_classes=3, num_features=400, topic_words=30, words_per_node=5, seed=seed)
    if dense:
        data.x = data.x.to_dense() + 1
    graph = Graph.from_data(data)
    if not weighted:
        return graph
    weight = torch.rand(graph.pairs.shape[1], generator=torch.Generator().manual_seed(seed)) + 0.1
    return Graph(graph.x, graph.pairs, graph.num_nodes, weight)


def distances(graph: Graph, nodes: torch.Tensor) -> torch.Tensor:
    """The number of hops from a set of nodes, by products of the dense adjacency matrix."""
    joined = graph.edges.to_dense() > 0
    distance = torch.full((graph.num_nodes,), 10**6)
    reached = torch.zeros(graph.num_nodes, dtype=torch.bool)
    reached[nodes] = True
    for hops in range(graph.num_nodes):
        distance[reached & (distance == 10**6)] = hops
        reached = reached | joined[reached].any(0)
    return distance


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_a_part_has_the_rows_of_the_whole_graph(hops, weighted, dense):
    graph = graph_of(hops, weighted=weighted, dense=dense)
    wanted = torch.tensor([7, 3, 90])
    part = neighbourhood(graph, wanted, hops)
    distance = distances(graph, wanted)
    assert part.nodes.tolist() == (distance <= hops).nonzero().flatten().tolist()
    assert part.nodes[part.places].tolist() == wanted.tolist()
    x, rows = (g.x if dense else g.x.to_dense() for g in (graph, part.graph))
    assert rows.equal(x[part.nodes])
    torch.testing.assert_close(part.graph.degree, graph.degree[part.nodes].float())
    whole, local = graph.adjacency.to_dense(), part.graph.adjacency.to_dense()
    inner = distance[part.nodes] < hops
    torch.testing.assert_close(local[inner], whole[part.nodes][inner][:, part.nodes])
    # Off the diagonal, even rows at the border agree. Each row of D̃^-½ Â D̃^½ sums to 1: no walk is lost.
    off = ~torch.eye(len(part.nodes), dtype=torch.bool)
    torch.testing.assert_close(local[off], whole[part.nodes][:, part.nodes][off])
    torch.testing.assert_close(local, local.T)
    scale = (part.graph.degree + 1).sqrt()
    torch.testing.assert_close(local @ scale / scale, torch.ones(len(scale)))


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("hops", [0, 2])
def test_a_part_of_arrays_is_that_of_the_graph_in_memory(hops, weighted):
    graph, wanted = graph_of(4, weighted=weighted), torch.tensor([7, 3, 90])
    row, col = torch.cat([graph.pairs, graph.pairs.flip(0)], dim=1)
    order = (row * graph.num_nodes + col).argsort()
    counts = torch.bincount(row, minlength=graph.num_nodes).cumsum(0).numpy()
    weight = None if graph.weight is None else graph.weight.repeat(2)[order].numpy()
    arrays = Arrays(np.concatenate([[0], counts]), col[order].numpy(), weight, graph.x.to_dense().numpy())
    expected, part = (neighbourhood(g, wanted, hops) for g in (graph, LargeGraph(arrays)))
    assert part.nodes.equal(expected.nodes)
    assert part.places.equal(expected.places)
    assert part.graph.pairs.equal(expected.graph.pairs)
    torch.testing.assert_close(part.graph.outside, expected.graph.outside)
    assert part.graph.x.equal(expected.graph.x.to_dense())
    if weighted:
        assert part.graph.weight.equal(expected.graph.weight)


def test_the_edges_of_a_part_have_no_self_loops():
    path = Graph(torch.eye(4), torch.tensor([[0, 1, 2], [1, 2, 3]]), 4)
    part = neighbourhood(path, torch.tensor([0]), hops=1).graph
    assert part.edges.to_dense().tolist() == [[0, 1], [1, 0]]
    assert part.outside.tolist() == [0, 1]


def test_a_part_with_all_nodes_is_the_graph():
    graph = graph_of(5)
    part = neighbourhood(graph, torch.arange(graph.num_nodes), 0)
    assert part.graph.pairs.equal(graph.pairs)
    assert not part.graph.outside.any()
    torch.testing.assert_close(part.graph.adjacency.to_dense(), graph.adjacency.to_dense())


@pytest.mark.parametrize("hops", range(4))
def test_nodes_within_some_hops_are_those_of_a_breadth_first_search(hops):
    data = block_model(80, num_classes=2, num_features=10, topic_words=5, words_per_node=3, average_degree=3)
    expected = {5, 9}
    for _ in range(hops):
        expected |= {j for i, j in data.edge_index.T.tolist() if i in expected}
    found = within(data.edge_index, torch.tensor([5, 9]), hops, 80)
    assert set(found.nonzero().flatten().tolist()) == expected


def test_the_search_ends_with_the_component():
    graph = Graph(torch.eye(5), torch.tensor([[0, 1, 3], [1, 2, 4]]), 5)
    arrays = Arrays(np.array([0, 1, 3, 4, 5, 6]), np.array([1, 0, 2, 1, 4, 3]), None, np.eye(5, dtype=np.float32))
    for whole in (graph, LargeGraph(arrays)):
        assert neighbourhood(whole, torch.tensor([0]), hops=10**18).nodes.tolist() == [0, 1, 2]
