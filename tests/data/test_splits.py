"""Random and published splits, and the checks of splits that users give."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.data.splits import (
    Split,
    as_split,
    as_splits,
    geom_splits,
    public_splits,
    published_splits,
    random_split,
    seed_list,
)

Y = torch.tensor([0, 1, -1, 0, 1, 2, 0, 1, 2, 0, 0, 1, 2, -1, 0, 0, 1, 1, 2, 0])


def lists(split):
    return split.train.tolist(), split.val.tolist(), split.test.tolist()


def test_splits_of_fixed_seeds():
    """Published results are identified by their seed, so these numbers must not change."""
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
    except InputError:  # all classes have one or two nodes, and rounding leaves a part empty
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
def test_a_graph_without_labels_has_no_split(stratified):
    with pytest.raises(InputError, match="0 labelled nodes"):
        random_split(torch.full((5,), -1), stratified=stratified)


@pytest.mark.parametrize(
    "form",
    [
        lambda y: y.numpy(),
        lambda y: y.tolist(),
        lambda y: y[:, None],
        lambda y: pd.Series(y.numpy(), index=range(20, 0, -1)),
        lambda y: [None if c < 0 else "abc"[c] for c in y.tolist()],
    ],
)
@pytest.mark.parametrize("stratified", [False, True])
def test_labels_in_any_form(form, stratified):
    options = {"ratios": (0.3, 0.2), "seed": 4, "stratified": stratified}
    assert lists(random_split(form(Y), **options)) == lists(random_split(Y, **options))


@pytest.mark.parametrize("seed", [np.int64(3), np.uint8(3), np.array(3), np.array([3]), torch.tensor(3)])
def test_seeds_may_be_numpy_integers(seed):
    assert lists(random_split(Y, (0.3, 0.2), seed)) == lists(random_split(Y, (0.3, 0.2), 3))


@pytest.mark.parametrize(("seed", "message"), [([1, 2], "2 seeds for one split"), ("a", "seed='a': give a whole")])
def test_errors_of_seeds(seed, message):
    with pytest.raises(InputError, match=message):
        random_split(Y, seed=seed)


def test_splits_in_any_form():
    expected = [0, 2], [3], [1, 4]
    masks = [[k in part for k in range(5)] for part in expected]
    for form in (list, np.array, torch.tensor):
        for parts in (expected, masks):
            assert lists(as_split(Split(*map(form, parts)), 5)) == expected
            assert lists(as_split(tuple(map(form, parts)), 5)) == expected
            assert lists(as_split(list(map(form, parts[:2])), 5)) == ([0, 2], [3], [])
    order = as_split(Split(torch.tensor([4, 0], dtype=torch.int32), [], []), 5).train
    assert (order.dtype, order.tolist()) == (torch.int64, [4, 0])


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (torch.arange(3), "split: a Tensor is not a split; give an epagcl.data.Split"),
        ((torch.arange(3),), "split: a tuple is not a split"),
        (([0, 5], [1]), "split.train: node 5 is out of range; nodes are 0 to 4"),
        (([0], [-1]), "split.val: node -1 is out of range"),
        (([0], [1], [True, False]), "split.test: a mask of 2 for 5 nodes; give one value per node"),
        (([0.5], [1]), r"split.train: torch.float64 of shape \(1,\); give a list of node numbers or a mask"),
        ((torch.ones(5, 2, dtype=torch.bool), [1]), r"split.train: torch.bool of shape \(5, 2\)"),
        ((["a"], [1]), "split.train: give node numbers or a mask"),
    ],
)
def test_errors_of_splits_name_the_fix(split, message):
    with pytest.raises(InputError, match=message):
        as_split(split, 5)


def masks(*columns):
    return torch.tensor(columns, dtype=torch.bool).t().squeeze(1)


def test_one_public_split():
    data = Data(train_mask=masks([0, 1, 0, 0]), val_mask=masks([1, 0, 0, 0]), test_mask=masks([0, 0, 0, 1]))
    assert [lists(split) for split in public_splits(data)] == [([1], [0], [3])]


def test_several_public_splits_share_a_test_part():
    """As in WikiCS."""
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


def test_absent_splits_name_the_masks_and_the_fix():
    data = Data(name="Coauthor-CS", x=torch.ones(3, 1))
    with pytest.raises(
        InputError, match=r"^Coauthor-CS: no public split \(train_mask, val_mask, test_mask\); use a random"
    ):
        public_splits(data)
    with pytest.raises(InputError, match=r"^Coauthor-CS: no geom split \(geom_train_mask, .*\); use a random split$"):
        geom_splits(data)
    with pytest.raises(InputError, match=r"^graph: no public split"):
        public_splits(Data(x=torch.ones(3, 1)))


def test_published_splits_prefer_those_of_geom_gcn():
    mask = torch.eye(3, dtype=torch.bool)
    data = Data(train_mask=mask[0], val_mask=mask[1], test_mask=mask[2])
    assert [lists(split) for split in published_splits(data)] == [([0], [1], [2])]
    data.update({"geom_train_mask": mask[2], "geom_val_mask": mask[1], "geom_test_mask": mask[0]})
    assert [lists(split) for split in published_splits(data)] == [([2], [1], [0])]


def test_a_repeated_split_stays_one_object():
    split, other = Split(*torch.arange(3)[:, None]), ([0], [1])
    first, second, third = as_splits([split, other, split], 3)
    assert first is third
    assert lists(second) == ([0], [1], [])
    assert [lists(one) for one in as_splits(split, 3)] == [([0], [1], [2])]
    with pytest.raises(InputError, match="splits is empty; give at least one"):
        as_splits([], 3)


def test_run_seeds():
    assert seed_list(4, runs=3) == [4, 5, 6]
    assert seed_list([7, np.int64(2)], runs=3) == [7, 2]
    with pytest.raises(InputError, match=r"seed=0\.5: give a whole number, or a list of them"):
        seed_list(0.5)
