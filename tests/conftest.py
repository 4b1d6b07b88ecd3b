"""Graphs, settings and devices that tests share."""

import logging
import os
import sys

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are defined: they then run in Python, on the CPU

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from torch_geometric.data import Data

from epagcl.data import block_model

torch.set_num_threads(1)  # tests run side by side; threads would fight over the cores


@pytest.fixture(scope="session")
def device() -> torch.device:
    """Where Triton's kernels run: compiled on a GPU, else interpreted."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(scope="module")
def poisoned_memory(device):
    """What ``torch.empty`` gives is NaN, so that a kernel which reads what none has written is found."""
    torch.use_deterministic_algorithms(device.type == "cpu")  # on a GPU cuBLAS would want settings of its own
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def use_triton(monkeypatch):
    """Switch every room to Triton's kernels, or to their twins in plain torch."""

    def switch(on: bool) -> None:
        monkeypatch.setattr("epagcl.core.hardware._forced", on)

    return switch


@pytest.fixture
def untimed_tiles(monkeypatch, tmp_path):
    """On a GPU whose tiles do not ship: the smallest, without timing the others or writing to the user's cache."""
    from epagcl.losses.infonce import tiles as tuning

    (tmp_path / "cache" / "torch").mkdir(parents=True)  # torch on CUDA warns if it cannot make its own below
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tuning, "fastest", lambda *_: tuning.Tiles(32, 32, 4, 1))
    tuning._known.cache_clear()
    yield
    tuning._known.cache_clear()


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the command line in an empty folder: exit code, stdout, stderr."""
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
    logging.getLogger("epagcl").setLevel(logging.NOTSET)  # --quiet has set it


@pytest.fixture
def small_graph() -> Data:
    """60 nodes, 3 classes, a few isolated nodes."""
    return block_model(60, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=3)


def random_edges(num_nodes: int, density: float, seed: int) -> torch.Tensor:
    """A random undirected graph as pairs in one direction; never empty."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.triu_indices(num_nodes, num_nodes, 1)
    keep = torch.rand(pairs.shape[1], generator=generator) < density
    keep[seed % pairs.shape[1]] = True
    return pairs[:, keep]


class Largest(TorchDispatchMode):
    """Size of the largest tensor that anything gave."""

    bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for t in tree_flatten(out)[0]:
            if isinstance(t, torch.Tensor) and t.layout == torch.strided:
                self.bytes = max(self.bytes, t.untyped_storage().nbytes())
        return out
