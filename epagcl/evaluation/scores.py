"""Test scores: accuracy, F1 and confusion, of one or several runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NotRequired, TypedDict

import torch
from torch import Tensor

from epagcl.core import html
from epagcl.core.formatting import counted, percent
from epagcl.data.splits import Split
from epagcl.evaluation.inputs import labelled_split, renumber_classes


class Spread(TypedDict):
    """A score of several runs: mean, sample standard deviation (0 for one run) and the runs themselves."""

    mean: float
    std: float
    runs: list[float]


class Choice(TypedDict):
    """The classifier chosen on the validation nodes: its penalty, step and validation accuracy."""

    decay: float
    step: int
    validation_accuracy: float


class ScoresDict(TypedDict):
    """The scores of an embedding or of predictions as plain values: :meth:`Evaluation.to_dict` and further scores."""

    protocol: str
    split: str
    split_seeds: list[int]
    accuracy: Spread
    macro_f1: Spread
    chosen: NotRequired[list[Choice]]
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
    """Test scores of one embedding, one value per run, each between 0 and 1.

    Attributes:
        protocol: strict, paper or public.
        split: description of the splits.
        split_seeds: seed of each random split; empty if the splits were given.
        runs: accuracy (= micro-F1) of each run.
        macro_f1: macro-F1 of each run.
        chosen: penalty, step and validation accuracy of the classifier chosen in each run.
        classes: the classes that occur, by number, or by name if the labels were names.
        confusion: number of test nodes of class r predicted as class c, summed over runs.

    Examples:
        >>> result = prediction_evaluation(
        ...     torch.tensor([0, 1, 1, 1]),
        ...     torch.tensor([0, 1, 0, 1]),
        ...     Split(train=torch.tensor([0]), val=torch.tensor([1]), test=torch.tensor([2, 3])),
        ...     protocol="strict",
        ...     seed=0,
        ... )
        >>> result.mean, result.confusion
        (0.5, [[0, 1], [0, 1]])
    """

    protocol: str
    split: str
    split_seeds: list[int]
    runs: list[float]
    macro_f1: list[float]
    chosen: list[Choice]
    classes: list[int] | list[str]
    confusion: list[list[int]]

    @property
    def mean(self) -> float:
        """Mean accuracy."""
        return spread(self.runs)["mean"]

    @property
    def std(self) -> float:
        """Sample standard deviation of the accuracy over runs (0 for one run)."""
        return spread(self.runs)["std"]

    @property
    def micro_f1(self) -> list[float]:
        """Micro-F1 of each run, which equals the accuracy if each node has one label."""
        return self.runs

    def _repr_html_(self) -> str:
        rows = [("accuracy", percent(spread(self.runs))), ("macro-F1", percent(spread(self.macro_f1)))]
        words = f"Protocol {self.protocol}, {counted(len(self.runs), 'run')}, splits {self.split}"
        return html.block(html.table(words, ["score", "percent"], rows))

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
    """Return the test scores of predictions, for example of a supervised method. Nothing is fitted.

    Args:
        prediction: predicted class of each node.
        y: class of each node; −1 for none.
        split: the split on which the classifier was trained.
        protocol: strict, paper or public.
        seed: seed of the split.

    Examples:
        >>> y = torch.tensor([0, 1, 0, 1])
        >>> split = Split(train=torch.tensor([0]), val=torch.tensor([1]), test=torch.tensor([2, 3]))
        >>> prediction_evaluation(y, y, split, protocol="strict", seed=0).runs
        [1.0]
    """
    classes, truth = renumber_classes(torch.as_tensor(y).cpu())
    test = labelled_split(split, truth).test
    predicted = torch.searchsorted(classes, prediction.cpu()[test].contiguous()).clamp(max=len(classes) - 1)
    table = confusion_matrix(predicted, truth[test], len(classes))
    if protocol == "public":
        return evaluation_of_tables(protocol, "published", [], [table], [], classes.tolist())
    return evaluation_of_tables(protocol, "random 10/10/80", [seed], [table], [], classes.tolist())


def confusion_matrix(prediction: Tensor, truth: Tensor, num_classes: int) -> Tensor:
    """Return the number of nodes of class r predicted as class c, ``[C, C]``."""
    table = torch.bincount(truth * num_classes + prediction, minlength=num_classes**2).cpu()
    return table.view(num_classes, num_classes)


def evaluation_of_tables(
    protocol: str,
    split: str,
    split_seeds: list[int],
    tables: list[Tensor],
    chosen: list[Choice],
    classes: list[int] | list[str],
) -> Evaluation:
    """Return the scores of confusion matrices, one per run.

    Macro-F1 is the mean over the classes that occur in the truth or in the prediction.
    """
    accuracy, macro_f1 = [], []
    for table in tables:
        f1 = class_scores(table)["f1"]
        accuracy.append(float(table.diag().sum().double() / table.sum()))
        macro_f1.append(float(f1[~f1.isnan()].mean()))
    total = torch.stack(tables).sum(0).tolist()
    return Evaluation(protocol, split, split_seeds, accuracy, macro_f1, chosen, classes, total)


def class_scores(confusion: Tensor | Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """Return precision, recall, F1 and support of each class, one tensor each.

    Precision is TP/(TP+FP), recall TP/(TP+FN), F1 2·TP/(2·TP+FP+FN), and support the number of nodes of the class.
    0/0 gives NaN.

    Args:
        confusion: number of nodes of class r predicted as class c, ``[C, C]``.

    Examples:
        >>> class_scores([[3, 1], [0, 4]])["recall"].tolist()
        [0.75, 1.0]
    """
    table = torch.as_tensor(confusion).double()
    hits, predicted, support = table.diag(), table.sum(0), table.sum(1)
    return {
        "precision": hits / predicted,
        "recall": hits / support,
        "f1": 2 * hits / (predicted + support),
        "support": support,
    }
