"""Graph diffusion S·Y by sparse products, accurate to a tolerance. The N×N matrix S is never formed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix, StackedMatrix, multiply, multiply_accumulate, multiply_lerp
from epagcl.core.streamed import StreamedMatrix
from epagcl.data.graph import Graph
from epagcl.data.large import LargeGraph

ALPHA = 0.15  # teleport probability of the propagated features and encoders; MVGRL has its own
TOLERANCE = 1e-5  # relative to the norm of Y
RELATION_PRODUCTS = 10  # of PageRank on a relation, whose matrix has no real eigenvalues to speed up the iteration
MIN_ALPHA = 1e-4  # PageRank takes about 9/√α products: 900 here, and ever more below
MAX_HEAT_TIME = 100  # the heat kernel takes about t products; e^-t underflows float64 above t = 745

_Matrix = SparseMatrix | StackedMatrix | StreamedMatrix
Diffusion = Callable[[Tensor], Tensor]
Polynomial = Callable[[Any, Tensor], Tensor]


def ppr(graph: Graph | LargeGraph, alpha: float = 0.2, tolerance: float = TOLERANCE) -> Diffusion:
    r"""Return personalised PageRank :math:`S = \alpha (I - (1-\alpha) \hat{A})^{-1}` as a function Y → SY.

    The function runs the Chebyshev iteration on (I − ρÂ) Z = αY with ρ = 1 − α:
    Z_{k+1} = ω_{k+1}(ρÂ Z_k + αY − Z_{k−1}) + Z_{k−1}. The eigenvalues of Â lie in [−1, 1], so each product reduces the
    error by the factor ρ/(1 + √(1−ρ²)). At α = 0.2 the factor is 0.5. For the plain iteration Z ← ρÂZ + αY it is 0.8. S
    and all iterates are symmetric polynomials of Â, so the gradient is computed by the same iteration.

    Args:
        graph: graph to diffuse on.
        alpha: teleport probability α, at least 0.0001 and below 1.
        tolerance: maximum error, relative to the norm of Y.

    Examples:
        >>> import torch
        >>> graph = Graph(x=torch.ones(2, 1), pairs=torch.tensor([[0], [1]]), num_nodes=2)
        >>> ppr(graph, alpha=0.5)(torch.eye(2))
        tensor([[0.7500, 0.2500],
                [0.2500, 0.7500]])
    """
    check_alpha(alpha)
    products = ppr_products(alpha, tolerance)
    scaled = graph.adjacency.scaled(1 - alpha)
    return lambda y: _Diffuse.apply(y, scaled, partial(_chebyshev, alpha=alpha, products=products))


def ppr_products(alpha: float, tolerance: float = TOLERANCE) -> int:
    """Return the number of products with Â that :func:`ppr` needs for a tolerance.

    Examples:
        >>> ppr_products(0.15, tolerance=1e-3)
        13
    """
    rho = 1 - alpha
    rate = rho / (1 + math.sqrt(1 - rho**2))
    return math.ceil(math.log(tolerance / 2) / math.log(rate))


def truncated_ppr(adjacency: _Matrix, y: Tensor, alpha: float, products: int) -> Tensor:
    """Return personalised PageRank of Y after a fixed number of products with Â, by the iteration of :func:`ppr`.

    Args:
        adjacency: Â of one or several views.
        y: ``[N, d]``, or one block of rows per view.
        alpha: teleport probability α, at least 0.0001 and below 1.
        products: number of products with Â.

    Examples:
        >>> import torch
        >>> graph = Graph(x=torch.ones(2, 1), pairs=torch.tensor([[0], [1]]), num_nodes=2)
        >>> truncated_ppr(graph.adjacency, torch.eye(2), alpha=0.5, products=8)
        tensor([[0.7500, 0.2500],
                [0.2500, 0.7500]])
    """
    check_alpha(alpha)
    return _Diffuse.apply(y, adjacency.scaled(1 - alpha), partial(_chebyshev, alpha=alpha, products=products))


def check_alpha(alpha: float) -> None:
    """Raise unless PageRank can be computed with this teleport probability.

    Examples:
        >>> check_alpha(0.15)
    """
    if not MIN_ALPHA <= alpha < 1:
        raise InputError(f"alpha={alpha}: must lie between 0 and 1, and be at least {MIN_ALPHA}")


def _chebyshev(scaled: _Matrix, y: Tensor, *, alpha: float, products: int) -> Tensor:
    """Return the Chebyshev iterate of (I − ρÂ) Z = αY after some products with the matrix ρÂ."""
    rho = 1 - alpha
    y = (alpha * y).contiguous()
    before: Tensor | None = None
    z = y
    omega = 2.0
    for _ in range(products):
        omega = 1 / (1 - rho**2 * omega / 4)
        out = None if before is y else before  # the iterate before the last is not needed any more, but Y is
        before, z = z, multiply_lerp(scaled, z, y, before, omega, out=out)
    return z


def power(graph: Graph | LargeGraph, k: int) -> Diffusion:
    r"""Return :math:`\hat{A}^k` as a function Y → Â^k Y; k = 0 is the identity.

    Args:
        graph: graph to diffuse on.
        k: number of hops, at least 0.

    Examples:
        >>> import torch
        >>> graph = Graph(x=torch.ones(2, 1), pairs=torch.tensor([[0], [1]]), num_nodes=2)
        >>> power(graph, 2)(torch.eye(2))
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """
    return _repeated(graph.adjacency, k)


def neighbours(graph: Graph | LargeGraph, k: int) -> Diffusion:
    r"""Return :math:`(D^{-1/2} A D^{-1/2})^k` as a function: k hops without self-loops; isolated nodes receive 0.

    Args:
        graph: graph to diffuse on.
        k: number of hops, at least 0.

    Examples:
        >>> import torch
        >>> graph = Graph(x=torch.ones(2, 1), pairs=torch.tensor([[0], [1]]), num_nodes=2)
        >>> neighbours(graph, 1)(torch.eye(2))
        tensor([[0., 1.],
                [1., 0.]])
    """
    if isinstance(graph, LargeGraph):
        return _repeated(graph.neighbours, k)
    if graph.part is not None:
        entries = graph.own_entries
        scale = _positive(graph.degree).float().rsqrt()
        weight = torch.ones_like(graph.pairs[0], dtype=scale.dtype) if graph.weight is None else graph.weight
        value = F.pad(weight, (0, 1))[entries.pair] * scale[entries.row + graph.part.start] * scale[entries.node]
        return _repeated(entries.matrix(value), k)
    edges = graph.edges
    scale = _positive(graph.degree).to(edges.dtype).rsqrt()
    value = edges.value * (scale[edges.row] * scale[edges.col])
    return _repeated(SparseMatrix(edges.rowptr, edges.col, value, edges.shape, symmetric=True), k)


def _positive(degree: Tensor) -> Tensor:
    """Return the degrees, with 1 for isolated nodes."""
    return torch.where(degree > 0, degree, 1)


def _repeated(matrix: _Matrix, k: int) -> Diffusion:
    """Return the k-th power of a matrix as a function."""
    if k < 0:
        raise InputError(f"k={k}: must be at least 0")

    def diffuse(y: Tensor) -> Tensor:
        for _ in range(k):
            y = matrix @ y
        return y

    return diffuse


def heat(graph: Graph, t: float = 5.0, tolerance: float = TOLERANCE) -> Diffusion:
    r"""Return the heat kernel :math:`S = e^{-t} e^{t A D^{-1}}` as a function Y → SY.

    The function sums the power series of the matrix exponential until the weight of the remaining terms is below the
    tolerance. A node without edges keeps its value.

    Args:
        graph: graph to diffuse on.
        t: diffusion time, above 0 and at most 100.
        tolerance: maximum error, relative to the norm of Y.

    Examples:
        >>> import torch
        >>> graph = Graph(x=torch.ones(2, 1), pairs=torch.tensor([[0], [1]]), num_nodes=2)
        >>> heat(graph, t=5.0)(torch.ones(2, 1)).T  # heat is preserved
        tensor([[1.0000, 1.0000]])
    """
    check_heat_time(t)
    weights = [math.exp(-t)]
    while sum(weights) < 1 - tolerance:
        weights.append(weights[-1] * t / len(weights))
    edges, degree = graph.edges, graph.degree
    row, col = edges.row, edges.col
    value = torch.where(row != col, edges.value / _positive(degree)[col], (degree[row] == 0).float())
    walk = SparseMatrix(edges.rowptr, col, value, edges.shape)

    def polynomial(matrix: SparseMatrix, y: Tensor) -> Tensor:
        y = y.contiguous()
        z = weights[0] * y
        for weight in weights[1:]:
            y = multiply_accumulate(matrix, y, z, weight)
        return z

    return lambda y: _Diffuse.apply(y, walk, polynomial)


@dataclass(frozen=True)
class Walk:
    """A diffusion S that is not symmetric, as a function Y → SY.

    Attributes:
        multiply: the function Y → SY.
        T: the function Y → SᵀY.

    Examples:
        >>> double = Walk(multiply=lambda y: 2 * y, T=lambda y: 2 * y)
        >>> double(torch.ones(1))
        tensor([2.])
    """

    multiply: Diffusion
    T: Diffusion

    def __call__(self, y: Tensor) -> Tensor:
        """Return SY."""
        return self.multiply(y)


def relation_mean(graph: Graph, relation: int) -> Walk:
    r"""Return :math:`P = D^{-1} A` of one relation: the mean over the nodes that a node receives from, 0 if none.

    Args:
        graph: a graph with relations.
        relation: number of the relation.

    Examples:
        >>> pairs, out = torch.tensor([[0, 0], [1, 2]]), torch.tensor([[[1.0, 1.0], [0.0, 0.0]]])
        >>> graph = Graph(x=torch.ones(3, 1), pairs=pairs, num_nodes=3, relations=out, relation_names=("out",))
        >>> relation_mean(graph, 0)(torch.tensor([[1.0], [2.0], [4.0]])).flatten()  # node 0 points to 1 and 2
        tensor([3., 0., 0.])
    """
    matrix = graph.related(relation)
    scale = _positive(_row_sums(matrix)).reciprocal()
    return Walk(lambda y: scale * (matrix @ y), lambda y: matrix.T @ (scale * y))


def relation_ppr(graph: Graph, relation: int, alpha: float = ALPHA, products: int = RELATION_PRODUCTS) -> Walk:
    r"""Return PageRank on one relation: Z ← (1−α) P̃ Z + αY from Z = Y, with :math:`P̃ = (D + I)^{-1} (A + I)`.

    The rows of the operator add up to 1. A node that receives nothing keeps its value.

    Args:
        graph: a graph with relations.
        relation: number of the relation.
        alpha: teleport probability α, between 0 and 1.
        products: number of products with A.

    Examples:
        >>> pairs, out = torch.tensor([[0], [1]]), torch.tensor([[[1.0], [0.0]]])
        >>> graph = Graph(x=torch.ones(2, 1), pairs=pairs, num_nodes=2, relations=out, relation_names=("out",))
        >>> relation_ppr(graph, 0, alpha=0.5, products=1)(torch.eye(2))
        tensor([[0.7500, 0.2500],
                [0.0000, 1.0000]])
    """
    check_alpha(alpha)
    matrix = graph.related(relation)
    scale = (1 - alpha) / (_row_sums(matrix) + 1)

    def diffuse(y: Tensor) -> Tensor:
        z = y
        for _ in range(products):
            z = scale * (matrix @ z + z) + alpha * y
        return z

    def transposed(y: Tensor) -> Tensor:
        z, total = y, torch.zeros_like(y)
        for _ in range(products):  # Horner's scheme: all terms are powers of one matrix
            total = total + alpha * z
            z = scale * z
            z = matrix.T @ z + z
        return total + z

    return Walk(diffuse, transposed)


def _row_sums(matrix: SparseMatrix) -> Tensor:
    return multiply(matrix, matrix.value.new_ones(matrix.shape[1], 1))


def check_heat_time(t: float) -> None:
    """Raise unless the heat kernel can be computed for this time.

    Examples:
        >>> check_heat_time(5.0)
    """
    if not 0 < t <= MAX_HEAT_TIME:
        raise InputError(f"t={t}: must be above 0 and at most {MAX_HEAT_TIME}")


class _Diffuse(torch.autograd.Function):
    """A polynomial of a matrix times Y. The gradient is the same polynomial of the transpose; no tensors are saved."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, matrix: _Matrix, polynomial: Polynomial) -> Tensor:
        ctx.matrix, ctx.polynomial = matrix, polynomial
        return polynomial(matrix, y)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.polynomial(ctx.matrix.T, grad), None, None
