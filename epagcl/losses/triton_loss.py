"""Exact InfoNCE as fused Triton kernels: no similarity ever reaches memory.

On the stacked rows of both views the loss is one NT-Xent (see :func:`epagcl.losses.info_nce`). With
a_i = √(log₂e/τ)·x_i/‖x_i‖ rounded once to the operands' precision, e^{s_ij} = 2^{a_i·a_j}: one array serves every
product, and E is symmetric. |s| ≤ 1/τ, so no running maximum is needed. Each program owns what it writes: no atomics,
bit-equal repeats.

``_unit``        a_i and ‖x_i‖
``_row_sums``    S_i = Σ_{j≠i} E_ij in parts, from the tiles right of the diagonal, which serve their columns too;
                 ``_add_up`` adds the parts up
``_row_losses``  log S_i − s_{i,pos(i)}
``_gather``      Σ_j E_ij (1/S_i + 1/S_j) a_j
``_finish``      the positive's term, and the gradient through x/‖x‖

Precisions, by the operands: ``fp16`` and ``bf16`` as they are, ``tf32`` float32 rounded by the tensor cores, ``fp32``
as two fp16 halves, a = high + low with 22 bits, and three products (high·high + high·low + low·high).

Rows may come in groups of equal size, each an NT-Xent of its own: that is the loss inside batches.
"""

import math
from collections.abc import Callable
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.losses.tuning import Tiles, tiles_for

