"""Strong scaling of the exact loss, and of an epoch, over ranks with one CPU core each.

``torchrun`` starts this module once per rank. Rank 0 prints what all ranks have measured, as JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from epagcl.core.errors import InputError, TrainingError
from epagcl.core.memory import peak_resident_memory, resident_memory
from epagcl.data import block_model
from epagcl.distributed.group import Ranks, several_ranks
from epagcl.distributed.partition import Part
from epagcl.losses.infonce.ring import HOME, RING, ring_bytes, ring_loss
from epagcl.methods.epagcl import EPAGCL
from epagcl.runs.record import provenance

NODES, WIDTH, REPEATS = 8192, 256, 3
MILLION, EDGES_PER_NODE = 1_000_000, 10
BATCHED = 4  # an epoch with batches has this many times the nodes, since its time is linear
MARK = "measured: "


def scale(ranks: list[int], nodes: int = NODES, repeats: int = REPEATS) -> dict[str, Any]:
    """Measure the loss and an epoch with each number of ranks.

    Args:
        ranks: numbers of ranks.
        nodes: number of nodes.
        repeats: number of timed passes; the shortest counts.
    """
    rows = []
    for size in ranks:
        rows.append(_launch(size, nodes, repeats))
        print(row_text(rows[-1]), flush=True)
    return {
        **provenance("cpu"),
        "command": f"python -m benchmarks scale --ranks {' '.join(map(str, ranks))} --nodes {nodes}",
        "load_average": os.getloadavg()[0],
        "cores": os.cpu_count(),
        "nodes": nodes,
        "width": WIDTH,
        "precision": "fp32",
        "repeats": repeats,
        "rows": rows,
    }


def on_gpu(nodes: int = MILLION) -> dict[str, Any]:
    """Measure an exact epoch of EPAGCL in one process on a GPU, and the kernels for the blocks of other ranks.

    Args:
        nodes: number of nodes of the generated graph, with 10 edges each and 128 features.
    """
    from benchmarks import gpu  # needs Triton

    if not torch.cuda.is_available():
        raise InputError("benchmarks scale --device cuda: no CUDA device here; leave out --device")
    inputs, title = gpu.large("generated", nodes, EDGES_PER_NODE * nodes)
    row = gpu.epoch(inputs, title)
    del inputs
    return {
        **provenance("cuda"),
        "command": f"python -m benchmarks scale --device cuda --nodes {nodes}",
        "epoch": row,
        "blocks": _blocks(min(nodes, 200_000)),
    }


def _blocks(nodes: int, repeats: int = REPEATS) -> dict[str, Any]:
    """Time the loss of one process, and the products of one rank's rows with as many visiting rows, in fp16."""
    from benchmarks.gpu import median_seconds
    from epagcl.losses.infonce.loss import info_nce_stacked
    from epagcl.losses.infonce.triton_ring import TritonProducts

    rows = 2 * nodes
    x = torch.randn(rows, WIDTH, device="cuda", requires_grad=True)
    z = torch.nn.functional.normalize(x.detach(), dim=1)
    own, other = TritonProducts(0.3, "fp16"), TritonProducts(0.3, "fp16")
    block, visiting = own.block(z), other.block(z.roll(1, 0))
    sums, visiting_sums = torch.zeros(2, rows, device="cuda")
    total, visiting_total = torch.zeros(2, rows, WIDTH, device="cuda")

    def visit() -> None:
        own.block_sums(block, visiting, sums, visiting_sums)
        own.sums = sums
        packed = own.pack(z, sums.reciprocal(), None)
        own.block_gather(own.own(packed), own.unpack(packed), total, visiting_total)

    alone = median_seconds(
        lambda: torch.autograd.grad(info_nce_stacked(x, 0.3, impl="triton", precision="fp16"), x), repeats
    )
    visited = median_seconds(visit, repeats)
    return {
        "nodes": nodes,
        "width": WIDTH,
        "loss_seconds": alone,
        "visit_seconds": visited,
        "loss_similarities_per_second": rows**2 / 2 / alone,
        "visit_similarities_per_second": rows**2 / visited,
    }


