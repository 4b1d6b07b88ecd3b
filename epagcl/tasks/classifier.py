"""A classifier on an embedding and few labels: calibrated probabilities for all nodes, and how good they are."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import pandas as pd

from epagcl.core.checks import UINT32_LIMIT, check_seed
from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.data.labels import Labels, class_numbers
from epagcl.evaluation.inputs import EmbeddingLike
from epagcl.tasks.calibration import expected_calibration_error, fit_temperature, log_loss, softmax
from epagcl.tasks.curve import Curve, CurveDict, learning_curve
from epagcl.tasks.inputs import Doubles, Floats, Integers, embedding_rows, one_thread

PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)  # inverse strengths that are tried
FOLDS = 5
LEAST_TO_CALIBRATE = 30  # labelled nodes; fewer say too little about probabilities


class ClassificationDict(TypedDict):
    """The result of a classification without the nodes, for JSON. Errors of calibration are None if not measured."""

    classes: list[str]
    left_out: list[str]
    labelled: int
    accuracy: float
    majority: float
    inverse_penalty: float
    temperature: float
    calibration_error: float | None
    calibration_error_before: float | None
    curve: CurveDict | None
    words: list[str]


@dataclass(frozen=True)
class Classification:
    """Predictions for all nodes, and scores by cross-validation on the labelled ones.

    Attributes:
        classes: the names of the predicted classes.
        probabilities: calibrated probabilities ``[N, C]``.
        labelled: number of labelled nodes that were used.
        left_out: classes with a single label, which are never predicted.
        accuracy: accuracy on labelled nodes that the classifier was not fitted on.
        majority: share of the largest class among the labels, the accuracy of always predicting it.
        inverse_penalty: inverse strength of the penalty, chosen by cross-validation.
        temperature: divisor of the logits; 1 if there are too few labels to calibrate, or if it does not help.
        calibration_error: expected calibration error of the probabilities, cross-validated.
        calibration_error_before: the same without calibration.
        curve: accuracy by number of labels; None if it was not asked for or there are too few labels.
    """

    classes: list[str]
    probabilities: Doubles
    labelled: int
    left_out: list[str]
    accuracy: float
    majority: float
    inverse_penalty: float
    temperature: float
    calibration_error: float | None
    calibration_error_before: float | None
    curve: Curve | None

    @property
    def predicted(self) -> list[str]:
        """The most probable class of each node."""
        return [self.classes[number] for number in self.probabilities.argmax(1)]

    def table(self, ids: Sequence[Any]) -> pd.DataFrame:
        """Return a table with the id, the predicted class, its probability, and the probability of each class."""
        table = pd.DataFrame({"id": ids, "predicted": self.predicted, "probability": self.probabilities.max(1)})
        columns = pd.DataFrame(self.probabilities, columns=[f"p_{name}" for name in self.classes])
        return pd.concat([table, columns], axis=1)

    def words(self) -> list[str]:
        """Return what the user should know, in sentences."""
        sentences = []
        if self.left_out:
            names = ", ".join(self.left_out)
            sentences.append(f"Classes with one label are never predicted: {names}. Give each at least 2 labels.")
        if self.accuracy <= self.majority:
            sentences.append(
                f"Accuracy {self.accuracy:.3f} is not above always predicting the largest class ({self.majority:.3f}): "
                "the labels say nothing about the rest of the nodes through this embedding."
            )
        if self.calibration_error is None:
            sentences.append(
                f"Probabilities are not calibrated: {counted(self.labelled, 'labelled node')}, and calibration needs "
                f"at least {LEAST_TO_CALIBRATE}."
            )
        elif self.temperature == 1.0:
            sentences.append("Calibration does not lower the cross-validated log loss; it was left out.")
        if self.curve is not None:
            sentences.append(self.curve.words())
        return sentences

    def to_dict(self) -> ClassificationDict:
        """Return all but the nodes, for JSON."""
        return {
            "classes": self.classes,
            "left_out": self.left_out,
            "labelled": self.labelled,
            "accuracy": self.accuracy,
            "majority": self.majority,
            "inverse_penalty": self.inverse_penalty,
            "temperature": self.temperature,
            "calibration_error": self.calibration_error,
            "calibration_error_before": self.calibration_error_before,
            "curve": None if self.curve is None else self.curve.to_dict(),
            "words": self.words(),
        }


def classify(z: EmbeddingLike, y: Labels, *, curve: bool = True, seed: int = 0) -> Classification:
    """Fit a logistic regression on the labelled nodes and predict all nodes.

    Accuracy and calibration are measured on nodes outside the fit: in each of up to 5 stratified folds, the penalty is
    chosen on the other folds, and the temperature is fitted on their predictions. The final classifier uses all labels.

    Args:
        z: embedding ``[N, d]``.
        y: class of each node, as a number or a name; −1 or missing for none. At least two classes need two labels.
        curve: also compute the learning curve.
        seed: seed of the folds.

    Examples:
        >>> z = np.eye(2).repeat(30, 0) + 0.1 * np.random.default_rng(0).normal(size=(60, 2))
        >>> y = [None] * 60
        >>> y[:5], y[30:35] = ["red"] * 5, ["blue"] * 5
        >>> result = classify(z, y)
        >>> result.accuracy, result.predicted[10], result.predicted[50]
        (1.0, 'red', 'blue')
    """
    rows, seed = embedding_rows(z), check_seed(seed, UINT32_LIMIT - 1)
    numbers, names = class_numbers(y)
    labels = numbers.cpu().numpy()
    if len(labels) != len(rows):
        raise InputError(f"y: {len(labels):,} labels for {counted(len(rows), 'node')}; give one per node, −1 for none")
    counts = np.bincount(labels[labels >= 0]) if (labels >= 0).any() else np.zeros(0, np.int64)
    title = [str(number) for number in range(len(counts))] if names is None else names
    used, single = np.flatnonzero(counts >= 2), np.flatnonzero(counts == 1)
    if len(used) < 2:
        found = ", ".join(f"{title[c]} {counts[c]}" for c in np.flatnonzero(counts)) or "none"
        raise InputError(f"y: at least 2 classes need 2 labels each, and there are: {found}; label more nodes")
    nodes = np.flatnonzero(np.isin(labels, used))
    targets = np.searchsorted(used, labels[nodes])
    rows = rows / (float(np.sqrt(np.square(rows, dtype=np.float64).mean())) or 1.0)
    with one_thread(), warnings.catch_warnings():
        # In float32, the solver may stop where rounding hides any further decrease of the loss, and warns of it.
        warnings.filterwarnings("ignore", r"lbfgs failed to converge[^:]*:\s+ABNORMAL")
        unseen = _unseen_logits(rows[nodes], targets, seed)
        temperature, before, after = _calibration(unseen, targets, seed)
        model, strength = _fit(rows[nodes], targets, seed)
        points = learning_curve(rows[nodes], targets, strength, seed) if curve else None
    return Classification(
        classes=[title[c] for c in used],
        probabilities=softmax(_logits(model, rows, len(used)), temperature),
        labelled=len(nodes),
        left_out=[title[c] for c in single],
        accuracy=float((unseen.argmax(1) == targets).mean()),
        majority=float(counts[used].max() / len(nodes)),
        inverse_penalty=strength,
        temperature=temperature,
        calibration_error=after,
        calibration_error_before=before,
        curve=points,
    )


def _fit(rows: Floats, y: Integers, seed: int) -> tuple[Any, float]:
    """Return the classifier with the penalty that cross-validation prefers, and the inverse strength of the penalty."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    best, strength = np.inf, 1.0
    for candidate in PENALTIES:
        model = LogisticRegression(C=candidate, max_iter=2000)
        loss = log_loss(cross_val_predict(model, rows, y, cv=_folds(y, seed, most=3), method="predict_proba"), y)
        if loss < best:
            best, strength = loss, candidate
    return LogisticRegression(C=strength, max_iter=2000).fit(rows, y), strength


