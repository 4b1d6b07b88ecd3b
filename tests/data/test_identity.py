"""The identity of a graph changes with every bit that enters, and with nothing else."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from epagcl.core.sparse import SparseMatrix
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.data.identity import (
    MASKS,
    data_fingerprint,
    graph_fingerprint,
    is_former_fingerprint,
    label_digest,
    split_digest,
    text_digest,
)

MASK = torch.arange(6) % 3 == 0
PAIRS = torch.tensor([[0, 0, 1], [1, 2, 3]])


def fingerprint(x: torch.Tensor, pairs: torch.Tensor = PAIRS) -> str:
    return graph_fingerprint(Graph(x, pairs, x.shape[0]))


@pytest.fixture(scope="module")
def data():
    return block_model(60, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=3)


@pytest.mark.parametrize("density", [0.01, 0.5])
def test_every_entry_counts_and_its_sign_too(density):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 30, generator=generator) * (torch.rand(40, 30, generator=generator) < density)
    first = fingerprint(x)
    seen = {first, fingerprint(-x), fingerprint(x.flip(0)), fingerprint(x.flip(1))}
    row, col = (int(part[0]) for part in x.nonzero(as_tuple=True))
    for value in (-x[row, col], torch.nextafter(x[row, col], torch.tensor(9.0)), torch.tensor(0.0)):
        changed = x.clone()
        changed[row, col] = value
        seen.add(fingerprint(changed))
    changed = x.clone()
    changed[39, 29] += 1
    assert len(seen | {fingerprint(changed)}) == 8


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_the_layout_the_order_of_entries_and_the_sign_of_zero_do_not_count(seed):
    generator = torch.Generator().manual_seed(seed)
    density = float(torch.rand((), generator=generator)) * 0.2
    x = torch.randn(20, 15, generator=generator) * (torch.rand(20, 15, generator=generator) < density)
    expected = fingerprint(x + 0.0)
    assert fingerprint(x * torch.where(x == 0, -1.0, 1.0)) == expected
    sparse = SparseMatrix.from_torch(x.to_sparse_csr())
    assert fingerprint(sparse) == expected
    row, col = x.nonzero(as_tuple=True)
    zero = torch.nonzero(x == 0)[:1].t()  # an entry of value 0
    row, col = torch.cat([row, zero[0]]), torch.cat([col, zero[1]])
    assert fingerprint(SparseMatrix.from_coo(row, col, x[row, col], (20, 15))) == expected


def test_pairs_and_weights_count():
    x = torch.eye(4)
    assert len({fingerprint(x), fingerprint(x, PAIRS[:, :2]), fingerprint(x, PAIRS.clone().fill_diagonal_(1))}) == 3
    weights = [None, torch.tensor([1.0, 1.0, 1.0]), torch.tensor([0.5, 1.5, 1.0])]
    assert len({graph_fingerprint(Graph(x, PAIRS, 4, weight)) for weight in weights}) == 3


def test_the_form_of_a_fingerprint_and_a_value_for_all_machines():
    assert fingerprint(torch.eye(4)) == "4-3-4-cd52ca0c463f24ebb1a5d10baf58055f"
    assert not is_former_fingerprint(fingerprint(torch.eye(4)))
    assert is_former_fingerprint("4-3-4-00c4b9d3a2f0a1b7-1.245e+04-0123456789abcdef")
    assert not is_former_fingerprint(None)


def test_a_run_depends_on_labels_splits_ids_and_names(data):
    plain = check(data)
    changes = [
        {},
        {"y": plain.y.flip(0)},
        {"y": None},
        {"train_mask": plain.y == 0},
        {"node_ids": [f"n{k}" for k in range(60)]},
        {"node_ids": np.arange(60)},
        {"label_names": ["a", "b", "c"]},
        {"feature_names": [str(k) for k in range(40)]},
    ]
    prints = [data_fingerprint(plain.clone().update(change)) for change in changes]
    assert len(set(prints)) == len(changes)
    assert {one[:41] for one in prints} == {Graph.from_data(plain).fingerprint[:41]}
    assert data_fingerprint(check(data)) == prints[0]


def test_labels_of_any_type_with_the_same_classes():
    y = torch.tensor([0, 1, 2])
    assert label_digest(y) == label_digest(y.to(torch.int16)) == label_digest(y[:, None])
    assert label_digest(y) != label_digest(y.flip(0))


def test_texts_are_not_confused():
    assert text_digest(Data(node_ids=["1", "2"])) != text_digest(Data(node_ids=[1, 2]))
    assert text_digest(Data(node_ids=["a,b"])) != text_digest(Data(node_ids=["a", "b"]))
    assert text_digest(Data(label_names=["a"])) != text_digest(Data(feature_names=["a"]))
    assert text_digest(Data(x=torch.eye(2))) is None


def test_a_graph_without_masks_has_no_digest():
    assert split_digest(Data(x=torch.ones(6, 1))) is None


@pytest.mark.parametrize("name", MASKS)
def test_every_mask_counts(name):
    digests = {split_digest(Data(**{name: mask})) for mask in (MASK, ~MASK, MASK[:, None].repeat(1, 2))}
    assert len(digests) == 3
    assert split_digest(Data(**{name: MASK})) != split_digest(Data(**dict.fromkeys(MASKS, MASK)))


def test_masks_of_other_types_and_layouts_with_the_same_nodes_have_the_same_digest():
    expected = split_digest(Data(train_mask=MASK))
    assert split_digest(Data(train_mask=MASK.to(torch.uint8))) == expected
    columns = torch.stack([MASK, ~MASK], 1)
    strided = torch.stack([MASK, ~MASK]).t()
    assert split_digest(Data(train_mask=strided)) == split_digest(Data(train_mask=columns))


@pytest.mark.slow
def test_a_large_graph_takes_well_under_a_second():
    n, columns = 34_493, 8_415
    generator = torch.Generator().manual_seed(0)
    key = torch.randint(0, n * columns, (1_150_000,), generator=generator).unique()
    x = SparseMatrix.from_coo(key // columns, key % columns, torch.ones(len(key)), (n, columns))
    pairs = torch.randint(0, n, (2, 250_000), generator=generator)
    start = time.perf_counter()
    graph_fingerprint(Graph(x, pairs, n))
    assert time.perf_counter() - start < 1
