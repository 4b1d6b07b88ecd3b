import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.distributed.group import Ranks
from epagcl.distributed.partition import Part
from tests.ranks import on_ranks

SIZES = [3, 0, 4]


def test_parts_are_contiguous_and_nearly_equal():
    parts = [Part(Ranks(rank, 4), 10) for rank in range(4)]
    assert [part.size for part in parts] == [3, 3, 2, 2]
    assert [part.rows for part in parts] == [slice(0, 3), slice(3, 6), slice(6, 8), slice(8, 10)]
    assert [part.size for part in (Part(Ranks(rank, 4), 2) for rank in range(4))] == [1, 1, 0, 0]


def test_each_node_has_one_owner():
    nodes = torch.arange(7)
    assert Part(Ranks(0, 3), 7, SIZES).owner(nodes).tolist() == [0, 0, 0, 2, 2, 2, 2]
    owned = [Part(Ranks(rank, 3), 7, SIZES).owns(nodes) for rank in range(3)]
    assert torch.stack(owned).sum(0).tolist() == [1] * 7


@pytest.mark.parametrize("sizes", [[3, 4], [3, 3, 3], [8, 0, -1]], ids=str)
def test_wrong_sizes_are_refused(sizes):
    with pytest.raises(InputError, match="give 3 numbers of nodes whose sum is 7"):
        Part(Ranks(0, 3), 7, sizes)


def collected(ranks):
    part = Part(ranks, 7, SIZES)
    rows = torch.arange(14.0).view(7, 2)
    parameter = torch.zeros(2, requires_grad=True)
    parameter.grad = torch.full((2,), float(ranks.rank))
    unused = torch.zeros(1, requires_grad=True)
    part.sum_gradients([parameter, unused])
    return (
        part.all_rows(rows[part.rows]),
        part.some_rows(rows[part.rows], torch.tensor([1, 2, 5])),
        part.all_values(torch.full((ranks.rank,), ranks.rank)),
        part.sum(torch.tensor([float(part.size)])),
        parameter.grad,
        unused.grad,
    )


@pytest.mark.slow
def test_rows_and_sums_are_those_of_all_ranks():
    rows = torch.arange(14.0).view(7, 2)
    for every, some, values, total, gradient, none in on_ranks(3, collected):
        assert every.equal(rows)
        assert some.equal(rows[[1, 2, 5]])
        assert values.tolist() == [1, 2, 2]
        assert (total.tolist(), gradient.tolist(), none) == ([7.0], [3.0, 3.0], None)
