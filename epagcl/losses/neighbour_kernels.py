"""GREET's loss as fused Triton kernels: no similarity is ever written to memory.

The unit rows of both views are scaled to √(log₂e/τ) and rounded once to the precision of the operands, so that
e^{s_ik} = 2^{a_i·b_k}. Since |s| ≤ 1/τ, no running maximum is needed. The positives are bits, 32 columns to a word. A
tile of similarities reads its bits, so positives are left out of the sums exactly.

``operand_kernel``    the scaled and rounded rows
``bits_kernel``       bit (i, k) is set if k ∈ P_i; 1/|P_i|
``row_sums_kernel``   1/R_i and log R_i − mean_{j∈P_i} s_ij, with R_i = Σ_{k∉P_i} e^{s_ik}
``gradient_kernel``   Σ_k w_ik b_k, where w adds the weights of both directions

Both directions, a → b and b → a, run in one launch, and so do all batches. No two programs write to the same float, so
repeated runs are bit-equal. Bits are set by atomics, whose result does not depend on their order.
"""

import triton
import triton.language as tl

from epagcl.losses.infonce.triton_kernels import LIFT, LN2, _tile


@triton.jit
def operand_kernel(x, out, n, padded, d, scale, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Compute scale·x, rounded. Padding rows and columns are 0."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, WIDTH)
    v = tl.load(x + row[:, None] * d + col[None, :], mask=(row < n)[:, None] & (col < d)[None, :], other=0.0) * scale
    at = out + row[:, None] * WIDTH + col[None, :]
    tl.store(at, v.to(out.dtype.element_ty), mask=(row < padded)[:, None])


@triton.jit
def bits_kernel(
    positives,
    bits,
    share,
    n,
    batch_size,
    k,
    first_row,
    num_rows,
    first_column,
    num_columns,
    words,
    ROWS: tl.constexpr,
    K: tl.constexpr,
):
    """Set bit (i, k) of bits[batch, i − first_row, k − first_column] if k ∈ P_i, and compute share_i = 1/|P_i|.

    i and k are positions in the batch. P_i has only the positives inside it.
    """
    node = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    batch = node // batch_size
    begin = batch * batch_size
    row = node - begin - first_row
    j = tl.arange(0, K)
    listed = (node < n)[:, None] & (j < k)[None, :]
    column = tl.load(positives + node[:, None] * k + j[None, :], mask=listed, other=-1) - begin[:, None]
    inside = listed & (column >= 0) & (column < batch_size)
    tl.store(share + node, 1.0 / tl.maximum(tl.sum(inside.to(tl.float32), 1), 1.0), mask=node < n)
    column -= first_column
    inside = inside & ((row >= 0) & (row < num_rows))[:, None] & (column >= 0) & (column < num_columns)
    at = bits + (batch * num_rows + row)[:, None] * words + column // 32
    one = tl.full([ROWS, K], 1, tl.int32)
    tl.atomic_or(at, one << (column % 32).to(tl.int32), mask=inside, sem="relaxed")


@triton.jit
def _bits_of_rows(at, inside, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Load the bits of a tile from the words at ``at`` of each row."""
    col = tl.arange(0, COLUMNS)[None, :]
    word = tl.zeros([ROWS, COLUMNS], tl.int32)
    for j in tl.static_range(COLUMNS // 32):
        part = tl.load(at + j, mask=inside, other=0)
        word = tl.where(col // 32 == j, part[:, None], word)
    return ((word >> (col % 32)) & 1) != 0


@triton.jit
def _bits_of_columns(at, inside, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Load the transposed bits of a tile from the words at ``at`` of each column."""
    row = tl.arange(0, ROWS)[:, None]
    word = tl.zeros([ROWS, COLUMNS], tl.int32)
    for j in tl.static_range(ROWS // 32):
        part = tl.load(at + j, mask=inside, other=0)
        word = tl.where(row // 32 == j, part[None, :], word)
    return ((word >> (row % 32)) & 1) != 0


@triton.jit
def _sum_tile(
    total,
    attract,
    q,
    z,
    bits,
    row_inside,
    start,
    size,
    MASKED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    k = _tile(z, start, 0, COLUMNS, WIDTH, WIDTH)
    positive = _bits_of_rows(bits + start // 32, row_inside, ROWS, COLUMNS)
    s = tl.dot(q, tl.trans(k), input_precision="ieee")
    negative = ~positive
    if MASKED:
        negative = negative & (start + tl.arange(0, COLUMNS) < size)[None, :]
    # Positives are not added at all. They may be most of the sum, so subtracting them from it would be inaccurate.
    total += tl.sum(tl.where(negative, tl.exp2(s), 0.0), 1)
    attract += tl.sum(tl.where(positive, s, 0.0), 1)
    return total, attract


@triton.jit
def row_sums_kernel(
    z,
    bits,
    share,
    inverse,
    losses,
    n,
    padded,
    batch_size,
    first,
    num_rows,
    words,
    blocks,
    least,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Compute inverse_i = 1/R_i and log R_i − mean_{j∈P_i} s_ij for one block of rows, with R_i at least ``least``."""
    block, batch, view = tl.program_id(0) % blocks, tl.program_id(0) // blocks, tl.program_id(1).to(tl.int64)
    start = first + block * ROWS
    begin = batch * batch_size
    size = tl.minimum(batch_size, n - begin)
    if start >= size:
        return
    row = start + tl.arange(0, ROWS)
    inside = row < size
    q = _tile(z + view * padded * WIDTH, begin + start, 0, ROWS, WIDTH, WIDTH)
    z += ((1 - view) * padded + begin) * WIDTH
    bits += (batch.to(tl.int64) * num_rows + row - first) * words
    total = tl.zeros([ROWS], tl.float32)
    attract = tl.zeros([ROWS], tl.float32)
    whole = size // COLUMNS * COLUMNS
    for c in tl.range(0, whole, COLUMNS, num_stages=STAGES):
        total, attract = _sum_tile(total, attract, q, z, bits, inside, c, size, False, ROWS, COLUMNS, WIDTH, PRECISION)
    for c in tl.range(whole, size, COLUMNS, num_stages=1):
        total, attract = _sum_tile(total, attract, q, z, bits, inside, c, size, True, ROWS, COLUMNS, WIDTH, PRECISION)
    total = tl.maximum(total, least)
    mean = attract * tl.load(share + begin + row, mask=inside, other=0.0) * LN2
    at = view * n + begin + row
    tl.store(inverse + at, 1.0 / total, mask=inside)
    tl.store(losses + at, tl.log(total) - mean, mask=inside)


@triton.jit
def _gradient_tile(
    acc,
    q,
    z,
    bits,
    column_bits,
    column_words,
    inverse,
    share,
    mine,
    my_share,
    row_inside,
    start,
    size,
    MASKED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    col = start + tl.arange(0, COLUMNS)
    inside = col < size
    k = _tile(z, start, 0, COLUMNS, WIDTH, WIDTH)
    mine_positive = _bits_of_rows(bits + start // 32, row_inside, ROWS, COLUMNS)
    theirs_positive = _bits_of_columns(column_bits + col.to(tl.int64) * column_words, inside, ROWS, COLUMNS)
    theirs = tl.load(inverse + col, mask=inside, other=0.0)
    their_share = tl.load(share + col, mask=inside, other=0.0)
    e = tl.exp2(tl.dot(q, tl.trans(k), input_precision="ieee"))
    w = tl.where(mine_positive, -my_share[:, None], e * mine[:, None])
    w += tl.where(theirs_positive, -their_share[None, :], e * theirs[None, :])
    if MASKED:
        w = tl.where(inside[None, :], w, 0.0)
    if PRECISION == "fp16":
        w = (w * LIFT).to(tl.float16)
    return tl.dot(w, k, acc, input_precision="ieee")


@triton.jit
def gradient_kernel(
    z,
    bits,
    column_bits,
    share,
    inverse,
    grad,
    out,
    n,
    padded,
    d,
    batch_size,
    first,
    num_rows,
    words,
    column_words,
    blocks,
    factor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Compute grad·factor·Σ_k w_ik z_k for one block of rows, where z_k are the rows of the other view.

    w_ik is e^{s_ik}/R_i, or −1/|P_i| if k ∈ P_i, plus e^{s_ik}/R_k, or −1/|P_k| if i ∈ P_k. R_k is the row sum of the
    other direction. ``bits`` has the rows of this launch, and ``column_bits`` has their columns.
    """
    block, batch, view = tl.program_id(0) % blocks, tl.program_id(0) // blocks, tl.program_id(1).to(tl.int64)
    start = first + block * ROWS
    begin = batch * batch_size
    size = tl.minimum(batch_size, n - begin)
    if start >= size:
        return
    row = start + tl.arange(0, ROWS)
    inside = row < size
    q = _tile(z + view * padded * WIDTH, begin + start, 0, ROWS, WIDTH, WIDTH)
    mine = tl.load(inverse + view * n + begin + row, mask=inside, other=0.0)
    my_share = tl.load(share + begin + row, mask=inside, other=0.0)
    z += ((1 - view) * padded + begin) * WIDTH
    inverse += (1 - view) * n + begin
    share += begin
    bits += (batch.to(tl.int64) * num_rows + row - first) * words
    column_bits += batch.to(tl.int64) * batch_size * column_words + block * ROWS // 32
    acc = tl.zeros([ROWS, WIDTH], tl.float32)
    whole = size // COLUMNS * COLUMNS
    for c in tl.range(0, whole, COLUMNS, num_stages=STAGES):
        acc = _gradient_tile(
            acc, q, z, bits, column_bits, column_words, inverse, share, mine, my_share, inside, c, size,
            False, ROWS, COLUMNS, WIDTH, PRECISION,
        )  # fmt: skip
    for c in tl.range(whole, size, COLUMNS, num_stages=1):
        acc = _gradient_tile(
            acc, q, z, bits, column_bits, column_words, inverse, share, mine, my_share, inside, c, size,
            True, ROWS, COLUMNS, WIDTH, PRECISION,
        )  # fmt: skip
    col = tl.arange(0, WIDTH)
    at = out + (view * n + begin + row)[:, None] * d + col[None, :]
    tl.store(at, acc * (tl.load(grad) * factor), mask=inside[:, None] & (col < d)[None, :])
