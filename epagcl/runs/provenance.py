"""A run: train, embed, evaluate, and leave a folder that says what was done and what came out."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from epagcl.core.version import __version__
from epagcl.core.config import read_config, write_config
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.data.splits import Split, geom_splits, public_splits, random_split
from epagcl.runs.export import check_ids, write_embeddings
from epagcl.epr.rate import error_passing_rate
from epagcl.core.errors import InputError
from epagcl.evaluation.clusters import clustering
from epagcl.evaluation.knn import knn_accuracy
from epagcl.evaluation.linear import linear_evaluation
from epagcl.evaluation.scores import prediction_evaluation, spread
from epagcl.core.files import write_json
from epagcl.core.hardware import resolve_device
from epagcl.evaluation.health import FEWEST, judge_agreement, neighbour_agreement
from epagcl.methods.base import Method
from epagcl.training.history import Callback, write_history


def describe(data: Data, name: str) -> dict[str, Any]:
    """Size of a graph and, with labels on all nodes, its EPR."""
    labelled = data.y is not None and bool((data.y >= 0).all())
    return {
        "name": name,
        "nodes": data.num_nodes,
        "edges": data.edge_index.shape[1] // 2,
        "features": data.x.shape[1],
        "classes": None if data.y is None else int(data.y[data.y >= 0].unique().numel()),
        "epr_per_node": error_passing_rate(data.edge_index, data.y) if labelled else None,
        "epr_per_edge": error_passing_rate(data.edge_index, data.y, per="edge") if labelled else None,
    }


def provenance(device: str = "auto") -> dict[str, Any]:
    """When, on what and with which versions a figure was measured."""
    import numpy
    import torch_geometric

    where = resolve_device(device)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": {
            "device": torch.cuda.get_device_name(where) if where.type == "cuda" else where.type,
            "cpu": _cpu_name(),
            "threads": torch.get_num_threads(),
        },
        "versions": {
            "epagcl": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "torch_geometric": torch_geometric.__version__,
            "numpy": numpy.__version__,
            "triton": version("triton") if find_spec("triton") else None,
        },
        "commit": _commit(),
    }


def _commit() -> str | None:
    """EPAGCL_COMMIT in the environment, else that of the repository the code lies in, with "+" if it was changed."""
    if "EPAGCL_COMMIT" in os.environ:
        return os.environ["EPAGCL_COMMIT"]
    root = Path(__file__).resolve().parent.parent

    def git(*words: str) -> list[str]:
        try:
            done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return []
        return done.stdout.splitlines()

    # An installed copy may lie inside a repository of somebody else's.
    answer = git("rev-parse", "--show-toplevel", "HEAD")
    if len(answer) != 2 or Path(answer[0]) != root:
        return None
    return answer[1] + ("+" if git("status", "--porcelain", "--", "epagcl", "benchmarks") else "")


def peak_memory_gib(device: str) -> float | None:
    """Most memory the process has held, on the GPU if it trains there, else in RAM (None where it cannot be read)."""
    where = resolve_device(device)
    if where.type == "cuda":
        return torch.cuda.max_memory_allocated(where) / 2**30
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**30 if platform.system() == "Darwin" else 2**20)


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

