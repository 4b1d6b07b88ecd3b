"""The measurements of a run as plain values: the content of ``metrics.json``."""

from collections.abc import Collection, Mapping
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


class RelationSummary(TypedDict):
    """A relation of a graph: a kind or a direction of its edges."""

    name: str
    edges: int
    epr_per_node: float | None


class GraphSummary(TypedDict):
    """The size of a graph, its EPR if every node has a label, its relations, and its columns if encoded."""

    name: str
    nodes: int
    edges: int
    features: int
    classes: int | None
    epr_per_node: float | None
    epr_per_edge: float | None
    relations: NotRequired[list[RelationSummary]]
    columns: NotRequired[list[ColumnSummary]]


class TrainingSummary(TypedDict):
    """The outcome and the cost of one training; without epochs the loss and the effective rank are None.

    With several ranks, the memory is that of rank 0.
    """

    final_loss: float | None
    effective_rank: float | None
    seconds: float
    epochs: int
    seconds_per_epoch: float
    peak_memory_gib: float | None
    ranks: NotRequired[int]


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


def lost_to(title: str, scores: ScoresDict, references: Mapping[str, ScoresDict]) -> str | None:
    """Return a sentence on the references that are more accurate than a model; None if there are none.

    Args:
        title: title of the method.
        scores: of the model.
        references: scores of the references by name.

    Examples:
        >>> scores = {name: {"accuracy": {"mean": mean, "std": 0.01}} for name, mean in (("a", 0.7), ("b", 0.81))}
        >>> lost_to("EPAGCL", {"accuracy": {"mean": 0.75, "std": 0.01}}, scores)
        'EPAGCL (75.0%) loses to b (81.0%): it does not pay off on this graph; try --method auto'
        >>> lost_to("EPAGCL", {"accuracy": {"mean": 0.9, "std": 0.01}}, scores) is None
        True
    """
    own = scores["accuracy"]["mean"]
    means = {name: row["accuracy"]["mean"] for name, row in references.items()}
    better = sorted((name for name in means if means[name] > own), key=lambda name: -means[name])
    if not better:
        return None
    names = " and ".join(f"{name} ({100 * means[name]:.1f}%)" for name in better)
    advice = "try --method auto" if title != "EPAGCL+" else "use what scores best, or train longer"
    return f"{title} ({100 * own:.1f}%) loses to {names}: it does not pay off on this graph; {advice}"
