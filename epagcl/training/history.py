"""The history of a training: one row per epoch, some with label-free measures of the embedding."""

import csv
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, NotRequired

import torch
from torch import Tensor, nn

from epagcl.core.files import atomic_path
from epagcl.data.graph import Graph
from epagcl.evaluation.health import (
    Finding,
    Measures,
    alignment,
    distance_between_nodes,
    effective_rank,
    judge,
    uniformity,
)
from epagcl.evaluation.retention import KEPT_EDGES, judge_retention, measure_retention
from epagcl.training.protocol import Trainable, embedding_of

FIRST_MEASUREMENT = 25  # epoch of the first measurement; each takes three forward passes
SUBSAMPLED = 0.2  # share of edges and feature columns hidden in each view for the alignment, the same for all methods
COLLAPSED_BELOW = 2.0  # effective rank


class Row(Measures):
    """One epoch. ``seconds`` is the training time so far. Measures are None in most epochs.

    Examples:
        >>> measures = dict.fromkeys(MEASURES)
        >>> row = Row(epoch=1, loss=2.5, seconds=0.1, **measures)
        >>> row["loss"], row["alignment"]
        (2.5, None)
    """

    epoch: int
    loss: float
    seconds: float
    validation_loss: NotRequired[float]


MEASURES = ("effective_rank", "alignment", "distance", "uniformity")
#: Called with each row of the history.
Callback = Callable[[Row], None]


class Look(NamedTuple):
    """A function that is called with the embedding during training.

    Attributes:
        every: number of epochs between two calls.
        function: called with the number of epochs done and the current embedding.

    Examples:
        >>> look = Look(every=10, function=lambda epoch, z: print(epoch, z.shape))
        >>> look.next_epoch(25)
        30
    """

    every: int
    function: Callable[[int, Tensor], object]

    def next_epoch(self, epoch: int) -> int:
        """Return the first epoch after ``epoch`` at which the function is called."""
        return epoch - epoch % self.every + self.every


def next_measurement(epoch: int) -> int:
    """Return the first epoch after ``epoch`` at which the embedding is measured: 25, 50, 100, 200, ..."""
    measured = FIRST_MEASUREMENT
    while measured <= epoch:
        measured *= 2
    return measured


def measure(method: Trainable, network: nn.Module, graph: Graph) -> Measures:
    """Measure the current embedding without labels. Alignment compares two random subsamples of the graph."""
    z = embedding_of(method, network, graph)
    if not torch.isfinite(z).all():
        return Measures(effective_rank=math.nan, alignment=math.nan, distance=math.nan, uniformity=math.nan)
    first, second = (embedding_of(method, network, graph.subsample(SUBSAMPLED, view)) for view in (1, 2))
    return Measures(
        effective_rank=effective_rank(z),
        alignment=alignment(first, second),
        distance=distance_between_nodes(z),
        uniformity=uniformity(z),
    )


def examine(
    method: Trainable, network: nn.Module, graph: Graph, *, trained: bool, edges_known: bool = False
) -> list[Finding]:
    """Judge the embedding of a graph without labels: the measures, and what it keeps of features and edges.

    Args:
        method: the method.
        network: its network.
        graph: the graph to embed.
        trained: whether the embedding comes from training.
        edges_known: whether features were computed from the edges. Hidden edges are then not hidden, and what the
            embedding keeps of them is not judged.
    """
    embed = partial(embedding_of, method, network)
    measures = measure(method, network, graph)
    findings = judge(measures, graph.num_nodes, embed(graph).shape[1], graph.num_features, trained=trained)
    is_finite = measures["effective_rank"] is not None and math.isfinite(measures["effective_rank"])
    kept = judge_retention(measure_retention(embed, graph)) if is_finite else []
    return findings + [finding for finding in kept if not (edges_known and finding.name == KEPT_EDGES)]


def write_history(history: Sequence[Row], path: str | Path) -> None:
    """Write the history as CSV, one line per epoch.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_history([], Path(folder, "history.csv"))
        ...     Path(folder, "history.csv").read_text().strip()
        'epoch,loss,seconds,effective_rank,alignment,distance,uniformity'
    """
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        columns = list(history[-1]) if history else ["epoch", "loss", "seconds", *MEASURES]
        writer = csv.DictWriter(file, fieldnames=columns)
        writer.writeheader()
        writer.writerows(history)
