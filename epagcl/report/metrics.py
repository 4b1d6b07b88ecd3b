"""What a run measured: the content of ``metrics.json``, which reports, model cards and the terminal show."""

from typing import Any, NotRequired, TypedDict

from epagcl.evaluation.health import FindingDict
from epagcl.evaluation.scores import ScoresDict


class Hardware(TypedDict):
    """The machine of a run."""

    device: str
    cpu: str
    threads: int


class Provenance(TypedDict):
    """When, on what and with which versions a number was measured."""

    date: str
    hardware: Hardware
    versions: dict[str, str | None]
    commit: str | None


class GraphSummary(TypedDict):
    """The size of a graph and, if all nodes have labels, its EPR."""

    name: str
    nodes: int
    edges: int
    features: int
    classes: int | None
    epr_per_node: float | None
    epr_per_edge: float | None


class TrainingSummary(TypedDict):
    """How a training ended and what it took. A run of several seeds has a list in place of each value."""

    final_loss: float | None
    effective_rank: float | None
    seconds: float
    epochs: int
    seconds_per_epoch: float
    peak_memory_gib: float | None


class RunMetrics(Provenance):
    """The metrics of one run, or of several seeds together."""

    graph: GraphSummary
    method: dict[str, Any]
    training: TrainingSummary
    health: list[FindingDict]
    evaluation: NotRequired[ScoresDict]
    references: NotRequired[dict[str, ScoresDict]]
    seeds: NotRequired[list[int]]
    total_seconds: NotRequired[float]
