"""Wilcoxon's exact test, the correction for several tests, and what a test can detect."""

import numpy as np
import numpy.typing as npt

#: The level of all tests, and the probability with which a detectable difference is found.
ALPHA, POWER = 0.05, 0.8
#: Digits after the decimal point of a difference in points: equal differences must tie despite rounding in float64.
DECIMALS = 9


def holm(p: list[float]) -> list[float]:
    r"""Return p-values after Holm's step-down correction, in the order given.

    With p sorted, :math:`\tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1)\, p_{(j)})`. Rejecting where
    :math:`\tilde p < \alpha` keeps the probability of any false rejection among the m tests at most α, under any
    dependence between them.

    Examples:
        >>> holm([0.5, 0.02, 0.01])
        [0.5, 0.04, 0.03]
    """
    corrected, largest = [0.0] * len(p), 0.0
    for place, index in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        largest = max(largest, min(1.0, (len(p) - place) * p[index]))
        corrected[index] = largest
    return corrected


def holm_levels(p: list[float]) -> list[float]:
    """Return for each test the largest p at which Holm's procedure finds it significant, given the other tests.

    It is 5% divided by the number of tests less the number of others that the procedure rejects before it.

    Examples:
        >>> holm_levels([0.5, 0.01])
        [0.05, 0.025]
    """
    levels = []
    for place in range(len(p)):
        others = [*p[:place], *p[place + 1 :], 1.0]  # the procedure rejects these before a test that it never rejects
        levels.append(ALPHA / (len(p) - sum(value < ALPHA for value in holm(others))))
    return levels


def detectable_shift(level: float, freedom: int) -> float:
    """Return the noncentrality with which Student's t exceeds its critical value with probability 0.8.

    Times the standard error, it is the smallest true difference that a two-sided test finds with that probability.

    Args:
        level: level of the test.
        freedom: degrees of freedom.

    Examples:
        >>> round(detectable_shift(0.05, 19), 2), round(detectable_shift(0.0005, 4), 1)
        (2.95, 12.7)
    """
    from scipy.special import nctdtrinc
    from scipy.stats import t

    return float(nctdtrinc(freedom, 1 - POWER, t.isf(level / 2, freedom)))


def signed_rank(differences: npt.ArrayLike) -> dict[str, float]:
    r"""Return the p-values of Wilcoxon's signed-rank test, exact in the presence of ties.

    :math:`p = P(W^+ \ge w)` over all :math:`2^n` equally likely signs of the ranks. Zeros are left out, as with scipy's
    ``zero_method="wilcox"``. Accuracies on the same test nodes often tie. scipy's exact method then still assumes the
    ranks 1..n, and its other method uses a normal approximation; here the distribution is counted for the actual ranks.
    Without ties the result equals ``scipy.stats.wilcoxon``.

    Returns:
        p of "better" (the alternative is a positive difference), "worse" (negative) and "two_sided".

    Examples:
        >>> signed_rank([1, 2, 3, 4, 5])["two_sided"]  # 2 of 2⁵ patterns of signs
        0.0625
    """
    ranks, positive = _signed_ranks(differences)
    doubled = np.rint(2 * ranks).astype(int)  # mean ranks are multiples of 1/2
    ways = np.zeros(doubled.sum() + 1)
    ways[0] = 1
    for rank in doubled:  # Π_i (1 + x^{2 r_i}): the coefficient of x^{2w} counts the signs that give w
        ways[rank:] = ways[rank:] + ways[: len(ways) - rank]
    share = ways / ways.sum()
    w = doubled[positive].sum()
    better, worse = min(1.0, float(share[w:].sum())), min(1.0, float(share[: w + 1].sum()))
    return {"better": better, "worse": worse, "two_sided": min(1.0, 2 * min(better, worse))}


def _signed_ranks(differences: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    from scipy.stats import rankdata

    d = np.round(np.asarray(differences, dtype=float), DECIMALS)
    d = d[d != 0]
    return rankdata(np.abs(d)), d > 0
