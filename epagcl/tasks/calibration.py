"""Probabilities that mean what they say: temperature scaling, and the expected calibration error."""

import numpy as np

from epagcl.tasks.inputs import Doubles, Integers

BINS = 10


def softmax(logits: Doubles, temperature: float = 1.0) -> Doubles:
    """Return the probabilities of logits ``[n, C]`` divided by a temperature.

    Examples:
        >>> softmax(np.array([[0.0, 0.0]]))
        array([[0.5, 0.5]])
    """
    scaled = logits / temperature
    powers = np.exp(scaled - scaled.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def log_loss(probabilities: Doubles, y: Integers) -> float:
    """Return the mean of −log of the probability of the true class.

    Examples:
        >>> log_loss(np.array([[0.5, 0.5]]), np.array([1])) == float(np.log(2))
        True
    """
    return float(-np.log(np.maximum(probabilities[np.arange(len(y)), y], 1e-300)).mean())


def fit_temperature(logits: Doubles, y: Integers) -> float:
    """Return the temperature with the lowest log loss (Guo et al. 2017), between 0.05 and 20.

    A temperature above 1 makes probabilities less certain. The predicted class never changes.

    Args:
        logits: logits of nodes that the classifier was not fitted on ``[n, C]``.
        y: their classes.

    Examples:
        >>> logits = np.log(np.array([[0.9, 0.1]] * 10))
        >>> probability = softmax(logits, fit_temperature(logits, np.array([0] * 7 + [1] * 3)))[0, 0]
        >>> round(float(probability), 2)
        0.7
    """
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        return log_loss(softmax(logits, float(np.exp(log_temperature))), y)

    bounds = (np.log(0.05), np.log(20.0))
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))


def expected_calibration_error(probabilities: Doubles, y: Integers) -> float:
    """Return the mean gap between the confidence and the accuracy of predictions, in 10 bins of confidence.

    Args:
        probabilities: ``[n, C]``.
        y: the true classes.

    Examples:
        >>> round(expected_calibration_error(np.array([[0.9, 0.1]] * 4), np.array([0, 0, 1, 1])), 3)
        0.4
    """
    confidence = probabilities.max(1)
    right = probabilities.argmax(1) == y
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, right - confidence, BINS)
    return float(np.abs(gaps).sum() / len(y))
