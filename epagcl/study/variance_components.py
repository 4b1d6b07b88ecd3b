"""Variance components of a crossed design, such as seeds × splits: how much each of the two contributes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from epagcl.core.errors import InputError


@dataclass(frozen=True)
class VarianceComponents:
    """The components of y_ij = μ + a_i + b_j + e_ij with random, independent effects of rows (a) and columns (b).

    Attributes:
        rows: number of rows.
        columns: number of columns.
        mean: μ.
        of_rows: variance of a; an estimate below 0 is set to 0.
        of_columns: variance of b, likewise.
        rest: variance of e, the interaction of row and column.

    Examples:
        >>> parts = variance_components([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]])
        >>> parts.of_rows, parts.of_columns, parts.rest
        (2.0, 1.0, 0.0)
    """

    rows: int
    columns: int
    mean: float
    of_rows: float
    of_columns: float
    rest: float

    @property
    def total(self) -> float:
        """Variance of a single run, with a row and a column of its own."""
        return self.of_rows + self.of_columns + self.rest

    @property
    def shares(self) -> tuple[float, float, float]:
        """The shares of rows, columns and rest in the total; zeros if nothing varies."""
        total = self.total or 1.0
        return self.of_rows / total, self.of_columns / total, self.rest / total

    def standard_error(self, rows: int, columns: int) -> float:
        """Return the standard error of the mean over new rows × columns, every row crossed with every column.

        Examples:
            >>> parts = VarianceComponents(2, 3, 0.0, of_rows=4.0, of_columns=9.0, rest=0.0)
            >>> parts.standard_error(rows=4, columns=3)
            2.0
        """
        return float((self.of_rows / rows + self.of_columns / columns + self.rest / (rows * columns)) ** 0.5)


def variance_components(values: npt.ArrayLike) -> VarianceComponents:
    """Estimate the variance components of a crossed table with one value per cell, from its mean squares.

    With R rows and C columns, the expected mean squares are E[MS_rows] = σ_e² + C σ_a², E[MS_columns] = σ_e² + R σ_b²
    and E[MS_rest] = σ_e² (two-way random effects, no replication). The estimates solve these equations. They are
    unbiased until those below 0 are set to 0.

    Args:
        values: ``[R, C]``, at least two rows and two columns, without gaps.

    Examples:
        >>> variance_components([[1.0, 1.0], [1.0, 1.0]]).total
        0.0
    """
    y = np.asarray(values, dtype=float)
    if y.ndim != 2 or min(y.shape) < 2 or not np.isfinite(y).all():
        raise InputError(f"values: shape {list(y.shape)}; give a table of at least 2 x 2 finite numbers")
    rows, columns = y.shape
    mean, by_row, by_column = y.mean(), y.mean(1, keepdims=True), y.mean(0, keepdims=True)
    row_square = columns * ((by_row - mean) ** 2).sum() / (rows - 1)
    column_square = rows * ((by_column - mean) ** 2).sum() / (columns - 1)
    rest = float(((y - by_row - by_column + mean) ** 2).sum() / ((rows - 1) * (columns - 1)))
    return VarianceComponents(
        rows,
        columns,
        float(mean),
        of_rows=max(0.0, float(row_square - rest) / columns),
        of_columns=max(0.0, float(column_square - rest) / rows),
        rest=rest,
    )
