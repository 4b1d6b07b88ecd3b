"""Principal components by a randomised block Krylov method. The matrix is only multiplied, never formed or centred."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from epagcl.core.errors import TrainingError
from epagcl.core.randomness import Stream, uniform

if TYPE_CHECKING:
    from epagcl.core.streamed import DiskMatrix

ITERATIONS = 16  # blocks of the Krylov space
LEAST_OVERSAMPLING = 64
CHUNK = 1 << 16  # rows that are converted to float64 at once
NOISE = 16 * torch.finfo(torch.float32).eps  # rounding errors of products, relative to the norm of the matrix


class Operator(NamedTuple):
    """A matrix M, given by its products with dense matrices.

    Attributes:
        shape: N and F.
        multiply: returns M @ v for v of shape ``[F, k]``.
        multiply_transposed: returns Mᵀ @ v for v of shape ``[N, k]``.
        device: the device of all factors and products.
        rows: the rows of M in this process, if they are spread over several: ``multiply`` returns these rows, and
            ``multiply_transposed`` takes them. None: all rows.
        total: returns the sum of a tensor over all processes.

    Examples:
        >>> operator = Operator.of(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        >>> operator.shape, operator.multiply(torch.ones(2, 1)).flatten().tolist()
        ((3, 2), [3.0, 7.0, 11.0])
    """

    shape: tuple[int, int]
    multiply: Callable[[Tensor], Tensor]
    multiply_transposed: Callable[[Tensor], Tensor]
    device: torch.device
    rows: slice | None = None
    total: Callable[[Tensor], Tensor] = lambda tensor: tensor

    @classmethod
    def of(cls, dense: Tensor) -> "Operator":
        """Return the operator of a dense matrix."""
        return cls((dense.shape[0], dense.shape[1]), lambda v: dense @ v, lambda v: dense.T @ v, dense.device)

    def spread(self, num_rows: int, rows: slice, total: Callable[[Tensor], Tensor]) -> "Operator":
        """Return the operator of a matrix of which this one has some rows only.

        Args:
            num_rows: number of rows of the whole matrix, N.
            rows: the rows that this operator has.
            total: returns the sum of a tensor over all processes.
        """
        transposed = self.multiply_transposed
        return Operator(
            shape=(num_rows, self.shape[1]),
            multiply=self.multiply,
            multiply_transposed=lambda v: total(transposed(v)),
            device=self.device,
            rows=rows,
            total=total,
        )

    @property
    def num_rows(self) -> int:
        """Number of rows in this process."""
        return self.shape[0] if self.rows is None else self.rows.stop - self.rows.start


def side_by_side(operators: Sequence[Operator], weights: Sequence[float]) -> Operator:
    """Return the matrix [w_1 M_1, w_2 M_2, ...] of matrices with the same rows.

    Args:
        operators: the matrices, at least one.
        weights: the factor of each.

    Examples:
        >>> matrix = Operator.of(torch.tensor([[1.0], [2.0]]))
        >>> side_by_side([matrix, matrix], [1.0, 10.0]).multiply(torch.eye(2)).tolist()
        [[1.0, 10.0], [2.0, 20.0]]
    """
    widths = [operator.shape[1] for operator in operators]

    def multiply(v: Tensor) -> Tensor:
        products = zip(operators, weights, v.split(widths), strict=True)
        return torch.stack([weight * operator.multiply(part) for operator, weight, part in products]).sum(0)

    def multiply_transposed(v: Tensor) -> Tensor:
        return torch.cat(
            [weight * operator.multiply_transposed(v) for operator, weight in zip(operators, weights, strict=True)]
        )

    shape = (operators[0].shape[0], sum(widths))
    return Operator(shape, multiply, multiply_transposed, operators[0].device)


class Components(NamedTuple):
    """Principal components of the rows of a matrix. The scores of rows R are ``(R − mean) @ directions``.

    Attributes:
        mean: the mean row ``[F]``.
        directions: orthonormal columns ``[F, dim]`` in order of decreasing variance. Columns beyond the rank of the
            centred matrix are zero.

    Examples:
        >>> components = principal_components(Operator.of(torch.tensor([[0.0, 1.0], [0.0, 3.0]])), dim=1)
        >>> components.mean.tolist(), components.directions.flatten().tolist()
        ([0.0, 2.0], [0.0, 1.0])
    """

    mean: Tensor
    directions: Tensor


@torch.no_grad()
def principal_components(
    operator: Operator,
    dim: int,
    *,
    mean: Tensor | None = None,
    iterations: int = ITERATIONS,
    oversampling: int | None = None,
    store: "DiskMatrix | None" = None,
) -> Components:
    """Return the leading principal components of the rows of a matrix.

    With Mᶜ = M − 1μᵀ, the components are the directions of largest variance (Rayleigh–Ritz) within the span of
    V, GV, G²V, ..., where G = MᶜᵀMᶜ and V is a narrow random block. From `"Randomized Block Krylov Methods for Stronger
    and Faster Approximate Singular Value Decomposition" <https://arxiv.org/abs/1504.05477>`_: for the same number of
    products, the span is much closer to the leading directions than that of the last, wide block alone.

    If the matrix has at most ``dim + oversampling`` columns or rows, the result is exact. V depends on nothing but its
    shape, and the entry of largest absolute value of each direction is positive, so that a matrix has one result on
    each device.

    Args:
        operator: the matrix, N×F.
        dim: number of components.
        mean: the row μ that is subtracted from each row, ``[F]``; by default the mean row.
        iterations: number of blocks. More and narrower blocks cost the same and are closer to the exact components.
        oversampling: dimensions of the span beyond ``dim``; by default ``dim``, and at least 64.
        store: where products ``[N, dim + oversampling]`` are kept if they are too large for memory; None: in memory.

    Examples:
        >>> points = torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
        >>> mean, directions = principal_components(Operator.of(points), dim=2)
        >>> (points - mean) @ directions[:, 0]
        tensor([-1.4142,  0.0000,  1.4142])
        >>> directions[:, 1].tolist()  # the centred matrix has rank 1
        [0.0, 0.0]
    """
    n, f = operator.shape
    if mean is None:
        mean = operator.multiply_transposed(torch.ones(operator.num_rows, 1, device=operator.device))[:, 0] / n
    width = basis_width(dim, oversampling)
    product: Tensor | DiskMatrix
    if f <= width and store is None:
        basis = torch.eye(f, device=operator.device)
        product = _centred(operator, mean, basis)
    elif f <= width and store is not None:
        basis, product = torch.eye(f, device=operator.device), store
        for block in basis.split(-(-width // iterations), dim=1):
            store.append(_centred(operator, mean, block.contiguous()))
    elif n <= width:
        unit = torch.eye(n, device=operator.device)
        rows = _centred_transposed(operator, mean, unit if operator.rows is None else unit[operator.rows])
        basis = _orthonormal(rows, rows[:, :0])
        product = _centred(operator, mean, basis)
    else:
        basis, product = _krylov(operator, mean, width, iterations, store)
    removed = n * double(mean).square().sum()
    return Components(mean, rotated(basis, operator.total(_gram(product)), removed, dim))


def basis_width(dim: int, oversampling: int | None = None) -> int:
    """Return the number of directions among which :func:`principal_components` searches.

    Examples:
        >>> basis_width(256), basis_width(8), basis_width(8, 10)
        (512, 72, 18)
    """
    return dim + (max(dim, LEAST_OVERSAMPLING) if oversampling is None else oversampling)


def _krylov(
    operator: Operator, mean: Tensor, width: int, iterations: int, store: "DiskMatrix | None"
) -> "tuple[Tensor, Tensor | DiskMatrix]":
    """Return an orthonormal basis V of the block Krylov space of MᶜᵀMᶜ, ``[F, width]``, and MᶜV."""
    f = operator.shape[1]
    basis = torch.empty(f, width, device=operator.device)
    product = None if store is not None else torch.empty(operator.num_rows, width, device=operator.device)
    step = -(-width // iterations)
    counter = torch.arange(step * f, device=operator.device)
    block = uniform(counter, 0, Stream.PROJECTION).sub_(0.5).view(step, f).T
    for start in range(0, width, step):
        stop = min(start + step, width)
        block = basis[:, start:stop] = _orthonormal(block[:, : stop - start], basis[:, :start])
        image = _centred(operator, mean, block)
        if product is not None:
            product[:, start:stop] = image
        elif store is not None:
            store.append(image)
        if stop < width:
            block = _centred_transposed(operator, mean, image)
    return basis, product if store is None else store  # type: ignore[return-value]


def _centred(operator: Operator, mean: Tensor, v: Tensor) -> Tensor:
    """Return (M − 1μᵀ) v."""
    return operator.multiply(v).sub_(mean @ v)


def _centred_transposed(operator: Operator, mean: Tensor, v: Tensor) -> Tensor:
    """Return (M − 1μᵀ)ᵀ v."""
    return operator.multiply_transposed(v).sub_(torch.outer(mean, operator.total(v.sum(0))))


def double(x: Tensor) -> Tensor:
    """Return x in float64; on the CPU if its device is MPS, which has no float64."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def _gram(x: "Tensor | DiskMatrix") -> Tensor:
    """Return xᵀx, summed in float64."""
    total = double(torch.zeros(x.shape[1], x.shape[1], device=x.device))
    for part in map(double, x.split(CHUNK)):
        total.addmm_(part.T, part)
    return total


def _orthonormal(y: Tensor, basis: Tensor) -> Tensor:
    """Return orthonormal columns that span, with ``basis``, what y and ``basis`` span.

    A column of the result is zero if it depends on others beyond the precision of float64; columns that depend on
    others in float32 only become directions of rounding errors, which do no harm. Three rounds of projection and
    y ← y R⁻¹ with yᵀy = RᵀR: the first two bring nearly dependent columns apart, the last one makes them orthogonal.
    Nothing is read back from the device.

    Args:
        y: the columns, ``[F, k]``.
        basis: orthonormal or zero columns.
    """
    q, basis64 = double(y), double(basis)
    shift = 1e-15 * y.shape[1] * torch.eye(y.shape[1], dtype=q.dtype, device=q.device)
    new = torch.ones_like(q[0], dtype=torch.bool)
    for _ in range(3):
        norm = torch.linalg.vector_norm(q, dim=0)
        q = q / norm.where(norm > 0, 1)
        q = q - basis64 @ (basis64.T @ q)
        factor, _ = torch.linalg.cholesky_ex(q.T @ q + shift, upper=True)
        new = factor.diagonal() > 0.5  # close to 1 in the last round unless the column depends on others
        q = torch.linalg.solve_triangular(factor, q, upper=True, left=False)
    return torch.where(new, q, 0.0).to(y)


def rotated(basis: Tensor, gram: Tensor, removed: Tensor, dim: int) -> Tensor:
    """Return the directions of largest variance in the span of an orthonormal basis.

    Args:
        basis: the basis V, ``[F, k]``.
        gram: (MᶜV)ᵀ MᶜV.
        removed: squared norm of what was subtracted from M. The difference has rounding errors of this size too.
        dim: number of directions; those beyond k are zero.
    """
    try:
        variance, vectors = (part.flip(-1)[..., :dim] for part in torch.linalg.eigh(gram))
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # NaN or infinity
        raise TrainingError(
            "the values are too large for principal components; lower lr, or scale the features"
        ) from None
    real = variance > NOISE**2 * (gram.trace() + removed)
    directions = torch.where(real, double(basis) @ vectors, 0.0).to(basis)
    largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))
    directions = directions * torch.where(largest < 0, -1.0, 1.0)
    return torch.nn.functional.pad(directions, (0, dim - directions.shape[1]))