def _launch(size: int, nodes: int, repeats: int) -> dict[str, Any]:
    """Measure with some ranks, which torchrun starts."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
    worker = ["-m", "benchmarks.scale", "--nodes", str(nodes), "--repeats", str(repeats)]
    command = [sys.executable, *(launcher if size > 1 else []), *worker]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in result.stdout.splitlines() if line.startswith(MARK)]
    if result.returncode or not lines:
        raise TrainingError(f"{size} ranks failed: {result.stderr[-500:]}")
    return json.loads(lines[0].removeprefix(MARK))


def measure(ranks: Ranks, nodes: int, repeats: int) -> dict[str, Any]:
    """Measure the loss and an epoch on this rank; return what all ranks have measured."""
    torch.set_num_threads(1)
    part = Part(ranks, nodes)
    mine = {"loss": _loss(part, repeats), "epoch": _epoch(nodes), "batches": _epoch(BATCHED * nodes, batch_size=256)}
    every = ranks.gathered(mine)
    seconds = max(one["loss"]["seconds"] for one in every)
    similarities = 2 * nodes**2  # M²/2 with M = 2N rows, since a tile serves its rows and its columns
    return {
        "ranks": ranks.size,
        "seconds": seconds,
        "similarities_per_second_and_rank": similarities / seconds / ranks.size,
        "waiting_share": max(one["loss"]["waited"] for one in every) / seconds,
        "bytes_sent": [one["loss"]["sent"] for one in every],
        "bytes_expected": [sum(ring_bytes(part.sizes, WIDTH, rank).values()) for rank in range(ranks.size)],
        "loss_mib_per_rank": max(one["loss"]["mib"] for one in every),
        "epoch_seconds": max(one["epoch"]["seconds"] for one in every),
        "epoch_mib_per_rank": max(one["epoch"]["mib"] for one in every),
        "batches_seconds": max(one["batches"]["seconds"] for one in every),
        "batches_mib_per_rank": max(one["batches"]["mib"] for one in every),
    }


def _loss(part: Part, repeats: int) -> dict[str, float]:
    """Time one forward and backward pass of the loss over the rows of all ranks."""
    before = _mib(resident_memory())
    generator = torch.Generator().manual_seed(part.ranks.rank)
    x = torch.randn(2 * part.size, WIDTH, generator=generator).requires_grad_()

    def run() -> None:
        x.grad = None
        ring_loss(x, 0.3, part).backward()

    run()
    best, waited, sent = float("inf"), 0.0, 0
    for _ in range(repeats):
        part.ranks.sum_(torch.zeros(1))  # start together
        part.ranks.waited.clear()
        part.ranks.sent.clear()
        seconds = _timed(run)
        if seconds < best:
            best, waited = seconds, part.ranks.waited[RING] + part.ranks.waited[HOME]
        sent = part.ranks.sent[RING] + part.ranks.sent[HOME]
    return {"seconds": best, "waited": waited, "sent": sent, "mib": _mib(peak_resident_memory()) - before}


def _epoch(nodes: int, batch_size: int = 0) -> dict[str, float]:
    """Time the second epoch of EPAGCL with its default widths on a generated graph with 10 edges per node."""
    data = block_model(nodes, num_features=128, topic_words=16, words_per_node=64, average_degree=20, seed=0)
    data.x = data.x.to_dense()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _mib(resident_memory())
    rows: list[float] = []
    model = EPAGCL(epochs=2, batch_size=batch_size, precision="fp32", device="cpu")
    model.fit(data, callback=lambda row: rows.append(row["seconds"]))
    return {"seconds": rows[1] - rows[0], "mib": _mib(peak_resident_memory()) - before}


def _timed(function: Callable[[], None]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _mib(size: int | None) -> float:
    """Return a size in MiB; NaN on systems that do not report it."""
    return float("nan") if size is None else size / 2**20


def row_text(row: dict[str, Any]) -> str:
    """Return a row of the results as a line of text."""
    rate = row["similarities_per_second_and_rank"] / 1e6
    return (
        f"{row['ranks']} ranks: {row['seconds']:.2f} s, {rate:.0f} million similarities per second and rank, "
        f"{100 * row['waiting_share']:.1f}% waiting, {max(row['bytes_sent']) / 2**20:.1f} MiB sent "
        f"({max(row['bytes_expected']) / 2**20:.1f} expected), {row['loss_mib_per_rank']:.0f} MiB per rank; "
        f"epoch {row['epoch_seconds']:.2f} s, {row['epoch_mib_per_rank']:.0f} MiB per rank; "
        f"in batches {row['batches_seconds']:.2f} s, {row['batches_mib_per_rank']:.0f} MiB per rank"
    )


def table(result: dict[str, Any]) -> str:
    """Return the measurements as Markdown."""
    lines = [
        "| ranks | loss | similarities per second and rank | waiting | sent per rank | memory | epoch | memory "
        "| epoch in batches | memory |",
        "|---:|" + "--:|" * 9,
    ]
    for row in result["rows"]:
        lines.append(
            f"| {row['ranks']} | {row['seconds']:.1f} s | {row['similarities_per_second_and_rank'] / 1e6:.0f} million "
            f"| {100 * row['waiting_share']:.1f}% | {max(row['bytes_sent']) / 2**20:.1f} MiB "
            f"| {row['loss_mib_per_rank']:.0f} MiB | {row['epoch_seconds']:.1f} s "
            f"| {row['epoch_mib_per_rank']:.0f} MiB | {row['batches_seconds']:.1f} s "
            f"| {row['batches_mib_per_rank']:.0f} MiB |"
        )
    notes = [note(result), *([_gpu_note(result["gpu"])] if result.get("gpu") else [])]
    return "\n".join(lines) + "\n\n" + "\n\n".join(textwrap.fill(words, 120) for words in notes) + "\n"


def _gpu_note(gpu: dict[str, Any]) -> str:
    """Return what was measured on a GPU."""
    epoch, blocks = gpu["epoch"], gpu["blocks"]
    rates = [blocks[f"{name}_similarities_per_second"] / 1e9 for name in ("loss", "visit")]
    return (
        f"On one {gpu['hardware']['device']} ({gpu['date'][:10]}), an exact epoch of EPAGCL in one process takes "
        f"{epoch['ms'] / 1000:.1f} s and {epoch['gib']:.1f} GiB with {epoch['nodes']:,} nodes. With "
        f"{blocks['nodes']:,} nodes, the kernels compute {rates[0]:,.0f} billion similarities per second for the rows "
        f"of one process, and {rates[1]:,.0f} billion for these and rows that other ranks send."
    )


def note(result: dict[str, Any]) -> str:
    """Return how the table was measured."""
    nodes, load = result["nodes"], result["load_average"]
    words = (
        f"Measured on {result['date'][:10]} ({result['hardware']['cpu']}, one core per rank) in float32: the loss and "
        f"an exact epoch of EPAGCL with {nodes:,} nodes; an epoch in batches of 256 with {BATCHED * nodes:,} nodes. "
        "Memory is the increase of the largest rank."
    )
    if load <= 1.5 * result["cores"]:
        return words
    return f"{words} Other programs used the cores at the time (load {load:.0f} on {result['cores']} cores)."


def main() -> None:
    """Measure on the ranks that torchrun has started; rank 0 prints the result."""
    parser = argparse.ArgumentParser(prog="torchrun -m benchmarks.scale")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    arguments = parser.parse_args()
    with several_ranks("cpu") as ranks:
        result = measure(ranks, arguments.nodes, arguments.repeats)
        if ranks.is_first:
            print(MARK + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