def _unseen_logits(rows: Floats, y: Integers, seed: int) -> Doubles:
    """Return the logits of each node by a classifier that was not fitted on it."""
    logits = np.empty((len(y), int(y.max()) + 1))
    for train, test in _folds(y, seed, most=FOLDS).split(rows, y):
        model = _fit(rows[train], y[train], seed)[0] if _can_choose(y[train]) else _plain(rows[train], y[train])
        logits[test] = _logits(model, rows[test], logits.shape[1])
    return logits


def _calibration(unseen: Doubles, y: Integers, seed: int) -> tuple[float, float | None, float | None]:
    """Return the temperature, and the calibration error before and after, each on nodes outside the fit."""
    if len(y) < LEAST_TO_CALIBRATE:
        return 1.0, None, None
    calibrated = np.empty_like(unseen)
    for train, test in _folds(y, seed, most=FOLDS).split(unseen, y):
        calibrated[test] = softmax(unseen[test], fit_temperature(unseen[train], y[train]))
    plain = softmax(unseen)
    before = expected_calibration_error(plain, y)
    if log_loss(calibrated, y) >= log_loss(plain, y):
        return 1.0, before, before
    return fit_temperature(unseen, y), before, expected_calibration_error(calibrated, y)


def _can_choose(y: Integers) -> bool:
    """Return whether every class has the two labels that cross-validation needs."""
    return int(np.bincount(y)[np.unique(y)].min()) >= 2


def _plain(rows: Floats, y: Integers) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=2000).fit(rows, y)


def _logits(model: Any, rows: Floats, classes: int) -> Doubles:
    """Return log-probabilities up to a constant per node."""
    logits = np.full((len(rows), classes), -1e3)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # log 0 of certain predictions
        logits[:, model.classes_] = np.maximum(model.predict_log_proba(rows), -1e3)
    return logits


def _folds(y: Integers, seed: int, most: int) -> Any:
    from sklearn.model_selection import StratifiedKFold

    smallest = int(np.bincount(y)[np.unique(y)].min())
    return StratifiedKFold(max(2, min(most, smallest)), shuffle=True, random_state=seed % 2**32)
