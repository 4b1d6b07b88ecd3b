"""Each method again: the same bits with the same number of threads, and how far rounding leads."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.trust.cases import Tally

#: Least cosine of a node's embeddings by GREET, if its nearest neighbours are tied and other ones are chosen.
TIED_COSINE = 0.9
#: Settings that all methods are trained with, as far as they have them.
SETTINGS = {"epochs": 20, "hidden": 64, "dim": 32, "device": "cpu", "seed": 0}
THREADS = (1, 2, 4)  # the first one is repeated
#: Relative change of the initial weights, or of features, that stands for the rounding of another machine.
ROUNDING = 1e-7
_SCRIPT = """
import json, sys
import numpy as np, torch
import epagcl
from epagcl.data.splits import random_split
names, threads, out, settings = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
change, size = sys.argv[5], float(sys.argv[6])
torch.set_num_threads(threads)

def rounded(tensor):
    return tensor * (1 + size * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1)))

if change == "weights":
    network = epagcl.methods.Method.initial_network
    def initial(self):
        changed = network(self)
        with torch.no_grad():
            for parameter in changed.parameters():
                parameter.copy_(rounded(parameter))
        return changed
    epagcl.methods.Method.initial_network = initial
if change == "neighbours":
    from epagcl.core.sparse import SparseMatrix
    from epagcl.methods import greet
    nearest = greet.nearest
    def other(x, k):
        dense = isinstance(x, torch.Tensor)
        return nearest(rounded(x) if dense else SparseMatrix(x.rowptr, x.col, rounded(x.value), x.shape), k)
    greet.nearest = other
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
    """Train each method twice with one thread, with more threads, and with weights changed by :data:`ROUNDING`.

    Each time is a new process. The tally has a table ``methods`` with the largest differences, relative to the largest
    entry of the embedding and to the loss of the epoch. GREET is trained once more with nearest neighbours in feature
    space that differ as they do after other rounding: among equally near ones, rounding decides.

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
    changed = _fits(folder, names, 1, seed, "weights")
    for name in names:
        z, losses = _differences(first[name], changed[name])
        table[name]["changed weights"] = {"embeddings": z, "losses": losses}
        close = (
            z <= BOUNDS["embeddings"] if name != "greet" else _least_cosine(first[name], changed[name]) >= TIED_COSINE
        )
        inside = close and losses <= BOUNDS["losses"]
        tally.add("changed weights", "within bounds", None if inside else f"{name}: {z:.3g}, {losses:.3g}")
    tally.details = {"graph": "block_model(1000)", "settings": SETTINGS, "bounds": BOUNDS, "methods": table}
    tally.details["rounding"] = ROUNDING
    if "greet" in names:
        other = _fits(folder, ["greet"], 1, seed, "neighbours")
        tally.details["greet"] = _tied_neighbours(tally, first["greet"], other["greet"])
    return tally


def _tied_neighbours(tally: Tally, first: Fit, other: Fit) -> dict[str, float]:
    """Compare GREET with other choices among equally near neighbours."""
    from epagcl.runs.reproduction import BOUNDS

    z, losses = _differences(first, other)
    cosine = _least_cosine(first, other)
    inside = losses <= BOUNDS["losses"] and cosine >= TIED_COSINE
    tally.add("tied neighbours", "within bounds", None if inside else f"greet: {losses:.3g}, cosine {cosine:.3f}")
    return {"embeddings": z, "losses": losses, "least_cosine": cosine, "bound_of_cosine": TIED_COSINE}


def _least_cosine(first: Fit, other: Fit) -> float:
    return float((first.z.astype(np.float64) * other.z).sum(1).min())  # rows of GREET have unit length


def _fits(folder: Path, names: list[str], threads: int, seed: int, change: str = "") -> dict[str, Fit]:
    """Train the methods in a new process with this number of threads, and with changed weights or neighbours."""
    out = folder / f"{threads}-{time.monotonic_ns()}.npz"
    # Threads that wait do not spin, which on a busy machine takes the time of the others.
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    command = [sys.executable, "-c", _SCRIPT, json.dumps(names), str(threads), str(out)]
    done = subprocess.run(
        [*command, json.dumps({**SETTINGS, "seed": seed}), change, str(ROUNDING)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    with np.load(out) as saved:
        return {name: Fit(saved[f"{name} z"], saved[f"{name} losses"]) for name in names}


def _differences(one: Fit, two: Fit) -> tuple[float, float]:
    from epagcl.runs.reproduction import with_signs_of

    z = float(np.abs(one.z.astype(np.float64) - with_signs_of(one.z, two.z)).max() / np.abs(one.z).max())
    losses = np.abs(one.losses - two.losses) / np.maximum(np.abs(one.losses), 1e-12)
    return z, float(losses.max(initial=0.0))
