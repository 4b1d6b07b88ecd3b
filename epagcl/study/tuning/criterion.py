"""The criterion of a search: validation accuracy on a graph whose test labels are hidden, and the closing test."""

import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError, TrainingError
from epagcl.core.hardware import resolve_device
from epagcl.core.log import log
from epagcl.core.randomness import Stream, permutation
from epagcl.data.splits import Split, published_splits, random_split
from epagcl.evaluation.health import effective_rank
from epagcl.evaluation.linear import linear_evaluation
from epagcl.evaluation.scores import prediction_evaluation, spread
from epagcl.methods.base import Method
from epagcl.methods.supervised import Supervised
from epagcl.study.tuning.result import SettingsScores
from epagcl.training.history import COLLAPSED_BELOW, Callback, Look

STRICT_RATIOS = (0.1, 0.1)
FEW_NODES = 50  # validation nodes below which a single node moves the accuracy by more than 2%

#: Returns the context of a model's training; its value is the training's callback.
TrainingProgress = Callable[[Method], AbstractContextManager[Callback | None]]
#: Called with the index of a model, the epoch and the accuracy. It may raise to end the trial.
Report = Callable[[int, int, float], None]


def splits_with_one_test(data: Data, protocol: str, ratios: tuple[float, float], seed: int, seeds: int) -> list[Split]:
    """Return a split for each seed. All share their test nodes, so that no seed is selected on test nodes of another.

    Args:
        data: the graph, with labels.
        protocol: strict: the first split is the strict split of ``seed``; the others redistribute its training and
            validation nodes class by class. public: the first published split, for every seed.
        ratios: shares for training and validation. Ratios other than 10/10/80 are drawn class by class.
        seed: seed of the first split.
        seeds: number of splits.
    """
    if protocol not in ("strict", "public"):
        raise InputError(f"protocol={protocol!r}: choose strict or public")
    if protocol == "public":
        return [published_splits(data)[0]] * seeds
    if len(ratios) != 2 or min(ratios) <= 0 or sum(ratios) >= 1:
        raise InputError(f"ratios={ratios}: give two shares above 0, for training and validation, whose sum is below 1")
    y = data.y.cpu()
    first = random_split(y, ratios, seed, stratified=tuple(ratios) != STRICT_RATIOS)
    pool, result = torch.cat([first.train, first.val]), [first]
    for k in range(1, seeds):
        train: list[Tensor] = []
        val: list[Tensor] = []
        for c in y[pool].unique():
            nodes = pool[y[pool] == c]
            nodes = nodes[permutation(nodes.numel(), seed + k, Stream.SPLIT, int(c))]
            cut = int((y[first.train] == c).sum())
            train.append(nodes[:cut])
            val.append(nodes[cut:])
        result.append(Split(torch.cat(train).sort().values, torch.cat(val).sort().values, first.test))
    return result


