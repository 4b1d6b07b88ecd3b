"""The cost of a method: seconds before the first epoch and per epoch, memory, and FLOPs of matrix products."""

import gc
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from epagcl.core.hardware import resolve_device
from epagcl.core.memory import is_out_of_memory, resident_memory
from epagcl.data import check
from epagcl.methods.inputs import input_graph
from epagcl.training.epoch import EpochRunner
from epagcl.training.loop import adam

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from epagcl.methods import Method

BLOCK_SECONDS = 0.2  # epochs are timed in blocks of about this length, since training runs them in blocks
SLOW = 2.0  # seconds per epoch above which only one epoch is timed

#: Settings that shorten a method's preparation and change no product of an epoch, used to count FLOPs.
QUICK = {"greet": {"k": 0, "code_probes": 1}}

#: Position of the left operand among the arguments of each product.
_LEFT_OPERAND = {
    "mm": 0,
    "bmm": 0,
    "mv": 0,
    "addmm": 1,
    "addmm_": 1,
    "addmv": 1,
    "addmv_": 1,
    "baddbmm": 1,
    "baddbmm_": 1,
}


class FlopCounter(TorchDispatchMode):
    r"""Context that counts :math:`2 \cdot \mathrm{nnz}(A) \cdot m` FLOPs per product A B with :math:`m` columns in B.

    This is one multiplication and one addition for each entry of A and each column of B. All entries of a dense A
    count, and the stored entries of a sparse A. If only B is sparse, its stored entries and the rows of A count.
    Forward and backward passes are counted alike, on the CPU, where torch computes every product. Activations,
    exponentials, norms, sums, sampling, the optimiser and row-wise products (a_i · b_j at given pairs) do not count.
    """

    flops = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if name in _LEFT_OPERAND:
            a, b = args[_LEFT_OPERAND[name]], args[_LEFT_OPERAND[name] + 1]
            if b.layout == torch.strided:
                self.flops += 2 * _entries(a) * (b.shape[-1] if b.dim() > 1 else 1)
            else:
                self.flops += 2 * _entries(b) * a.shape[0]
        return func(*args, **(kwargs or {}))


def _entries(matrix: Tensor) -> int:
    """Return the number of stored entries."""
    return matrix.numel() if matrix.layout == torch.strided else matrix._nnz()


def flops(cls: "type[Method]", settings: dict[str, Any], data: "Data") -> int:
    """Return the FLOPs of the first epoch: all matrix products, forward and backward, on the plain torch path of a CPU.

    This path computes similarities in symmetric tiles. Each tile is computed once for both of its sides, and kept for
    the gradient if the tiles fit in 128 MiB. InfoNCE then takes 1.5 or 2 products of 2M²d instead of the 3 of the plain
    formula.
    """
    runner = _epoch_runner(cls, settings | QUICK.get(cls.name, {}), data, "cpu")
    _ = runner.prepared
    with FlopCounter() as counter:
        runner.run(0, 1)
    return counter.flops


def burden(cls: "type[Method]", settings: dict[str, Any], data: "Data", device: torch.device) -> dict[str, Any]:
    """Return the seconds of pre-processing, the seconds per epoch and the peak memory, or that memory ran out.

    Epochs and memory are measured first. Pre-processing is then timed on a new graph, so that it includes neither the
    start of the device nor the compilation of kernels. It consists of the method's own preparation and the extra time
    of the first epoch over the second, since some structures are built when first used: patterns of views, transposes.
    Reading the file, building the network and moving both to the device are excluded.
    """
    try:
        return _burden(cls, settings, data, device)
    except RuntimeError as error:  # also of the CPU's allocator, whose error has no class of its own
        if not is_out_of_memory(error):
            raise
    return {"out_of_memory": True}


def _burden(cls: "type[Method]", settings: dict[str, Any], data: "Data", device: torch.device) -> dict[str, Any]:
    _clear(device)
    with PeakMemory(device) as memory:
        runner = _epoch_runner(cls, settings, data, str(device))
        seconds = _seconds_per_epoch(runner, device)
    captured = runner.captured is not None
    del runner
    gc.collect()
    runner = _epoch_runner(cls, settings, data, str(device))
    prepared = _seconds(lambda: runner.prepared, device)
    first, second = (_seconds(partial(runner.run, epoch, epoch + 1), device) for epoch in range(2))
    return {
        "seconds_before": prepared + max(0.0, first - second),
        "seconds_per_epoch": seconds,
        "gib": memory.gib,
        "captured": captured,
    }


def _seconds_per_epoch(runner: EpochRunner, device: torch.device) -> float:
    """Return the median over blocks of epochs, after the warm-up and, on a GPU, after the capture."""
    done = 5 if not runner.reason else 1
    runner.run(0, done)
    once = _seconds(partial(runner.run, done, done + 1), device)
    if once > SLOW:
        return once
    done += 1
    count = max(1, min(200, int(BLOCK_SECONDS / max(once, 1e-6))))
    blocks = range(done, done + 5 * count, count)
    times = [_seconds(partial(runner.run, start, start + count), device) for start in blocks]
    return statistics.median(times) / count


def _seconds(step: Callable[[], object], device: torch.device) -> float:
    """Return the wall-clock time of a step, including its work on the device."""
    _synchronise(device)
    start = time.perf_counter()
    step()
    _synchronise(device)
    return time.perf_counter() - start


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _clear(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch._C._cuda_clearCublasWorkspaces()  # workspaces of streams no longer in use
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


class PeakMemory:
    """Context that measures peak memory in GiB.

    On a GPU this is the peak memory of tensors. On a CPU it is the peak resident memory above that at the start,
    sampled every 5 ms, and None on systems other than Linux.
    """

    gib: float | None = None

    def __init__(self, device: torch.device):
        self.device = device

    def __enter__(self) -> Self:
        self._base = None if self.device.type == "cuda" else resident_memory()
        self._peak = self._base or 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.device.type == "cuda":
            self.gib = torch.cuda.max_memory_allocated(self.device) / 2**30
        elif self._base is not None:
            self.gib = (max(self._peak, resident_memory() or 0) - self._base) / 2**30

    def _watch(self) -> None:
        while self._base is not None and not self._stop.wait(0.005):
            self._peak = max(self._peak, resident_memory() or 0)


def _epoch_runner(cls: "type[Method]", settings: dict[str, Any], data: "Data", device: str) -> EpochRunner:
    """Return a runner that is ready to prepare: graph and network on the device, and the optimiser."""
    model = cls(**{**settings, "device": device, "epochs": 0}).fit(data)  # builds the network, trains nothing
    model.set_params(epochs=settings.get("epochs", cls(**settings).epochs))
    graph = input_graph(model, check(data, quiet=True), resolve_device(device))
    return EpochRunner(model, model.network_, graph, adam(model, model.network_, graph.device))
