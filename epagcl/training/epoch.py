"""One epoch: views, network, loss, gradient and optimiser; on a GPU replayed as a captured CUDA graph."""

from contextlib import nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from epagcl.core.cuda_graphs import capture_stream, device_locks
from epagcl.core.log import log
from epagcl.data.graph import Graph
from epagcl.training.capture import WARM_UP, reason_not_to_capture
from epagcl.training.early_stopping import NEVER, EarlyStopping
from epagcl.training.precision import (
    half_activations,
    has_half_activations,
    loss_scaler,
    matmul_precision,
    skipped_steps,
)
from epagcl.training.protocol import Trainable


class EpochRunner:
    """Runs epochs of a method.

    On CUDA the epoch number is a tensor on the device, so that a captured epoch can be replayed with another number.
    Capturing does not change the result.

    Attributes:
        early_stopping: None if the method has neither patience nor a validation loss.
        reason: why epochs are not captured; empty if they are.
        scaler: scales the loss where activations are fp16; None where they are float32.
    """

    def __init__(self, method: Trainable, network: nn.Module, graph: Graph, optimiser: torch.optim.Optimizer):
        self.method, self.network, self.graph, self.optimiser = method, network, graph, optimiser
        # A method with a validation loss keeps its best weights even if it never stops early.
        keeps_best = method.patience or method.has_validation_loss
        self.early_stopping = EarlyStopping(network, method.patience or NEVER) if keeps_best else None
        self.captured: torch.cuda.CUDAGraph | None = None
        self.reason = reason_not_to_capture(method, graph)
        self.scaler = loss_scaler(graph.device) if has_half_activations(method, graph) else None
        self._done = 0
        if graph.device.type == "cuda":
            self._number = torch.zeros((), dtype=torch.int64, device=graph.device)
            self._stream = capture_stream(graph.device)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the graph, which identifies a checkpoint."""
        return self.graph.fingerprint

    @cached_property
    def prepared(self) -> Any:
        """The result of ``method.prepare``, computed once before the first epoch."""
        return self.method.prepare(self.graph)

    def run(self, start: int, stop: int) -> list[tuple[float, ...]]:
        """Run epochs ``start`` to ``stop - 1`` and wait for the device once, at the end.

        Returns:
            For each epoch its loss and, if the method has one, its validation loss.
        """
        self.network.train()
        if self.graph.device.type != "cuda":
            _ = self.prepared  # in float32
            with matmul_precision(self.method.precision, self.graph.device):
                losses = [self._epoch(epoch) for epoch in range(start, stop)]
        else:
            # The default stream is not used: gradients must be accumulated on the stream that is captured.
            default = torch.cuda.current_stream(self.graph.device)
            with device_locks[self.graph.device], torch.cuda.device(self.graph.device):
                self._stream.wait_stream(default)
                try:
                    with torch.cuda.stream(self._stream):
                        _ = self.prepared  # in float32
                        with matmul_precision(self.method.precision, self.graph.device):
                            losses = [self._cuda_epoch(epoch) for epoch in range(start, stop)]
                finally:  # also after Ctrl-C, since epochs in flight still write the weights
                    default.wait_stream(self._stream)
        return [tuple(values) for values in torch.stack(losses).tolist()]

    @property
    def skipped(self) -> int:
        """The number of steps so far that were skipped, since their gradients overflowed fp16; waits for the device."""
        return 0 if self.scaler is None else skipped_steps(self.scaler)

    def close(self) -> None:
        """Free what is kept between epochs: gradients of a captured epoch would keep its memory."""
        self.optimiser.zero_grad(set_to_none=True)

    def _epoch(self, epoch: int | Tensor) -> Tensor:
        """Run the optimiser steps of one epoch, then ``after_epoch``, then the validation loss."""
        method, network = self.method, self.network
        self._schedule(epoch)
        values: list[Tensor] = []
        for step in method.steps():
            self.optimiser.zero_grad(set_to_none=True)
            with nullcontext() if self.scaler is None else half_activations(self.graph.device):
                loss = step.loss(network, self.graph, self.prepared, epoch)
            groups = self.optimiser.param_groups if step.group is None else [self.optimiser.param_groups[step.group]]
            parameters = [parameter for group in groups for parameter in group["params"]]
            (loss if self.scaler is None else self.scaler.scale(loss)).backward(inputs=parameters)
            loss = loss.detach()
            if self.graph.part is not None:  # the loss of each rank is its share of the sum
                self.graph.part.sum_gradients(parameters)
                loss = self.graph.part.sum(loss)
            if not values:
                values.append(loss)
                if self.early_stopping is not None and not method.has_validation_loss:
                    self.early_stopping.observe(values[0])  # before the step changes the weights
            if self.scaler is None:
                self.optimiser.step()
            else:
                self.scaler.step(self.optimiser)
                self.scaler.update()
        method.after_epoch(network, epoch)
        if method.has_validation_loss:
            network.eval()
            with torch.no_grad():
                values.append(method.validation_loss(network, self.graph, self.prepared))
            network.train()
            if self.early_stopping is not None:
                self.early_stopping.observe(values[-1])
        return torch.stack(values)

    def _schedule(self, epoch: int | Tensor) -> None:
        """Set the learning rate of an epoch; a captured epoch reads it from a tensor."""
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
        """Run one epoch, or replay it if it is captured; capture it after the warm-up."""
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
        except RuntimeError as error:  # for example, if the loss copies values to the CPU
            self.reason = str(error).splitlines()[0]
            log.info("epochs run without a CUDA graph: %s", self.reason)
            self.optimiser.zero_grad(set_to_none=True)
        else:
            self.captured = captured
