"""What docs/trust.md promises of GPUs: equal bits with ``--deterministic``, and bounds against a CPU, by method."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import epagcl
from epagcl.core.determinism import CUBLAS_VALUE, CUBLAS_VARIABLE
from epagcl.runs.reproduction import BOUNDS, with_signs_of
from tests.trust.reproducibility import TIED_COSINE

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]

#: Settings that all methods are trained with, as far as they have them. Few epochs, since training enlarges rounding.
SETTINGS = {"epochs": 4, "hidden": 64, "dim": 32, "projection": 32, "precision": "fp32", "seed": 0}
#: Trains all methods on one device, in a process of its own: cuBLAS reads its workspace when CUDA is first used.
SCRIPT = """
import json, sys, traceback
import numpy as np
import epagcl
from epagcl.core.determinism import deterministic
from epagcl.data.splits import random_split
device, out, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
data = epagcl.load("demo")
results = {}
for name in [*epagcl.methods(), "greet k=0"]:
    cls = epagcl.method(name.split()[0])
    fields = {field.name for field in cls.setting_fields()}
    chosen = {**settings, "device": device} | ({"k": 0} if name == "greet k=0" else {})
    try:
        with deterministic(device):
            model = cls(**{key: value for key, value in chosen.items() if key in fields})
            model.fit(data, **({"split": random_split(data.y, seed=0)} if cls.supervised else {}))
            results[f"{name} z"] = model.embed(data).cpu().numpy()
            results[f"{name} losses"] = [row["loss"] for row in model.history_]
    except Exception:
        results[f"{name} error"] = traceback.format_exc()[-2000:]
np.savez(out, **results)
"""


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    """The fits of all methods: twice on the GPU, once on the CPU, at the same time."""
    folder = tmp_path_factory.mktemp("fits")
    environment = {**os.environ, CUBLAS_VARIABLE: CUBLAS_VALUE, "OMP_NUM_THREADS": "4"}
    environment.pop("TRITON_INTERPRET", None)
    devices = {"gpu": "cuda", "again": "cuda", "cpu": "cpu"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, device, str(folder / f"{name}.npz"), json.dumps(SETTINGS)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, device in devices.items()
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-2000:]
    results = {}
    for name in devices:
        with np.load(folder / f"{name}.npz") as saved:
            results[name] = dict(saved)
    return results


@pytest.mark.parametrize("name", epagcl.methods())
def test_deterministic_training_gives_the_same_bits_twice(fits, name):
    assert f"{name} error" not in fits["gpu"], str(fits["gpu"].get(f"{name} error"))
    for what in ("z", "losses"):
        one, two = (fits[run][f"{name} {what}"] for run in ("gpu", "again"))
        assert one.tobytes() == two.tobytes(), f"{what} differ by at most {np.abs(one - two).max()}"


@pytest.mark.parametrize("name", [*(name for name in epagcl.methods() if name != "greet"), "greet k=0"])
def test_a_gpu_is_within_the_bounds_of_a_cpu(fits, name):
    z, losses = _both(fits, name)
    assert np.abs(z[0] - with_signs_of(*z)).max() <= BOUNDS["embeddings"] * np.abs(z[0]).max()
    assert (np.abs(losses[0] - losses[1]) <= BOUNDS["losses"] * np.abs(losses[0])).all()


def test_greet_with_tied_neighbours_is_close_in_losses_and_directions(fits):
    # Most nodes of the demo graph have several 20th nearest neighbours. Rounding decides which one is a positive.
    z, losses = _both(fits, "greet")
    assert (np.abs(losses[0] - losses[1]) <= BOUNDS["losses"] * np.abs(losses[0])).all()
    assert (z[0] * z[1]).sum(1).min() >= TIED_COSINE  # rows have unit length


def _both(fits, name):
    """The embeddings and the losses of a method, on the CPU and on the GPU."""
    return ([fits[run][f"{name} {what}"].astype(np.float64) for run in ("cpu", "gpu")] for what in ("z", "losses"))
