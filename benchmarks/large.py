"""A graph larger than comfortable: a million nodes on disk, trained by subgraphs and embedded by chunks of rows.

The graph is a block model whose classes neither its features nor its edges give away alone. Each step runs in a process
of its own, so that the memory of one does not count for the next. ``--whole`` trains the same graph as a whole, in
memory, which is meant for a GPU; its accuracy stands beside that of the subgraphs.
"""

import json
import mmap
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

import epagcl
from epagcl.core.memory import resident_memory
from epagcl.core.randomness import Stream, permutation
from epagcl.data import block_model
from epagcl.runs.record import provenance
from epagcl.runs.shards import write_shards

NODES, DEGREE = 1_000_000, 20.0
#: Features and edges of the generated graph.
GRAPH = {
    "num_classes": 10, "homophily": 0.4, "num_features": 128, "topic_words": 24, "words_per_node": 10,
    "topic_share": 0.1, "seed": 0,
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "epagcl": {"hidden": 256, "dim": 128, "projection": 128, "epochs": 100},
    "epagcl+": {"hidden": 128, "dim": 128, "projection": 64, "epochs": 50, "members": 1, "k": 0},
    "propagated": {"dim": 128},
}
SUBGRAPH_NODES = 4096
PROBED = 20_000  # nodes of the linear probe
ARRAYS = ("indptr", "indices", "features", "labels")


class Mapped:
    """The arrays of a folder, mapped into memory."""

    weights = None

    def __init__(self, folder: Path):
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ARRAYS}
        self.indptr, self.indices, self.features, self.labels = arrays.values()
        self._arrays = arrays

    def release(self) -> None:
        """Let the operating system take back the mapped pages."""
        for array in self._arrays.values():
            array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def large(
    nodes: int = NODES,
    methods: list[str] | None = None,
    device: str = "cpu",
    *,
    whole: bool = False,
    epochs: int | None = None,
    batch_size: int = 0,
    folder: Path | None = None,
    before: dict | None = None,
) -> dict:
    """Generate the graph if ``folder`` does not hold it, train each method, and return times, memory and accuracy.

    Rows of an earlier result stay, unless they have the same method, mode, batch size, device and number of nodes.
    """
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary, "graph")
        if not (place / "labels.npy").exists():
            _apart(_generate, place, nodes)
        rows = [_apart(_measure, place, name, device, whole, epochs, batch_size) for name in methods or ["epagcl"]]
    kept = [row for row in (before or {}).get("rows", []) if _key(row) not in map(_key, rows)]
    return {
        "command": "python -m benchmarks large",
        "protocol": "block model on disk; training and embedding in one process, whose resident memory is sampled; "
        f"linear probe (strict, one split) on the same {PROBED:,} random nodes for every row",
        "seed": 0,
        "graph": {**GRAPH, "average_degree": DEGREE},
        "rows": kept + rows,
    }


def _key(row: dict) -> tuple:
    return row["method"], row["mode"], row["device"], row["nodes"], row["settings"].get("batch_size", 0)


def _apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a new process and return its result."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _generate(folder: Path, nodes: int) -> None:
    data = block_model(nodes, average_degree=DEGREE, **GRAPH)  # type: ignore[arg-type]
    folder.mkdir(parents=True, exist_ok=True)
    counts = torch.bincount(data.edge_index[0], minlength=nodes)
    np.save(folder / "indptr.npy", np.concatenate([[0], counts.cumsum(0).numpy()]))
    np.save(folder / "indices.npy", data.edge_index[1].numpy().astype(np.int32))
    np.save(folder / "features.npy", data.x.to_dense().numpy())
    np.save(folder / "labels.npy", data.y.numpy())


