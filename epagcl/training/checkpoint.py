"""Checkpoints: one safetensors file with weights, optimiser state, best weights, settings, history and a checksum."""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from epagcl.core.config import current_settings
from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path, reading
from epagcl.data.identity import is_former_fingerprint
from epagcl.training.epoch import EpochRunner
from epagcl.training.history import Row

SCALE_KEY = "scaler.scale"  # name of the tensor that only trainings with fp16 activations have
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
        """Write the state after the last epoch of the history, if there is a file to write to.

        Weights and the state of the optimiser are the same on every rank. So rank 0 writes them, in a form that does
        not depend on the number of ranks.
        """
        part = self.epochs.graph.part
        if self.path is None or (part is not None and not part.ranks.is_first):
            return
        tensors = {key: value.detach().cpu().contiguous() for key, value in self._tensors().items()}
        metadata = {"settings": json.dumps(self._identity()), "history": json.dumps(history)}
        metadata["sha256"] = tensor_digest(tensors, json.dumps(metadata, sort_keys=True))
        with atomic_path(self.path) as temporary:
            # save_file would write through a temporary file of its own, which stays if the process is killed.
            temporary.write_bytes(save(tensors, metadata))
        self._last = time.perf_counter()

    def load(self) -> list[Row]:
        """Restore the saved state and return its history; without a file, return an empty history.

        The file is verified before anything is restored: its checksum, the settings and the graph, and the name, type
        and shape of each tensor.
        """
        part = self.epochs.graph.part
        # With several ranks, only the machine of rank 0 needs to have the file.
        saved = self._verified() if part is None else part.ranks.on_first(self._verified)
        if saved is None:
            return []
        history, tensors = saved
        self._restore(tensors, len(history))
        return history

    def _verified(self) -> tuple[list[Row], dict[str, Tensor]] | None:
        """Return the history and the tensors of the file, if there is one. Raise unless they are of this training."""
        if self.path is None or not self.path.exists():
            return None
        with reading(self.path, "remove it, or start over"):
            settings, history, tensors = _read(self.path)
        self._check_identity(settings)
        with reading(self.path, "remove it, or start over"):
            _check_history(history, self.epochs.method.epochs)
            self._check_tensors(tensors)
        return history, tensors

    def _restore(self, tensors: dict[str, Tensor], epochs_done: int) -> None:
        epochs = self.epochs
        weights = {k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")}
        epochs.network.load_state_dict(weights)
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            if key.startswith("optimiser."):
                _, index, name = key.split(".")
                state.setdefault(int(index), {})[name] = value
        groups = epochs.optimiser.state_dict()["param_groups"]
        epochs.optimiser.load_state_dict({"state": state, "param_groups": groups})
        if epochs.early_stopping is not None:
            for key, value in epochs.early_stopping.tensors().items():
                value.copy_(tensors[f"best.{key}"])
            epochs.early_stopping.epochs.fill_(epochs_done)
        if epochs.scaler is not None and SCALE_KEY in tensors:
            epochs.scaler.load_state_dict({**epochs.scaler.state_dict(), "scale": tensors[SCALE_KEY].item()})

    def _tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the current state by their names in the file."""
        epochs = self.epochs
        tensors = {f"network.{key}": value for key, value in epochs.network.state_dict().items()}
        for index, state in epochs.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{key}": value for key, value in state.items()}
        if epochs.early_stopping is not None:
            tensors |= {f"best.{key}": value for key, value in epochs.early_stopping.tensors().items()}
        if epochs.scaler is not None:
            tensors[SCALE_KEY] = torch.tensor(epochs.scaler.get_scale())
        return tensors

    def _check_identity(self, settings: dict[str, Any]) -> None:
        """Raise unless the checkpoint is of the same training."""
        saved, now = current_settings(settings), self._identity()
        # A setting that an earlier version did not have counts as its default.
        saved = {key: saved.get(key, getattr(type(self.epochs.method), key, None)) for key in now}
        if is_former_fingerprint(saved["graph"]):
            raise InputError(f"{self.path}: of an earlier version, which does not identify its graph; start over")
        if changed := [key for key in now if saved[key] != now[key]]:
            key = changed[0]
            raise InputError(
                f"{self.path}: made with {key}={saved[key]}, now {key}={now[key]}; "
                "resume with the same settings, or start over"
            )

    def _check_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Raise unless every tensor of the training is there, with its type and shape, and no other."""
        expected = {key: value for key, value in self._tensors().items() if not key.startswith("optimiser.")}
        parameters = [parameter for group in self.epochs.optimiser.param_groups for parameter in group["params"]]
        for index in {int(key.split(".")[1]) for key in tensors if key.startswith("optimiser.")}:
            # The moments of Adam have the shape of their parameter; the number of steps is a scalar.
            state = {"step": torch.zeros(()), **dict.fromkeys(("exp_avg", "exp_avg_sq"), parameters[index].detach())}
            expected |= {f"optimiser.{index}.{name}": value for name, value in state.items()}
        if (SCALE_KEY in expected) != (SCALE_KEY in tensors):  # activations are float32 here, or were there
            expected.pop(SCALE_KEY, None)
            tensors = {key: value for key, value in tensors.items() if key != SCALE_KEY}
        if different := expected.keys() ^ tensors.keys():
            raise ValueError(f"{sorted(different)[0]} does not belong to this training, or is missing")
        for key, value in expected.items():
            if (tensors[key].shape, tensors[key].dtype) != (value.shape, value.dtype):
                found = f"{tuple(tensors[key].shape)} of {tensors[key].dtype}"
                raise ValueError(f"{key} is {found}, not {tuple(value.shape)} of {value.dtype}")

    def _identity(self) -> dict[str, Any]:
        """Return what identifies the training: the method's settings and the graph."""
        return {**self.epochs.method.identity(), "graph": self.epochs.fingerprint}


def _interval() -> float:
    text = os.environ.get("EPAGCL_CHECKPOINT_SECONDS")
    try:
        return CHECKPOINT_SECONDS if text is None else float(text)
    except ValueError:
        raise InputError(f"EPAGCL_CHECKPOINT_SECONDS={text!r}: give a number of seconds") from None


def _read(path: Path) -> tuple[dict[str, Any], list[Row], dict[str, Tensor]]:
    """Return the settings, the history and the tensors of a checkpoint. Raise if its checksum is wrong."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise InputError(f"{path}: not a complete checkpoint ({error}); remove it, or start over") from None
    if "settings" in metadata and "sha256" not in metadata:
        raise InputError(f"{path}: of an earlier version, without a checksum; start over")
    if metadata.pop("sha256") != tensor_digest(tensors, json.dumps(metadata, sort_keys=True)):
        raise InputError(f"{path}: damaged (its checksum does not match); remove it, or start over")
    return json.loads(metadata["settings"]), json.loads(metadata["history"]), tensors


def tensor_digest(tensors: Mapping[str, Tensor], prefix: str = "") -> str:
    """Return the SHA-256 of the names, types, shapes and bytes of some tensors.

    Args:
        tensors: tensors on the CPU, by name.
        prefix: further text that counts.

    Examples:
        >>> tensor_digest({"w": torch.zeros(2)}) == tensor_digest({"w": torch.zeros(1, 2)})
        False
    """
    digest = hashlib.sha256(prefix.encode())
    for key, value in sorted(tensors.items()):
        digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _check_history(history: list[Row], epochs: int) -> None:
    if [row["epoch"] for row in history] != list(range(1, len(history) + 1)) or len(history) > epochs:
        raise ValueError("its history does not count the epochs")
    if any(not {"loss", "seconds", "effective_rank"} <= row.keys() for row in history):
        raise ValueError("its history is incomplete")
