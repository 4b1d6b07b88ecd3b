"""How good an embedding is: linear evaluation that cannot see test labels, k-nearest neighbours, clustering."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NotRequired, TypedDict

import torch
from torch import Tensor

from epagcl.data.splits import Split
from epagcl.evaluation.inputs import labelled_part, number_classes


class Spread(TypedDict):
    """A score of several runs: mean, sample standard deviation (0 for one run) and the runs themselves."""

    mean: float
    std: float
    runs: list[float]


class ScoresDict(TypedDict):
    """The scores of an embedding or of predictions as plain values: :meth:`Evaluation.to_dict` and what joins it."""

    protocol: str
    split: str
    split_seeds: list[int]
    accuracy: Spread
    macro_f1: Spread
    chosen: NotRequired[list[dict[str, float]]]
    classes: list[int] | list[str]
    confusion: list[list[int]]
    knn_accuracy: NotRequired[Spread]
    clustering: NotRequired[dict[str, float]]


def spread(runs: list[float]) -> Spread:
    """Return runs with their mean and sample standard deviation (0 for one run).

    Examples:
        >>> spread([0.5, 0.75])["mean"]
        0.625
    """
    return {"mean": fmean(runs), "std": stdev(runs) if len(runs) > 1 else 0.0, "runs": runs}


@dataclass(frozen=True)
class Evaluation:
    """Test scores of one embedding, a number per run; all between 0 and 1.

    Attributes:
        protocol: strict, paper or public.
        split: the splits in words.
        split_seeds: seed of each random split; empty for given ones.
        runs: accuracy (= micro-F1) of each run.
        macro_f1: macro-F1 of each run.
        chosen: what validation chose in each run: penalty, step and validation accuracy.
        classes: the classes that occur, by number, or by name if the labels were names.
        confusion: test nodes of class r that were taken for class c, summed over runs.
    """

    protocol: str
    split: str
    split_seeds: list[int]
    runs: list[float]
    macro_f1: list[float]
    chosen: list[dict[str, float]]
    classes: list[int] | list[str]
    confusion: list[list[int]]

    @property
    def mean(self) -> float:
        """Mean accuracy."""
        return spread(self.runs)["mean"]

    @property
    def std(self) -> float:
        """Standard deviation of the accuracy over runs (of a sample; 0 for one run)."""
        return spread(self.runs)["std"]

    @property
    def micro_f1(self) -> list[float]:
        """Micro-F1 of each run: with one label per node it is the accuracy."""
        return self.runs

    def to_dict(self) -> ScoresDict:
        """Return the scores as plain values for JSON."""
        return {
            "protocol": self.protocol,
            "split": self.split,
            "split_seeds": self.split_seeds,
            "accuracy": spread(self.runs),
            "macro_f1": spread(self.macro_f1),
            "chosen": self.chosen,
            "classes": self.classes,
            "confusion": self.confusion,
        }


def prediction_evaluation(prediction: Tensor, y: Tensor, split: Split, protocol: str, seed: int) -> Evaluation:
    """Test scores of a classifier that was trained on a split, such as a supervised method: nothing is fitted here."""
    classes, truth = number_classes(torch.as_tensor(y).cpu())
    test = labelled_part(split, truth).test
    predicted = torch.searchsorted(classes, prediction.cpu()[test].contiguous()).clamp(max=len(classes) - 1)
    words, seeds = ("published", []) if protocol == "public" else ("random 10/10/80", [seed])
    table = confusion_matrix(predicted, truth[test], len(classes))
    return evaluation_of(protocol, words, seeds, [table], [], classes.tolist())


def confusion_matrix(prediction: Tensor, truth: Tensor, num_classes: int) -> Tensor:
    """Nodes of class r that were taken for class c, ``[C, C]``."""
    table = torch.bincount(truth * num_classes + prediction, minlength=num_classes**2).cpu()
    return table.view(num_classes, num_classes)


def evaluation_of(
    protocol: str,
    split: str,
    seeds: list[int],
    tables: list[Tensor],
    chosen: list[dict[str, float]],
    classes: list[int] | list[str],
) -> Evaluation:
    """Of each run's confusion: accuracy, and macro-F1 over the classes that occur in truth or prediction."""
    accuracy, macro_f1 = [], []
    for table in tables:
        f1 = class_scores(table)["f1"]
        accuracy.append(float(table.diag().sum().double() / table.sum()))
        macro_f1.append(float(f1[~f1.isnan()].mean()))
    total = torch.stack(tables).sum(0).tolist()
    return Evaluation(protocol, split, seeds, accuracy, macro_f1, chosen, classes, total)


def class_scores(confusion: Tensor | Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """Of each class: precision TP/(TP+FP), recall TP/(TP+FN), F1 = 2·TP/(2·TP+FP+FN) and its nodes; NaN for 0/0."""
    table = torch.as_tensor(confusion).double()
    hits, taken, nodes = table.diag(), table.sum(0), table.sum(1)
    return {"precision": hits / taken, "recall": hits / nodes, "f1": 2 * hits / (taken + nodes), "support": nodes}
