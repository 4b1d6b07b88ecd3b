import numpy as np
import pytest
import torch

import epagcl
from epagcl.core.checks import UINT32_LIMIT, check_seed, check_tensor, check_whole
from epagcl.core.errors import InputError
from epagcl.data import block_model, undirected_pairs


@pytest.mark.parametrize("value", [3, 3.0, np.int32(3), np.uint64(3)])
def test_whole_numbers_of_every_type(value):
    found = check_whole(value, "k", 1, 3)
    assert (found, type(found)) == (3, int)


@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), "3", None, [3]])
def test_what_is_no_whole_number(value):
    with pytest.raises(InputError, match=r"^k=.*: give a whole number$"):
        check_whole(value, "k")


def test_limits_are_named():
    with pytest.raises(InputError, match=r"^k=0: give a whole number of at least 1$"):
        check_whole(0, "k", 1)
    with pytest.raises(InputError, match=r"^seed=4294967296: give a whole number of at most 4294967295$"):
        check_seed(2**32, UINT32_LIMIT - 1)
    assert check_seed(2**63 - 1) == 2**63 - 1


def test_arrays_are_no_tensors():
    with pytest.raises(InputError, match=r"^y is a ndarray; give a tensor \(torch.as_tensor\)$"):
        check_tensor(np.zeros(3), "y")


def test_pairs_of_32_bits_do_not_overflow():
    edges = torch.tensor([[70_000, 3], [80_000, 69_999]], dtype=torch.int32)
    assert undirected_pairs(edges, 100_000).tolist() == [[3, 70_000], [69_999, 80_000]]


@pytest.mark.parametrize(
    "call",
    [
        lambda: epagcl.error_passing_rate(torch.tensor([[0], [1]]), torch.tensor([0, 1]), hops=10**300),
        lambda: epagcl.error_passing_rate(np.array([[0], [1]]), torch.tensor([0, 1])),
        lambda: epagcl.error_passing_rate(torch.tensor([[0], [1]]), np.array([0, 1])),
        lambda: epagcl.epr.epr_summary(torch.tensor([[0], [1]]), torch.tensor([0, 1]), top=1.5),
        lambda: epagcl.edge_probabilities(torch.tensor([[0], [1]]), 10**12),
        lambda: epagcl.edge_probabilities(torch.tensor([[0], [1]]), 3, seed=float("inf")),
        lambda: epagcl.transforms.EdgePerturbation(seed=1.5),
        lambda: epagcl.transforms.FeatureMask(seed=-1),
        lambda: epagcl.cluster(torch.eye(6), 2, seed=2**32),
        lambda: epagcl.classify(torch.eye(6), [0, 1] * 3, seed=-1),
        lambda: epagcl.anomaly_scores(torch.eye(6), k=float("nan")),
        lambda: epagcl.linear_evaluation(torch.eye(6), [0, 1] * 3, runs=10**12),
        lambda: epagcl.info_nce(torch.eye(3), torch.eye(3), temperature=10**30),
        lambda: epagcl.EPAGCL(patience=10**30),
        lambda: epagcl.EPAGCL(lr=10**400),
        lambda: epagcl.EPAGCL(seed=-1),
        lambda: epagcl.data.random_split(torch.arange(9) % 2, seed=10**30),
        lambda: epagcl.plan(nodes=10, edges=float("inf"), features=10),
        lambda: epagcl.plan(nodes=10, edges=10, features=10, memory=float("nan")),
        lambda: epagcl.tasks.split_edges(block_model(24, num_classes=3, num_features=12, topic_words=4), seed=-1),
        lambda: block_model(10**15),
        lambda: block_model(20, num_classes=2, words_per_node=10**30),
        lambda: block_model(20, num_classes=2, average_degree=float("nan")),
    ],
)
def test_functions_refuse_odd_numbers_in_one_line(call):
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
