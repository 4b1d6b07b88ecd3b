"""Verdicts on the claims of the paper: each case is decided for a claim, against it, or not at all."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from epagcl.core.formatting import span
from epagcl.paper import ablation, accuracy, add_vs_drop, epr, equal_settings, graphs, heterophily, significance
from epagcl.paper.artefact import Result
from epagcl.paper.burden import reading as burden_reading
from epagcl.paper.cell_scores import (
    measured_graphs,
    ranks_of,
    reported_scores,
    runs_by_seed,
)
from epagcl.paper.theory import reading as theory_reading
from epagcl.study.paired_test import (
    BETTER,
    FEWEST,
    UNDECIDED,
    WORSE,
    PairedTest,
    corrected,
    paired_test,
)
from epagcl.study.statistics import ALPHA, POWER, detectable_shift, holm, holm_levels


class Verdict(NamedTuple):
    """Whether a claim holds, the evidence, and the smallest differences that its tests could have shown."""

    word: str
    evidence: str
    detectable: str = ""


class Case(NamedTuple):
    """Whether a case is better (for a claim), worse or undecided, and the smallest effect that its test could show."""

    word: str
    detectable: float


NOT_MEASURED = Verdict("not measured", "")


def decide(words: Sequence[str]) -> str:
    """Return the verdict on a claim, given whether each case is better (for it), worse (against it) or undecided."""
    better, worse = words.count(BETTER), words.count(WORSE)
    if not words:
        return NOT_MEASURED.word
    if better == len(words):
        return "holds"
    if worse and worse >= better:
        return "contradicted"
    if better > worse and 2 * (better + worse) > len(words):
        return "in part"
    return "undecided"


def counted_cases(words: Sequence[str], cases: str) -> str:
    """Return the evidence of a claim: its cases for, against and undecided."""
    better, worse, open_ = (words.count(word) for word in (BETTER, WORSE, UNDECIDED))
    parts = (
        [f"{better} decide for it"] + [f"{worse} against it"] * (worse > 0) + [f"{open_} are undecided"] * (open_ > 0)
    )
    return f"of {len(words)} {cases}, {', '.join(parts)}"


def from_tests(tests: Iterable[PairedTest], cases: str, more: str = "") -> Verdict:
    """Return the verdict of paired tests."""
    family = list(tests)
    words = [test.verdict for test in family]
    seen = [test.detectable for test in family if test.detectable is not None]
    return Verdict(decide(words), counted_cases(words, cases) + more, span(seen, ".1f")) if family else NOT_MEASURED


def drop_over_add(result: Result) -> Verdict:
    """Judge dropping against adding new random pairs and pairs of a fixed pool, at every rate with both."""
    tests = add_vs_drop.all_gaps(result)
    parts = []
    for kind, words in (("add", "new random pairs"), ("pool", "a fixed pool")):
        own = [test for (_, name, _), test in tests.items() if name == kind]
        if own:
            better, runs = sum(test.verdict == BETTER for test in own), sorted({test.n for test in own})
            parts.append(f"{better} of {len(own)} against {words} with {'/'.join(map(str, runs))} common seeds")
    listed = ", ".join(dict.fromkeys(graph for graph, _, _ in tests))
    return from_tests(tests.values(), "pairs of graph and rate", f" ({'; '.join(parts)}; {listed})")


def steadier(one: str, other: str) -> Callable[[Result], Verdict]:
    """Return the judge of one augmentation disturbing EPR less than another, by a t test of log mean squares."""

    def judge(result: Result) -> Verdict:
        cases = list(steadier_cases(result, one, other).values())
        detectable = f"lower by {span((case.detectable for case in cases), '.0%')}" if cases else ""
        words = [case.word for case in cases]
        return Verdict(decide(words), counted_cases(words, "graphs"), detectable)

    return judge


def steadier_cases(result: Result, one: str, other: str) -> dict[str, Case]:
    """Return on each graph whether one augmentation is better (disturbs EPR less), worse, or undecided.

    The mean square of V changes with mean m and standard deviation s has the variance (2s⁴ + 4m²s²)/V, and its
    logarithm has the standard error e, the root of this variance divided by the mean square. The logarithm is less
    skewed, so that its t test keeps its level. What the test can show is the smallest share by which the mean square
    can be lower than that of the other augmentation if both have the relative error e of the other one.
    """
    from scipy.stats import t

    p, gaps, errors = [], {}, []
    for name, (ours, theirs) in _paired_moments(result, one, other).items():
        (first, own_error), (second, error) = _log_mean_square(*ours), _log_mean_square(*theirs)
        gaps[name], views = second - first, ours[2]
        p.append(float(2 * t.sf(abs(gaps[name]) / np.hypot(own_error, error), views - 1)))
        errors.append((error, views - 1))
    decided, levels = (value < ALPHA for value in holm(p)), holm_levels(p)
    return {
        name: Case(
            (BETTER if gap > 0 else WORSE) if found else UNDECIDED,
            1 - np.exp(-(2**0.5) * error * detectable_shift(level, freedom)),
        )
        for (name, gap), found, level, (error, freedom) in zip(gaps.items(), decided, levels, errors, strict=True)
    }


def _paired_moments(
    result: Result, one: str, other: str
) -> dict[str, tuple[tuple[float, float, int], tuple[float, float, int]]]:
    """Return the moments of two augmentations on the graphs where both change EPR in a way that scatters."""
    ones, others = theory_reading.moments(result, one), theory_reading.moments(result, other)
    return {name: (ones[name], others[name]) for name in ones if ones[name][1] and others[name][1]}


def _log_mean_square(mean: float, std: float, views: int) -> tuple[float, float]:
    """Return the logarithm of the mean square of V changes, and its standard error."""
    square = theory_reading.root_mean_square(mean, std, views) ** 2
    return float(np.log(square)), ((2 * std**4 + 4 * mean**2 * std**2) / views) ** 0.5 / square


def theorem_3_3(result: Result) -> Verdict:
    """Judge Theorem 3.3 in both readings: one exception is enough."""
    if not result["random_graphs"]:
        return NOT_MEASURED
    shares = {form: theory_reading.contradicted(result, form) for form in ("d", "d1")}
    families = {form: theory_reading.contradicted_by_family(result, form).values() for form in shares}
    with_d, with_d1 = (
        f"{shares[form]:.2%} (by family {min(of):.1%} to {max(of):.1%})" for form, of in families.items()
    )
    exceptions = theory_reading.repaired_exceptions(result)
    evidence = (
        f"contradicted by {with_d} of additions to random graphs that meet its conditions with its proof's d, by "
        f"{with_d1} with d+1; repaired, it is proved and has {exceptions or 'no'} exceptions"
    )
    return Verdict("contradicted" if any(shares.values()) else "holds", evidence)


def theorem_3_5(result: Result) -> Verdict:
    """Judge Theorem 3.5, which is exact under its assumption."""
    if not result["graphs"]:
        return NOT_MEASURED
    signs = [graph["theorem_3_5"]["added"]["sign"] for graph in result["graphs"].values()]
    evidence = f"exact under its assumption; without it, the sign is right for {median(signs):.0%} of random additions"
    return Verdict("holds", evidence)


def epr_below_half(result: Result) -> Verdict:
    """Judge whether most graphs have an EPR below 0.5; there is no randomness."""
    above = epr.not_below_half(result)
    below, total = len(result["graphs"]) - len(above), len(result["graphs"])
    exceptions = f"; not {', '.join(above)}" if above else ""
    return Verdict("holds" if 2 * below > total else "contradicted", f"{below} of {total} graphs{exceptions}")


def first_place(result: Result) -> Verdict:
    """Judge EPAGCL against every other self-supervised method on every graph."""
    protocol = result["asked"]["protocols"][0]
    ranks, tests = ranks_of(result, protocol), accuracy.against_others(result)
    if "EPAGCL" not in ranks.mean or not tests:
        return NOT_MEASURED
    place = f"{ranks.place('EPAGCL')} of {len(ranks.mean)}"
    more = f"; place {place} by mean rank ({protocol} protocol, settings of the recipes)"
    return from_tests(tests.values(), "pairs of graph and method", more)


def reported_accuracy(result: Result) -> Verdict:
    """Judge the accuracies of EPAGCL against the reported means, which are taken as exact."""
    protocols = result["asked"]["protocols"]
    protocol = "paper" if "paper" in protocols else protocols[0]
    gaps = {}
    for graph in measured_graphs(result):
        runs, reported = runs_by_seed(result, protocol, graph).get("EPAGCL"), reported_scores(graph).get("EPAGCL")
        if runs and reported is not None:
            gaps[graph] = paired_test([run - reported for run in runs.values()])
    tests = corrected(list(gaps.values()))
    listed = ", ".join(f"{graph} {test.mean:+.1f}" for graph, test in zip(gaps, tests, strict=True))
    return from_tests(
        tests, "graphs", f" ({listed} points; reported means taken as exact; {protocol} protocol, last epoch)"
    )


def lower_deviation(result: Result) -> Verdict:
    """Judge whether EPAGCL scatters less than GCA, by Pitman and Morgan's test of two paired variances.

    Two variances are equal if sums and differences of the pairs do not correlate.
    """
    from scipy.stats import pearsonr

    protocol = result["asked"]["protocols"][0]
    p, lower, parts, correlations = [], [], [], []
    for graph in measured_graphs(result):
        runs = runs_by_seed(result, protocol, graph)
        seeds = sorted(set(runs.get("EPAGCL", {})) & set(runs.get("GCA", {})))
        if len(seeds) <= FEWEST:
            continue
        ours, theirs = (np.array([runs[title][seed] for seed in seeds]) for title in ("EPAGCL", "GCA"))
        p.append(float(pearsonr(ours + theirs, ours - theirs).pvalue))
        correlations.append((float(pearsonr(ours, theirs).statistic), len(seeds)))
        stds = ours.std(ddof=1), theirs.std(ddof=1)
        lower.append(stds[0] < stds[1])
        parts.append(f"{graph} {stds[0]:.1f} against {stds[1]:.1f}")
    words = [
        (BETTER if less else WORSE) if value < ALPHA else UNDECIDED for less, value in zip(lower, holm(p), strict=True)
    ]
    if not words:
        return NOT_MEASURED
    evidence = f"{counted_cases(words, 'graphs')} (lower on {sum(lower)}: {', '.join(parts)} points)"
    ratios = [detectable_ratio(*one, level) for one, level in zip(correlations, holm_levels(p), strict=True)]
    return Verdict(decide(words), evidence, f"ratio of {span(ratios, '.1f')}")


def detectable_ratio(correlation: float, pairs: int, level: float) -> float:
    """Return the smallest ratio of two standard deviations that Pitman and Morgan's test finds with probability 0.8.

    With the ratio λ and the correlation ρ of the pairs, sums and differences have the correlation r with r² =
    (λ² − 1)² / ((λ² + 1)² − 4ρ²λ²), which is solved for λ. Fisher's artanh of the measured correlation is nearly normal
    around artanh r + r/(2n − 2) with the variance 1/(n − 3) for n pairs.

    Args:
        correlation: ρ.
        pairs: number of pairs, at least 4.
        level: level of the test.

    Examples:
        >>> round(detectable_ratio(0.0, 20, 0.05), 2)
        1.95
    """
    from scipy.stats import norm, t

    critical = t.isf(level / 2, pairs - 2)
    z = np.arctanh(critical / (critical**2 + pairs - 2) ** 0.5) + norm.ppf(POWER) / (pairs - 3) ** 0.5
    square = np.tanh(z - np.tanh(z) / (2 * pairs - 2)) ** 2
    half = (1 + square * (1 - 2 * correlation**2)) / (1 - square)
    return float((half + (half**2 - 1) ** 0.5) ** 0.5)


def preserved_in_gca(result: Result) -> Verdict:
    """Judge by the sign of the rank correlation of drop probabilities; there is no randomness."""
    correlations = graphs.drop_correlations(result)
    if not correlations:
        return NOT_MEASURED
    words = [BETTER if value < 0 else WORSE for value in correlations.values()]
    found = f"rank correlation of the drop probabilities {span(correlations.values(), '+.2f')}"
    return Verdict(decide(words), f"{counted_cases(words, 'graphs')}; {found}")


def significant(result: Result) -> Verdict:
    """Judge EPAGCL against each method of Appendix E on each graph."""
    protocol = result["protocols"][0]
    tests = [test for _, test in significance.family_of(result, protocol)]
    return from_tests(tests, "pairs of graph and method", f" ({protocol} protocol)")


def variant_over(one: str, others: Sequence[str]) -> Callable[[Result], Verdict]:
    """Return the judge of a variant of the views being better than others."""

    def judge(result: Result) -> Verdict:
        tests: Mapping[tuple[str, str], PairedTest] = ablation.claim_tests(
            result, result["asked"]["protocols"][0], one, others
        )
        cases = "graphs" if len(others) == 1 else "pairs of graph and variant"
        runs = sorted({test.n for test in tests.values()})
        return from_tests(tests.values(), cases, f" ({'/'.join(map(str, runs))} common seeds)")

    return judge


def over_gca(result: Result) -> Verdict:
    """Judge EPAGCL against GCA on heterophilous graphs, by the paper's protocol, with equal settings if there are."""
    if tests := equal_settings.equal_tests(result, "paper"):
        where = " (paper's protocol, settings of EPAGCL and of GCA for both)"
        return from_tests(tests.values(), "pairs of graph and settings", where)
    return from_tests(heterophily.over_gca(result, "paper").values(), "graphs", " (paper's protocol)")


def burden(result: Result) -> Verdict:
    """Judge the time of an epoch against GCA's where the recipes have the same widths."""
    ratios = burden_reading.epoch_ratios(result)
    if not ratios:
        return NOT_MEASURED
    most = burden_reading.COMPARABLE
    words = [UNDECIDED if r is None else BETTER if r <= most else WORSE for r in ratios.values()]
    parts = [f"{graph} {'widths differ' if r is None else f'ratio {r:.2f}'}" for graph, r in ratios.items()]
    evidence = f"{counted_cases(words, 'graphs')} ({', '.join(parts)}; up to {most:g} counts as about as much)"
    return Verdict(decide(words), evidence)
