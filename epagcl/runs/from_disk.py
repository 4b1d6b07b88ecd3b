"""Runs on a graph on disk in bounded memory: subgraphs are read as they are needed, the embedding is written in parts."""

import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.arrays import write_values
from epagcl.core.errors import InputError
from epagcl.core.files import atomic_paths, check_space, read_json, write_json
from epagcl.core.hardware import resolve_device
from epagcl.core.outputs import CHECKPOINT, METRICS
from epagcl.core.randomness import Stream, permutation
from epagcl.data.disk.graph import OnDiskGraph
from epagcl.data.large import LargeGraph
from epagcl.data.subgraphs import KINDS
from epagcl.methods.base import Method
from epagcl.methods.plan import too_large
from epagcl.methods.sampled import Sampled
from epagcl.report.metrics import RunMetrics
from epagcl.runs.card import write_card
from epagcl.runs.evaluation import RAW, Plan, evaluate
from epagcl.runs.execute import trained_metrics
from epagcl.runs.export import check_ids
from epagcl.runs.folder import begin_run, run_config, writing
from epagcl.runs.reading import ids_path
from epagcl.runs.shards import write_shards
from epagcl.training.history import Callback, write_history

EVALUATED = 20_000  # labelled nodes on which an embedding is evaluated
ID_ROWS = 1 << 20  # ids that are written at once


def stays_on_disk(graph: OnDiskGraph, method: Method, *, training: bool = True) -> bool:
    """Return whether a method works on a graph from disk: if it uses subgraphs, or if the whole does not fit.

    Args:
        graph: the graph.
        method: the method with its settings.
        training: False: for embedding with a trained model.

    Examples:
        >>> import tempfile
        >>> from epagcl import EPAGCL
        >>> from epagcl.data import block_model
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     graph = OnDiskGraph.write(block_model(60), Path(folder, "graph"))
        ...     [stays_on_disk(graph, EPAGCL(subgraphs=kind, device="cpu")) for kind in ("auto", "partitions", "off")]
        [False, True, False]
    """
    kind = getattr(method, "subgraphs", "auto")
    if not isinstance(method, Sampled) or kind == "off" or graph.features is None:
        return False
    return kind in KINDS or too_large(method, graph, resolve_device(method.device), training=training) is not None


def labelled_sample(graph: OnDiskGraph) -> tuple["np.ndarray[Any, np.dtype[np.int64]]", Data]:
    """Return up to 20,000 random nodes with labels, ascending, and their labels as ``Data``; without labels, no ``y``.

    The nodes depend on the labels alone, so that all methods and seeds are evaluated on the same ones.
    """
    if graph.labels is None:
        return np.empty(0, dtype=np.int64), Data(num_nodes=0)
    labelled = np.flatnonzero(np.asarray(graph.labels) >= 0)
    if len(labelled) > EVALUATED:
        labelled = np.sort(labelled[permutation(len(labelled), 0, Stream.SPLIT)[:EVALUATED].numpy()])
    return labelled, Data(y=torch.from_numpy(np.array(graph.labels[labelled])), num_nodes=len(labelled))


def write_embedding(graph: OnDiskGraph, method: Sampled, out: Path) -> tuple[list[Path], int]:
    """Write the embedding of a graph as it is computed. Return the files and the number of dimensions.

    Args:
        graph: the graph.
        method: the trained model.
        out: an ``.npy`` file, with the ids in ``<stem>.ids.txt`` beside it, or a folder of shards without suffix.
    """
    check_part_by_part(out)
    chunks = method.embed_chunks(graph)
    first = next(chunks)
    shape = graph.num_nodes, first.shape[1]
    if not out.suffix:
        ids = None if graph.ids_of([0]) is None else lambda nodes: list(map(str, graph.ids_of(nodes)))  # type: ignore[arg-type]
        return write_shards(chain([first], chunks), out, ids=ids, expected=shape), shape[1]
    check_space(out.parent, 4 * shape[0] * shape[1])
    with atomic_paths(out, ids_path(out)) as (temporary, temporary_ids):
        _write_array(chain([first], chunks), shape, temporary)
        with open(temporary_ids, "w", encoding="utf-8", newline="\n") as file:
            for start in range(0, shape[0], ID_ROWS):
                nodes = slice(start, min(start + ID_ROWS, shape[0]))
                names = graph.ids_of(nodes)
                check_ids(names)
                file.writelines(f"{name}\n" for name in (range(nodes.start, nodes.stop) if names is None else names))
    return [out, ids_path(out)], shape[1]


