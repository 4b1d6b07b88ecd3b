"""CUDA graphs: when an epoch is captured, on which stream, and the precision of its products."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

from epagcl.core.hardware import has_triton
from epagcl.data.graph import Graph
from epagcl.training.protocol import Trainable

WARM_UP = 3  # epochs before the capture, to initialise libraries, compile kernels and choose tile sizes
SMALL = 32_768  # up to this many nodes, launching the kernels takes longer than running them

#: One lock per device. Without it, a training could launch kernels into the CUDA graph that another one captures.
device_locks: dict[torch.device, threading.Lock] = defaultdict(threading.Lock)


@cache
def training_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the one stream that all trainings on a device share.

    Each stream that has run a matrix product keeps a workspace, so new streams would cost memory.
    """
    return torch.cuda.Stream(device)


def reason_not_to_capture(method: Trainable, graph: Graph) -> str:
    """Return why epochs run without a CUDA graph, or "" if they are to be captured."""
    if graph.device.type != "cuda":
        return f"no CUDA graphs on {graph.device.type}"
    if method.capture == "off":
        return "capture = off"
    if not has_triton(graph.device):
        return "without Triton, views are compacted and their sizes change"
    if method.capture == "auto" and graph.num_nodes > SMALL:
        return f"above {SMALL:,} nodes the GPU is busy without it"
    return ""


@contextmanager
def matmul_precision(precision: str, device: torch.device) -> Iterator[None]:
    """Run the network's dense products in TF32, which has the mantissa of fp16.

    They run in float32 if ``precision`` is fp32, or if Triton is not available. Without Triton, the loss is also
    computed in float32.
    """
    matmul = torch.backends.cuda.matmul
    newer = getattr(matmul, "fp32_precision", None)  # torch 2.9 has a second way to set it
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # the user has set it the newer way
        before = None
    torch.set_float32_matmul_precision("highest" if precision == "fp32" or not has_triton(device) else "high")
    try:
        yield
    finally:
        if before is not None:
            torch.set_float32_matmul_precision(before)
        if newer is not None:
            matmul.fp32_precision = newer
