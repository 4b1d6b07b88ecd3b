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
name, threads, out, settings = sys.argv[1], int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
torch.set_num_threads(threads)
data = epagcl.load("demo")
cls = epagcl.method(name)
names = {field.name for field in cls.setting_fields()}
model = cls(**{key: value for key, value in settings.items() if key in names})
options = {"split": random_split(data.y, seed=0)} if cls.supervised else {}
model.fit(data, **options)
np.savez(out, z=model.embed(data).numpy(), losses=[row["loss"] for row in model.history_])
"""


class Fit(NamedTuple):
    """The outcome of a training: the embedding, and the loss of each epoch."""

    z: np.ndarray
    losses: np.ndarray


def reproducibility(folder: Path, cases: int, seed: int) -> Tally:
    """Train each method in processes of their own, twice with one thread, and with other numbers of threads.

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
    table: dict[str, Any] = {}
    for name in epagcl.methods():
        if sum(tally.outcomes.values()) + len(THREADS) > cases:
            break
        first, again = (_fit(folder, name, THREADS[0], seed) for _ in range(2))
        equal = first.z.tobytes() == again.z.tobytes() and first.losses.tobytes() == again.losses.tobytes()
        tally.add("same number of threads", "same bits", None if equal else f"{name}: other bits")
        table[name] = {"same_bits": equal}
        for threads in THREADS[1:]:
            z, losses = _differences(first, _fit(folder, name, threads, seed))
            table[name][f"{threads} threads"] = {"embeddings": z, "losses": losses}
            inside = z <= BOUNDS["embeddings"] and losses <= BOUNDS["losses"]
            words = f"{name}, {threads} threads: {z:.3g} in embeddings, {losses:.3g} in losses"
            tally.add("other number of threads", "within bounds", None if inside else words)
    tally.details = {"graph": "demo", "settings": SETTINGS, "bounds": BOUNDS, "methods": table}
    return tally


def _fit(folder: Path, name: str, threads: int, seed: int) -> Fit:
    out = folder / f"{name}-{threads}-{time.monotonic_ns()}.npz"
    settings = json.dumps({**SETTINGS, "seed": seed})
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", _SCRIPT, name, str(threads), str(out), settings]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    with np.load(out) as saved:
        return Fit(saved["z"], saved["losses"])


def _differences(one: Fit, two: Fit) -> tuple[float, float]:
    z = float(np.abs(one.z.astype(np.float64) - two.z).max() / np.abs(one.z).max())
    losses = np.abs(one.losses - two.losses) / np.maximum(np.abs(one.losses), 1e-12)
    return z, float(losses.max(initial=0.0))
