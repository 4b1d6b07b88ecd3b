"""Triton kernels for the rows of one rank and the visiting rows of another: rectangles without a diagonal.

They use the tiles of :mod:`epagcl.losses.infonce.triton_kernels`, which explains the operands. Rows and columns are
separate arrays, each followed by zeros that a tile may read.

``block_sums_kernel``    Σ_j E_ij of each row, and Σ_i E_ij of each column
``block_gather_kernel``  Σ_j E_ij (1/S_i + 1/S_j) b_j of each row
"""

import triton
import triton.language as tl

from epagcl.losses.infonce.triton_kernels import _gather_tile, _similarity, _tile


@triton.jit
def _block_tile(
    total,
    q,
    q_low,
    columns_a,
    inside,
    nowhere,
    start,
    num_columns,
    column_part,
    MASKED: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    HALVES: tl.constexpr = 2 if PRECISION == "fp32" else 1
    col = start + tl.arange(0, COLUMNS)
    k = _tile(columns_a, start, 0, COLUMNS, WIDTH, HALVES * WIDTH)
    k_low = _tile(columns_a, start, WIDTH, COLUMNS, WIDTH, HALVES * WIDTH) if HALVES == 2 else k
    e = _similarity(q, q_low, k, k_low, nowhere, col, num_columns, MASKED, PRECISION)
    e = tl.where(inside[:, None], e, 0.0)  # e⁰ of the rows past the end must not be added to the columns
    tl.store(column_part + col, tl.sum(e, 0), mask=col < num_columns)
    return total + tl.sum(e, 1)


@triton.jit
def block_sums_kernel(
    rows_a,
    columns_a,
    row_part,
    column_part,
    num_rows,
    num_columns,
    first,
    blocks,
    chunk,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Sum a block of rows over a chunk of columns into row_part[chunk, block], and the rows into column_part[block]."""
    HALVES: tl.constexpr = 2 if PRECISION == "fp32" else 1
    block, part = tl.program_id(0), tl.program_id(1)
    start = (first + block) * ROWS
    lo, hi = part * chunk, tl.minimum((part + 1) * chunk, num_columns)
    inside = start + tl.arange(0, ROWS) < num_rows
    nowhere = -1 - tl.arange(0, ROWS)  # no row of another rank is on the diagonal
    q = _tile(rows_a, start, 0, ROWS, WIDTH, HALVES * WIDTH)
    q_low = _tile(rows_a, start, WIDTH, ROWS, WIDTH, HALVES * WIDTH) if HALVES == 2 else q
    column_part += block.to(tl.int64) * num_columns
    total = tl.zeros([ROWS], tl.float32)
    whole = num_columns // COLUMNS * COLUMNS
    for c in tl.range(lo, tl.minimum(hi, whole), COLUMNS, num_stages=STAGES):
        total = _block_tile(
            total, q, q_low, columns_a, inside, nowhere, c, num_columns, column_part, False, COLUMNS, WIDTH, PRECISION
        )
    for c in tl.range(tl.maximum(lo, whole), hi, COLUMNS, num_stages=1):
        total = _block_tile(
            total, q, q_low, columns_a, inside, nowhere, c, num_columns, column_part, True, COLUMNS, WIDTH, PRECISION
        )
    tl.store(row_part + (part.to(tl.int64) * blocks + block) * ROWS + tl.arange(0, ROWS), total)


@triton.jit
def block_gather_kernel(
    rows_a,
    rows_inverse,
    columns_a,
    columns_inverse,
    out,
    num_rows,
    num_columns,
    d,
    begin,
    per_part,
    ADD: tl.constexpr,
    LAST: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    SLICE: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Compute out[part, i] = Σ_j E_ij (rows_inverse_i + columns_inverse_j) b_j over the part's share of the columns.

    Slices and rounds are those of :func:`epagcl.losses.infonce.triton_kernels.gather_kernel`.
    """
    HALVES: tl.constexpr = 2 if PRECISION == "fp32" else 1
    SLICES: tl.constexpr = WIDTH // SLICE
    start, part = tl.program_id(0) * ROWS, tl.program_id(1) // SLICES
    first = tl.program_id(1) % SLICES * SLICE
    row = start + tl.arange(0, ROWS)
    nowhere = -1 - tl.arange(0, ROWS)
    q = _tile(rows_a, start, 0, ROWS, WIDTH, HALVES * WIDTH)
    q_low = _tile(rows_a, start, WIDTH, ROWS, WIDTH, HALVES * WIDTH) if HALVES == 2 else q
    mine = tl.load(rows_inverse + row, mask=row < num_rows, other=0.0)
    acc = tl.zeros([ROWS, SLICE], tl.float32)
    whole = num_columns // COLUMNS
    for t in tl.range(begin + part * per_part, tl.minimum(begin + (part + 1) * per_part, whole), num_stages=STAGES):
        acc = _gather_tile(
            acc, q, q_low, columns_a, columns_inverse, mine, 0, nowhere, t * COLUMNS, first, num_columns,
            False, COLUMNS, WIDTH, SLICE, PRECISION,
        )  # fmt: skip
    if LAST and part == tl.num_programs(1) // SLICES - 1:
        for c in tl.range(whole * COLUMNS, num_columns, COLUMNS, num_stages=1):
            acc = _gather_tile(
                acc, q, q_low, columns_a, columns_inverse, mine, 0, nowhere, c, first, num_columns,
                True, COLUMNS, WIDTH, SLICE, PRECISION,
            )  # fmt: skip
    i = part.to(tl.int64) * num_rows + row
    col = first + tl.arange(0, SLICE)
    at = out + i[:, None] * d + col[None, :]
    inside = (row < num_rows)[:, None] & (col < d)[None, :]
    if ADD:
        acc += tl.load(at, mask=inside, other=0.0)
    tl.store(at, acc, mask=inside)