def chooses_epoch(model: Method) -> bool:
    """Return whether a shorter training equals the beginning of a longer one, so that one run shows every epoch count.

    This fails if training stops early and restores its best weights, or if the learning rate depends on ``epochs``.
    """
    return not model.patience and not model.has_validation_loss and model.lr_factor(torch.tensor(0)) is None


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial: the validation accuracy of each seed at the best epoch, and that epoch."""

    accuracies: list[float]
    epochs: int

    @property
    def mean(self) -> float:
        """Mean validation accuracy, which the search maximises."""
        return fmean(self.accuracies)


@dataclass(frozen=True, eq=False)
class Criterion:
    """Judges settings by models of several seeds, each on its split.

    Attributes:
        data: the graph with labels.
        splits: a split for each seed, with the same test nodes.
        every: epochs between two evaluations during training.
    """

    data: Data
    splits: Sequence[Split]
    every: int

    @cached_property
    def hidden(self) -> Data:
        """The graph without the labels of its test nodes. The search uses only this graph."""
        data = copy.copy(self.data)
        data.y = self.data.y.clone()
        data.y[self.splits[0].test.to(data.y.device)] = -1
        return data

    def judge(self, models: Sequence[Method], progress: TrainingProgress, report: Report) -> Outcome:
        """Train a model for each seed with evaluations during training, and return the best epoch on average.

        Args:
            models: one for each split.
            progress: returns the context of a training, with its callback.
            report: called at each evaluation; it may raise to end the trial.
        """
        curves = []
        for k, model in enumerate(models):
            with progress(model) as callback, quiet_logs():
                curves.append(self._curve(model, k, callback, report))
        common = [epoch for epoch in curves[0] if all(epoch in curve for curve in curves)]
        if not common:
            raise TrainingError("the embedding has collapsed: all nodes look alike")
        best = max(common, key=lambda epoch: (sum(curve[epoch] for curve in curves), -epoch))
        return Outcome([curve[best] for curve in curves], best)

    def _curve(self, model: Method, k: int, callback: Callback | None, report: Report) -> dict[int, float]:
        """Train a model and return its validation accuracy by epoch, without epochs at which it had collapsed."""
        curve: dict[int, float] = {}
        last_epoch = -1

        def score(epoch: int, z: Tensor) -> float:
            nonlocal last_epoch
            last_epoch, accuracy = epoch, self.validation_accuracy(model, z, k)
            if isinstance(model, Supervised) or effective_rank(z) >= COLLAPSED_BELOW:
                curve[epoch] = accuracy
            return accuracy

        self.fit(model, k, callback, Look(self.every, lambda epoch, z: report(k, epoch, score(epoch, z))))
        if not chooses_epoch(model):
            curve.clear()  # the number of epochs is fixed, whatever the evaluations have shown
        if not chooses_epoch(model) or last_epoch != model.epochs:
            score(model.epochs, model.embed(self.hidden))
        return curve

    def fit(self, model: Method, k: int, callback: Callback | None, look: Look | None = None) -> Method:
        """Train on the graph without test labels. A supervised method learns from split k."""
        options: dict[str, Any] = {"split": self.splits[k]} if isinstance(model, Supervised) else {}
        return model.fit(self.hidden, callback=callback, look=look, **options)

    def validation_accuracy(self, model: Method, z: Tensor, k: int) -> float:
        """Return the validation accuracy of a linear classifier fitted on split k's training nodes.

        A supervised method is judged by its own predictions. No test label is read.
        """
        split, y, z = self.splits[k], self.hidden.y, z.to(resolve_device(model.device))
        if not torch.isfinite(z).all():
            raise TrainingError("the embedding is not finite; lower lr or check the scale of the features")
        if isinstance(model, Supervised):
            nodes = split.val[y[split.val] >= 0]
            return float((_predicted(model, z)[nodes] == y[nodes].cpu()).float().mean())
        without_test = Split(split.train, split.val, split.val)
        return linear_evaluation([z], y, splits=[without_test]).chosen[0]["validation_accuracy"]

    def test(self, models: Sequence[Method], progress: TrainingProgress) -> SettingsScores:
        """Train a model for each seed, and return its validation and its test accuracy."""
        validation, test = [], []
        for k, model in enumerate(models):
            with progress(model) as callback, quiet_logs():
                z = self.fit(model, k, callback).embed(self.hidden)
            validation.append(self.validation_accuracy(model, z, k))
            if isinstance(model, Supervised):
                scores = prediction_evaluation(_predicted(model, z), self.data.y, self.splits[k], "strict", model.seed)
            else:
                device = resolve_device(model.device)
                scores = linear_evaluation([z.to(device)], self.data.y, splits=[self.splits[k]])
            test += scores.runs
        return {"settings": models[0].settings(), "validation": spread(validation), "test": spread(test)}


def _predicted(model: Supervised, z: Tensor) -> Tensor:
    """Return the classes that a supervised method predicts from its logits."""
    return torch.tensor(model.classes_)[z.argmax(1).cpu()]


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Silence the library's log below errors, since every trial would repeat its notes.

    Progress is reported elsewhere and stays visible.
    """

    def is_error(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    log.addFilter(is_error)
    try:
        yield
    finally:
        log.removeFilter(is_error)
