"""A model of cost: time, memory and traffic of a training from counted work and a few rates of the machine.

Time is a sum of counted work over rates that have a meaning: floating-point operations of dense products over the rate
of a product, bytes that are moved over the bandwidth of the memory, bytes that travel between ranks over the bandwidth
of the link. Each rate is a measured property of the machine times an efficiency, which is fitted once for all machines
of a kind (``costs.toml``, written by ``python -m benchmarks cost``).
"""

import math
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from epagcl.core.errors import InputError
from epagcl.core.hardware import has_bf16
from epagcl.core.memory import FRESH_BYTES, KEEP_BYTES, available_memory

FITTED = Path(__file__).with_name("costs.toml")
ROW_BLOCKS = 16  # blocks that the loss writes on a CPU, each of the size of its rows: unit rows, positives, gradients
TILE_BYTES = 44  # that the loss reads and writes on a CPU for each similarity, forward and backward
DRAWN_BYTES = 80  # that a CPU writes to draw an entry of a view
AGAIN_BYTES = 4  # for each similarity that it computes again
EXPONENTIAL = 64  # columns of a product that take a GPU as long as the exponential of each similarity
SIZE = 1024  # of the product that measures this machine's rate
BANDWIDTH_BYTES = 1 << 26  # of the copy that measures its bandwidth


class Work(NamedTuple):
    """What an epoch computes and moves, counted from the sizes of graph and network.

    Attributes:
        loss: floating-point operations of three products of the loss, 2M²d each.
        dense: floating-point operations of the network's dense products.
        moved: bytes that layers write: activations and their gradients, and products with Â.
        gathered: bytes that sparse products gather.
        held: bytes of activations, which a GPU holds with their gradients.
        kept: bytes of the graph, its views and its features.
        parameters: number of trained numbers.
        ring: bytes of all rows of the loss in three passes: forward, backward, and their gradients; a rank sends the
            share :func:`ring_share` of them.
        rows: bytes of the rows that propagation exchanges if every rank needs the rows of all others.
        lists: bytes of the pairs and candidates that each of several ranks has, while they are sorted.
        single: floating-point operations of dense products that a CPU computes in float32: those with the features, and
            all of an embedding; ``dense`` has all others.
        similarities: number of similarities between rows, M² without batches.
        tiles: number of those that a CPU computes forward; symmetry saves up to half of them, none in small batches.
        fresh: the part of ``moved`` that is in large blocks, which a CPU allocates anew (``FRESH_BYTES``).
        drawn: number of entries that can occur in views, from which each epoch draws.
        projected: bytes of the rows that the loss compares, in float32.
        blocks: bytes of the blocks that a CPU holds at the peak: activations, gradients and the rows of the loss.
    """

    loss: float
    dense: float
    moved: float
    gathered: float
    held: float
    kept: float
    parameters: float
    ring: float = 0.0
    rows: float = 0.0
    lists: float = 0.0
    single: float = 0.0
    similarities: float = 0.0
    tiles: float = 0.0
    fresh: float = 0.0
    drawn: float = 0.0
    projected: float = 0.0
    blocks: float = 0.0


@dataclass(frozen=True)
class Efficiency:
    """The fitted parameters of a kind of device.

    Attributes:
        loss: share of the rate of a product that the loss reaches; above 1 on a GPU, where symmetry saves products. On
            a CPU, it is the share of all products that may run in bf16.
        dense: share that the network's products reach in float32 or TF32; on a CPU, those with the features.
        moved: share of the memory's bandwidth that writing reaches.
        gathered: share that sparse products reach, and on a CPU the passes over tiles of similarities; above 1 if most
            of it is in a cache.
        overhead: seconds per epoch that depend on nothing.
        held: copies of the activations that are alive at the peak; on a CPU, bytes in use per byte of blocks.
        kept: bytes in use per byte of graph, views and features.
        base: bytes that a process has before training.
        fresh: share of the bandwidth at which new blocks are allocated; unlimited on a GPU, which keeps them.
    """

    loss: float
    dense: float
    moved: float
    gathered: float
    overhead: float
    held: float
    kept: float
    base: float
    fresh: float = math.inf


@dataclass(frozen=True)
class Machine:
    """A device and its links.

    Attributes:
        name: for messages.
        kind: cpu or cuda, whose efficiencies are used.
        loss_flops: floating-point operations per second of a product in the precision of the loss.
        dense_flops: the same in the precision of the network.
        bandwidth: bytes per second of a copy in memory, counted once for reading and once for writing.
        memory: bytes.
        link: bytes per second between two ranks, in one direction.
        latency: seconds of a message.
        loss_bytes: of a similarity in the precision of the loss.

    Examples:
        >>> machine("h200").memory / 2**30 > 100
        True
    """

    name: str
    kind: str
    loss_flops: float
    dense_flops: float
    bandwidth: float
    memory: float
    link: float
    latency: float
    loss_bytes: int = 2


