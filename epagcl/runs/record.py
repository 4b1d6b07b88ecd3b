"""Provenance: the graph, the hardware and the versions behind a measured number."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from epagcl.core.determinism import is_deterministic
from epagcl.core.hardware import resolve_device
from epagcl.core.memory import peak_resident_memory
from epagcl.core.version import __version__
from epagcl.data.disk.graph import OnDiskGraph
from epagcl.epr.rate import error_passing_rate
from epagcl.epr.relations import relation_rates
from epagcl.report.metrics import GraphSummary, Hardware, Provenance

ROOT = Path(__file__).resolve().parents[2]  # the repository, if the package is not installed elsewhere


def describe(data: Data | OnDiskGraph, name: str) -> GraphSummary:
    """Return the size of a graph, its EPR if every node has a label, its relations, and its columns if encoded.

    Args:
        data: the graph; EPR is not computed for a graph on disk.
        name: the graph's name.

    Examples:
        >>> from epagcl.data import block_model
        >>> summary = describe(block_model(60, num_classes=3, num_features=40, topic_words=10, seed=3), "demo")
        >>> summary["name"], summary["nodes"], summary["features"], summary["classes"]
        ('demo', 60, 40, 3)
    """
    if isinstance(data, OnDiskGraph):
        return _describe_on_disk(data, name)
    labelled = data.y is not None and bool((data.y >= 0).all())
    epr = partial(error_passing_rate, data.edge_index, data.y, edge_weight=data.get("edge_weight"))
    summary: GraphSummary = {
        "name": name,
        "nodes": data.num_nodes,
        "edges": data.edge_index.shape[1] // 2,
        "features": data.x.shape[1],
        "classes": None if data.y is None else int(data.y[data.y >= 0].unique().numel()),
        "epr_per_node": epr() if labelled else None,
        "epr_per_edge": epr(per="edge") if labelled else None,
    }
    if relations := relation_rates(data):
        summary["relations"] = [
            {"name": each.name, "edges": each.edges, "epr_per_node": None if each.epr is None else each.epr.per_node}
            for each in relations
        ]
    if data.get("encoding") is not None:
        summary["columns"] = data.encoding.summary()
    return summary


def _describe_on_disk(graph: OnDiskGraph, name: str) -> GraphSummary:
    classes = None if graph.labels is None else np.unique(graph.labels)
    summary: GraphSummary = {
        "name": name,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "classes": None if classes is None else int((classes >= 0).sum()),
        "epr_per_node": None,
        "epr_per_edge": None,
    }
    if (encoding := graph.encoding) is not None:
        summary["columns"] = encoding.summary()
    return summary


def provenance(device: str = "auto") -> Provenance:
    """Return the date, the hardware, the versions of the main packages and the commit.

    Args:
        device: the device of the computation, as in the setting ``device``.

    Examples:
        >>> record = provenance("cpu")
        >>> list(record), record["hardware"]["device"]
        (['date', 'hardware', 'versions', 'commit'], 'cpu')
    """
    import torch_geometric

    where = resolve_device(device)
    hardware: Hardware = {
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else where.type,
        "cpu": _cpu_name(),
        "threads": torch.get_num_threads(),
    }
    if where.type == "cuda" and is_deterministic():
        hardware["deterministic"] = True
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": hardware,
        "versions": {
            "epagcl": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "torch_geometric": torch_geometric.__version__,
            "numpy": np.__version__,
            "triton": version("triton") if find_spec("triton") else None,
        },
        "commit": _commit(),
    }


def peak_memory_gib(device: str) -> float | None:
    """Return the peak memory of this process in GiB: GPU memory if ``device`` is a GPU, otherwise RAM.

    None on platforms that do not report it.

    Examples:
        >>> peak = peak_memory_gib("cpu")
        >>> peak is None or peak > 0
        True
    """
    where = resolve_device(device)
    if where.type == "cuda":
        return torch.cuda.max_memory_allocated(where) / 2**30
    peak = peak_resident_memory()
    return None if peak is None else peak / 2**30


def _commit() -> str | None:
    """Return the commit of the code, with "+" after it if files were changed, or None if it is unknown.

    The environment variable EPAGCL_COMMIT takes precedence over the repository that contains the code.
    """
    if "EPAGCL_COMMIT" in os.environ:
        return os.environ["EPAGCL_COMMIT"]
    # An installed copy may lie inside an unrelated repository.
    answer = _git_lines("rev-parse", "--show-toplevel", "HEAD")
    if len(answer) != 2 or Path(answer[0]) != ROOT:
        return None
    return answer[1] + ("+" if _git_lines("status", "--porcelain", "--", "epagcl", "benchmarks") else "")


def _git_lines(*arguments: str) -> list[str]:
    """Return the output of a git command, line by line; empty if git fails or is missing."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines()


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
