"""What the study of sensitivity says: the range of each sweep against its error, and seeds against splits."""

from dataclasses import dataclass
from functools import cache, cached_property
from statistics import fmean, median

import numpy as np

from epagcl.core.formatting import counted, signed, span
from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import measured_graphs
from epagcl.paper.sweeps import DEFAULT, SETTINGS, read_title
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


def that_matter(found: list[Sweep]) -> set[tuple[str, str, str]]:
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


def reading(result: Result) -> list[str]:
    """Return paragraphs on the settings that matter, on the default, and on seeds against splits."""
    found = sweeps(result)
    paragraphs = [
        *(_order_sentences(found, title) for title in dict.fromkeys(one.method for one in found)),
        *([_default_sentence(found)] if any(one.gain is not None for one in found) else []),
        *_variance_sentences(components(result)),
    ]
    if found:
        paragraphs.append(
            "**Nothing was chosen here.** Accuracies are those on test nodes by the strict protocol, and every value "
            "of every sweep is in the table. The only choice that is looked at is the one that validation nodes would "
            "make. A sweep changes one setting at a time; it says nothing about settings that are changed together."
        )
    return paragraphs


def _order_sentences(found: list[Sweep], title: str) -> str:
    own = [one for one in found if one.method == title]
    matter = that_matter(found)
    order = [(label, mean) for (method_title, label), mean in mean_ranges(found).items() if method_title == title]
    graphs = list(dict.fromkeys(one.graph for one in own))
    listed = ", ".join(f"{label} {mean:.1f}" for label, mean in order)
    parts = []
    for label, _ in order:
        where = [one.graph for one in own if one.label == label and (one.graph, title, label) in matter]
        parts.append(f"{label} on {len(where)}")
    widest = max(own, key=lambda one: one.range)
    return (
        f"**{title} is most sensitive to {order[0][0]}, and least to {order[-1][0]}.** Range of mean accuracy over the "
        f"sweep in points, as a mean over {counted(len(graphs), 'graph')}: {listed}. Graphs on which the range is "
        f"larger than chance explains: {', '.join(parts)}. The widest sweep is {widest.label} on {widest.graph}: "
        f"{widest.means[widest.worst]:.1f} at {widest.worst:g}, {widest.means[widest.best]:.1f} at {widest.best:g}, "
        f"and {widest.means[widest.default]:.1f} at the default {widest.default:g}."
    )


def _default_sentence(found: list[Sweep]) -> str:
    chosen = [one for one in found if one.gain is not None]
    gains = [one.gain or 0.0 for one in chosen]
    kept = sum(one.chosen == one.default for one in chosen)
    largest = max(chosen, key=lambda one: one.gain or 0.0)
    ahead = (
        f"the largest gain is {signed(max(gains))} ({largest.method} on {largest.graph}, {largest.label} "
        f"{largest.default:g} to {largest.chosen:g})"
        if round(max(gains), 1) > 0
        else "no choice gains anything"
    )
    return (
        "**Tuning one setting on validation nodes changes test accuracy by "
        f"{signed(fmean(gains), 2)} points on average** over {counted(len(chosen), 'sweep')} (median "
        f"{signed(median(gains), 2)}, from {signed(min(gains))} to {signed(max(gains))}); in {kept} the validation "
        f"nodes keep the default, and {ahead}."
    )


def _variance_sentences(found: dict[tuple[str, str], VarianceComponents]) -> list[str]:
    if not found:
        return []
    seeds, splits, rest = (
        span(shares, ".0%") for shares in zip(*(parts.shares for parts in found.values()), strict=True)
    )
    more_splits = [place for place, parts in found.items() if parts.of_columns > parts.of_rows]
    errors = np.array(
        [
            (parts.standard_error(1, BUDGET), parts.standard_error(BUDGET, 1), (parts.total / BUDGET) ** 0.5)
            for parts in found.values()
        ]
    ).mean(0)
    others = [f"{method} on {graph}" for graph, method in found if (graph, method) not in more_splits]
    advice = "spend on splits first" if len(more_splits) > len(found) / 2 else "spend on seeds first"
    return [
        f"**Seeds or splits: {advice}.** Of the variance of a run, splits make up {splits}, training seeds {seeds}, "
        f"and their interaction {rest}. Splits vary more than seeds in {len(more_splits)} of "
        f"{len(found)} pairs of graph and method"
        f"{'; seeds do for ' + ', '.join(others) if others and more_splits else ''}. Another split costs no training.",
        f"**What {BUDGET} scores tell.** The standard error of the mean is {errors[0]:.2f} points with one seed on "
        f"{BUDGET} splits, {errors[1]:.2f} with {BUDGET} seeds on one split, and {errors[2]:.2f} with {BUDGET} seeds, "
        "each on a split of its own, as in this study (mean over graphs and methods).",
    ]