def _measure(folder: Path, name: str, device: str, whole: bool, epochs: int | None, batch_size: int) -> dict:
    """Train and embed by one method, and probe the embedding."""
    settings = {**SETTINGS[name], "device": device, **({"batch_size": batch_size} if batch_size else {})}
    if epochs is not None and "epochs" in settings:
        settings["epochs"] = epochs
    if name != "propagated":
        settings |= {"subgraphs": "off"} if whole else {"subgraphs": "neighbours", "subgraph_nodes": SUBGRAPH_NODES}
    graph = Mapped(folder)
    model = epagcl.method(name)(**settings)
    shards = folder / f"z-{name}-{'whole' if whole else 'parts'}"
    with MemoryCurve() as curve:
        source = _data(graph) if whole else graph
        model.fit(source, callback=_say)
        curve.phase("embedding")
        chunks = [model.embed(source).cpu()] if whole else model.embed_chunks(source)
        for old in shards.glob("*"):
            old.unlink()
        write_shards(chunks, shards)
    nodes = permutation(len(graph.labels), 0, Stream.SPLIT)[:PROBED].sort().values.numpy()
    z, _ = epagcl.runs.read_embeddings(shards)
    y = torch.from_numpy(np.array(graph.labels[nodes]))
    scores = {"embedding": torch.from_numpy(z[nodes]), "raw": torch.from_numpy(np.array(graph.features[nodes]))}
    cuda = torch.cuda.max_memory_allocated() / 2**30 if device != "cpu" and torch.cuda.is_available() else None
    row = {
        "method": name,
        "mode": "whole" if whole else "subgraphs",
        "device": device,
        **provenance(device),
        "nodes": len(graph.indptr) - 1,
        "edges": len(graph.indices) // 2,
        "settings": {key: value for key, value in settings.items() if key != "device"},
        "seconds": curve.seconds,
        "peak_gib": round(curve.peak, 3),
        "peak_device_gib": cuda,
        "memory": curve.points,
        "accuracy": {key: epagcl.linear_evaluation(rows, y, runs=1, seed=0).mean for key, rows in scores.items()},
    }
    print(json.dumps({key: value for key, value in row.items() if key != "memory"}), flush=True)
    return row


def _say(row: Any) -> None:
    if row["epoch"] % 10 == 0:
        print(f"epoch {row['epoch']}: loss {row['loss']:.4f}, {row['seconds']:.0f} s", flush=True)


def _data(graph: Mapped) -> Data:
    row = torch.repeat_interleave(torch.arange(len(graph.indptr) - 1), torch.from_numpy(np.diff(graph.indptr)))
    edge_index = torch.stack([row, torch.from_numpy(np.asarray(graph.indices, dtype=np.int64))])
    return Data(x=torch.from_numpy(np.array(graph.features)), edge_index=edge_index, num_nodes=len(graph.indptr) - 1)


class MemoryCurve:
    """Samples the resident memory of the process once a second."""

    def __enter__(self) -> "MemoryCurve":
        self.points: list[tuple[float, float]] = []
        self.seconds: dict[str, float] = {}
        self.peak, self._phase, self._start = 0.0, "training", time.perf_counter()
        self._begun, self._stop = self._start, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def phase(self, name: str) -> None:
        """Begin another phase."""
        now = time.perf_counter()
        self.seconds[self._phase] = round(now - self._begun, 1)
        self._phase, self._begun = name, now

    def __exit__(self, *_: object) -> None:
        self.phase("")
        self._stop.set()
        self._thread.join()
        step = max(1, len(self.points) // 100)  # a hundred points show the curve
        self.points = self.points[::step]

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            resident = (resident_memory() or 0) / 2**30
            self.peak = max(self.peak, resident)
            if not self.points or time.perf_counter() - self._start > self.points[-1][0] + 1:
                self.points.append((round(time.perf_counter() - self._start, 1), round(resident, 3)))


def _mode(row: dict) -> str:
    """Return what the epochs of a row were computed on, and how many there were."""
    settings = row["settings"]
    batches = settings.get("batch_size", 0)
    words = f"{row['mode']} of {settings['subgraph_nodes']:,}" if row["mode"] == "subgraphs" else "whole graph"
    if row["mode"] == "whole" and row["method"] != "propagated":
        words += f", batches of {batches:,}" if batches else ", all pairs"
    return f"{words}, {settings['epochs']} epochs" if "epochs" in settings else words


def table(result: dict) -> str:
    """Return the table of docs/scaling.md."""
    lines = ["| method | mode | where | nodes | edges | peak memory | training | embedding | probe | raw features |"]
    lines.append("|---|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for row in result["rows"]:
        device, seconds, accuracy = row["hardware"]["device"], row["seconds"], row["accuracy"]
        where = device if device != "cpu" else f"CPU, {row['hardware']['threads']} thread(s)"
        peak = row["peak_device_gib"] or row["peak_gib"]
        cells = [epagcl.method(row["method"]).title, _mode(row), where, f"{row['nodes']:,}", f"{row['edges']:,}"]
        cells += [f"{peak:.1f} GiB", f"{seconds['training']:.0f} s", f"{seconds['embedding']:.0f} s"]
        cells += [f"{100 * accuracy['embedding']:.1f}", f"{100 * accuracy['raw']:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
