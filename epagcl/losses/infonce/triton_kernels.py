"""Exact InfoNCE as fused Triton kernels: no similarity is ever written to memory.

On the stacked rows of both views the loss is one NT-Xent (see :func:`epagcl.losses.infonce.loss.info_nce`). With
a_i = √(log₂e/τ)·x_i/‖x_i‖, rounded once to the precision of the operands, E_ij = e^{s_ij} = 2^{a_i·a_j}. One array is
therefore the operand of every product, and E is symmetric. Since |s| ≤ 1/τ, no running maximum is needed. No two
programs write to the same place, so there are no atomics, and repeated runs are bit-equal.

``unit_kernel``        a_i and ‖x_i‖
``row_sums_kernel``    partial sums of S_i = Σ_{j≠i} E_ij; a tile right of the diagonal is used for rows and columns
``add_up_kernel``      S_i from its parts
``row_losses_kernel``  log S_i − s_{i,pos(i)}
``gather_kernel``      Σ_j E_ij (1/S_i + 1/S_j) a_j
``finish_kernel``      the term of the positive, and the gradient through x/‖x‖

The operands are fp16 or bf16 numbers, or float32 numbers rounded to tf32. For ``fp32`` each number is two fp16 halves,
a = high + low with 22 bits, and a product is three products (high·high + high·low + low·high).

Rows may come in groups of equal size, with one NT-Xent each. This computes the loss within batches.
"""

import math

import triton
import triton.language as tl

EPS = tl.constexpr(1e-12)  # as in F.normalize
LN2 = tl.constexpr(math.log(2))
# The weights of the gradient are at most 2 and mostly near 1/M. Multiplied by LIFT, they are in the range of fp16.
LIFT = tl.constexpr(2.0**14)
SPREAD = tl.constexpr(256.0)  # lifts the low halves of fp32 operands out of fp16's subnormal numbers


