"""Intervals and tests that several artefacts need."""

import numpy as np


def bootstrap_interval(values: list[float], resamples: int = 10_000) -> tuple[float, float]:
    """95% percentile interval of the mean: the middle of the means of samples drawn with replacement."""
    if len(values) == 0:
        return 0.0, 0.0
    drawn = np.random.default_rng(0).integers(len(values), size=(resamples, len(values)))
    low, high = np.quantile(np.asarray(values)[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)