def machine(name: str = "auto") -> Machine:
    """Return a known machine, or measure the rates of this one, which takes about half a second.

    Args:
        name: ``"auto"``, ``"cpu"`` or ``"cuda"`` for this machine, or one of those in ``costs.toml``, such as h200.

    Examples:
        >>> machine("h200").kind
        'cuda'
    """
    known = _fitted()["machines"]
    if name in known:
        return Machine(name=name, **known[name])
    if name not in ("auto", "cpu", "cuda") and not name.startswith("cuda:"):
        raise InputError(f"device={name!r}: choose one of auto, cpu, cuda, {', '.join(known)}")
    from epagcl.core.hardware import resolve_device

    return _measured(resolve_device(name))


def efficiency(kind: str) -> Efficiency:
    """Return the fitted efficiencies of a kind of device, cpu or cuda."""
    return Efficiency(**_fitted()["efficiency"]["cuda" if kind == "cuda" else "cpu"])


@cache
def _fitted() -> dict[str, dict[str, dict[str, Any]]]:
    return tomllib.loads(FITTED.read_text(encoding="utf-8"))


@cache
def _measured(device: torch.device) -> Machine:
    """Return the rates of a device, measured by products and a copy."""
    loss_dtype = torch.float16 if device.type == "cuda" else torch.bfloat16 if has_bf16(device) else torch.float32
    rates = [_product_rate(device, dtype) for dtype in (loss_dtype, torch.float32)]
    source = torch.ones(BANDWIDTH_BYTES // 4, device=device)
    target = torch.empty_like(source)
    seconds = _seconds(device, lambda: target.copy_(source))
    return Machine(
        name=f"this {device.type}",
        kind=device.type,
        loss_flops=rates[0],
        dense_flops=rates[1],
        bandwidth=2 * BANDWIDTH_BYTES / seconds,
        memory=float(available_memory(device) or math.inf),
        link=_fitted()["links"]["nvlink" if device.type == "cuda" else "ethernet"]["bandwidth"],
        latency=_fitted()["links"]["nvlink" if device.type == "cuda" else "ethernet"]["latency"],
        loss_bytes=loss_dtype.itemsize,
    )


def _product_rate(device: torch.device, dtype: torch.dtype) -> float:
    size = SIZE if device.type == "cpu" else 8 * SIZE
    a = torch.ones(size, size, device=device, dtype=dtype)
    return 2 * size**3 / _seconds(device, lambda: a @ a)


def _seconds(device: torch.device, step: Callable[[], object]) -> float:
    """Return the shortest of a few times of a function. On a CPU, the work of other processes does not count."""
    times = []
    for _ in range(4):
        start = clock(device)
        step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(clock(device) - start)
    return max(min(times), 1e-9)


def clock(device: torch.device) -> float:
    """Return a time in seconds: on a CPU the processor time of this process per thread, elsewhere the real time."""
    return time.process_time() / torch.get_num_threads() if device.type == "cpu" else time.perf_counter()


class Cost(NamedTuple):
    """The predicted cost of one epoch on one rank.

    Attributes:
        seconds: time per epoch.
        bytes: peak memory of the rank.
        sent: bytes that the rank sends per epoch.
        parts: seconds of everything that :func:`full_rate_seconds` counts, of the link and of overhead.
    """

    seconds: float
    bytes: float
    sent: float
    parts: dict[str, float]


def cost(work: Work, on: Machine, ranks: int = 1, boundary: float = 1.0) -> Cost:
    r"""Predict the time, memory and traffic of an epoch.

    Work and memory are divided by the ranks, except for the list of pairs. Column blocks travel around the ring while
    the previous ones are multiplied: only the longer of the two counts. Rows of the propagation are exchanged before
    they are multiplied.

    Args:
        work: of the whole graph.
        on: the machine of each rank.
        ranks: R.
        boundary: share of the other ranks' rows that a rank needs, see :func:`boundary_share`.

    Examples:
        >>> work = Work(1e12, 1e11, 1e9, 1e9, 1e9, 1e8, 0.0, ring=1e9, rows=1e8)
        >>> cost(work, machine("h200"), ranks=2).sent  # 7/24 of the ring's bytes, and half of the rows
        341666666.6666667
    """
    share = efficiency(on.kind)
    parts = {name: value / getattr(share, name) / ranks for name, value in full_rate_seconds(work, on, ranks).items()}
    products, tiles = loss_products(work, on.kind, on.loss_bytes, ranks)
    loss = products / (share.loss * on.loss_flops) / ranks
    others = (ranks - 1) / ranks
    ring = ring_share(ranks, 2 if on.kind == "cuda" else 4) * work.ring
    rows = others * boundary * work.rows
    ring_seconds = ring / on.link + 4 * (ranks // 2) * on.latency
    exposed = max(0.0, ring_seconds - loss) + rows / on.link + 4 * (ranks - 1) * on.latency
    # Every rank has all weights, their gradients and the two moments of Adam, and reduces the gradients.
    gradients = 2 * others * 4 * work.parameters
    exposed += gradients / on.link
    # A rank also holds two column blocks of the ring, the rows of one of four exchanges, and all pairs.
    blocks = (2 * work.ring / 3 / ranks + rows / 4 + work.lists) if ranks > 1 else 0.0
    held = (share.held * held_bytes(work, on.kind) + share.kept * work.kept) / ranks + blocks
    parts |= {"link": exposed, "overhead": share.overhead}
    return Cost(
        seconds=sum(parts.values()),
        bytes=share.base + held + tiles + 16 * work.parameters,
        sent=ring + rows + gradients if ranks > 1 else 0.0,
        parts=parts,
    )


def full_rate_seconds(work: Work, on: Machine, ranks: int = 1) -> dict[str, float]:
    """Return the seconds that all work would take one rank at the full rates of the machine, by efficiency.

    A CPU computes the products of hidden layers in the precision of the loss, those with the features in float32, and
    passes over tiles and rows of the loss. A GPU does the latter within its products.

    Examples:
        >>> work = Work(3e9, 1e9, 0.0, 0.0, 0.0, 0.0, 0.0, single=2e9)
        >>> round(1e6 * full_rate_seconds(work, machine("h200"))["dense"], 1)
        7.7
    """
    products, _ = loss_products(work, on.kind, on.loss_bytes, ranks)
    if on.kind == "cuda":
        return {
            "loss": products / on.loss_flops,
            "dense": (work.dense + work.single) / on.dense_flops,
            "moved": work.moved / on.bandwidth,
            "gathered": work.gathered / on.bandwidth,
        }
    rows = ROW_BLOCKS * work.projected
    tiles = work.tiles * (TILE_BYTES + (0 if _keeps_tiles(work, on.loss_bytes, ranks) else AGAIN_BYTES))
    return {
        "loss": (products + work.dense) / on.loss_flops,
        "dense": work.single / on.dense_flops,
        "moved": (work.moved + rows + DRAWN_BYTES * work.drawn) / on.bandwidth,
        "gathered": (work.gathered + tiles) / on.bandwidth,
        "fresh": (work.fresh + (rows if work.projected > FRESH_BYTES else 0.0)) / on.bandwidth,
    }


def loss_products(work: Work, kind: str, loss_bytes: int, ranks: int = 1) -> tuple[float, float]:
    """Return the floating-point operations of the loss on all ranks, and the bytes of tiles on each rank of a CPU.

    A GPU computes three products and the exponentials. A CPU computes the tiles on and above the diagonal forward, and
    one product of 2M²d backward. If it does not keep the tiles, it computes them twice.

    Examples:
        >>> work = Work(3e9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, similarities=2e6, tiles=1e6)
        >>> loss_products(work, "cpu", 2), loss_products(work._replace(similarities=2e9, tiles=1e9), "cpu", 2)
        ((1500000000.0, 2000000.0), (2000000000.0, 0.0))
    """
    if kind == "cuda":
        return work.loss + 6 * EXPONENTIAL * work.similarities, 0.0
    keeps, product = _keeps_tiles(work, loss_bytes, ranks), work.loss / 3
    forward = product * work.tiles / work.similarities if work.similarities else 0.0
    return product + (forward if keeps else 2 * forward), loss_bytes * work.tiles / ranks if keeps else 0.0


def held_bytes(work: Work, kind: str) -> float:
    """Return the counted bytes that the fitted number ``held`` multiplies."""
    return work.held if kind == "cuda" else work.blocks


def _keeps_tiles(work: Work, loss_bytes: int, ranks: int) -> bool:
    return loss_bytes * work.tiles / ranks <= KEEP_BYTES


def ring_share(ranks: int, itemsize: int = 4) -> float:
    """Return the share of the ring's three passes, counted in float32, that each rank sends.

    Similarities are symmetric, so each rank's block of rows makes ⌊R/2⌋ steps, once forward and once backward. The
    gradients of visited rows go home. If R is even, two ranks meet twice in the last step, and each time one of them
    multiplies half of its rows: on average, ¾ of a block goes home.

    Args:
        ranks: R.
        itemsize: bytes of a number of the rows: 4, or 2 on GPUs, where they travel in fp16. Gradients have 4.

    Examples:
        >>> ring_share(1), ring_share(3), ring_share(512)
        (0.0, 0.3333333333333333, 0.4998372395833333)
    """
    steps = ranks // 2
    home = steps if ranks % 2 else steps - 0.25
    return (itemsize / 2 * steps + home) / (3 * ranks)


def boundary_share(average_degree: float, ranks: int) -> float:
    """Return the share of the other ranks' nodes that a rank needs, if nodes are assigned at random.

    A node is needed if one of its neighbours is there: 1 − (1 − 1/R)^degree. A partition that follows the graph needs
    less.

    Examples:
        >>> boundary_share(average_degree=1.0, ranks=2)
        0.5
    """
    return 1 - (1 - 1 / ranks) ** average_degree if ranks > 1 else 0.0


def with_memory(on: Machine, gib: float | None) -> Machine:
    """Return the machine with another size of memory, given in GiB; None changes nothing."""
    if gib is not None and not 0 < gib < math.inf:
        raise InputError(f"memory={gib}: give a positive number of GiB")
    return on if gib is None else replace(on, memory=gib * 2**30)
