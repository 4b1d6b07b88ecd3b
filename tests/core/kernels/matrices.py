"""Matrices and views that the tests of the kernels share."""

import torch

from epagcl.core.sparse import SparseMatrix, StackedMatrix, rowptr_of
from epagcl.views.probabilities import edge_probabilities
from epagcl.views.sampling import Views, ViewSampler
from tests.conftest import random_edges


def random_matrix(rows, columns, density=0.3, seed=0, device="cpu"):
    """A random matrix with empty rows, as a dense tensor and as a SparseMatrix."""
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randn(rows, columns, generator=generator)
    dense *= torch.rand(rows, columns, generator=generator) < density
    dense[rows // 3] = 0
    dense[-1] = 0
    row, col = dense.nonzero().T
    matrix = SparseMatrix(rowptr_of(row, rows), col.int(), dense[row, col], (rows, columns))
    return dense, matrix.to(device)


def dense_of(adjacency):
    """The dense matrices, stacked by rows."""
    dense = torch.zeros(adjacency.views, *adjacency.shape, device=adjacency.device)
    if isinstance(adjacency, StackedMatrix):
        for out, part in zip(dense, adjacency.parts, strict=True):
            out[part.row, part.col] = part.value
    else:
        col, value = (t.view(adjacency.views, -1) for t in (adjacency.col, adjacency.value))
        dense[torch.arange(adjacency.views, device=adjacency.device)[:, None], adjacency.row, col.long()] = value
    return dense.flatten(0, 1)


def two_views(num_nodes, p_drop, p_add, *, density=0.15, seed=0, isolated=0, device="cpu"):
    """Two views of a random graph: one that drops pairs, and one that drops and adds pairs."""
    edges = random_edges(num_nodes - isolated, density, seed).to(device)
    return Views(
        [
            ViewSampler(
                edge_probabilities(edges, num_nodes, p, q, drop="uniform" if p == 1 else "eq9").to(device),
                num_nodes,
                seed=seed,
                view=view,
            )
            for view, (p, q) in enumerate(((p_drop, 0.0), (min(1.0, 1.5 * p_drop), p_add)))
        ]
    )


def assert_rounded_once(result, exact, rtol=2**-10, atol=2**-20):
    """Assert that an fp16 result is the exact one in float64, rounded once, and so computed with float32 sums."""
    assert result.dtype == torch.float16
    torch.testing.assert_close(result.cpu().double(), exact.cpu(), rtol=rtol, atol=atol)
