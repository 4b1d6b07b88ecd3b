"""The measurements of a run as plain values: the content of ``metrics.json``."""

from collections.abc import Collection
from typing import Any, NotRequired, TypedDict, final

from epagcl.data.io.columns.encoding import ColumnSummary
from epagcl.evaluation.health import FindingDict
from epagcl.evaluation.scores import ScoresDict


class Hardware(TypedDict):
    """The machine of a run. ``deterministic`` is there, and true, if a GPU used deterministic operations only."""

    device: str
    cpu: str
    threads: int
    deterministic: NotRequired[bool]


class Provenance(TypedDict):
    """When, on what hardware and with which versions a number was measured."""

    date: str
    hardware: Hardware
    versions: dict[str, str | None]
    commit: str | None


class GraphSummary(TypedDict):
    """The size of a graph, its EPR if every node has a label, and its columns if its table was encoded."""

    name: str
    nodes: int
    edges: int
    features: int
    classes: int | None
    epr_per_node: float | None
    epr_per_edge: float | None
    columns: NotRequired[list[ColumnSummary]]


class TrainingSummary(TypedDict):
    """The outcome and the cost of one training; without epochs the loss and the effective rank are None."""

    final_loss: float | None
    effective_rank: float | None
    seconds: float
    epochs: int
    seconds_per_epoch: float
    peak_memory_gib: float | None


class _Metrics(Provenance):
    graph: GraphSummary
    method: dict[str, Any]
    evaluation: NotRequired[ScoresDict]
    references: NotRequired[dict[str, ScoresDict]]
    total_seconds: NotRequired[float]


@final
class RunMetrics(_Metrics):
    """The metrics of one trained model. ``evaluation`` and ``references`` exist only if the run was evaluated."""

    training: TrainingSummary
    health: list[FindingDict]


@final
class SeedsMetrics(_Metrics):
    """The metrics of several seeds together: each value of ``training`` is a list with one entry per seed."""

    seeds: list[int]
    training: dict[str, list[float | None]]
    health: NotRequired[list[FindingDict]]


def untrained_name(title: str) -> str:
    """Return the name of the reference that is a whole method before its training, not only its encoder."""
    return f"untrained {title}"


def untrained_note(title: str, references: Collection[str]) -> str | None:
    """Return a sentence on the untrained method, if it is among the references.

    Args:
        title: title of the method.
        references: names of the references.

    Examples:
        >>> untrained_note("EPAGCL+", ["raw features", "untrained EPAGCL+"])
        'untrained EPAGCL+: encoders with initial weights, and everything that it computes without training'
    """
    if (name := untrained_name(title)) not in references:
        return None
    return f"{name}: encoders with initial weights, and everything that it computes without training"
