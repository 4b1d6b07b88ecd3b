"""Epochs one after the other, on a GPU as one captured CUDA graph: the same kernels, launched at once."""

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from epagcl.data.graph import Graph
from epagcl.hardware import has_triton

if TYPE_CHECKING:
    from epagcl.methods.base import Method

log = logging.getLogger("epagcl")

WARM_UP = 3  # epochs before the capture: libraries start, kernels are compiled, tiles are chosen
NEVER = 2**62  # epochs of patience
SMALL = 32_768  # nodes up to which launches take longer than what they launch


class Epochs:
    """Runs epochs of a method: views, network, loss, gradient, optimiser.

    On CUDA the number of the epoch lies on the device, so that a captured epoch can be replayed with another number.
    Whether it is captured changes no bit of the result.
    """

    def __init__(self, method: "Method", network: nn.Module, graph: Graph, optimiser: torch.optim.Optimizer):
        self.method, self.network, self.graph, self.optimiser = method, network, graph, optimiser
        # A method that validates keeps its best weights also where it never stops early.
        self.best = Best(network, method.patience or NEVER) if method.patience or method.validates else None
        self.captured: torch.cuda.CUDAGraph | None = None
        self.reason = _why_not(method, graph)  # why epochs are not captured; empty if they are to be
        self._done = 0
        if graph.device.type == "cuda":
            self._number = torch.zeros((), dtype=torch.int64, device=graph.device)
            self._stream = _stream(graph.device)

    @cached_property
    def prepared(self) -> Any:
        """What the method computes once, before the first epoch."""
        return self.method.prepare(self.graph)

    def run(self, start: int, stop: int) -> list[tuple[float, ...]]:
        """Epochs ``start`` to ``stop - 1``: of each the loss and, where there is one, the validation loss.

        The device is waited for once, at the end.
        """
        self.network.train()
        if self.graph.device.type != "cuda":
            losses = [self._epoch(epoch) for epoch in range(start, stop)]
        else:
            # Off the default stream throughout: gradients must be accumulated where they will be captured.
            usual = torch.cuda.current_stream(self.graph.device)
            with _locks[self.graph.device], torch.cuda.device(self.graph.device):
                self._stream.wait_stream(usual)
                try:
                    with torch.cuda.stream(self._stream), products_in(self.method.precision, self.graph.device):
                        losses = [self._cuda_epoch(epoch) for epoch in range(start, stop)]
                finally:  # also after Ctrl-C: epochs that are under way still write the weights
                    usual.wait_stream(self._stream)
        return [tuple(values) for values in torch.stack(losses).tolist()]

    def _epoch(self, epoch: int | Tensor) -> Tensor:
        """One epoch of the method: its steps, what follows them, and a look at whether it is the best so far."""
        method, network = self.method, self.network
        self._schedule(epoch)
        values: list[Tensor] = []
        for step in method.steps():
            self.optimiser.zero_grad(set_to_none=True)
            loss = step.loss(network, self.graph, self.prepared, epoch)
            groups = self.optimiser.param_groups if step.group is None else [self.optimiser.param_groups[step.group]]
            loss.backward(inputs=[parameter for group in groups for parameter in group["params"]])
            if not values:
                values.append(loss.detach())
                if self.best is not None and not method.validates:
                    self.best.look(values[0])  # before the step: the weights that gave this loss
            self.optimiser.step()
        method.after_epoch(network, epoch)
        if method.validates:
            network.eval()
            with torch.no_grad():
                values.append(method.validation_loss(network, self.graph, self.prepared))
            network.train()
            if self.best is not None:
                self.best.look(values[-1])
        return torch.stack(values)

    def _schedule(self, epoch: int | Tensor) -> None:
        """Set the learning rate of an epoch: where epochs are captured, by writing to the number that Adam reads."""
        factor = self.method.lr_factor(torch.as_tensor(epoch))
        if factor is None:
            return
        for group in self.optimiser.param_groups:
            rate = group["initial_lr"] * factor
            if isinstance(group["lr"], Tensor):
                group["lr"].copy_(rate)
            else:
                group["lr"] = float(rate)

    def _cuda_epoch(self, epoch: int) -> Tensor:
        self._number.fill_(epoch)
        if self.captured is None and not self.reason and self._done >= WARM_UP:
            self._capture()
        self._done += 1
        if self.captured is None:
            return self._epoch(self._number)
        self.captured.replay()
        return self._loss.clone()  # the next replay overwrites it

    def _capture(self) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        captured = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(captured, stream=self._stream):
                self._loss = self._epoch(self._number)
        except RuntimeError as error:  # a loss that looks at its own values, say
            self.reason = str(error).splitlines()[0]
            log.info("epochs run without a CUDA graph: %s", self.reason)
            self.optimiser.zero_grad(set_to_none=True)
        else:
            self.captured = captured


class Best:
    """The weights with the lowest value so far, until ``patience`` epochs in a row have not been lower.

    All of it lies on the device and is computed there, so that epochs need not be waited for one by one.
    """

    def __init__(self, network: nn.Module, patience: int):
        state = network.state_dict()
        device = next(iter(state.values())).device
        self.network, self.patience = network, patience
        self.state = {key: value.clone() for key, value in state.items()}
        self.value = torch.full((), torch.inf, device=device)
        self.since = torch.zeros((), dtype=torch.int64, device=device)

    def look(self, value: Tensor) -> None:
        """Take over the weights as they are now if ``value`` is lower than any before."""
        waiting = self.since < self.patience
        better = (value < self.value) & waiting
        self.since.copy_(torch.where(better, 0, self.since + waiting))
        self.value.copy_(torch.where(better, value, self.value))
        for key, now in self.network.state_dict().items():
            self.state[key].copy_(torch.where(better, now, self.state[key]))

    def tensors(self) -> dict[str, Tensor]:
        """Everything a checkpoint must keep; what is copied into them is taken over."""
        return {"value": self.value, "since": self.since, **{f"state.{key}": t for key, t in self.state.items()}}

    def restore(self) -> None:
        """Give the network its best weights."""
        self.network.load_state_dict(self.state)


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """One for all trainings: each stream that a matrix product has run on keeps a workspace."""
    return torch.cuda.Stream(device)


#: One training at a time on a device: two would launch into each other's capture.
_locks: dict[torch.device, threading.Lock] = defaultdict(threading.Lock)


@contextmanager
def products_in(precision: str, device: torch.device) -> Iterator[None]:
    """Dense products of the network in TF32, which has fp16's mantissa; in float32 if ``precision`` is fp32.

    In float32 also without Triton, where the loss has no lower precision either.
    """
    matmul = torch.backends.cuda.matmul
    newer = getattr(matmul, "fp32_precision", None)  # torch 2.9 has two ways to say it
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # the user has said it the newer way
        before = None
    torch.set_float32_matmul_precision("highest" if precision == "fp32" or not has_triton(device) else "high")
    try:
        yield
    finally:
        if before is not None:
            torch.set_float32_matmul_precision(before)
        if newer is not None:
            matmul.fp32_precision = newer


def _why_not(method: "Method", graph: Graph) -> str:
    if graph.device.type != "cuda":
        return f"no CUDA graphs on {graph.device.type}"
    if method.capture == "off":
        return "capture = off"
    if not has_triton(graph.device):
        return "without Triton views are compacted, and their sizes change"
    if method.capture == "auto" and graph.num_nodes > SMALL:
        return f"more than {SMALL:,} nodes: the GPU is busy without it"
    return ""
