import torch

from epagcl.data.structural.adjacency import Neighbours


def test_neighbours_of_a_path_with_an_isolated_node():
    graph = Neighbours(torch.tensor([[0, 1], [1, 2]]), num_nodes=4)
    assert graph.row.tolist() == [0, 1, 1, 2]
    assert graph.col.tolist() == [1, 0, 2, 1]
    assert graph.degree.tolist() == [1, 2, 1, 0]
    half = 0.5**0.5
    expected = torch.tensor([[0, half, 0, 0], [half, 0, half, 0], [0, half, 0, 0], [0, 0, 0, 0]])
    torch.testing.assert_close(graph.walk.to_dense(), expected)
    assert graph.adjacency.to_dense()[3].tolist() == [0, 0, 0, 1]


def test_contains_finds_exactly_the_edges():
    generator = torch.Generator().manual_seed(0)
    dense = torch.rand(30, 30, generator=generator).triu(1) > 0.8
    graph = Neighbours(dense.nonzero().T, num_nodes=30)
    i, j = torch.cartesian_prod(torch.arange(30), torch.arange(30)).T
    assert torch.equal(graph.contains(i, j).view(30, 30), dense | dense.T)
