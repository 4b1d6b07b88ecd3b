"""The training loop, the same for every method."""

import math
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import torch
from torch import nn

from epagcl.core.errors import TrainingError
from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.graph import Graph
from epagcl.data.subgraphs import Subgraphs
from epagcl.evaluation.health import Measures
from epagcl.training.checkpoint import Checkpointer
from epagcl.training.epoch import EpochRunner
from epagcl.training.history import COLLAPSED_BELOW, Callback, Look, Row, measure, next_measurement
from epagcl.training.interrupts import deferred_interrupts
from epagcl.training.precision import LOSS_SCALE
from epagcl.training.protocol import Trainable, calibrate, embedding_of
from epagcl.training.subgraphs import SubgraphRunner

FIRST_BLOCK = 1  # epochs that run without waiting for the device; on a GPU, later blocks take about BLOCK_SECONDS
BLOCK_SECONDS = 0.1  # the loop waits for the GPU about this often: for progress, checkpoints and Ctrl-C


def train(
    method: Trainable,
    network: nn.Module,
    graph: Graph,
    *,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    callback: Callback | None = None,
    look: Look | None = None,
    subgraphs: Subgraphs | None = None,
) -> list[Row]:
    """Minimise the method's loss for its number of epochs; ``network`` is trained in place.

    Views depend on (seed, epoch) alone. On the same kind of CPU, a resumed training therefore gives exactly the same
    result as an uninterrupted one. Neither ``callback`` nor ``look`` changes the result.

    Args:
        method: provides the settings and the loss.
        network: the network to train.
        graph: the graph to train on.
        checkpoint: file to which the state is saved every few seconds.
        resume: continue from ``checkpoint`` if that file exists.
        callback: called with each row of the history. On a GPU, several rows are passed in quick succession.
        look: called with the embedding every few epochs. The embedding uses the current weights, not the best so far.
        subgraphs: train on these, one per epoch; ``graph`` then only serves for measurements and for ``look``.

    Returns:
        The history, one row per epoch.

    Examples:
        :meth:`Method.fit <epagcl.methods.Method.fit>` calls this function:

        >>> import epagcl
        >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> model = epagcl.EPAGCL(epochs=2, hidden=8, dim=4, projection=4, device="cpu").fit(data)
        >>> [row["epoch"] for row in model.history_]
        [1, 2]
    """
    optimiser = adam(method, network, graph.device)
    if subgraphs is None:
        epochs = EpochRunner(method, network, graph, optimiser)
    else:
        epochs = SubgraphRunner(method, network, graph, optimiser, subgraphs)
    checkpointer = Checkpointer(checkpoint, epochs)
    history = checkpointer.load() if resume else []
    stopping = epochs.early_stopping
    stopped = stopping is not None and stopping.exhausted
    collapsed = False  # whether a warning has been logged
    block = FIRST_BLOCK
    start = time.perf_counter() - (history[-1]["seconds"] if history else 0.0)
    with closing(epochs), deferred_interrupts(enabled=checkpoint is not None) as interrupted:
        while len(history) < method.epochs and not stopped:
            first = len(history)
            stop = min(first + block, next_measurement(first), method.epochs)
            stop = stop if look is None else min(stop, look.next_epoch(first))
            begun = time.perf_counter() - start
            losses = epochs.run(first, stop)
            ended = time.perf_counter() - start
            if stopping is not None and (stopped := stopping.exhausted):
                losses = losses[: int(stopping.epochs) - first]  # epochs after the stop do not count
            rows = list(_rows(losses, method, first, begun, (ended - begun) / (stop - first)))
            calibrated = False
            if look is not None and rows[-1]["epoch"] == look.next_epoch(first):
                calibrate(method, network, graph)
                calibrated = True
                look.function(stop, embedding_of(method, network, graph))
            last = stopped or stop == method.epochs
            _check_overflow(method, epochs.skipped, stop, last)
            if last and stopping is not None:
                stopping.restore()
                calibrated = False
            if last or stop == next_measurement(first):
                if not calibrated:
                    calibrate(method, network, graph)
                measures = measure(method, network, graph)
                rows[-1] = {**rows[-1], **measures}
                collapsed = _check_collapse(method, measures, stop, last or not collapsed) or collapsed
            history += rows
            if graph.device.type == "cuda" and graph.part is None:  # the ranks stop after the same epoch
                block = max(1, int(BLOCK_SECONDS * (stop - first) / max(ended - begun, 1e-6)))
            if interrupted() or checkpointer.due:
                checkpointer.save(history)
            if callback is not None:
                for row in rows:
                    callback(row)
            if interrupted():
                raise KeyboardInterrupt
    if not method.epochs:
        calibrate(method, network, graph)
    network.eval()
    return history


