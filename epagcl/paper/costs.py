"""What an epoch of a method and the work before it cost: seconds, memory, products of matrices."""

import gc
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from epagcl.core.hardware import resolve_device
from epagcl.data import check
from epagcl.methods import Method
from epagcl.training.epoch import EpochRunner
from epagcl.training.loop import adam

if TYPE_CHECKING:
    from torch_geometric.data import Data

BLOCK_SECONDS = 0.2  # epochs are timed some at a time, as training runs them
SLOW = 2.0  # seconds of an epoch above which one is timed, and no more

#: Settings that change what is prepared but no product of an epoch: FLOPs are counted without the wait.
QUICK = {"greet": {"k": 0, "code_probes": 1}}

_LEFT = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "addmm_": 1, "addmv": 1, "addmv_": 1, "baddbmm": 1, "baddbmm_": 1}


class Products(TorchDispatchMode):
    r"""Counts :math:`2 \cdot \mathrm{nnz}(A) \cdot m` for each product A B of torch with an :math:`m`-column B.

    A multiplication and an addition for each entry of A, stored or, if A is dense, all, and each column of B; of a
    sparse B the same with the rows of A. Forward and backward alike, on the CPU, where every product is torch's own.
    What is not a product of matrices is not counted: activations, exponentials, norms, sums, sampling, the optimiser,
    and row-by-row products (a_i · b_j at given pairs).
    """

    flops = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in _LEFT:
            a, b = args[_LEFT[name]], args[_LEFT[name] + 1]
            if b.layout == torch.strided:
                self.flops += 2 * _entries(a) * (b.shape[-1] if b.dim() > 1 else 1)
            else:
                self.flops += 2 * _entries(b) * a.shape[0]
        return function(*args, **(kwargs or {}))


def _entries(matrix: Tensor) -> int:
    return matrix.numel() if matrix.layout == torch.strided else matrix._nnz()


def flops(cls: type[Method], settings: dict[str, Any], data: "Data") -> int:
    """FLOPs of the first epoch: all products of matrices, forward and backward, as plain torch computes them on a CPU.

    That path takes similarities in symmetric tiles, each computed once for both of its sides and, if they fit in
    128 MiB, kept for the gradient: 1.5 or 2 products of 2M²d for InfoNCE, where the plain formula has 3.
    """
    epochs = _epochs(cls, settings | QUICK.get(cls.name, {}), data, "cpu")
    _ = epochs.prepared
    with Products() as products:
        epochs.run(0, 1)
    return products.flops


def burden(cls: type[Method], settings: dict[str, Any], data: "Data", device: torch.device) -> dict[str, Any]:
    """Seconds before the first epoch and of an epoch, and the most memory; or that there was too little of it.

    First the epochs and their memory; pre-processing is timed after that, with a new graph, so that neither the start
    of the device nor the compilation of kernels is in it. It is what the method prepares, and by how much its first
    epoch takes longer than its second, for some is made when first used: patterns of views, transposes. Reading the
    file, building the network and moving both to the device are not in it.
    """
    try:
        return _burden(cls, settings, data, device)
    except RuntimeError as error:  # torch.OutOfMemoryError is one; a CPU's allocator has no type of its own
        if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
            raise
    return {"out_of_memory": True}


def _burden(cls: type[Method], settings: dict[str, Any], data: "Data", device: torch.device) -> dict[str, Any]:
    _clear(device)
    with PeakMemory(device) as memory:
        epochs = _epochs(cls, settings, data, str(device))
        seconds = _seconds_per_epoch(epochs, device)
    captured = epochs.captured is not None
    del epochs
    gc.collect()
    epochs = _epochs(cls, settings, data, str(device))
    prepared = _seconds(lambda: epochs.prepared, device)
    first, second = (_seconds(lambda start=start: epochs.run(start, start + 1), device) for start in range(2))
    return {
        "seconds_before": prepared + max(0.0, first - second),
        "seconds_per_epoch": seconds,
        "gib": memory.gib,
        "captured": captured,
    }


def _seconds_per_epoch(epochs: EpochRunner, device: torch.device) -> float:
    """Median over blocks of epochs, after those that warm up and, on a GPU, after the capture."""
    done = 5 if not epochs.reason else 1
    epochs.run(0, done)
    once = _seconds(lambda: epochs.run(done, done + 1), device)
    if once > SLOW:
        return once
    done += 1
    count = max(1, min(200, int(BLOCK_SECONDS / max(once, 1e-6))))
    blocks = range(done, done + 5 * count, count)
    times = [_seconds(lambda start=start: epochs.run(start, start + count), device) for start in blocks]
    return statistics.median(times) / count


def _seconds(step: Callable[[], object], device: torch.device) -> float:
    _wait(device)
    start = time.perf_counter()
    step()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _clear(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch._C._cuda_clearCublasWorkspaces()  # of streams that are no longer used
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


class PeakMemory:
    """GPU: the most that tensors held. CPU: the most resident memory above that at the start, sampled (Linux)."""

    gib: float | None = None

    def __init__(self, device: torch.device):
        self.device = device

    def __enter__(self) -> "PeakMemory":
        self._base = self._peak = self._resident() if self.device.type != "cuda" else 0
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
            self.gib = (max(self._peak, self._resident()) - self._base) / 2**30

    def _watch(self) -> None:
        while self.device.type != "cuda" and self._base is not None and not self._stop.wait(0.005):
            self._peak = max(self._peak, self._resident())

    @staticmethod
    def _resident() -> int | None:
        try:
            return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
        except OSError:  # no Linux
            return None


def _epochs(cls: type[Method], settings: dict[str, Any], data: "Data", device: str) -> EpochRunner:
    """Everything before the method's own work: the graph and the network on the device, the optimiser."""
    model = cls(**{**settings, "device": device, "epochs": 0}).fit(data)  # builds the network
    model.set_params(epochs=settings.get("epochs", cls(**settings).epochs))
    graph = model._graph(check(data, quiet=True), resolve_device(device))
    return EpochRunner(model, model.network_, graph, adam(model, model.network_, graph.device))
