"""Small graphs, and the definitions of EPR written out with dense matrices."""

import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

NUM_GRAPHS = 300
BUSY = 39  # seed of a random graph with several classes, many edges and many absent pairs
K2 = [(0, 1)]
STAR = [(0, 1), (0, 2), (0, 3), (0, 4)]
TRIANGLE = [(0, 1), (1, 2), (0, 2)]
COUNTEREXAMPLE = [(i, (i + step) % 12) for i in range(12) for step in (1, 2)]  # circulant_graph(12, [1, 2])


@pytest.fixture(autouse=True)
def one_thread():
    """Use one thread: for thousands of tiny products, waking a second thread costs more than the products."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def edges(pairs):
    return torch.tensor(sorted(pairs), dtype=torch.long).reshape(-1, 2).T.contiguous()


def nan_or(value):
    return pytest.approx(value, abs=1e-12, nan_ok=True)


def dense_a_hat(adjacency, self_loops):
    q = adjacency.sum(1) + self_loops
    root = np.sqrt(np.where(q > 0, q, 1))
    return adjacency / root[:, None] / root[None, :]


def dense_epr(adjacency, y, per="edge", self_loops=False, hops=1):
    """Return EPR by its definition."""
    a = np.linalg.matrix_power(dense_a_hat(adjacency, self_loops), hops)
    np.fill_diagonal(a, 0.0)
    wrong = (a * (y[:, None] != y[None, :])).sum(1)
    total = a.sum(1)
    if not (total > 0).any():
        return math.nan
    if per == "edge":
        return wrong.sum() / total.sum()
    return np.mean([w / t for w, t in zip(wrong, total, strict=True) if t > 0])


def toggled(adjacency, i, j):
    """Return a copy with the pair (i, j) added or dropped."""
    adjacency = adjacency.copy()
    adjacency[i, j] = adjacency[j, i] = 1 - adjacency[i, j]
    return adjacency


def adjacency_of(edge_index, num_nodes):
    adjacency = np.zeros((num_nodes, num_nodes))
    i, j = edge_index.numpy()
    adjacency[i, j] = adjacency[j, i] = 1
    return adjacency


def random_graph(seed):
    """Return a graph of 2 to 9 nodes and 1 to 4 classes, of any density from empty to complete."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 10))
    density = rng.choice([0.15, 0.3, 0.5, 0.8, 1.0])
    pairs = [p for p in itertools.combinations(range(n), 2) if rng.random() < density]
    y = rng.integers(0, rng.integers(1, 5), size=n)
    return edges(pairs), torch.from_numpy(y)


def all_pairs(num_nodes):
    return edges(itertools.combinations(range(num_nodes), 2))


def real_graph(name):
    root = os.environ.get("EPAGCL_DATA")
    if not root:
        pytest.skip("EPAGCL_DATA is not set")
    file = Path(root) / f"{name}.npz"
    if not file.exists():
        pytest.skip(f"{file.name} is not in EPAGCL_DATA")
    with np.load(file, allow_pickle=False) as arrays:
        return torch.from_numpy(arrays["edge_index"]), torch.from_numpy(arrays["y"])


def messy_copy(edge_index):
    """Return the same graph with both directions, duplicates and self-loops, shuffled, as int32."""
    messy = torch.cat([edge_index.flip(0), edge_index, edge_index[:, :3], torch.tensor([[0, 1], [0, 1]])], dim=1)
    return messy[:, torch.randperm(messy.shape[1], generator=torch.Generator().manual_seed(0))].int()
