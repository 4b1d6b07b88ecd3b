import numpy as np
import pytest

from epagcl.paper import reported
from epagcl.paper.repeated_results import counted_once, repeated


def test_smallest_p_values():
    assert repeated([0.1, 0.2, 0.3, 0.4, 0.5]) == 2.0**-25
    assert repeated([0.1, 0.2, 0.3, 0.4, 0.5, -9]) == 2.0**-25  # only the first five count
    assert repeated([0.1] * 4) is None
    assert repeated(np.zeros(5)) is None


def test_numbers_of_the_paper_come_from_repeated_runs():
    # Negative: none, the smallest difference, the second smallest, the third, the fourth, the two smallest.
    once = {2.98e-8: 1, 4.08e-6: 2, 2.45e-4: 3, 3.69e-3: 5, 2.58e-2: 7, 1.39e-3: 5}
    for p, ways in once.items():
        assert counted_once(p) == pytest.approx(ways / 32)
    every = {p for title, row in reported()["wilcoxon"].items() if title != "columns" for p in row}
    assert every - set(once) == {4.27e-5}
    assert counted_once(4.27e-5) is None
