"""What the study of sensitivity says: the range of each sweep against its error, and seeds against splits."""

from statistics import fmean, median

import numpy as np

from epagcl.core.formatting import counted, signed, span
from epagcl.paper.artefact import Result
from epagcl.paper.sensitivity.sweeps import BUDGET, Sweep, components, mean_ranges, significant_sweeps, sweeps
from epagcl.study.variance_components import VarianceComponents


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
    matter = significant_sweeps(found)
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
        f"{counted(len(found), 'pair')} of graph and method"
        f"{'; seeds do for ' + ', '.join(others) if others and more_splits else ''}. Another split costs no training.",
        f"**What {BUDGET} scores tell.** The standard error of the mean is {errors[0]:.2f} points with one seed on "
        f"{BUDGET} splits, {errors[1]:.2f} with {BUDGET} seeds on one split, and {errors[2]:.2f} with {BUDGET} seeds, "
        "each on a split of its own, as in this study (mean over graphs and methods).",
    ]
