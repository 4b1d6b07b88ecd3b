"""CPU benchmarks: epoch times against plain dense implementations, memory of training, time of Algorithm 1."""

import gc
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import count

import torch
from torch import nn
from torch_geometric.data import Data

import epagcl
from benchmarks.plain import LOSSES, PlainEPAGCL
from epagcl.core.errors import InputError
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.paper.burden.costs import PeakMemory
from epagcl.runs.record import provenance
from epagcl.training.epoch import EpochRunner
from epagcl.views.probabilities import edge_weights


def cpu(epochs: int = 10) -> dict:
    """Run all CPU benchmarks. Graphs that are not available are replaced by generated graphs of the same size."""
    cora, citeseer, pubmed = (
        graph("Cora", 2708, 4.0, 1433),
        graph("CiteSeer", 3327, 2.8, 3703),
        graph("PubMed", 19717, 4.5, 500),
    )
    # Memory first: blocks that the plain implementations leave to the allocator would hide what training needs.
    memory = training_memory(pubmed)
    return {
        **provenance("cpu"),
        "command": "python -m benchmarks cpu",
        "seed": 0,
        "epoch": [epoch_times(data, epochs) for data in (cora, citeseer)],
        "physics": physics_times(graph("Coauthor-Physics", 34493, 14.4, 8415)),
        "memory": memory,
        "algorithm_1": algorithm_1(),
    }


def graph(name: str, nodes: int, degree: float, features: int) -> Data:
    """Return a real graph, or a generated one of the same size if it is not available."""
    try:
        return epagcl.load(name)
    except InputError:
        data = block_model(nodes, average_degree=degree, num_features=features)
        data.name = f"generated, size of {name}"
        return data


def epoch_times(data: Data, epochs: int) -> dict:
    """Return the median time of an epoch of EPAGCL and of each plain implementation, run one after the other."""
    builders = {"epagcl": partial(_ours, data)} | {name: partial(_plain, data, name) for name in LOSSES}
    seconds = {}
    for name, build in builders.items():
        step = build()
        times = [_seconds(step) for _ in range(epochs + 3)]
        seconds[name] = statistics.median(times[3:])  # the first epochs warm up allocator and caches
    return {"graph": data.name, "epochs": epochs, "seconds": seconds}


def physics_times(data: Data, epochs: int = 2) -> dict:
    """Return epoch times on a graph with wide, sparse features, with negatives inside batches.

    With all pairs, the plain implementations do not fit in memory: ``one_dense_block_gib`` is the size of one block.
    EPAGCL is also timed with all pairs.
    """
    batch_size = 256
    name = f"batches of {batch_size}"
    steps = {"epagcl": _ours(data, batch_size=batch_size), f"plain, {name}": _plain(data, name)}
    times: dict[str, list[float]] = {key: [] for key in steps}
    # Alternate and take the minimum, so that the load of other processes affects all implementations alike.
    for _ in range(1 + epochs):
        for key, step in steps.items():
            times[key].append(_seconds(step))
    del step, steps  # frees the dense features
    return {
        "graph": data.name,
        "batch_size": batch_size,
        "epochs": epochs,
        "seconds": {key: min(values[1:]) for key, values in times.items()},
        "all_pairs_seconds": _seconds(_ours(data)),  # half a minute or more: one epoch without warm-up is enough
        "one_dense_block_gib": _dense_block_gib(data.num_nodes),
    }


def _seconds(step: Callable[[], None]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _dense_block_gib(nodes: int) -> float:
    return 4 * (2 * nodes) ** 2 / 2**30


def _ours(data: Data, **settings: int) -> Callable[[], None]:
    """Return a function that runs one epoch as training does."""
    method = epagcl.EPAGCL(epochs=0, device="cpu", **settings).fit(data)
    optimiser = _adam(method.network_)
    runner, epochs = EpochRunner(method, method.network_, Graph.from_data(check(data)), optimiser), count()

    def step() -> None:
        epoch = next(epochs)
        runner.run(epoch, epoch + 1)

    return step


def _plain(data: Data, name: str) -> Callable[[], None]:
    torch.manual_seed(0)
    model = PlainEPAGCL(data, name)
    optimiser = _adam(model)

    def step() -> None:
        optimiser.zero_grad()
        model().backward()
        optimiser.step()

    return step


def _adam(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=1e-4, fused=True)


def training_memory(data: Data) -> dict:
    """Return the memory that two epochs add to a process that holds the graph."""
    gc.collect()
    with PeakMemory(torch.device("cpu")) as memory:
        model = epagcl.EPAGCL(epochs=2, device="cpu").fit(data)
    rows = model.history_
    return {
        "graph": data.name,
        "added_gib": memory.gib,
        "seconds_per_epoch": rows[1]["seconds"] - rows[0]["seconds"],
        "one_dense_block_gib": _dense_block_gib(data.num_nodes),
    }


def algorithm_1() -> dict:
    """Return the time of Algorithm 1 on the edges of ogbn-arxiv, or on a generated graph of its size."""
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
