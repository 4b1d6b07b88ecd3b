"""Time of ``propagated`` on a GPU or a CPU: the whole ``fit``, its principal components alone, and ``embed``."""

import textwrap
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch_geometric.data import Data

import epagcl
from epagcl.core.errors import InputError
from epagcl.core.hardware import resolve_device
from epagcl.data.catalogue import find
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.evaluation.linear import linear_evaluation
from epagcl.methods.propagated import Propagated
from epagcl.runs.record import peak_memory_gib, provenance

GRAPHS = ("cora", "citeseer", "pubmed", "amazon-photo", "coauthor-physics", "ogbn-arxiv")
ARXIV_FEATURES = 128
REPEATS = 5


def propagated(largest: int = 10**9, device: str = "auto") -> dict[str, Any]:
    """Time the method on every available graph.

    Args:
        largest: skip graphs with more nodes.
        device: auto, cpu or cuda.
    """
    rows, absent = [], []
    for name in GRAPHS:
        try:
            data = _graph(name)
        except InputError as error:
            absent.append(f"{name}: {error}")
            continue
        if data.num_nodes <= largest:
            rows.append(timed(data, name, device))
            print(rows[-1], flush=True)
    return {
        **provenance(device),
        "command": "python -m benchmarks propagated",
        "settings": Propagated().settings(),
        "repeats": REPEATS,
        "rows": rows,
        "absent": absent,
    }


def _graph(name: str) -> Data:
    """Return a named graph. The features of ogbn-arxiv are random, since they are not needed for its time."""
    if name != "ogbn-arxiv":
        return epagcl.load(name)
    data = epagcl.load(name, features=False)
    data.x = torch.randn(data.num_nodes, ARXIV_FEATURES, generator=torch.Generator().manual_seed(0))
    return data


def timed(data: Data, name: str, device: str = "auto", repeats: int = REPEATS) -> dict[str, Any]:
    """Return the median times of a few repetitions, the memory, and the accuracy if the features are the graph's own.

    Args:
        data: the graph.
        name: its name.
        device: auto, cpu or cuda.
        repeats: number of repetitions.
    """
    place = resolve_device(device)
    if place.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    model = Propagated(device=device)
    fit, processor = median_seconds(lambda: model.fit(data), place, repeats)
    graph = Graph.from_data(check(data, quiet=True, labels=False), place)
    network = model.fitted_network
    components, _ = median_seconds(lambda: model.calibrate(network, graph), place, repeats)
    embed, _ = median_seconds(lambda: model.represent(network, graph), place, repeats)
    z = model.represent(network, graph).detach()
    row = {
        "graph": name,
        "nodes": data.num_nodes,
        "pairs": graph.pairs.shape[1],
        "features": graph.num_features,
        "fit_seconds": fit,
        "fit_processor_seconds": processor,
        "components_seconds": components,
        "embed_seconds": embed,
        "peak_memory_gib": peak_memory_gib(device),
    }
    if name == "ogbn-arxiv":
        return row
    return row | {"accuracy": linear_evaluation(z, data.y, "strict", runs=10).mean}


def median_seconds(step: Callable[[], object], place: torch.device, repeats: int) -> tuple[float, float]:
    """Return the median wall-clock and processor time of a step, after a first run that compiles kernels."""
    step()
    wall, processor = [], []
    for _ in range(repeats):
        _wait(place)
        begun, used = time.perf_counter(), time.process_time()
        step()
        _wait(place)
        wall.append(time.perf_counter() - begun)
        processor.append(time.process_time() - used)
    return median(wall), median(processor)


def _wait(place: torch.device) -> None:
    if place.type == "cuda":
        torch.cuda.synchronize()


def table(result: dict[str, Any]) -> str:
    """Return the times of each graph as Markdown.

    Args:
        result: as :func:`propagated` returns it.
    """
    heads = ["graph", "nodes", "features", "fit", "of which components", "embed", "memory"]
    lines = [f"| {' | '.join(heads)} |", "|---|" + "--:|" * (len(heads) - 1)]
    for row in result["rows"]:
        times = [f"{1000 * row[f'{part}_seconds']:.0f} ms" for part in ("fit", "components")]
        embed = f"{1000 * row['embed_seconds']:.1f} ms"
        memory = "–" if row["peak_memory_gib"] is None else f"{row['peak_memory_gib']:.2f} GiB"
        sizes = [f"{row[part]:,}" for part in ("nodes", "features")]
        lines.append(f"| {' | '.join([find(row['graph']).name, *sizes, *times, embed, memory])} |")
    measured = f"{result['hardware']['device']}, {result['date'][:10]}"
    note = (
        f"Medians of {result['repeats']} repetitions after a first one, {measured}. The features of "
        "ogbn-arxiv are random here. `fit` includes the copy of the graph to the device."
    )
    return "\n".join([*lines, "", *textwrap.wrap(note, 120)]) + "\n"
