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


CHECKPOINT = "checkpoint.safetensors"


RUN_FILES = (
    "config.toml",
    "metrics.json",
    "history.csv",
    "embeddings.npy",
    "embeddings.ids.txt",
    "model.safetensors",
    "nodes.csv",
    "report.json.gz",
    "report.html",
    "training.png",
    "embedding.png",
    "README.md",
    CHECKPOINT,
)


#: Of these, what only a run has: a folder with none of them is somebody's own.
RUN_MARKS = ("config.toml", "metrics.json", "model.safetensors", "report.json.gz", CHECKPOINT)


def claim(
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    seeds: int = 1,
    option: str = "--out",
    make: bool = True,
) -> None:
    """Make a folder ready for a run: refuse to mix two runs, and with ``overwrite`` remove the files of the old one.

    Messages name the ``option`` that gave the folder. With ``make=False`` nothing is changed, only checked.
    """
    if resume:
        several = any(folder.glob("seed-*/config.toml"))
        if several != (seeds > 1) or not (several or (folder / "config.toml").is_file()):
            many = " of several seeds" if seeds > 1 else " of one seed"
            raise InputError(f"{folder}: no run{many} to resume; leave out --resume to start one")
        return
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; give the name of a folder with {option}")
    if folder.is_dir() and any(folder.iterdir()):
        if not any((old / name).exists() for old in (folder, *folder.glob("seed-*")) for name in RUN_MARKS):
            raise InputError(f"{folder}: holds other files and no run; give another {option}")
        if not overwrite:
            resumed = "--resume to continue it, " if option == "--out" else ""
            raise InputError(f"{folder}: already there; give another {option}, {resumed}or --overwrite")
    if not make:
        return
    if folder.is_dir():
        for old in (*folder.glob("seed-*"), folder):
            for name in (*RUN_FILES, *(event.name for event in old.glob("events.out.tfevents.*"))):
                (old / name).unlink(missing_ok=True)
            if old != folder and old.is_dir() and not any(old.iterdir()):
                old.rmdir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); give another {option}") from None
    if not os.access(folder, os.W_OK):
        raise InputError(f"{folder}: not writable; give another {option}")


def begin_run(folder: Path, method: Method, sections: dict[str, dict[str, Any]]) -> None:
    """Write what is about to run; of a run that goes on, check that it is the same method, graph and evaluation."""
    config = folder / "config.toml"
    if not config.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_config(config, {"method": method.settings(), **sections})
        return
    saved = read_config(config)
    now = {"method": method.settings(), "evaluation": sections.get("evaluation", {})}
    now["data"] = {"fingerprint": sections["data"]["fingerprint"]}
    for section, values in now.items():
        for key, value in values.items():
            before = saved.get(section, {}).get(key)
            if key not in ("device", "capture") and before != value:
                what = "another graph" if key == "fingerprint" else f"{key} = {before}, now {key} = {value}"
                raise InputError(
                    f"{folder}: was started with {what}; resume it as it was, or start anew with --overwrite"
                )