EPS = tl.constexpr(1e-12)  # as F.normalize
LN2 = tl.constexpr(math.log(2))
SPREAD = tl.constexpr(256.0)  # lifts the low halves of fp32 operands out of fp16's subnormal numbers
PAD = 128  # rows after the last that a tile may read; the largest tile
CHUNKS = 12  # programs of _row_sums for each multiprocessor, before symmetry halves them
MOST_PARTS = 6
DTYPES = {"fp32": torch.float16, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@triton.jit
def _unit(x, a, norm, m, padded, d, scale, ROWS: tl.constexpr, WIDTH: tl.constexpr, HALVES: tl.constexpr):
    """a_i = scale·x_i/‖x_i‖ and ‖x_i‖; zero rows and columns where a is padded."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, WIDTH)
    v = tl.load(x + row[:, None] * d + col, mask=(row < m)[:, None] & (col < d), other=0.0).to(tl.float32)
    length = tl.maximum(tl.sqrt(tl.sum(v * v, 1)), EPS)
    tl.store(norm + row, length, mask=row < m)
    v = v / length[:, None] * scale
    out = a + row[:, None] * (HALVES * WIDTH) + col
    high = v.to(a.dtype.element_ty)
    there = (row < padded)[:, None]
    tl.store(out, high, mask=there)
    if HALVES == 2:
        tl.store(out + WIDTH, (v - high.to(tl.float32)).to(a.dtype.element_ty), mask=there)


@triton.jit
def _tile(a, row, half, ROWS: tl.constexpr, WIDTH: tl.constexpr, HALVES: tl.constexpr):
    """Rows ``row`` to ``row + ROWS`` of a; the array is padded, so nothing is masked."""
    r = row + tl.arange(0, ROWS)
    return tl.load(a + r.to(tl.int64)[:, None] * (HALVES * WIDTH) + half * WIDTH + tl.arange(0, WIDTH))


@triton.jit
def _similarity(q, q_low, k, k_low, row, col, size, MASKED: tl.constexpr, PRECISION: tl.constexpr):
    """E of a tile; where MASKED, 0 on the diagonal and past the group's end."""
    s = tl.dot(q, tl.trans(k), input_precision="tf32")
    if PRECISION == "fp32":
        s = tl.dot(q, tl.trans(k_low), s)
        s = tl.dot(q_low, tl.trans(k), s) * (SPREAD**-2)
    e = tl.exp2(s)
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
    k = _tile(a, base + start, 0, COLUMNS, WIDTH, HALVES)
    k_low = _tile(a, base + start, 1, COLUMNS, WIDTH, HALVES) if HALVES == 2 else k
    e = _similarity(q, q_low, k, k_low, row, col, size, MASKED, PRECISION)
    if BOTH:
        tl.store(column_part + col, tl.sum(e, 0), mask=col < size)
    return total + tl.sum(e, 1)


@triton.jit
def _row_sums(
    a,
    row_part,
    column_part,
    size,
    first,
    chunk,
    SYMMETRIC: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Sums of one block's rows over one chunk of columns: row_part[group, chunk, row of this round].

    If SYMMETRIC, only columns from the block's diagonal square on count, and column_part[group, block, column] gets the
    sums over the block's rows right of that square: what the tiles below the diagonal would have given.
    """
    HALVES: tl.constexpr = 2 if PRECISION == "fp32" else 1
    block, part, group = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    start = (first + block) * ROWS
    after = start + ROWS
    lo, hi = part * chunk, tl.minimum((part + 1) * chunk, size)
    if SYMMETRIC and hi <= start:
        return
    base = group * size
    row = start + tl.arange(0, ROWS)
    q = _tile(a, base + start, 0, ROWS, WIDTH, HALVES)
    q_low = _tile(a, base + start, 1, ROWS, WIDTH, HALVES) if HALVES == 2 else q
    column_part += (group.to(tl.int64) * tl.num_programs(0) + block) * size
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
    out = (group.to(tl.int64) * tl.num_programs(1) + part) * tl.num_programs(0) + block
    tl.store(row_part + out * ROWS + tl.arange(0, ROWS), total)


@triton.jit
def _add_up(
    row_part, column_part, sums, size, first, blocks, chunk, chunks, SYMMETRIC: tl.constexpr, ROWS: tl.constexpr
):
    """S += the partial sums of a round, in the order of their numbers."""
    block, group = tl.program_id(0), tl.program_id(1).to(tl.int64)
    if SYMMETRIC:
        block += first  # blocks before the round's first got nothing from it
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
def _row_losses(a, sums, out, size, m, ROWS: tl.constexpr, WIDTH: tl.constexpr, HALVES: tl.constexpr):
    """log S_i − s_{i,pos(i)}, the similarity of the rounded rows: so a perfect match costs nothing."""
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
    size,
    MASKED: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    HALVES: tl.constexpr = 2 if PRECISION == "fp32" else 1
    col = start + tl.arange(0, COLUMNS)
    k = _tile(a, base + start, 0, COLUMNS, WIDTH, HALVES)
    k_low = _tile(a, base + start, 1, COLUMNS, WIDTH, HALVES) if HALVES == 2 else k
    e = _similarity(q, q_low, k, k_low, row, col, size, MASKED, PRECISION)
    theirs = tl.load(inverse + base + col, mask=col < size, other=0.0) if MASKED else tl.load(inverse + base + col)
    p = e * (mine[:, None] + theirs[None, :])
    high = p.to(k.dtype)
    acc = tl.dot(high, k, acc, input_precision="tf32")
    if PRECISION == "fp32":
        acc = tl.dot(high, k_low, acc)
        acc = tl.dot((p - high.to(tl.float32)).to(k.dtype), k, acc)
    return acc


@triton.jit
def _gather(
    a,
    inverse,
    out,
    size,
    m,
    d,
    per_part,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    """out[part, i] = Σ_j E_ij (inverse_i + inverse_j) a_j over the part's share of the columns."""
    HALVES: tl.constexpr = 2 if PRECISION == "fp32" else 1
    block, part, group = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    start = block * ROWS
    base = group * size
    row = start + tl.arange(0, ROWS)
    q = _tile(a, base + start, 0, ROWS, WIDTH, HALVES)
    q_low = _tile(a, base + start, 1, ROWS, WIDTH, HALVES) if HALVES == 2 else q
    mine = tl.load(inverse + base + row, mask=row < size, other=0.0)
    acc = tl.zeros([ROWS, WIDTH], tl.float32)
    # Whole tiles left and right of the diagonal's run as one loop without masks; the part takes its share of them.
    whole = size // COLUMNS
    left = tl.minimum(start // COLUMNS, whole)
    right = tl.minimum((start + ROWS + COLUMNS - 1) // COLUMNS, whole)
    plain = whole - (right - left)
    for t in tl.range(part * per_part, tl.minimum((part + 1) * per_part, plain), num_stages=STAGES):
        c = tl.where(t < left, t, t + right - left) * COLUMNS
        acc = _gather_tile(acc, q, q_low, a, inverse, mine, base, row, c, size, False, COLUMNS, WIDTH, PRECISION)
    if part == tl.num_programs(1) - 1:
        for t in tl.range(left, right, num_stages=1):
            c = t * COLUMNS
            acc = _gather_tile(acc, q, q_low, a, inverse, mine, base, row, c, size, True, COLUMNS, WIDTH, PRECISION)
        for c in tl.range(whole * COLUMNS, size, COLUMNS, num_stages=1):
            acc = _gather_tile(acc, q, q_low, a, inverse, mine, base, row, c, size, True, COLUMNS, WIDTH, PRECISION)
    i = part.to(tl.int64) * m + base + row
    col = tl.arange(0, WIDTH)
    tl.store(out + i[:, None] * d + col[None, :], acc, mask=(row < size)[:, None] & (col < d)[None, :])


@triton.jit
def _finish(
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
    """dz_i = factor·(Σ_j ... − 2 z_pos(i)), then through z = x/‖x‖: dx = (dz − (dz·z) z)/‖x‖."""
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


def triton_loss(x: Tensor, temperature: float, groups: int, precision: str) -> Tensor:
    """mean_i (log Σ_{j≠i} e^{s_ij} − s_{i,pos(i)}), s = z zᵀ/τ, z = x/‖x‖, inside each group; memory O(N·d)."""
    return _Fused.apply(x.contiguous(), temperature, groups, precision)


class Operands:
    """a and ‖x‖ of the rows, and what the kernels need to know of them."""

    def __init__(self, x: Tensor, temperature: float, groups: int, precision: str):
        self.m, self.d = x.shape
        self.groups, self.size, self.precision = groups, self.m // groups, precision
        self.halves = 2 if precision == "fp32" else 1
        self.width = max(16, triton.next_power_of_2(self.d))
        self.scale = math.sqrt(math.log2(math.e) / temperature) * (SPREAD.value if self.halves == 2 else 1)
        dtype = DTYPES[precision]
        # The weights of the gradient are at most 2 and mostly near 1/M: lifted, fp16 holds them.
        self.lift = 2.0**14 if dtype == torch.float16 else 1.0
        self.few_rows = max(1, 2048 // self.width)  # of the kernels that go over the rows once
        padded = triton.cdiv(self.m + PAD, PAD) * PAD
        self.a = torch.empty(padded, self.halves * self.width, dtype=dtype, device=x.device)
        self.norm = torch.empty(self.m, dtype=torch.float32, device=x.device)
        shape = self.few_rows, self.width, self.halves
        _unit[(triton.cdiv(padded, self.few_rows),)](x, self.a, self.norm, self.m, padded, self.d, self.scale, *shape)

    def tiles(self, kernel: str, launch: Callable[[Tiles], Tensor]) -> Tiles:
        """The fastest tiles of a kernel."""
        return tiles_for(kernel, self.precision, self.width, self.size, self.a.device, launch)


def row_sums(o: Operands, tiles: Tiles, symmetric: bool = True) -> Tensor:
    """S, ``[M]``."""
    blocks = triton.cdiv(o.size, tiles.rows)
    # Column sums of a round's blocks are kept apart until they are added up: as many numbers as the rows themselves.
    per_round = min(blocks, 256) if symmetric else blocks
    # Some programs for each multiprocessor, with as many columns each as that leaves.
    chunk = blocks * o.groups * o.size // (CHUNKS * _processors(o.a.device))
    chunk = min(max(triton.cdiv(chunk, PAD) * PAD, 2 * PAD), 128 * PAD)
    chunks = triton.cdiv(o.size, chunk)
    sums = torch.zeros(o.m, dtype=torch.float32, device=o.a.device)
    row_part = sums.new_empty(o.groups * chunks * per_round * tiles.rows)
    column_part = sums.new_empty(o.groups * per_round * o.size if symmetric else 0)
    for first in range(0, blocks, per_round):
        now = min(per_round, blocks - first)
        _row_sums[(now, chunks, o.groups)](
            *(o.a, row_part, column_part, o.size, first, chunk),
            *(symmetric, tiles.rows, tiles.columns, o.width, o.precision, tiles.stages),
            num_warps=tiles.warps,
            num_stages=tiles.stages,
        )
        _add_up[(blocks - first, o.groups)](
            *(row_part, column_part, sums, o.size, first, now, chunk, chunks, symmetric, tiles.rows)
        )
    return sums


def gather(o: Operands, sums: Tensor, tiles: Tiles, parts: int = 0) -> Tensor:
    """Σ_j E_ij (1/S_i + 1/S_j) a_j, lifted, in ``parts`` addends: ``[parts, M, d]``."""
    blocks = triton.cdiv(o.size, tiles.rows)
    parts = parts or _parts(blocks * o.groups, triton.cdiv(o.size, tiles.columns), _processors(o.a.device))
    out = sums.new_empty(parts, o.m, o.d)
    per_part = triton.cdiv(triton.cdiv(o.size, tiles.columns), parts)
    _gather[(blocks, parts, o.groups)](
        *(o.a, o.lift / sums, out, o.size, o.m, o.d, per_part),
        *(tiles.rows, tiles.columns, o.width, o.precision, tiles.stages),
        num_warps=tiles.warps,
        num_stages=tiles.stages,
    )
    return out


def _parts(blocks: int, tiles: int, processors: int) -> int:
    """Into how many parts to cut the columns: the fewest that leave little of the last wave of programs idle."""

    def idle(parts: int) -> float:
        waves = triton.cdiv(blocks * parts, processors)
        return 1 - blocks * parts / (waves * processors)

    # A part costs a pass over the output; few tiles are not worth one.
    return min(range(1, max(2, min(MOST_PARTS, tiles // 8) + 1)), key=lambda parts: idle(parts) + 0.02 * parts)


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, temperature: float, groups: int, precision: str) -> Tensor:
        o = Operands(x, temperature, groups, precision)
        sums = row_sums(o, o.tiles("sums", lambda tiles: row_sums(o, tiles)))
        losses = torch.empty_like(sums)
        shape = o.few_rows, o.width, o.halves
        _row_losses[(triton.cdiv(o.m, o.few_rows),)](o.a, sums, losses, o.size, o.m, *shape)
        ctx.save_for_backward(x, sums)
        ctx.operands, ctx.temperature = o, temperature
        return losses.mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """dz_i = 1/(τM) Σ_{j≠i} (E_ij/S_i + E_ij/S_j − 2·[j = pos(i)]) z_j, and through z = x/‖x‖."""
        x, sums = ctx.saved_tensors
        o = ctx.operands
        parts = gather(o, sums, o.tiles("gather", lambda tiles: gather(o, sums, tiles)))
        dx = torch.empty_like(x)
        _finish[(triton.cdiv(o.m, o.few_rows),)](
            *(parts, o.a, x, o.norm, grad, dx, o.size, o.m, o.d, parts.shape[0], o.m * o.d),
            *(o.scale, 1 / (o.scale * o.lift), 1 / (ctx.temperature * o.m)),
            *(o.few_rows, o.width, o.halves),
        )
        return dx, None, None, None
