import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from epagcl.data.splits import geom_splits, public_splits, random_split
from epagcl.errors import InputError

Y = torch.tensor([0, 1, -1, 0, 1, 2, 0, 1, 2, 0, 0, 1, 2, -1, 0, 0, 1, 1, 2, 0])


def lists(split):
    return split.train.tolist(), split.val.tolist(), split.test.tolist()


def test_golden():
    """Figures are quoted by seed: these numbers may never change."""
    assert lists(random_split(Y, (0.3, 0.2))) == (
        [8, 9, 10, 16, 17],
        [1, 11, 19],
        [0, 3, 4, 5, 6, 7, 12, 14, 15, 18],
    )
    assert random_split(Y, (0.3, 0.2), seed=1).train.tolist() == [5, 7, 8, 10, 18]
    assert lists(random_split(Y, stratified=True)) == (
        [8, 9, 17],
        [10, 16, 18],
        [0, 1, 3, 4, 5, 6, 7, 11, 12, 14, 15, 19],
    )


def test_sizes_are_rounded_down():
    split = random_split(torch.zeros(2708, dtype=torch.int64))
    assert [part.numel() for part in (split.train, split.val, split.test)] == [270, 270, 2168]


def test_seeds_are_independent():
    """Two 10% parts of 10,000 nodes share 100 nodes on average, with a standard deviation of 9."""
    y = torch.zeros(10_000, dtype=torch.int64)
    train = [set(random_split(y, seed=seed).train.tolist()) for seed in range(3)]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert 60 < len(train[i] & train[j]) < 140


labels = st.lists(st.integers(-1, 4), min_size=12, max_size=60).filter(lambda y: sum(c >= 0 for c in y) >= 10)
ratio = st.floats(0.1, 0.45)


@given(labels, ratio, ratio, st.integers(0, 2**31), st.booleans())
def test_parts_are_disjoint_and_cover_the_labelled_nodes(y, train, val, seed, stratified):
    y = torch.tensor(y)
    try:
        split = random_split(y, (train, val), seed, stratified)
    except InputError:  # only classes of one or two nodes, rounded away
        assert stratified
        assert y[y >= 0].bincount().max() < 3
        return
    parts = [split.train, split.val, split.test]
    for part in parts:
        assert part.dtype == torch.int64
        assert torch.equal(part, part.unique())
    assert torch.equal(torch.cat(parts).sort().values, (y >= 0).nonzero()[:, 0])
    if stratified:
        for c, n in enumerate(y[y >= 0].bincount().tolist()):
            counts = [int((y[part] == c).sum()) for part in parts]
            assert n < 3 or min(counts) >= 1
            assert n < 10 or counts[:2] == [int(n * train), int(n * val)]


@pytest.mark.parametrize("ratios", [(0.01, 0.1), (0.1, 0.01), (0.5, 0.5), (0.9, 0.9), (-0.1, 0.5)])
def test_no_part_may_be_empty(ratios):
    with pytest.raises(InputError, match=r"18 labelled nodes .* each needs at least one: change the ratios"):
        random_split(Y, ratios)


@pytest.mark.parametrize("stratified", [False, True])
def test_no_labels_no_split(stratified):
    with pytest.raises(InputError, match="0 labelled nodes"):
        random_split(torch.full((5,), -1), stratified=stratified)


def masks(*columns):
    return torch.tensor(columns, dtype=torch.bool).t().squeeze(1)


def test_one_public_split():
    data = Data(train_mask=masks([0, 1, 0, 0]), val_mask=masks([1, 0, 0, 0]), test_mask=masks([0, 0, 0, 1]))
    assert [lists(split) for split in public_splits(data)] == [([1], [0], [3])]


def test_several_public_splits_share_a_test_part():
    """As WikiCS has it."""
    data = Data(
        train_mask=masks([1, 1, 0, 0], [0, 0, 1, 0]),
        val_mask=masks([0, 0, 1, 0], [1, 1, 0, 0]),
        test_mask=masks([0, 0, 0, 1]),
    )
    assert [lists(split) for split in public_splits(data)] == [([0, 1], [2], [3]), ([2], [0, 1], [3])]


def test_geom_splits():
    columns = [torch.eye(30, dtype=torch.bool)[:, 10 * k : 10 * k + 10] for k in range(3)]
    data = Data(geom_train_mask=columns[0], geom_val_mask=columns[1], geom_test_mask=columns[2])
    assert [lists(split) for split in geom_splits(data)] == [([k], [10 + k], [20 + k]) for k in range(10)]


def test_absent_splits_name_the_graphs_that_have_them():
    data = Data(name="Coauthor-CS", x=torch.ones(3, 1))
    with pytest.raises(InputError, match=r"Coauthor-CS: no public split .*Cora, .* and ogbn-arxiv have one; use a"):
        public_splits(data)
    with pytest.raises(InputError, match=r"Coauthor-CS: no geom split .*Texas, .* and Actor have one; use a"):
        geom_splits(data)
    with pytest.raises(InputError, match=r"^graph: no public split"):
        public_splits(Data(x=torch.ones(3, 1)))
