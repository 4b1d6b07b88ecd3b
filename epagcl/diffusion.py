"""Graph diffusion without its N×N matrix: S·Y by products with a sparse matrix, exact to a tolerance."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix, multiply
from epagcl.data.graph import Graph

TOLERANCE = 1e-5  # of the norm of Y
MOST_HEAT = 100  # time of the heat kernel; e^-t leaves float64 above 745, and takes about t products

Diffusion = Callable[[Tensor], Tensor]
Polynomial = Callable[[SparseMatrix, Tensor], Tensor]


def ppr(graph: Graph, alpha: float = 0.2, tolerance: float = TOLERANCE) -> Diffusion:
    r"""Personalised PageRank :math:`S = \alpha (I - (1-\alpha) \hat{A})^{-1}`, as a function of the rows it diffuses.

    Chebyshev's iteration on (I − ρÂ) Z = αY, ρ = 1 − α: Z_{k+1} = ω_{k+1}(ρÂ Z_k + αY − Z_{k−1}) + Z_{k−1}. Since Â has
    its eigenvalues in [−1, 1] the error falls by ρ/(1 + √(1−ρ²)) a product: at α = 0.2 by half, where the plain
    iteration Z ← ρÂZ + αY has 0.8. S is symmetric, and so is each iterate: the gradient is the same iteration.
    """
    if not 0 < alpha < 1:
        raise InputError(f"alpha={alpha}: must lie between 0 and 1")
    rho = 1 - alpha
    rate = rho / (1 + math.sqrt(1 - rho**2))
    products = math.ceil(math.log(tolerance / 2) / math.log(rate))

    def polynomial(matrix: SparseMatrix, y: Tensor) -> Tensor:
        y = alpha * y
        before, z = torch.zeros_like(y), y.clone()
        omega = 2.0
        for _ in range(products):
            omega = 1 / (1 - rho**2 * omega / 4)
            before, z = z, before.lerp_(multiply(matrix, z).add_(y), omega)
        return z

    adjacency = graph.adjacency
    scaled = SparseMatrix(adjacency.rowptr, adjacency.col, rho * adjacency.value, adjacency.shape, symmetric=True)
    return lambda y: _Diffuse.apply(y, scaled, polynomial)


def heat(graph: Graph, t: float = 5.0, tolerance: float = TOLERANCE) -> Diffusion:
    r"""The heat kernel :math:`S = e^{-t} e^{t A D^{-1}}`, a matrix exponential, as a function of the rows it diffuses.

    Its power series, ended where the rest weighs less than the tolerance. A node without edges keeps its own heat.
    """
    if not 0 < t <= MOST_HEAT:
        raise InputError(f"t={t}: must be above 0 and at most {MOST_HEAT}")
    weights = [math.exp(-t)]
    while sum(weights) < 1 - tolerance:
        weights.append(weights[-1] * t / len(weights))
    adjacency = graph.adjacency
    row, col = adjacency.row, adjacency.col
    degree = adjacency.rowptr.diff() - 1
    value = torch.where(row != col, 1 / degree.clamp(min=1)[col], (degree[row] == 0).float())
    walk = SparseMatrix(adjacency.rowptr, col, value.float(), adjacency.shape)

    def polynomial(matrix: SparseMatrix, y: Tensor) -> Tensor:
        z = weights[0] * y
        for weight in weights[1:]:
            y = multiply(matrix, y)
            z.add_(y, alpha=weight)
        return z

    return lambda y: _Diffuse.apply(y, walk, polynomial)


class _Diffuse(torch.autograd.Function):
    """A polynomial of a matrix times Y; the gradient is the same polynomial of the transpose, and nothing is kept."""

    @staticmethod
    def forward(ctx, y: Tensor, matrix: SparseMatrix, polynomial: Polynomial) -> Tensor:
        ctx.matrix, ctx.polynomial = matrix, polynomial
        return polynomial(matrix, y.contiguous())

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.polynomial(ctx.matrix.T, grad.contiguous()), None, None
