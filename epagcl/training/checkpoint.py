"""Checkpoints: one safetensors file with weights, optimiser state, best weights, settings and history."""

import json
import os
import time
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from epagcl.core.config import current_settings
from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.training.epoch import EpochRunner
from epagcl.training.history import Row

CHECKPOINT_SECONDS = 10.0  # time between two checkpoints; EPAGCL_CHECKPOINT_SECONDS in the environment overrides it


class Checkpointer:
    """Saves the state of a training to a file every few seconds, and restores it.

    Args:
        path: the file; None saves nothing.
        epochs: the training whose state is saved.
    """

    def __init__(self, path: str | Path | None, epochs: EpochRunner):
        self.path = None if path is None else Path(path)
        self.epochs = epochs
        self.interval = _interval()
        self._last = time.perf_counter()

    @property
    def due(self) -> bool:
        """Whether the interval since the last checkpoint has passed."""
        return time.perf_counter() - self._last > self.interval

    def save(self, history: list[Row]) -> None:
        """Write the state after the last epoch of the history, if there is a file to write to."""
        if self.path is None:
            return
        epochs = self.epochs
        tensors = {f"network.{key}": value for key, value in epochs.network.state_dict().items()}
        for index, state in epochs.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{key}": value for key, value in state.items()}
        if epochs.early_stopping is not None:
            tensors |= {f"best.{key}": value for key, value in epochs.early_stopping.tensors().items()}
        tensors = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
        with atomic_path(self.path) as temporary:
            save_file(tensors, temporary, {"settings": json.dumps(self._identity()), "history": json.dumps(history)})
        self._last = time.perf_counter()

    def load(self) -> list[Row]:
        """Restore the saved state and return its history; without a file, return an empty history."""
        if self.path is None or not self.path.exists():
            return []
        epochs, (metadata, tensors) = self.epochs, _read(self.path)
        saved, now = current_settings(json.loads(metadata["settings"])), self._identity()
        # A setting that an earlier version did not have counts as its default.
        saved = {key: saved.get(key, getattr(type(epochs.method), key, None)) for key in now}
        if changed := [key for key in now if saved[key] != now[key]]:
            key = changed[0]
            raise InputError(
                f"{self.path}: made with {key}={saved[key]}, now {key}={now[key]}; "
                "resume with the same settings, or start over"
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
        history: list[Row] = json.loads(metadata["history"])
        if epochs.early_stopping is not None:
            for key, value in epochs.early_stopping.tensors().items():
                value.copy_(tensors[f"best.{key}"])
            epochs.early_stopping.epochs.fill_(len(history))
        return history

    def _identity(self) -> dict[str, Any]:
        """Return what identifies the training: the method's settings and the graph."""
        return {**self.epochs.method.identity(), "graph": self.epochs.graph.fingerprint}


def _interval() -> float:
    text = os.environ.get("EPAGCL_CHECKPOINT_SECONDS")
    try:
        return CHECKPOINT_SECONDS if text is None else float(text)
    except ValueError:
        raise InputError(f"EPAGCL_CHECKPOINT_SECONDS={text!r}: give a number of seconds") from None


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise InputError(f"{path}: not a complete checkpoint ({error}); remove it, or start over") from None
