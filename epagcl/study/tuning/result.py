"""The result of a search."""

from dataclasses import dataclass
from typing import Any, TypedDict

from epagcl.evaluation.scores import Spread
from epagcl.methods.base import Method


class TrialRow(TypedDict):
    """One trial of a search.

    ``state`` is complete, pruned, failed or running. ``validation`` is the mean accuracy on validation nodes,
    ``validation_runs`` that of each seed. ``reason`` explains why a trial was pruned or failed.
    """

    trial: int
    state: str
    validation: float | None
    validation_runs: list[float] | None
    epochs: int | None
    seconds: float | None
    settings: dict[str, Any]
    reason: str | None


class SettingsScores(TypedDict):
    """Validation and test accuracy of one choice of settings, over the seeds."""

    settings: dict[str, Any]
    validation: Spread
    test: Spread


class FinalScores(TypedDict):
    """The closing comparison: default and tuned settings, the best trial, and how often the test nodes were read."""

    default: SettingsScores
    tuned: SettingsScores
    trial: int
    test_reads: int


@dataclass(frozen=True)
class Tuning:
    """The result of a search.

    Attributes:
        method: the class whose settings were searched.
        best: the best settings on validation nodes, complete; ``epochs`` is chosen too.
        trials: a row for each trial in order: state (complete, pruned, failed), validation accuracy (mean and each
            seed's), epochs, seconds, settings, and the reason if the trial was pruned or failed.
        importance: share of each setting in the variation of validation accuracy (fANOVA); empty for few trials.
        scores: validation and test accuracy of the default and of the tuned settings; None if the test was not read.
        search: description of the search: space, seeds, splits, counts and seconds.

    Examples:
        >>> from epagcl.methods.grace import GRACE
        >>> result = Tuning(GRACE, {"lr": 0.01, "epochs": 50}, [], {}, None, {})
        >>> result.estimator(seed=1).lr
        0.01
        >>> result.to_dict()["best"]
        {'name': 'grace', 'lr': 0.01, 'epochs': 50}
    """

    method: type[Method]
    best: dict[str, Any]
    trials: list[TrialRow]
    importance: dict[str, float]
    scores: FinalScores | None
    search: dict[str, Any]

    def estimator(self, **settings: Any) -> Method:
        """Return an untrained estimator with the best settings; ``settings`` take precedence, such as a seed."""
        return self.method(**{**self.best, **settings})

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON, without the trials."""
        best = {"name": self.method.name, **self.best}
        return {"best": best, "scores": self.scores, "importance": self.importance, "search": self.search}