def adam(method: Trainable, network: nn.Module, device: torch.device) -> torch.optim.Optimizer:
    """Return Adam or AdamW with the method's settings, in the fastest implementation for the device.

    Examples:
        >>> from epagcl import DGI
        >>> network = DGI(dim=4, lr=0.01).build(num_features=8)
        >>> optimiser = adam(DGI(dim=4, lr=0.01), network, torch.device("cpu"))
        >>> optimiser.param_groups[0]["lr"]
        0.01
    """
    groups = [{"lr": method.lr, "weight_decay": method.weight_decay, **group} for group in method.parameters(network)]
    for group in groups:
        group["initial_lr"] = group["lr"]
        if device.type == "cuda" and method.lr_factor(torch.tensor(0)) is not None:
            group["lr"] = torch.tensor(group["lr"], device=device)  # a captured epoch reads it from the device
    kind = torch.optim.AdamW if method.decoupled_decay else torch.optim.Adam
    return kind(groups, lr=method.lr, fused=device.type != "mps", capturable=device.type == "cuda")


def _rows(losses: list[tuple[float, ...]], method: Trainable, first: int, begun: float, pace: float) -> Iterator[Row]:
    """Yield the history rows of a block of epochs; raise at the first loss that is not finite."""
    for done, (loss, *validation) in enumerate(losses, 1):
        epoch = first + done
        for value in (loss, *validation):
            if not math.isfinite(value):
                raise TrainingError(f"the loss is {value} at epoch {epoch}; {_advice(method)}")
        row: Row = {
            "epoch": epoch,
            "loss": loss,
            "seconds": round(begun + pace * done, 4),
            "effective_rank": None,
            "alignment": None,
            "distance": None,
            "uniformity": None,
        }
        if validation:
            row["validation_loss"] = validation[0]
        yield row


def _check_overflow(method: Trainable, skipped: int, epoch: int, last: bool) -> None:
    """Raise if gradients are not finite at any scale of the loss; if ``last``, log a warning on skipped steps."""
    if 2**skipped > LOSS_SCALE:
        raise TrainingError(
            f"the gradients overflow fp16 up to epoch {epoch}; {_advice(method)}, or use precision='tf32'"
        )
    if last and skipped:
        log.warning(
            "seed %d: %s skipped because gradients overflowed fp16; precision='tf32' keeps them in float32",
            *(method.seed, counted(skipped, "step")),
        )


def _check_collapse(method: Trainable, measures: Measures, epoch: int, warn: bool) -> bool:
    """Raise if the embedding is not finite; return whether it has collapsed, and if ``warn``, log a warning."""
    rank = measures["effective_rank"]
    if rank is None or not math.isfinite(rank):
        raise TrainingError(f"the embedding is not finite at epoch {epoch}; {_advice(method)}")
    if method.supervised or rank >= COLLAPSED_BELOW:  # logits legitimately have low rank
        return False
    if warn:
        log.warning(
            "seed %d, epoch %d: the embedding has collapsed (effective rank %.2f): "
            "lower lr (now %g), or try another seed",
            *(method.seed, epoch, rank, method.lr),
        )
    return True


def _advice(method: Trainable) -> str:
    return f"lower lr (now {method.lr:g}) or check the scale of the features"
