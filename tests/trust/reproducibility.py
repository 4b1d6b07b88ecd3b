"""Each method again: the same bits with the same number of threads, and how far other numbers of threads lead."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.trust.cases import Tally

#: Settings that all methods are trained with, as far as they have them.
SETTINGS = {"epochs": 20, "hidden": 64, "dim": 32, "device": "cpu", "seed": 0}
THREADS = (1, 2, 4)  # the first one is repeated
_SCRIPT = """
import json, sys
import numpy as np, torch
import epagcl
from epagcl.data.splits import random_split
names, threads, out, settings = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
torch.set_num_threads(threads)
data = epagcl.data.block_model(1000, seed=0)
results = {}
for name in names:
    cls = epagcl.method(name)
    fields = {field.name for field in cls.setting_fields()}
    model = cls(**{key: value for key, value in settings.items() if key in fields})
    model.fit(data, **({"split": random_split(data.y, seed=0)} if cls.supervised else {}))
    results[f"{name} z"] = model.embed(data).numpy()
    results[f"{name} losses"] = [row["loss"] for row in model.history_]
np.savez(out, **results)
"""


class Fit(NamedTuple):
    """The outcome of a training: the embedding, and the loss of each epoch."""

    z: np.ndarray
    losses: np.ndarray


def reproducibility(folder: Path, cases: int, seed: int) -> Tally:
    """Train each method twice with one thread, and with other numbers of threads, each time in a new process.

    The tally has a table ``methods`` with the largest differences, relative to the largest entry of the embedding and
    to the loss of the epoch.

    Args:
        folder: an empty folder.
        cases: largest number of trainings.
        seed: seed of the models.
    """
    import epagcl
    from epagcl.runs.reproduction import BOUNDS

    tally = Tally(seed)
    names = epagcl.methods()[: max(1, cases // (len(THREADS) + 1))]
    first, again, *others = (_fits(folder, names, threads, seed) for threads in (THREADS[0], *THREADS))
    table: dict[str, Any] = {name: {} for name in names}
    for name in names:
        equal = all(one.tobytes() == two.tobytes() for one, two in zip(first[name], again[name], strict=True))
        tally.add("same number of threads", "same bits", None if equal else f"{name}: other bits")
        table[name]["same_bits"] = equal
        for threads, other in zip(THREADS[1:], others, strict=True):
            z, losses = _differences(first[name], other[name])
            table[name][f"{threads} threads"] = {"embeddings": z, "losses": losses}
            inside = z <= BOUNDS["embeddings"] and losses <= BOUNDS["losses"]
            words = f"{name}, {threads} threads: {z:.3g} in embeddings, {losses:.3g} in losses"
            tally.add("other number of threads", "within bounds", None if inside else words)
    tally.details = {"graph": "block_model(1000)", "settings": SETTINGS, "bounds": BOUNDS, "methods": table}
    return tally


def _fits(folder: Path, names: list[str], threads: int, seed: int) -> dict[str, Fit]:
    """Train the methods in a new process with this number of threads."""
    out = folder / f"{threads}-{time.monotonic_ns()}.npz"
    # Threads that wait do not spin, which on a busy machine takes the time of the others.
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    command = [sys.executable, "-c", _SCRIPT, json.dumps(names), str(threads), str(out)]
    done = subprocess.run(
        [*command, json.dumps({**SETTINGS, "seed": seed})], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    with np.load(out) as saved:
        return {name: Fit(saved[f"{name} z"], saved[f"{name} losses"]) for name in names}


def _differences(one: Fit, two: Fit) -> tuple[float, float]:
    z = float(np.abs(one.z.astype(np.float64) - two.z).max() / np.abs(one.z).max())
    losses = np.abs(one.losses - two.losses) / np.maximum(np.abs(one.losses), 1e-12)
    return z, float(losses.max(initial=0.0))
