"""The sweeps of the study of sensitivity: ranges and their errors, and the variance of seeds and splits."""

from dataclasses import dataclass
from functools import cache, cached_property
from statistics import fmean

import numpy as np

from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import measured_graphs
from epagcl.paper.sensitivity.settings import DEFAULT, SETTINGS, read_title
from epagcl.study.paired_test import FEWEST, OVERLAP
from epagcl.study.statistics import ALPHA, holm
from epagcl.study.summary import by_seed
from epagcl.study.variance_components import VarianceComponents, variance_components

PROTOCOL = "strict"
#: Runs of the designs that the text compares.
BUDGET = 10


@dataclass(frozen=True)
class Sweep:
    """A method on a graph with one setting changed; accuracies are in percent.

    Attributes:
        graph: name of the graph.
        method: title of the method.
        label: label of the setting.
        default: its default value.
        test: test accuracy by value and seed, from the lowest to the highest value.
        validation: accuracy on validation nodes likewise; empty if it was not recorded.
    """

    graph: str
    method: str
    label: str
    default: float
    test: dict[float, dict[int, float]]
    validation: dict[float, dict[int, float]]

    @cached_property
    def seeds(self) -> list[int]:
        """The seeds that all values have."""
        return sorted(set.intersection(*map(set, self.test.values())))

    @cached_property
    def means(self) -> dict[float, float]:
        """Mean test accuracy of each value over the common seeds."""
        return {value: fmean(runs[seed] for seed in self.seeds) for value, runs in self.test.items()}

    @property
    def range(self) -> float:
        """Highest minus lowest mean test accuracy of the sweep, in points."""
        return max(self.means.values()) - min(self.means.values())

    @property
    def best(self) -> float:
        """The value with the highest mean; the lowest of equal ones."""
        return max(self.means, key=self.means.__getitem__)

    @property
    def worst(self) -> float:
        """The value with the lowest mean; the lowest of equal ones."""
        return min(self.means, key=self.means.__getitem__)

    @cached_property
    def error(self) -> float | None:
        """Standard error of one mean, without what all values of a seed share; None with fewer than three seeds.

        It is s √(1/n + c): s² is the mean square that remains of the table of values × seeds after its rows and
        columns, n the number of seeds, and c corrects for overlapping splits, as in the paired tests of the study.
        """
        if len(self.seeds) < FEWEST or len(self.test) < 2:
            return None
        table = [[runs[seed] for seed in self.seeds] for runs in self.test.values()]
        return float((variance_components(table).rest * (1 / len(self.seeds) + OVERLAP)) ** 0.5)

    @property
    def p(self) -> float | None:
        """Probability of such a range or a larger one if the setting had no influence (studentised range)."""
        if self.error is None:
            return None
        if self.error == 0:
            return 0.0 if self.range else 1.0
        values = len(self.test)
        return _tail(round(self.range / self.error, 9), values, (values - 1) * (len(self.seeds) - 1))

    @property
    def chosen(self) -> float | None:
        """The value with the highest mean accuracy on validation nodes, the default if it ties; None if unrecorded."""
        if set(self.validation) != set(self.test):
            return None
        means = {value: fmean(runs[seed] for seed in self.seeds) for value, runs in self.validation.items()}
        return max(means, key=lambda value: (round(means[value], 9), value == self.default))

    @property
    def gain(self) -> float | None:
        """Mean test accuracy of the value chosen on validation nodes minus that of the default, in points."""
        return None if self.chosen is None else self.means[self.chosen] - self.means[self.default]


@cache
def _tail(ratio: float, groups: int, freedom: int) -> float:
    from scipy.stats import studentized_range

    return float(studentized_range.sf(ratio, groups, freedom))


def sweeps(result: Result) -> list[Sweep]:
    """Return the sweeps of a result that have all their values on common seeds, in their order."""
    found = []
    for graph in measured_graphs(result):
        cells = {read_title(one["row"]): one for one in result["cells"] if one["graph"]["name"] == graph}
        for title in [method for method, _, value in cells if value is None]:
            settings = cells[title, DEFAULT, None]["settings"]
            for label, setting in SETTINGS.items():
                default = setting.value(settings)
                if default is None:
                    continue
                by_value = {value: cells.get((title, label, value)) for value in setting.values(default)}
                by_value[default] = cells[title, DEFAULT, None]
                if None in by_value.values():
                    continue  # the range of fewer values cannot be compared
                test, validation = (
                    {
                        float(value): by_seed(cell["protocols"].get(PROTOCOL), score)
                        for value, cell in by_value.items()
                        if cell is not None
                    }
                    for score in ("accuracy", "validation")
                )
                sweep = Sweep(graph, title, label, default, test, validation if all(validation.values()) else {})
                if sweep.seeds:
                    found.append(sweep)
    return found


def significant_sweeps(found: list[Sweep]) -> set[tuple[str, str, str]]:
    """Return graph, method and label of the sweeps whose range is significant, with Holm's correction for all."""
    p_values = {(one.graph, one.method, one.label): one.p for one in found}
    tested = {place: p for place, p in p_values.items() if p is not None}
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
    return {place for place, p in corrected.items() if p < ALPHA}


def mean_ranges(found: list[Sweep]) -> dict[tuple[str, str], float]:
    """Return the mean range over graphs by method and label, the largest first.

    A setting that lacks a graph which others of the method have is left out: its mean could not be compared.
    """
    by_pair: dict[tuple[str, str], list[float]] = {}
    for one in found:
        by_pair.setdefault((one.method, one.label), []).append(one.range)
    most: dict[str, int] = {}
    for (title, _), ranges in by_pair.items():
        most[title] = max(most.get(title, 0), len(ranges))
    means = {pair: fmean(ranges) for pair, ranges in by_pair.items() if len(ranges) == most[pair[0]]}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def components(result: Result) -> dict[tuple[str, str], VarianceComponents]:
    """Return the components of seeds (rows) and splits (columns) by graph and method, in squared points."""
    return {
        (one["graph"]["name"], one["row"]): variance_components(100 * np.array(one["accuracy"]))
        for one in result["crossed"]
        if len(one["seeds"]) > 1
    }
