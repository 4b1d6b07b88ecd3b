"""By what settings are judged: validation accuracy, on a graph whose test labels are hidden; at the end, the test."""

import copy
import logging
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any

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
from epagcl.training.history import COLLAPSED_BELOW, Callback

if TYPE_CHECKING:
    from collections.abc import Iterator


STRICT_RATIOS = (0.1, 0.1)
FEW = 50  # validation nodes, below which one node more or less moves the accuracy by over 2%


def splits_with_one_test(data: Data, protocol: str, ratios: tuple[float, float], seed: int, seeds: int) -> list[Split]:
    """A split for each seed, all with the same test nodes, so that no seed is chosen on what another is tested on.

    strict: the first is the strict split of ``seed``; the others deal its training and validation nodes anew, class by
    class. Ratios other than 10/10/80 are drawn class by class too. public: the first published split, for every seed.
    """
    if protocol not in ("strict", "public"):
        raise InputError(f"protocol={protocol!r}: choose strict or public")
    if protocol == "public":
        return [published_splits(data)[0]] * seeds
    if len(ratios) != 2 or min(ratios) <= 0 or sum(ratios) >= 1:
        raise InputError(f"ratios={ratios}: two shares above 0, for training and validation, that leave some for test")
    y = data.y.cpu()
    first = random_split(y, ratios, seed, stratified=tuple(ratios) != STRICT_RATIOS)
    pool, result = torch.cat([first.train, first.val]), [first]
    for k in range(1, seeds):
        train, val = [], []
        for c in y[pool].unique():
            nodes = pool[y[pool] == c]
            nodes = nodes[permutation(nodes.numel(), seed + k, Stream.SPLIT, int(c))]
            cut = int((y[first.train] == c).sum())
            train.append(nodes[:cut])
            val.append(nodes[cut:])
        result.append(Split(*(torch.cat(part).sort().values for part in (train, val)), first.test))
    return result


def chooses_epoch(model: Method) -> bool:
    """Whether a shorter training is the beginning of a longer one, so that one run shows every number of epochs.

    Not so where training stops by itself and takes its best weights, or where the rate depends on the number.
    """
    return not model.patience and not model.has_validation_loss and model.lr_factor(torch.tensor(0)) is None


@dataclass(frozen=True)
class Outcome:
    """What a trial came to: the best mean validation accuracy over the seeds, and the epoch that has it."""

    accuracies: list[float]
    epochs: int

    @property
    def mean(self) -> float:
        """What the search maximises."""
        return fmean(self.accuracies)


@dataclass(frozen=True, eq=False)
class Criterion:
    """Judges settings by models of several seeds, each on its split.

    Attributes:
        data: the graph with labels.
        splits: for each seed; one test part for all.
        every: epochs between looks.
    """

    data: Data
    splits: Sequence[Split]
    every: int

    @cached_property
    def hidden(self) -> Data:
        """The graph without the labels of its test nodes: all that the search is given."""
        data = copy.copy(self.data)
        data.y = self.data.y.clone()
        data.y[self.splits[0].test.to(data.y.device)] = -1
        return data

    def judge(
        self,
        models: Sequence[Method],
        watch: Callable[[Method], Any],
        report: Callable[[int, int, float], None],
    ) -> Outcome:
        """Train a model for each seed, looking at it on the way; of the looks, the best epoch on average.

        Args:
            models: one for each split.
            watch: gives the context of a training, with its callback.
            report: told which model, the epoch and the accuracy at each look; it may raise, to end the trial.
        """
        curves = []
        for k, model in enumerate(models):
            with watch(model) as callback, quiet_logs():
                curves.append(self._curve(model, k, callback, report))
        common = [epoch for epoch in curves[0] if all(epoch in curve for curve in curves)]
        if not common:
            raise TrainingError("the embedding has collapsed: all nodes look alike")
        best = max(common, key=lambda epoch: (sum(curve[epoch] for curve in curves), -epoch))
        return Outcome([curve[best] for curve in curves], best)

    def _curve(
        self, model: Method, k: int, callback: Callback, report: Callable[[int, int, float], None]
    ) -> dict[int, float]:
        """Validation accuracy by epoch, where the embedding has not collapsed."""
        seen: dict[int, float] = {}
        last = -1

        def score(epoch: int, z: Tensor) -> float:
            nonlocal last
            last, accuracy = epoch, self.validation_accuracy(model, z, k)
            if model.supervised or effective_rank(z) >= COLLAPSED_BELOW:
                seen[epoch] = accuracy
            return accuracy

        look = (self.every, lambda epoch, z: report(k, epoch, score(epoch, z)))
        self.fit(model, k, callback=callback, look=look)
        if not chooses_epoch(model):
            seen.clear()  # the number of epochs stays, whatever the looks on the way have shown
        if not chooses_epoch(model) or last != model.epochs:
            score(model.epochs, model.embed(self.hidden))
        return seen

    def fit(self, model: Method, k: int, **options: Any) -> Method:
        """Train on the graph without test labels; a supervised method learns from split k."""
        split = {"split": self.splits[k]} if model.supervised else {}
        return model.fit(self.hidden, **split, **options)

    def validation_accuracy(self, model: Method, z: Tensor, k: int) -> float:
        """Of a linear classifier fitted on split k's training nodes (of a supervised method itself): no test label."""
        split, y, z = self.splits[k], self.hidden.y, z.to(resolve_device(model.device))
        if not torch.isfinite(z).all():
            raise TrainingError("the embedding is not finite; lower lr or check the features' scale")
        if model.supervised:
            nodes = split.val[y[split.val] >= 0]
            predicted = torch.tensor(model.classes_)[z.argmax(1).cpu()]
            return float((predicted[nodes] == y[nodes].cpu()).float().mean())
        seen = Split(split.train, split.val, split.val)
        return linear_evaluation([z], y, splits=[seen]).chosen[0]["validation_accuracy"]

    def test(self, models: Sequence[Method], watch: Callable[[Method], Any]) -> dict[str, Any]:
        """The closing step: train a model for each seed, and read its validation and its test accuracy."""
        validation, test = [], []
        for k, model in enumerate(models):
            with watch(model) as callback, quiet_logs():
                z = self.fit(model, k, callback=callback).embed(self.hidden)
            validation.append(self.validation_accuracy(model, z, k))
            if model.supervised:
                prediction = torch.tensor(model.classes_)[z.argmax(1).cpu()]
                scores = prediction_evaluation(prediction, self.data.y, self.splits[k], "strict", model.seed)
            else:
                where = resolve_device(model.device)
                scores = linear_evaluation([z.to(where)], self.data.y, splits=[self.splits[k]])
            test += scores.runs
        return {"settings": models[0].settings(), "validation": spread(validation), "test": spread(test)}


@contextmanager
def quiet_logs() -> "Iterator[None]":
    """Within, the library's loggers leave the word to the progress: a hundred trials would say the same again."""

    def only_progress(record: logging.LogRecord) -> bool:
        return record.module == "terminal" or record.levelno >= logging.ERROR

    log.addFilter(only_progress)
    try:
        yield
    finally:
        log.removeFilter(only_progress)
