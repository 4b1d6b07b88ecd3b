"""CPU: an epoch against plain dense implementations, the memory of training, Algorithm 1 on a large graph."""

import gc
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch_geometric.data import Data

import epagcl
from benchmarks.plain import LOSSES, PlainEPAGCL
from epagcl.data import block_model
from epagcl.errors import InputError
from epagcl.runs import provenance
from epagcl.views import edge_weights


def cpu(epochs: int = 10) -> dict:
    """Everything below; graphs that are not at hand are replaced by generated ones of their size, and named so."""
    cora, citeseer, pubmed = (
        graph("Cora", 2708, 4.0, 1433),
        graph("CiteSeer", 3327, 2.8, 3703),
        graph("PubMed", 19717, 4.5, 500),
    )
    # Memory first: what the plain implementations leave to the allocator would hide what training needs.
    memory = training_memory(pubmed)
    return {
        **provenance("cpu"),
        "command": "python -m benchmarks cpu",
        "seed": 0,
        "epoch": [epoch_times(data, epochs) for data in (cora, citeseer)],
        "memory": memory,
        "algorithm_1": algorithm_1(),
    }


def graph(name: str, nodes: int, degree: float, features: int) -> Data:
    """A real graph, or a generated one of the same size."""
    try:
        return epagcl.load(name)
    except InputError:
        data = block_model(nodes, average_degree=degree, num_features=features)
        data.name = f"generated, size of {name}"
        return data


def epoch_times(data: Data, epochs: int) -> dict:
    """Median time of an epoch, of ours and of each plain implementation, one after the other in one process."""
    builders = {"epagcl": lambda: _ours(data)} | {name: partial(_plain, data, name) for name in LOSSES}
    seconds = {}
    for name, build in builders.items():
        step, times = build(), []
        for _ in range(epochs + 3):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        seconds[name] = statistics.median(times[3:])  # the first epochs warm up allocator and caches
    return {"graph": data.name, "epochs": epochs, "seconds": seconds}


def _ours(data: Data) -> Callable[[], None]:
    from epagcl.data import check
    from epagcl.data.graph import Graph

    method = epagcl.EPAGCL(epochs=0, device="cpu").fit(data)
    network, inputs = method.network_.train(), Graph.from_data(check(data))
    prepared = method.prepare(inputs)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=1e-4, fused=True)
    return _step(optimiser, lambda epoch: method.loss(network, inputs, prepared, epoch))


def _plain(data: Data, name: str) -> Callable[[], None]:
    torch.manual_seed(0)
    model = PlainEPAGCL(data, name)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4, fused=True)
    return _step(optimiser, lambda epoch: model())


def _step(optimiser: torch.optim.Optimizer, loss: Callable[[int], torch.Tensor]) -> Callable[[], None]:
    epochs = iter(range(10**9))

    def step() -> None:
        optimiser.zero_grad()
        loss(next(epochs)).backward()
        optimiser.step()

    return step


def training_memory(data: Data) -> dict:
    """Memory that two epochs add to a process that holds the graph."""
    gc.collect()
    with PeakMemory() as memory:
        model = epagcl.EPAGCL(epochs=2, device="cpu").fit(data)
    rows = model.history_
    n = data.num_nodes
    return {
        "graph": data.name,
        "added_gib": memory.added_gib,
        "seconds_per_epoch": rows[1]["seconds"] - rows[0]["seconds"],
        "one_dense_block_gib": 4 * (2 * n) ** 2 / 2**30,
    }


class PeakMemory:
    """Peak of the resident memory above what it was at the start, sampled every 5 ms from /proc (Linux)."""

    def __enter__(self) -> "PeakMemory":
        self._base = self._peak = self._resident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.added_gib = (self._peak - self._base) / 2**30

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self._peak = max(self._peak, self._resident())

    @staticmethod
    def _resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def algorithm_1() -> dict:
    """Time of Algorithm 1 on ogbn-arxiv's edges (or a generated graph of its size)."""
    try:
        data = epagcl.load("ogbn-arxiv", features=False) if _has_arxiv() else None
    except InputError:
        data = None
    if data is None:
        data = block_model(169_343, average_degree=13.7, num_features=8, topic_words=8, words_per_node=1)
        data.name = "generated, size of ogbn-arxiv"
    times = []
    for _ in range(3):
        start = time.perf_counter()
        weights = edge_weights(data.edge_index, data.num_nodes)
        times.append(time.perf_counter() - start)
    return {"graph": data.name, "seconds": statistics.median(times), "candidates": weights.candidates.shape[1]}


def _has_arxiv() -> bool:
    from epagcl.data import data_root

    return (data_root() / "ogbn-arxiv.npz").exists() or (data_root() / "ogb").exists()
