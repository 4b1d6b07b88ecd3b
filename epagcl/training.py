"""One training loop for every method: optimiser, history, checkpoints, resume, and a watch over what can go wrong."""

import csv
import json
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from epagcl.capture import Epochs
from epagcl.data.graph import Graph
from epagcl.errors import InputError, TrainingError
from epagcl.files import atomic_path
from epagcl.health import alignment, distance_between_nodes, effective_rank, uniformity

if TYPE_CHECKING:
    from epagcl.methods.base import Method

log = logging.getLogger("epagcl")

#: One epoch of the history: epoch, loss, seconds (of training so far), measures of health (None in most epochs).
Row = dict[str, float | int | None]
Callback = Callable[[Row], None]
#: (every, function): after each ``every``-th epoch the function is given the number of epochs done and the embedding.
Look = tuple[int, Callable[[int, Tensor], None]]

CHECKPOINT_SECONDS = 10.0  # EPAGCL_CHECKPOINT_SECONDS in the environment overrides it
HEALTH = ("effective_rank", "alignment", "distance", "uniformity")
FIRST_HEALTH = 25  # epoch of the first measurement of health; each is three forward passes, and some ms
THINNED = (
    0.2  # share of pairs and feature columns that each view of the alignment lacks, whatever the method's own views
)
COLLAPSED_BELOW = 2.0
BLOCK_SECONDS = 0.1  # a GPU is waited for about this often: for progress, checkpoints and Ctrl-C


def train(
    method: "Method",
    network: nn.Module,
    graph: Graph,
    *,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    callback: Callback | None = None,
    look: Look | None = None,
) -> list[Row]:
    """Minimise the method's loss for its number of epochs; ``network`` is trained in place.

    With ``checkpoint``, the state goes to that file every few seconds, and ``resume`` continues from it: views depend
    on (seed, epoch) alone, so on a CPU the result is bit-identical to a run that was never stopped. ``look`` changes no
    bit of it either; with patience it sees the weights of its epoch, not the best so far.

    Returns:
        The history, one row per epoch.
    """
    optimiser = adam(method, network, graph.device)
    epochs = Epochs(method, network, graph, optimiser)
    history: list[Row] = []
    if resume and checkpoint is not None and Path(checkpoint).exists():
        history = _load_checkpoint(Path(checkpoint), epochs)
    patience = _Patience(method.patience, history)
    every = _checkpoint_seconds()
    collapsed = False
    block = 1
    start = last_save = time.perf_counter()
    start -= history[-1]["seconds"] if history else 0.0
    with _interrupts(deferred=checkpoint is not None) as interrupted:
        while len(history) < method.epochs and not patience.out:
            # A block of epochs runs without waiting for the device; it ends where the embedding is looked at.
            first = len(history)
            stop = min(first + block, _next_health(first), method.epochs)
            if look is not None:
                stop = min(stop, first - first % look[0] + look[0])
            begun = time.perf_counter() - start
            values = epochs.run(first, stop)
            ended = time.perf_counter() - start
            rows: list[Row] = []
            for epoch, (loss, *validation) in enumerate(values, first + 1):
                for value in (loss, *validation):
                    if not math.isfinite(value):
                        raise TrainingError(f"the loss is {value} at epoch {epoch}; {_advice(method)}")
                seconds = begun + (ended - begun) * (epoch - first) / (stop - first)
                rows.append({"epoch": epoch, "loss": loss, "seconds": round(seconds, 4), **dict.fromkeys(HEALTH)})
                rows[-1] |= dict(zip(["validation_loss"], validation, strict=False))
                patience.look(rows[-1])
                if patience.out:
                    break

            if look is not None and rows[-1]["epoch"] == stop and stop % look[0] == 0:
                look[1](stop, _embedding(method, network, graph))
            last = patience.out or stop == method.epochs
            if last and epochs.best is not None:
                epochs.best.restore()
            if stop == _next_health(first) or last:
                rows[-1] |= health(method, network, graph)
                rank = rows[-1]["effective_rank"]
                if not math.isfinite(rank):
                    raise TrainingError(f"the embedding is not finite at epoch {stop}; {_advice(method)}")
                # Class scores of a supervised method have few directions by right.
                if rank < COLLAPSED_BELOW and not method.supervised and (last or not collapsed):
                    collapsed = True  # said once, and again if it is still so at the end
                    log.warning(
                        "seed %d, epoch %d: the embedding has collapsed (effective rank %.2f): "
                        "lower lr (now %g), or try another seed",
                        *(method.seed, stop, rank, method.lr),
                    )
            history += rows
            if graph.device.type == "cuda":
                block = max(1, int(BLOCK_SECONDS * (stop - first) / max(ended - begun, 1e-6)))
            if checkpoint is not None and (interrupted() or time.perf_counter() - last_save > every):
                _save_checkpoint(Path(checkpoint), epochs, history)
                last_save = time.perf_counter()
            if callback is not None:
                for row in rows:
                    callback(row)
            if interrupted():
                raise KeyboardInterrupt
    optimiser.zero_grad(set_to_none=True)  # gradients of a captured epoch would keep its memory
    network.eval()
    return history


