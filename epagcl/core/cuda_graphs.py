"""CUDA graphs: kernels that are recorded once and then launched together, which costs the CPU next to nothing."""

import gc
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache

import torch

from epagcl.core.log import log

#: One lock per device. Without it, a thread could launch kernels into the CUDA graph that another one captures.
device_locks: dict[torch.device, threading.Lock] = defaultdict(threading.Lock)
#: The latest graph of :func:`repeat` on each device, which may still run.
_latest: dict[torch.device, torch.cuda.CUDAGraph] = {}
#: Bytes of the graphs so far, which PyTorch's allocator keeps until its cache is emptied.
_reserved: Counter[torch.device] = Counter()
MAX_RESERVED = 2**30  # bytes of earlier graphs above which the cache is emptied


@cache
def capture_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the one stream on which CUDA graphs of a device are captured and replayed.

    Each stream that has run a matrix product keeps a workspace, so new streams would cost memory.
    """
    return torch.cuda.Stream(device)


def repeat(function: Callable[[], object], times: int, device: torch.device) -> None:
    """Call a function several times. On a GPU, all calls after the first are replays of a CUDA graph.

    Args:
        function: launches the same kernels on the same tensors in each call, and does not wait for the device.
        times: number of calls.
        device: where the kernels run.

    Examples:
        >>> total = torch.zeros(())
        >>> repeat(lambda: total.add_(2), times=3, device=total.device)
        >>> total
        tensor(6.)
    """
    if device.type != "cuda" or times < 2:
        for _ in range(times):
            function()
        return
    stream, default = capture_stream(device), torch.cuda.current_stream(device)
    with device_locks[device], torch.cuda.device(device):
        stream.wait_stream(default)
        try:
            with torch.cuda.stream(stream):
                function()  # initialises libraries, which is not allowed during a capture
                _free_earlier(device, stream)
                replay = _capture(function, device)
                for _ in range(times - 1):
                    replay()
        finally:  # also after Ctrl-C, since kernels in flight still write
            default.wait_stream(stream)


def _free_earlier(device: torch.device, stream: torch.cuda.Stream) -> None:
    """Free the memory of earlier graphs if it is large. PyTorch's allocator does so by itself only if there is none."""
    if _reserved[device] > MAX_RESERVED:
        stream.synchronize()  # the latest graph may still run
        _latest.pop(device, None)
        torch.cuda.empty_cache()
        _reserved[device] = 0


def _capture(function: Callable[[], object], device: torch.device) -> Callable[[], object]:
    """Return a replay of the function, or the function itself if it cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    before = torch.cuda.memory_reserved(device)
    collecting = gc.isenabled()
    gc.disable()  # objects that free memory of the device would spoil the capture
    try:
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            function()
        finally:
            graph.capture_end()
    except RuntimeError as error:
        log.info("no CUDA graph: %s", str(error.__context__ or error).splitlines()[0])
        return function
    finally:
        if collecting:
            gc.enable()
        _reserved[device] += torch.cuda.memory_reserved(device) - before
    _latest[device] = graph
    return graph.replay