def check_part_by_part(out: Path) -> None:
    """Raise unless an embedding can be written to a path in parts. Call it before long work."""
    if out.suffix.lower() not in ("", ".npy"):
        raise InputError(f"{out}: a graph on disk is embedded in parts; write .npy, or a folder of shards (no suffix)")


def _write_array(chunks: Iterator[Tensor], shape: tuple[int, int], path: Path) -> None:
    """Write an ``.npy`` file row by row, since pages of a mapped file would count as memory."""
    with open(path, "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in chunks:
            write_values(file, chunk.numpy().astype("<f4", copy=False))


def run_from_disk(
    graph: OnDiskGraph,
    method: Sampled,
    folder: Path,
    *,
    name: str = "graph",
    plan: Plan | None = None,
    source: dict[str, Any] | None = None,
    callback: Callback | None = None,
    say: Callable[[str], None] = lambda words: None,
) -> RunMetrics:
    """Train a model on a graph on disk and write its run folder, as :func:`epagcl.runs.execute.run` does in memory.

    The folder has no report and no ``nodes.csv``, which need the whole graph. Scores are those of up to 20,000 random
    nodes with labels; the reference is the raw features of the same nodes.

    Args:
        graph: the graph.
        method: the method with its settings.
        folder: the run folder; see :func:`epagcl.runs.folder.claim`.
        name: the graph's name.
        plan: how to evaluate; None: no evaluation.
        source: the origin of the graph, for the configuration.
        callback: called with each epoch's history row.
        say: called with the name of each step after training.
    """
    start = time.monotonic()
    fingerprint = LargeGraph(graph).fingerprint
    sections: dict[str, dict[str, Any]] = {"data": {"name": name, "fingerprint": fingerprint, **(source or {})}}
    if plan is not None:
        sections["evaluation"] = vars(plan)
    with writing(folder):
        if not (finished := (folder / METRICS).exists()):
            check_space(folder, 4 * graph.num_nodes * method.get_params()["dim"] + 10_000_000)
        begin_run(folder, method, sections)
        if finished:
            return cast(RunMetrics, read_json(folder / METRICS, "overwrite the run"))
        method.fit(graph, checkpoint=folder / CHECKPOINT, resume=True, callback=callback)
        metrics = trained_metrics(graph, method, name)
        method.save(folder, **sections)
        write_history(method.history_, folder / "history.csv")
        say("embedding")
        files, _ = write_embedding(graph, method, folder / "embeddings.npy")
        if plan is not None and graph.labels is not None:
            say("evaluation")
            _add_scores(metrics, graph, method, plan, files[0])
        metrics["total_seconds"] = time.monotonic() - start
        write_card(folder, metrics, run_config(folder))
        write_json(dict(metrics), folder / METRICS)
        (folder / CHECKPOINT).unlink(missing_ok=True)
    return metrics


def _add_scores(metrics: RunMetrics, graph: OnDiskGraph, method: Sampled, plan: Plan, embeddings: Path) -> None:
    """Add the scores of a sample of nodes, and of their raw features."""
    nodes, sample = labelled_sample(graph)
    options: dict[str, Any] = {"seed": method.seed, "device": method.device}
    z = torch.from_numpy(np.array(np.load(embeddings, mmap_mode="r")[nodes]))
    metrics["evaluation"] = evaluate(z, sample, plan, **options)
    rows = [metrics["evaluation"]]
    if plan.references:
        assert graph.features is not None
        x = graph.features[nodes]
        dense = np.array(x if isinstance(x, np.ndarray) else x.toarray(), dtype=np.float32)
        raw = evaluate(torch.from_numpy(dense), sample, plan, companions=False, **options)
        metrics["references"] = {RAW: raw}
        rows.append(raw)
    for row in rows:
        row["split"] += f" of {len(nodes):,} random nodes"