class _Patience:
    """Counts the epochs since the lowest loss, or validation loss, as :class:`~epagcl.capture.Best` does."""

    def __init__(self, patience: int, history: list[Row]):
        self.patience, self.best, self.since = patience, math.inf, 0
        for row in history:
            self.look(row)

    def look(self, row: Row) -> None:
        """Take note of an epoch."""
        value = row.get("validation_loss", row["loss"])
        self.since = 0 if value < self.best else self.since + 1
        self.best = min(self.best, value)

    @property
    def out(self) -> bool:
        """Whether to stop."""
        return 0 < self.patience <= self.since


def _next_health(epoch: int) -> int:
    """The next epoch after which the embedding is looked at: 25, 50, 100, 200, ..."""
    measured = FIRST_HEALTH
    while measured <= epoch:
        measured *= 2
    return measured


def adam(method: "Method", network: nn.Module, device: torch.device) -> torch.optim.Optimizer:
    """Adam with the method's settings, as fast as the device has it."""
    groups = [{"lr": method.lr, "weight_decay": method.weight_decay, **group} for group in method.parameters(network)]
    for group in groups:
        group["initial_lr"] = group["lr"]
        if device.type == "cuda" and method.lr_factor(torch.tensor(0)) is not None:
            group["lr"] = torch.tensor(group["lr"], device=device)  # a captured epoch reads it anew
    kind = torch.optim.AdamW if method.decoupled_decay else torch.optim.Adam
    return kind(groups, lr=method.lr, fused=device.type != "mps", capturable=device.type == "cuda")


def _advice(method: "Method") -> str:
    return f"lower lr (now {method.lr:g}) or check the features' scale"


def _checkpoint_seconds() -> float:
    text = os.environ.get("EPAGCL_CHECKPOINT_SECONDS")
    try:
        return CHECKPOINT_SECONDS if text is None else float(text)
    except ValueError:
        raise InputError(f"EPAGCL_CHECKPOINT_SECONDS={text!r}: give a number of seconds") from None


@contextmanager
def _interrupts(deferred: bool) -> Iterator[Callable[[], bool]]:
    """Ctrl-C waits for the end of the epoch, where the state is whole and can be kept; a second one does not wait."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else somebody has decided otherwise
    if not deferred or not usual or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    asked: list[bool] = []

    def remember(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(True)

    previous = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, previous)


@torch.no_grad()
def _embedding(method: "Method", network: nn.Module, graph: Graph) -> Tensor:
    """The embedding as it is now."""
    return method.represent(network.eval(), graph)


def health(method: "Method", network: nn.Module, graph: Graph) -> Row:
    """The embedding's label-free measures as it is now; the alignment is that of two views of the graph, thinned."""
    z = _embedding(method, network, graph)
    if not torch.isfinite(z).all():
        return dict.fromkeys(HEALTH, math.nan)
    views = (_embedding(method, network, graph.thinned(THINNED, which)) for which in (1, 2))
    return {
        "effective_rank": effective_rank(z),
        "alignment": alignment(*views),
        "distance": distance_between_nodes(z),
        "uniformity": uniformity(z),
    }


def write_history(history: list[Row], path: str | Path) -> None:
    """The history as CSV, one line per epoch."""
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        columns = list(history[-1]) if history else ["epoch", "loss", "seconds", *HEALTH]
        writer = csv.DictWriter(file, fieldnames=columns)
        writer.writeheader()
        writer.writerows(history)


# A checkpoint is one safetensors file: weights, the optimiser's moments, and in its metadata the settings and history.


def _save_checkpoint(path: Path, epochs: Epochs, history: list[Row]) -> None:
    tensors = {f"network.{key}": value for key, value in epochs.network.state_dict().items()}
    for index, state in epochs.optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{key}": value for key, value in state.items()}
    if epochs.best is not None:
        tensors |= {f"best.{key}": value for key, value in epochs.best.tensors().items()}
    tensors = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    with atomic_path(path) as temporary:
        identity, rows = json.dumps(_identity(epochs)), json.dumps(history)
        save_file(tensors, temporary, {"settings": identity, "history": rows})


def _load_checkpoint(path: Path, epochs: Epochs) -> list[Row]:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            tensors: dict[str, Tensor] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise InputError(f"{path}: not a whole checkpoint ({error}); remove it, or start anew") from None
    saved, now = json.loads(metadata["settings"]), _identity(epochs)
    if changed := [key for key in now if saved.get(key) != now[key]]:
        key = changed[0]
        raise InputError(
            f"{path}: was made with {key}={saved.get(key)}, now {key}={now[key]}; "
            "resume with the same settings, or start anew"
        )
    weights = {k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")}
    epochs.network.load_state_dict(weights)
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimiser."):
            _, index, name = key.split(".")
            state.setdefault(int(index), {})[name] = value
    groups = epochs.optimiser.state_dict()["param_groups"]
    epochs.optimiser.load_state_dict({"state": state, "param_groups": groups})
    if epochs.best is not None:
        for key, value in epochs.best.tensors().items():
            value.copy_(tensors[f"best.{key}"])
    return json.loads(metadata["history"])


def _identity(epochs: Epochs) -> dict[str, object]:
    """What a checkpoint belongs to."""
    return {**epochs.method.identity(), "graph": epochs.graph.fingerprint}
