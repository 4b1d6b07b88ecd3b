"""The test procedure of the paper's Appendix E, and what its p-values are if each run is counted once."""

from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt

from epagcl.study.statistics import DECIMALS, signed_rank

#: Each of 5 results is counted 5 times.
RUNS, REPEATS = 5, 5


def repeated(differences: npt.ArrayLike) -> float | None:
    """Return the one-sided p of the paper's procedure: the first five differences, each counted five times, n = 25.

    The repeated values tie, but are tested with the exact distribution of untied ranks; this reproduces the paper's
    numbers. None for fewer than five differences, or if all of them are 0.
    """
    from scipy.stats import wilcoxon

    d = np.round(np.asarray(differences, dtype=float)[:RUNS], DECIMALS)
    if len(d) < RUNS or not d.any():
        return None
    return float(wilcoxon(np.repeat(d, REPEATS), alternative="greater", method="exact", zero_method="wilcox").pvalue)


def counted_once(p: float) -> float | None:
    """Return the p of five untied differences counted once each, given the p that :func:`repeated` returns for them.

    The 2⁵ patterns of signs are searched. None if no pattern gives a p with the same three digits.
    """
    return _p_counted_once().get(f"{p:.2e}")


@cache
def _p_counted_once() -> dict[str, float]:
    patterns = [np.arange(1, RUNS + 1) * signs for signs in product((1, -1), repeat=RUNS)]
    return {f"{repeated(d):.2e}": signed_rank(d)["better"] for d in patterns}
