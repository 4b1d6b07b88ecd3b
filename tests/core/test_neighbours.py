import pytest
import torch
import torch.nn.functional as F

from epagcl.core import neighbours
from epagcl.core.neighbours import nearest


def rows(n=40, d=6, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def brute_force(z, node, k, among):
    """Return the k nearest other nodes of one node among some, and their cosines."""
    u = F.normalize(z.double(), dim=1)
    others = sorted((other for other in among if other != node), key=lambda other: -float(u[node] @ u[other]))
    return others[:k], [float(u[node] @ u[other]) for other in others[:k]]


@pytest.fixture(autouse=True)
def few_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(neighbours, "ROWS", 7)


def test_nearest_is_brute_force():
    z = rows()
    near, cosine = nearest(z, 5)
    for node in range(40):
        expected, cosines = brute_force(z, node, 5, range(40))
        assert near[node].tolist() == expected
        assert cosine[node].tolist() == pytest.approx(cosines, abs=1e-5)


def test_neighbours_of_some_nodes():
    z = rows()
    near, _ = nearest(z, 5)
    few, _ = nearest(z, 5, torch.tensor([3, 17]))
    assert torch.equal(few, near[[3, 17]])


def test_there_are_at_most_as_many_neighbours_as_other_nodes():
    assert nearest(rows(3), 10)[0].shape == (3, 2)
    assert nearest(rows(), 10, among=torch.tensor([1, 2, 30]))[0].shape == (40, 3)


@pytest.mark.parametrize("nodes", [None, [0, 4, 5, 39]])
def test_nearest_among_some_nodes_is_brute_force(nodes):
    z, among = rows(), [2, 4, 5, 11, 20, 21, 38]
    asked = range(40) if nodes is None else nodes
    near, cosine = nearest(z, 3, None if nodes is None else torch.tensor(nodes), torch.tensor(among))
    for row, node in enumerate(asked):
        expected, cosines = brute_force(z, node, 3, among)
        assert near[row].tolist() == expected
        assert cosine[row].tolist() == pytest.approx(cosines, abs=1e-5)


def test_a_node_with_too_few_others_is_listed_itself_with_cosine_minus_2():
    near, cosine = nearest(rows(), 2, among=torch.tensor([6, 9]))
    assert near[6].tolist() == [9, 6]
    assert cosine[6, 1] == -2
    assert (cosine[[0, 1, 2]] > -1.01).all()


def test_the_length_of_rows_does_not_matter():
    z = rows()
    assert torch.equal(nearest(z * torch.linspace(0.1, 9, 40)[:, None], 4)[0], nearest(z, 4)[0])
