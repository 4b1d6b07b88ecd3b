"""Graphs, devices and switches that the tests share."""

import logging
import os
import signal
import sys
from contextlib import ExitStack

import pytest

# Tests run in parallel processes. Threads of PyTorch, here and in the programs that tests start, would compete for the
# cores, and waiting threads spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # must be set before the kernels are defined; runs them on the CPU

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from torch_geometric.data import Data

from epagcl.core.hardware import _cpu_has_bf16, force_bf16, force_triton
from epagcl.data import block_model

torch.set_num_threads(1)

#: For tests of kernels on CPU tensors, such as on several ranks.
interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, kernels do not run in the interpreter")


def pytest_configure() -> None:
    """Receive Ctrl-C: a shell starts background jobs without it, and tests of interruptions raise it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def device() -> torch.device:
    """The device of the Triton kernels: a GPU, where they are compiled, or the CPU, where they are interpreted."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(scope="session", autouse=True)
def float32_products():
    """Compute in float32 on CPUs with bf16 instructions too, so that results do not depend on the CPU."""
    with force_bf16(False):
        yield


@pytest.fixture
def use_bf16():
    """Use the CPU's bf16 instructions; skip the test if it has none."""
    if not _cpu_has_bf16():
        pytest.skip("the CPU has no bf16 instructions")
    with force_bf16(True):
        yield


@pytest.fixture(scope="module")
def poisoned_memory(device):
    """Fill ``torch.empty`` with NaN, to detect kernels that read memory before it is written."""
    torch.use_deterministic_algorithms(device.type == "cpu")  # on a GPU cuBLAS would need further settings
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def use_triton():
    """Switch all modules to the Triton kernels, or to their equivalents in plain PyTorch."""

    with ExitStack() as stack:
        yield lambda on: stack.enter_context(force_triton(on))


@pytest.fixture
def half_on_small_graphs(monkeypatch):
    """Let activations be fp16 on graphs of any size."""
    monkeypatch.setattr("epagcl.training.precision.MIN_NODES", 0)


@pytest.fixture
def untimed_tiles(monkeypatch, tmp_path):
    """Use the smallest tiles on GPUs without measured tiles: time no candidates, and leave the user's cache alone."""
    from epagcl.losses.infonce import tiles

    (tmp_path / "cache" / "torch").mkdir(parents=True)  # torch on CUDA warns if it cannot create its own subfolder
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tiles, "fastest", lambda *_: tiles.Tiles(32, 32, 4, 1))
    tiles._choices.cache_clear()
    yield
    tiles._choices.cache_clear()


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the command line in an empty folder. A call returns the exit code, stdout and stderr."""
    from epagcl.cli import app as cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["epagcl", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out = capsys.readouterr()
        return exit_.value.code, out.out, out.err

    yield call
    logging.getLogger("epagcl").setLevel(logging.NOTSET)  # --quiet changes it


@pytest.fixture
def small_graph() -> Data:
    """A graph with 60 nodes, 3 classes and a few isolated nodes."""
    return block_model(60, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=3)


@pytest.fixture(scope="session")
def tuning_graph() -> Data:
    """600 nodes of 3 classes: 60 for training, 60 for validation."""
    return block_model(600, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=3)


@pytest.fixture
def judged(monkeypatch):
    """Judge the trials of a search by a function of the first model, which may raise, in place of training."""
    from epagcl.study.tuning.criterion import Criterion, Outcome

    def use(score, looks=()):
        def judge(self, models, progress, report):
            for epoch in looks:
                report(0, epoch, score(models[0]))
            return Outcome([score(models[0])] * len(models), models[0].epochs)

        monkeypatch.setattr(Criterion, "judge", judge)

    return use


def random_edges(num_nodes: int, density: float, seed: int) -> torch.Tensor:
    """The pairs of a random undirected graph, each in one direction. There is at least one pair."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.triu_indices(num_nodes, num_nodes, 1)
    keep = torch.rand(pairs.shape[1], generator=generator) < density
    keep[seed % pairs.shape[1]] = True
    return pairs[:, keep]


class Largest(TorchDispatchMode):
    """The size in bytes of the largest tensor that any operation returns."""

    bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for t in tree_flatten(out)[0]:
            if isinstance(t, torch.Tensor) and t.layout == torch.strided:
                self.bytes = max(self.bytes, t.untyped_storage().nbytes())
        return out
