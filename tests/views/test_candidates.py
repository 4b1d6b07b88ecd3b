import pytest
import torch
import torch.nn.functional as F

from epagcl.core.randomness import Stream, permutation
from epagcl.distributed.group import Ranks
from epagcl.distributed.partition import Part
from epagcl.views import candidates
from epagcl.views.candidates import neighbour_candidates
from tests.conftest import random_edges
from tests.ranks import on_ranks


def brute_force(z, pairs, k, among):
    """Return the absent pairs of a node and one of its k nearest neighbours among some nodes, by loops."""
    u, edges = F.normalize(z.double(), dim=1), set(map(tuple, pairs.T.tolist()))
    found = set()
    for i in range(len(z)):
        others = sorted((j for j in among if j != i), key=lambda j: -float(u[i] @ u[j]))
        found |= {(min(i, j), max(i, j)) for j in others[:k]}
    return sorted(found - edges)


def random_case(seed, n=30):
    z = torch.randn(n, 5, generator=torch.Generator().manual_seed(seed))
    return z, random_edges(n, 0.05 + 0.1 * (seed % 3), seed)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [1, 4, 40])
def test_candidates_are_brute_force(seed, k):
    z, pairs = random_case(seed)
    found = neighbour_candidates(z, pairs, k)
    assert list(map(tuple, found.T.tolist())) == brute_force(z, pairs, k, range(30))  # sorted, without duplicates
    assert (found[0] < found[1]).all()
    assert not set(map(tuple, found.T.tolist())) & set(map(tuple, pairs.T.tolist()))


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_in_large_graphs_are_searched_among_random_nodes(monkeypatch, seed):
    monkeypatch.setattr(candidates, "MAX_AMONG", 8)
    z, pairs = random_case(seed)
    among = permutation(30, 0, Stream.CANDIDATES, 2)[:8].tolist()
    found = neighbour_candidates(z, pairs, 3)
    assert list(map(tuple, found.T.tolist())) == brute_force(z, pairs, 3, among)
    assert all(i in among or j in among for i, j in found.T.tolist())
    monkeypatch.setattr(candidates, "MAX_AMONG", 30)
    assert list(map(tuple, neighbour_candidates(z, pairs, 3).T.tolist())) == brute_force(z, pairs, 3, range(30))


def test_a_node_is_no_candidate_of_itself_if_few_nodes_are_searched(monkeypatch):
    monkeypatch.setattr(candidates, "MAX_AMONG", 2)
    z, pairs = random_case(1)
    found = neighbour_candidates(z, pairs, 2)  # each sampled node has one other
    assert (found[0] < found[1]).all()


def test_graphs_without_candidates():
    none = torch.empty(2, 0, dtype=torch.long)
    assert neighbour_candidates(torch.ones(1, 3), none).shape == (2, 0)
    assert neighbour_candidates(torch.ones(0, 3), none).shape == (2, 0)
    complete = torch.triu_indices(6, 6, 1)
    assert neighbour_candidates(torch.randn(6, 3), complete, k=3).shape == (2, 0)
    assert neighbour_candidates(torch.randn(2, 3), none).tolist() == [[0], [1]]


@pytest.mark.parametrize("z", [torch.ones(6, 1), torch.tensor([[1.0, 0.0]] * 3 + [[-1.0, 0.0]] * 3), torch.zeros(6, 3)])
def test_representations_of_one_dimension_give_no_candidates(z):
    """All cosines are ±1 or undefined, so that the order of the nodes would decide."""
    assert neighbour_candidates(z, torch.tensor([[0], [1]])).shape == (2, 0)


def candidates_of_a_rank(ranks, most):
    candidates.MAX_AMONG = most
    part = Part(ranks, 40)
    return neighbour_candidates(scores()[part.rows], edges(), k=3, part=part)


def scores():
    return torch.randn(40, 4, generator=torch.Generator().manual_seed(7))


def edges():
    return torch.tensor([[0, 1, 5], [1, 2, 30]])


@pytest.mark.slow
@pytest.mark.parametrize("most", [65_536, 11])
def test_several_ranks_find_the_candidates_of_one_process(most, monkeypatch):
    monkeypatch.setattr(candidates, "MAX_AMONG", most)
    expected = neighbour_candidates(scores(), edges(), k=3)
    assert all(found.equal(expected) for found in on_ranks(3, candidates_of_a_rank, most))


def test_ten_neighbours_are_the_default_and_all_others_the_most():
    z = torch.randn(14, 3, generator=torch.Generator().manual_seed(0))
    none = torch.empty(2, 0, dtype=torch.long)
    assert torch.equal(neighbour_candidates(z, none), neighbour_candidates(z, none, k=10))
    assert neighbour_candidates(z, none).shape[1] < neighbour_candidates(z, none, k=11).shape[1]
    for part in (None, Part(Ranks(0, 1), 14)):
        assert neighbour_candidates(z, none, k=50, part=part).shape[1] == 14 * 13 // 2


def test_columns_with_zeros_count_as_dimensions():
    z = torch.eye(3).repeat(2, 1)  # each column has zeros; node k and k + 3 are the same
    assert neighbour_candidates(z, torch.empty(2, 0, dtype=torch.long), k=1).tolist() == [[0, 1, 2], [3, 4, 5]]