@triton.jit
def _to_tf32(v):
    """Round to the nearest tf32 number. Tensor cores would truncate, always towards zero."""
    return ((v.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def unit_kernel(x, a, norm, m, padded, d, scale, ROWS: tl.constexpr, WIDTH: tl.constexpr, HALVES: tl.constexpr):
    """Compute a_i = scale·x_i/‖x_i‖ and ‖x_i‖. Padding rows and columns of a are 0."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, WIDTH)
    v = tl.load(x + row[:, None] * d + col, mask=(row < m)[:, None] & (col < d), other=0.0).to(tl.float32)
    length = tl.maximum(tl.sqrt(tl.sum(v * v, 1)), EPS)
    tl.store(norm + row, length, mask=row < m)
    v = v / length[:, None] * scale
    out = a + row[:, None] * (HALVES * WIDTH) + col
    high = _to_tf32(v) if a.dtype.element_ty == tl.float32 else v.to(a.dtype.element_ty)
    allocated = (row < padded)[:, None]
    tl.store(out, high, mask=allocated)
    if HALVES == 2:
        tl.store(out + WIDTH, (v - high.to(tl.float32)).to(a.dtype.element_ty), mask=allocated)


@triton.jit
def _tile(a, row, first, ROWS: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr):
    """Load a[row : row + ROWS, first : first + WIDTH]. The array is padded, so no mask is needed."""
    r = row + tl.arange(0, ROWS)
    return tl.load(a + r.to(tl.int64)[:, None] * STRIDE + first + tl.arange(0, WIDTH))


@triton.jit
def _similarity(q, q_low, k, k_low, row, col, size, MASKED: tl.constexpr, PRECISION: tl.constexpr):
    """Compute E of a tile. If MASKED, it is 0 on the diagonal and past the end of the group."""
    if PRECISION == "fp32":
        # Small terms first: tensor cores truncate after each addition, so large terms should go through few of them.
        s = tl.dot(q_low, tl.trans(k), tl.dot(q, tl.trans(k_low)))
        e = tl.exp2(tl.dot(q, tl.trans(k), s) * (SPREAD**-2))
    else:
        e = tl.exp2(tl.dot(q, tl.trans(k), input_precision="tf32"))
    if MASKED:
        e = tl.where((row[:, None] != col[None, :]) & (col < size)[None, :], e, 0.0)
    return e


@triton.jit
def _sum_tile(
    total,
    q,
    q_low,
    a,
    base,
    row,
    start,
    size,
    column_part,
    BOTH: tl.constexpr,
    MASKED: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    HALVES: tl.constexpr = 2 if PRECISION == "fp32" else 1
    col = start + tl.arange(0, COLUMNS)
    k = _tile(a, base + start, 0, COLUMNS, WIDTH, HALVES * WIDTH)
    k_low = _tile(a, base + start, WIDTH, COLUMNS, WIDTH, HALVES * WIDTH) if HALVES == 2 else k
    e = _similarity(q, q_low, k, k_low, row, col, size, MASKED, PRECISION)
    if BOTH:
        tl.store(column_part + col, tl.sum(e, 0), mask=col < size)
    return total + tl.sum(e, 1)


@triton.jit
def row_sums_kernel(
    a,
    row_part,
    column_part,
    size,
    first,
    blocks,
    chunk,
    SYMMETRIC: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Sum the rows of one block over one chunk of columns into row_part[group, chunk, row of this round].

    If SYMMETRIC, the sums start at the block's square on the diagonal. Right of that square, the sums over the block's
    rows go to column_part[group, block, column], in place of the tiles below the diagonal.
    """
    HALVES: tl.constexpr = 2 if PRECISION == "fp32" else 1
    block, group, part = tl.program_id(0) % blocks, tl.program_id(0) // blocks, tl.program_id(1)
    start = (first + block) * ROWS
    after = start + ROWS
    lo, hi = part * chunk, tl.minimum((part + 1) * chunk, size)
    if SYMMETRIC and hi <= start:
        return
    base = group * size
    row = start + tl.arange(0, ROWS)
    q = _tile(a, base + start, 0, ROWS, WIDTH, HALVES * WIDTH)
    q_low = _tile(a, base + start, WIDTH, ROWS, WIDTH, HALVES * WIDTH) if HALVES == 2 else q
    column_part += (group.to(tl.int64) * blocks + block) * size
    total = tl.zeros([ROWS], tl.float32)
    whole = size // COLUMNS * COLUMNS
    if not SYMMETRIC:
        for c in tl.range(lo, tl.minimum(hi, start), COLUMNS, num_stages=STAGES):
            total = _sum_tile(
                total, q, q_low, a, base, row, c, size, column_part, False, False, COLUMNS, WIDTH, PRECISION
            )
    for c in tl.range(tl.maximum(lo, start), tl.minimum(hi, after), COLUMNS, num_stages=1):
        total = _sum_tile(total, q, q_low, a, base, row, c, size, column_part, False, True, COLUMNS, WIDTH, PRECISION)
    for c in tl.range(tl.maximum(lo, after), tl.minimum(hi, whole), COLUMNS, num_stages=STAGES):
        total = _sum_tile(
            total, q, q_low, a, base, row, c, size, column_part, SYMMETRIC, False, COLUMNS, WIDTH, PRECISION
        )
    for c in tl.range(tl.maximum(tl.maximum(lo, after), whole), hi, COLUMNS, num_stages=1):
        total = _sum_tile(
            total, q, q_low, a, base, row, c, size, column_part, SYMMETRIC, True, COLUMNS, WIDTH, PRECISION
        )
    out = (group.to(tl.int64) * tl.num_programs(1) + part) * blocks + block
    tl.store(row_part + out * ROWS + tl.arange(0, ROWS), total)


@triton.jit
def add_up_kernel(
    row_part, column_part, sums, size, first, blocks, left, chunk, chunks, SYMMETRIC: tl.constexpr, ROWS: tl.constexpr
):
    """Add the partial sums of a round to S, in a fixed order."""
    # A round changes only the ``left`` blocks from its first block on.
    block, group = first + tl.program_id(0) % left, (tl.program_id(0) // left).to(tl.int64)
    local = tl.arange(0, ROWS)
    col = block * ROWS + local
    inside = col < size
    out = sums + group * size + col
    total = tl.load(out, mask=inside, other=0.0)
    if SYMMETRIC:
        column_part += group * blocks * size + col
        for _ in range(tl.minimum(blocks, block - first)):
            total += tl.load(column_part, mask=inside, other=0.0)
            column_part += size
    if block < first + blocks:
        begin = 0
        if SYMMETRIC:
            begin = block * ROWS // chunk
        at = row_part + ((group * chunks + begin) * blocks + block - first) * ROWS + local
        for _ in range(begin, chunks):
            total += tl.load(at)
            at += blocks * ROWS
    tl.store(out, total, mask=inside)


@triton.jit
def row_losses_kernel(a, sums, out, size, m, ROWS: tl.constexpr, WIDTH: tl.constexpr, HALVES: tl.constexpr):
    """Compute log S_i − s_{i,pos(i)}. s uses the same rounded rows as S, so a perfect match has no loss."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = (row < m)[:, None]
    other = row // size * size + (row % size + size // 2) % size
    col = tl.arange(0, WIDTH)
    u = tl.load(a + row[:, None] * (HALVES * WIDTH) + col, mask=inside, other=0.0).to(tl.float32)
    v = tl.load(a + other[:, None] * (HALVES * WIDTH) + col, mask=inside, other=0.0).to(tl.float32)
    if HALVES == 2:
        u += tl.load(a + row[:, None] * (2 * WIDTH) + WIDTH + col, mask=inside, other=0.0).to(tl.float32)
        v += tl.load(a + other[:, None] * (2 * WIDTH) + WIDTH + col, mask=inside, other=0.0).to(tl.float32)
        u, v = u / SPREAD, v / SPREAD
    s = tl.load(sums + row, mask=row < m, other=1.0)
    tl.store(out + row, tl.log(s) - LN2 * tl.sum(u * v, 1), mask=row < m)


@triton.jit
def _gather_tile(
    acc,
    q,
    q_low,
    a,
    inverse,
    mine,
    base,
    row,
    start,
    first,
    size,
    MASKED: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    SLICE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    HALVES: tl.constexpr = 2 if PRECISION == "fp32" else 1
    col = start + tl.arange(0, COLUMNS)
    k = _tile(a, base + start, 0, COLUMNS, WIDTH, HALVES * WIDTH)
    k_low = _tile(a, base + start, WIDTH, COLUMNS, WIDTH, HALVES * WIDTH) if HALVES == 2 else k
    e = _similarity(q, q_low, k, k_low, row, col, size, MASKED, PRECISION)
    theirs = tl.load(inverse + base + col, mask=col < size, other=0.0) if MASKED else tl.load(inverse + base + col)
    p = e * (mine[:, None] + theirs[None, :])
    if PRECISION == "tf32":
        return tl.dot(_to_tf32(p), k, acc, input_precision="tf32")
    high = p.to(k.dtype)
    if PRECISION == "fp32":
        low = (p - high.to(tl.float32)).to(k.dtype)
        if SLICE < WIDTH:
            k = _tile(a, base + start, first, COLUMNS, SLICE, HALVES * WIDTH)
            k_low = _tile(a, base + start, WIDTH + first, COLUMNS, SLICE, HALVES * WIDTH)
        # The sum is added outside the tensor cores, which would truncate at each of the M/16 additions.
        return acc + tl.dot(high, k, tl.dot(low, k, tl.dot(high, k_low))) * (1 / LIFT)
    return tl.dot(high, k, acc)


@triton.jit
def gather_kernel(
    a,
    inverse,
    out,
    size,
    m,
    d,
    blocks,
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
    """Compute out[part, i] = Σ_j E_ij (inverse_i + inverse_j) a_j over the part's share of the columns.

    A program computes one slice of the width of a. The slice is the whole width except in fp32, where registers hold
    both a sum and its addend. A round takes the tiles from ``begin`` on. If ADD, it adds to the output of earlier
    rounds. The LAST round also takes the masked tiles.
    """
    HALVES: tl.constexpr = 2 if PRECISION == "fp32" else 1
    SLICES: tl.constexpr = WIDTH // SLICE
    block, group, part = tl.program_id(0) % blocks, tl.program_id(0) // blocks, tl.program_id(1) // SLICES
    first = tl.program_id(1) % SLICES * SLICE
    start = block * ROWS
    base = group * size
    row = start + tl.arange(0, ROWS)
    q = _tile(a, base + start, 0, ROWS, WIDTH, HALVES * WIDTH)
    q_low = _tile(a, base + start, WIDTH, ROWS, WIDTH, HALVES * WIDTH) if HALVES == 2 else q
    mine = tl.load(inverse + base + row, mask=row < size, other=0.0)
    acc = tl.zeros([ROWS, SLICE], tl.float32)
    # The whole tiles left and right of the diagonal need no mask. They form one loop, which is divided among the parts.
    whole = size // COLUMNS
    left = tl.minimum(start // COLUMNS, whole)
    right = tl.minimum((start + ROWS + COLUMNS - 1) // COLUMNS, whole)
    plain = whole - (right - left)
    for t in tl.range(begin + part * per_part, tl.minimum(begin + (part + 1) * per_part, plain), num_stages=STAGES):
        c = tl.where(t < left, t, t + right - left) * COLUMNS
        acc = _gather_tile(
            acc, q, q_low, a, inverse, mine, base, row, c, first, size, False, COLUMNS, WIDTH, SLICE, PRECISION
        )
    if LAST and part == tl.num_programs(1) // SLICES - 1:
        for t in tl.range(left, right, num_stages=1):
            c = t * COLUMNS
            acc = _gather_tile(
                acc, q, q_low, a, inverse, mine, base, row, c, first, size, True, COLUMNS, WIDTH, SLICE, PRECISION
            )
        for c in tl.range(whole * COLUMNS, size, COLUMNS, num_stages=1):
            acc = _gather_tile(
                acc, q, q_low, a, inverse, mine, base, row, c, first, size, True, COLUMNS, WIDTH, SLICE, PRECISION
            )
    i = part.to(tl.int64) * m + base + row
    col = first + tl.arange(0, SLICE)
    at = out + i[:, None] * d + col[None, :]
    inside = (row < size)[:, None] & (col < d)[None, :]
    if ADD:
        acc += tl.load(at, mask=inside, other=0.0)
    tl.store(at, acc, mask=inside)


@triton.jit
def finish_kernel(
    parts,
    a,
    x,
    norm,
    grad,
    dx,
    size,
    m,
    d,
    num_parts,
    part_size,
    scale,
    gather_scale,
    factor,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    HALVES: tl.constexpr,
):
    """Compute dz_i = factor·(Σ_j ... − 2 z_pos(i)), and by z = x/‖x‖ dx = (dz − (dz·z) z)/‖x‖."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    other = row // size * size + (row % size + size // 2) % size
    col = tl.arange(0, WIDTH)
    inside = (row < m)[:, None] & (col < d)[None, :]
    dz = tl.zeros([ROWS, WIDTH], tl.float32)
    at = parts + row[:, None] * d + col[None, :]
    for _ in range(num_parts):
        dz += tl.load(at, mask=inside, other=0.0)
        at += part_size
    positive = tl.load(a + other[:, None] * (HALVES * WIDTH) + col[None, :], mask=inside, other=0.0).to(tl.float32)
    if HALVES == 2:
        low = tl.load(a + other[:, None] * (2 * WIDTH) + WIDTH + col[None, :], mask=inside, other=0.0)
        positive += low.to(tl.float32)
    dz = (dz * gather_scale - 2.0 / scale * positive) * (tl.load(grad) * factor)
    length = tl.load(norm + row, mask=row < m, other=1.0)[:, None]
    z = tl.load(x + row[:, None] * d + col[None, :], mask=inside, other=0.0).to(tl.float32) / length
    radial = tl.sum(dz * z, 1)[:, None]
    dz = tl.where(length > EPS, dz - radial * z, dz) / length
    tl.store(dx + row[:, None] * d + col[None, :], dz, mask=inside)
