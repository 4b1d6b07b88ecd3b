"""How many labels are needed: accuracy by the number of labels per class, over repeated draws."""

from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import numpy as np

from epagcl.tasks.inputs import Doubles, Floats, Integers

SIZES = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
DRAWS = 10
LEAST_TESTED = 20  # labelled nodes that accuracy is measured on
POINTS_TO_EXTRAPOLATE = 5  # the last ones; accuracy with one or two labels per class follows another law
TOLERANCE = 0.01  # of accuracy, or two standard errors if they are larger
FLAT = 0.005  # a gain by doubling below this is called none


class Point(NamedTuple):
    """Accuracy with a number of labels.

    Attributes:
        per_class: labels per class; classes with fewer give all they have.
        labels: labels in total.
        accuracy: mean over the draws.
        error: standard error of the mean.
    """

    per_class: int
    labels: int
    accuracy: float
    error: float


class CurveDict(TypedDict):
    """A learning curve, for JSON."""

    points: list[dict[str, float]]
    doubled: float | None
    words: str


@dataclass(frozen=True)
class Curve:
    """A learning curve.

    Attributes:
        points: accuracy by number of labels.
        doubled: expected accuracy with twice the labels of the last point; None if the curve does not support it.
    """

    points: list[Point]
    doubled: float | None

    def words(self) -> str:
        """Return a sentence on what more labels would bring."""
        last = self.points[-1]
        known = f"With {last.per_class} labels per class ({last.labels} in all), accuracy is {last.accuracy:.3f}"
        if self.doubled is None:
            return f"{known}; the curve does not support a statement about more labels."
        gain = self.doubled - last.accuracy
        if gain < FLAT:
            return f"{known}; the curve is flat, and twice as many labels should add less than {FLAT:g}."
        return f"{known}; twice as many labels should give about {self.doubled:.3f}."

    def to_dict(self) -> CurveDict:
        """Return the curve for JSON."""
        return {"points": [point._asdict() for point in self.points], "doubled": self.doubled, "words": self.words()}


def learning_curve(rows: Floats, y: Integers, inverse_penalty: float = 1.0, seed: int = 0) -> Curve | None:
    """Return the accuracy of a logistic regression by the number of labels per class.

    Each of 10 draws sets half of the labelled nodes of each class aside for testing and fits on 1, 2, 3, 5, ... of
    the others. Accuracy with twice as many labels is extrapolated by a power law a − b·n^(−c) only if the curve
    supports it: of the last five points, the law fitted to the first four must predict the last within 0.01 or two
    standard errors.

    Args:
        rows: rows of the labelled nodes ``[n, d]``.
        y: their class numbers 0..C−1.
        inverse_penalty: inverse strength of the penalty, for all sizes.
        seed: seed of the draws.

    Returns:
        The curve; None with fewer than 40 labelled nodes, or if a class has fewer than 2.

    Examples:
        >>> rows = np.eye(2).repeat(40, 0) + 0.2 * np.random.default_rng(0).normal(size=(80, 2))
        >>> curve = learning_curve(rows, np.arange(2).repeat(40))
        >>> [point.per_class for point in curve.points], round(curve.points[-1].accuracy, 2)
        ([1, 2, 3, 5, 10, 20], 1.0)
    """
    from sklearn.linear_model import LogisticRegression

    counts = np.bincount(y)
    if counts.min() < 2 or len(y) < 2 * LEAST_TESTED:
        return None
    pools = counts - counts // 2
    sizes = [size for size in SIZES if size <= pools.max()]
    accuracy = np.empty((DRAWS, len(sizes)))
    generator = np.random.default_rng(seed)
    for draw in range(DRAWS):
        order = generator.permutation(len(y))
        rank = _rank_in_class(y[order])
        test = order[rank >= pools[y[order]]]
        for column, size in enumerate(sizes):
            train = order[rank < np.minimum(size, pools)[y[order]]]
            model = LogisticRegression(C=inverse_penalty, max_iter=2000).fit(rows[train], y[train])
            accuracy[draw, column] = (model.predict(rows[test]) == y[test]).mean()
    errors = accuracy.std(0, ddof=1) / np.sqrt(DRAWS)
    points = [
        Point(size, int(np.minimum(size, pools).sum()), float(accuracy[:, k].mean()), float(errors[k]))
        for k, size in enumerate(sizes)
    ]
    return Curve(points, extrapolate(points))


def extrapolate(points: list[Point]) -> float | None:
    """Return the accuracy expected with twice the labels of the last point; None if the curve does not support it.

    Examples:
        >>> points = [Point(n, 2 * n, 0.9 - 0.3 * (2 * n) ** -0.5, 0.01) for n in (1, 2, 5, 10, 20)]
        >>> round(extrapolate(points), 3), extrapolate(points[:4])
        (0.866, None)
    """
    if len(points) < POINTS_TO_EXTRAPOLATE:
        return None
    points = points[-POINTS_TO_EXTRAPOLATE:]
    labels = np.array([point.labels for point in points], np.float64)
    accuracy = np.array([point.accuracy for point in points])
    errors = np.maximum([point.error for point in points], 1e-3)
    earlier = _power_law(labels[:-1], accuracy[:-1], errors[:-1], labels[-1])
    if earlier is None or abs(earlier - accuracy[-1]) > max(2 * errors[-1], TOLERANCE):
        return None
    return _power_law(labels, accuracy, errors, 2 * labels[-1])


def _power_law(labels: Doubles, accuracy: Doubles, errors: Doubles, at: float) -> float | None:
    """Return a − b·n^(−c) at a number of labels, fitted by weighted least squares; None if it falls."""
    best, value = np.inf, None
    for exponent in np.linspace(0.05, 2.0, 40):
        design = np.stack([np.ones_like(labels), -(labels**-exponent)], axis=1) / errors[:, None]
        (top, slope), *_ = np.linalg.lstsq(design, accuracy / errors, rcond=None)
        loss = float(np.square(design @ (top, slope) - accuracy / errors).sum())
        if slope >= 0 and loss < best:
            best, value = loss, min(float(top - slope * at**-exponent), 1.0)
    return value


def _rank_in_class(y: Integers) -> Integers:
    """Return how many earlier nodes have the same class, for each node."""
    rank = np.empty(len(y), np.int64)
    for number in np.unique(y):
        own = np.flatnonzero(y == number)
        rank[own] = np.arange(len(own))
    return rank
