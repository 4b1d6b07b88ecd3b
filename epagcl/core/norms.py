"""Lengths of rows: of features, summed in float64, and of activations."""

import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.core.hardware import takes_kernels
from epagcl.core.sparse import SparseMatrix
from epagcl.core.streamed import StreamedRows

CHUNK = 1 << 22  # numbers that are converted to float64 at once


def inverse_norms(x: Tensor | SparseMatrix | StreamedRows, columns: Tensor | None = None) -> Tensor:
    """Return 1/‖x_i‖ of each row as a column ``[N, 1]``, and 0 for a row of zeros.

    Sums of squares in float64 neither overflow nor underflow, whatever the scale of the features.

    Args:
        x: features ``[N, F]``, dense, sparse, or read by chunks of rows.
        columns: weights of the squares ``[F]``, such as 0 and 1 for the columns that count; None: all ones.

    Examples:
        >>> inverse_norms(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).flatten()
        tensor([0.2000, 0.0000])
    """
    if isinstance(x, StreamedRows):
        return torch.cat([inverse_norms(chunk, columns) for chunk in x.chunks()])
    device = x.device
    if device.type == "mps":  # which has no float64
        x, columns = x.to("cpu"), None if columns is None else columns.cpu()
    if isinstance(x, SparseMatrix):
        squares = x.value.double().square()
        squares = squares if columns is None else squares * columns.double()[x.col.long()]
        total = torch.segment_reduce(squares, "sum", offsets=x.rowptr.long())
    else:
        weights = torch.ones(x.shape[1], device=x.device) if columns is None else columns
        parts = x.split(max(1, CHUNK // max(x.shape[1], 1)))
        total = torch.cat([part.double().square() @ weights.double() for part in parts])
    norm = total.sqrt()
    inverse = torch.where(norm > torch.finfo(torch.float32).tiny, 1 / norm, 0.0)
    return inverse[:, None].to(device, torch.float32)


def unit_rows(x: Tensor) -> Tensor:
    """Return x/‖x‖ of each row, differentiable once; rows of zeros stay zeros.

    Examples:
        >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    if takes_kernels(x):
        from epagcl.core.kernels import unit

        return unit.unit_rows(x)
    return F.normalize(x, dim=1)
