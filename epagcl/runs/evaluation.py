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
from epagcl.data.splits import published_splits


@dataclass(frozen=True)
class Plan:
    """How a run is evaluated.

    Attributes:
        protocol: strict, paper or public.
        runs: random splits per model (with several seeds: one, the split of that seed).
        references: also score the raw features and the untrained encoder.
    """

    protocol: str = "strict"
    runs: int = 5
    references: bool = False


def evaluate(
    z: Tensor,
    data: Data,
    plan: Plan,
    *,
    seed: int,
    device: str = "auto",
    companions: bool = True,
    splits: Sequence[Split] | None = None,
) -> dict[str, Any]:
    """Scores of an embedding by the plan's protocol; with companions: k-nearest neighbours and clustering."""
    z, y = z.to(resolve_device(device)), data.y
    if splits is None and plan.protocol == "public":
        splits = published_splits(data)
    scores = linear_evaluation(z, y, plan.protocol, plan.runs, seed, splits).to_dict()
    if companions:
        scores["knn_accuracy"] = spread(knn_accuracy(z, y, plan.runs, seed, splits))
        scores["clustering"] = clustering(z, y, seed)
    return scores


def references(data: Data, method: Method, plan: Plan, splits: Sequence[Split] | None = None) -> dict[str, Any]:
    """What every accuracy is to be held against: the raw features, and the method's encoder before training.

    A supervised method has no encoder apart from its classifier; it is held against EPAGCL's, on its own split.
    """
    from epagcl.methods.epagcl import EPAGCL

    same = {} if method.supervised else method.get_params()
    kind = EPAGCL if method.supervised else type(method)
    untrained = kind(**{**same, "seed": method.seed, "device": method.device, "epochs": 0}).fit_embed(data)
    options = {"seed": method.seed, "device": method.device, "companions": False, "splits": splits}
    return {
        "raw features": evaluate(data.x, data, plan, **options),
        "untrained encoder": evaluate(untrained, data, plan, **options),
    }


def split_of(data: Data, protocol: str, seed: int) -> Split:
    """The split that a supervised method of this seed learns from: its random one, or one of the published."""
    if protocol != "public":
        return random_split(data.y, seed=seed)
    splits = published_splits(data)
    return splits[seed % len(splits)]


def unfit_labels(data: Data, plan: Plan) -> str | None:
    """Why a graph's labels cannot be evaluated by the plan, or None if they can; asked before training, not after."""
    if data.y is None:
        return None
    try:
        if plan.protocol == "public":
            published_splits(data)
        else:
            random_split(data.y)
        if (classes := data.y[data.y >= 0].unique().numel()) < 2:
            return f"{classes} class among the labels, evaluation needs at least 2"
    except InputError as error:
        return str(error)
    return None

