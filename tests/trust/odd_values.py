"""Odd values, drawn by Hypothesis: numbers, words, arrays and graphs. Most are valid in part."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch_geometric.data import Data

#: Numbers that are wrong almost everywhere, and those that are also far too large.
ODD_NUMBERS: tuple[Any, ...] = (0, -1, 1.5, float("nan"), float("inf"), -0.0, 1e-300, 5e-324)
NO_NUMBERS: tuple[Any, ...] = (True, None, "3", "", [], b"1")
HUGE_NUMBERS: tuple[Any, ...] = (2**31, 10**12, 2**63, 10**30, 1e300, -(2**63))
ODD_WORDS: tuple[str, ...] = ("", "no such", "../x", "α\x1b[31m", "x" * 5000)
_DTYPES = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool)
_NODES = (0, 1, 2, 3, 6, 12, 12, 12)


def numbers(*valid: Any, huge: bool = True, types: bool = False) -> st.SearchStrategy[Any]:
    """Return a strategy for a number: a valid one in most cases, or an odd one.

    Args:
        valid: valid values.
        huge: whether numbers that are far too large are drawn.
        types: whether values are drawn that are no numbers.
    """
    odd = ODD_NUMBERS + (HUGE_NUMBERS if huge else ()) + (NO_NUMBERS if types else ())
    return st.one_of(st.sampled_from(valid), st.sampled_from(valid), st.sampled_from(odd))


def words(*valid: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a word: a valid one in most cases, or an odd one."""
    return st.one_of(st.sampled_from(valid), st.sampled_from(valid), st.sampled_from(valid), st.sampled_from(ODD_WORDS))


@st.composite
def matrices(draw: Any, rows: int | None = None) -> Any:
    """Return a strategy for features or embeddings: few rows, of odd types, layouts and values."""
    n = draw(st.sampled_from(_NODES)) if rows is None else rows
    width = draw(st.sampled_from((0, 1, 2, 4, 4, 4)))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    values = random.normal(size=(n, width)).astype(np.float32)
    scale = draw(st.sampled_from((1, 1, 1, 0, 1e-38, 1e18, 3e38)))
    values = (values.astype(np.float64) * scale).clip(-3.4e38, 3.4e38).astype(np.float32)
    if draw(st.integers(0, 4)) == 0 and values.size:
        values.flat[draw(st.integers(0, values.size - 1))] = draw(st.sampled_from((np.nan, np.inf, -np.inf, 0)))
    if draw(st.integers(0, 5)) == 0 and n > 1:
        values[1:] = values[:1]
    dtype = draw(st.sampled_from(_DTYPES))
    tensor = torch.from_numpy(np.nan_to_num(values) if not dtype.is_floating_point else values).to(dtype)
    match draw(st.integers(0, 9)):
        case 0:
            return tensor.t().contiguous().t()  # not contiguous
        case 1 if dtype is not torch.bfloat16:
            array = tensor.numpy().copy()
            array.flags.writeable = False
            return array
        case 2:
            return tensor.flatten()
        case 3 if dtype == torch.float32:
            return tensor.to_sparse_csr() if n else tensor
        case 4:
            return tensor.repeat(2, 2)[::2, ::2]
        case 5:
            return tensor.float().requires_grad_()
    return tensor


@st.composite
def pairs(draw: Any, nodes: int | None = None) -> Any:
    """Return a strategy for edges: self-loops, duplicates, none at all, ends that do not exist, odd types."""
    n = draw(st.sampled_from(_NODES)) if nodes is None else nodes
    count = draw(st.sampled_from((0, 1, 5, 20, 20)))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    ends = torch.from_numpy(random.integers(0, max(n, 1), (2, count if n else 0)))
    match draw(st.integers(0, 14)):
        case 0 if ends.numel():
            ends[0, 0] = draw(st.sampled_from((-1, n, 2**31, 2**62, -(2**63))))
        case 1:
            return ends.int()
        case 2:
            return ends.float()
        case 3:
            return ends.t().contiguous().t()
        case 4:
            return ends.t()
        case 5:
            return ends.flatten()
        case 6:
            return ends.numpy()
        case 7:
            return torch.cat([ends, ends], 1)
        case 8:
            return ends.to(torch.uint8)
        case 9:
            return torch.stack([ends[0], ends[0]])
    return torch.cat([ends, ends.flip(0)], 1)


@st.composite
def labels(draw: Any, nodes: int | None = None) -> Any:
    """Return a strategy for labels: one class, a class per node, gaps, odd types and values."""
    n = draw(st.sampled_from(_NODES)) if nodes is None else nodes
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    y = torch.from_numpy(random.integers(0, draw(st.sampled_from((1, 2, 3, 20))), n))
    match draw(st.integers(0, 11)):
        case 0:
            return y.float()
        case 1 if n:
            y[0] = draw(st.sampled_from((-1, 10**6, 2**62)))
        case 2 if n:
            real = y.float()
            real[0] = draw(st.sampled_from((float("nan"), float("inf"), 0.5)))
            return real
        case 3:
            return y.numpy()
        case 4:
            return y[:, None]
        case 5:
            return y.bool()
        case 6:
            return y.int()
        case 7:
            return torch.stack([y, y], 1)[:, 0]
    return y


@st.composite
def graphs(draw: Any) -> Data:
    """Return a strategy for graphs: isolated nodes, no edges, one node, self-loops, duplicates, odd features."""
    n = draw(st.sampled_from(_NODES))
    wrong = draw(st.integers(0, 9)) == 0
    data = Data(x=draw(matrices(None if wrong else n)), edge_index=draw(pairs(None if wrong else n)))
    if draw(st.integers(0, 3)):
        data.y = draw(labels(None if wrong else n))
    if draw(st.integers(0, 7)) == 0:
        data.x = None
        data.num_nodes = n
    if draw(st.integers(0, 7)) == 0:
        count = draw(st.sampled_from((0, 1, 20, 40)))
        data.edge_weight = torch.full((count,), draw(st.sampled_from((1.0, 0.0, -1.0, float("nan"), 1e38))))
    return data
