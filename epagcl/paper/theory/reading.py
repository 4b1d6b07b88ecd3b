"""What the theory artefact shows, in sentences."""

from collections.abc import Iterable
from statistics import median
from typing import Any

from epagcl.core.formatting import listed
from epagcl.paper.artefact import Result
from epagcl.paper.theory.tables import KINDS, READINGS, family_title, repaired_share, three_digits, wilson
from epagcl.paper.theory.theorems import P_ADD, RATES


def reading(result: Result) -> list[str]:
    """Return one paragraph per claim of Section 3, which says whether it holds."""
    if not result["graphs"]:
        return [_on_random_graphs(result), _repaired(result)]
    return [
        _adding_or_dropping(result),
        _guided_adding(result),
        _direction_of_dropping(result),
        _second_view(result),
        _on_random_graphs(result),
        _on_named_graphs(result),
        _repaired(result),
        _as_approximation(result),
    ]


def root_mean_square(mean: float, std: float, views: int) -> float:
    """Return the root mean square √(mean² + std²·(V − 1)/V) of the changes of V single views.

    The standard deviation has V − 1 degrees of freedom. Unlike the mean, the root mean square is large if each view
    changes EPR but some raise and others lower it.
    """
    return (mean**2 + std**2 * (views - 1) / views) ** 0.5


def moments(result: Result, key: str) -> dict[str, tuple[float, float, int]]:
    """Return mean and standard deviation of the change of EPR per edge on each graph, and the number of views."""
    views = {name: graph["views"]["views"] for name, graph in result["graphs"].items()}
    return {name: (cell["edge"][0], cell["edge"][1], views[name]) for name, cell in _cells(result, key).items()}


def sizes(result: Result, key: str) -> dict[str, float]:
    """Return how far an augmentation moves the EPR of a view on each graph, as a root mean square."""
    return {name: root_mean_square(*values) for name, values in moments(result, key).items()}


def addition_totals(result: Result, form: str, where: str) -> list[float]:
    """Return the totals of :func:`epagcl.paper.theory.theorems.contradictions` over all random graphs."""
    return _sums(row["added"][form][where] for row in result["random_graphs"])


def contradicted(result: Result, form: str) -> float:
    """Return the share of additions to random graphs that contradict Theorem 3.3, in one reading of Â."""
    total, against = _sums(addition_totals(result, form, where) for where in ("within", "between"))[:2]
    return against / total


def contradicted_by_family(result: Result, form: str) -> dict[str, float]:
    """Return the same share for each family of random graphs."""
    totals = {family_title(row): _sums(row["added"][form].values()) for row in result["random_graphs"]}
    return {family: against / total for family, (total, against, *_) in totals.items()}


def small_totals(result: Result, form: str, condition: str) -> list[float]:
    """Return over all small graphs the additions that meet a condition, and how many contradict Theorem 3.3."""
    return _sums(row[condition] for row in result["small_graphs"] if row["form"] == form)


def repaired_exceptions(result: Result) -> int:
    """Return how many changes meet the condition of the repaired theorem and contradict it, over all graphs."""
    named = [graph["theorem_3_3"][kind] for graph in result["graphs"].values() for kind in KINDS]
    counts = [*(row["added"] for row in result["random_graphs"]), *named]
    large = sum(rows[-1] for count in counts for form in READINGS for rows in count[form].values())
    return int(large + sum(small_totals(result, form, "repaired")[1] for form in READINGS))


def _sums(rows: Iterable[list[float]]) -> list[float]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _cells(result: Result, key: str) -> dict[str, dict[str, Any]]:
    """Return the measurements of an augmentation at the first rate, by graph."""
    return {name: graph["views"]["rates"][str(RATES[0])][key] for name, graph in result["graphs"].items()}


def _mean_changes(result: Result, key: str) -> dict[str, float]:
    """Return the mean change of EPR per edge over the views, by graph."""
    return {name: cell["edge"][0] for name, cell in _cells(result, key).items()}


def _median_size(result: Result, key: str) -> str:
    return f"{median(sizes(result, key).values()):.5f}"


def _median_field(result: Result, key: str, field: str) -> float:
    return median(cell[field] for cell in _cells(result, key).values())


def _steadier(result: Result, one: str, other: str) -> str:
    """Return on how many graphs one augmentation moves a view's EPR less than another, and both medians."""
    ones, others = sizes(result, one), sizes(result, other)
    less = sum(ones[name] < others[name] for name in ones)
    return f"{less} of {len(ones)} graphs (median {_median_size(result, one)} against {_median_size(result, other)})"


def _adding_or_dropping(result: Result) -> str:
    text = (
        f"Each view changes {RATES[0]:g}·|E| edges. Its distance from the graph's EPR per edge is the root mean square "
        "of the change over the views, so that changes up and down do not cancel. An augmentation with a smaller "
        "distance is called steadier. An edge or pair is wrong if it joins different classes. "
        "Dropping against adding: chosen uniformly, dropping is steadier on "
        f"{_steadier(result, 'uniform_drop', 'uniform_add')}; chosen by Eq. (9), on "
        f"{_steadier(result, 'eq7_drop', 'eq7_add')}."
    )
    changes = _mean_changes(result, "uniform_add")
    if lowered := [name for name, change in changes.items() if change < 0]:
        added = _cells(result, "uniform_add")
        noisier = [name for name in lowered if result["graphs"][name]["views"]["epr"]["edge"] > added[name]["wrong"]]
        text += (
            f" Uniform adding lowers the mean EPR on {listed(lowered)}. On {len(noisier)} of these {len(lowered)}, "
            "the graph's edges are wrong more often than random pairs."
        )
    return text


def _guided_adding(result: Result) -> str:
    alpha, wrong = ([_median_field(result, key, f) for key in ("eq7_add", "uniform_add")] for f in ("alpha", "wrong"))
    weight, error = ("less" if guided < uniform else "no less" for guided, uniform in (alpha, wrong))
    return (
        "Guided against uniform adding: with the same number of added edges, Algorithm 1 and Eq. (9) are steadier on "
        f"{_steadier(result, 'eq7_add', 'uniform_add')}. Their edges weigh {weight} (median α {alpha[0]:.4f} against "
        f"{alpha[1]:.4f}) and are wrong {error} often ({wrong[0]:.2f} against {wrong[1]:.2f})."
    )


def _direction_of_dropping(result: Result) -> str:
    alpha = [_median_field(result, key, "alpha") for key in ("eq7_drop", "text_drop")]
    return (
        "Formula and text disagree on which edges to drop. The direction of Eq. (9), large α, is steadier than that of "
        f"the text, small α, on {_steadier(result, 'eq7_drop', 'text_drop')}. Compared with uniform dropping, Eq. (9) "
        f"is steadier on {_steadier(result, 'eq7_drop', 'uniform_drop')}, the text on "
        f"{_steadier(result, 'text_drop', 'uniform_drop')}. The median α of the dropped edges is {alpha[0]:.3f} by "
        f"Eq. (9) and {alpha[1]:.3f} by the text."
    )


def _second_view(result: Result) -> str:
    changes, oracle = _mean_changes(result, "second_view"), _mean_changes(result, "oracle_drop")
    raised = [name for name, change in changes.items() if change > 0]
    return (
        f"EPAGCL's second view (drops by Eq. (9), {P_ADD:g}·|E| added edges) raises the mean EPR on {len(raised)} of "
        f"{len(result['graphs'])} graphs (median of the mean change {median(changes.values()):+.4f}, of the root mean "
        f"square {_median_size(result, 'second_view')}). Dropping the same number of edges with knowledge of the "
        f"classes changes it by {median(oracle.values()):+.4f} (root mean square "
        f"{_median_size(result, 'oracle_drop')})."
    )


def _on_random_graphs(result: Result) -> str:
    outcomes = {"within": "additions within a class raise EPR", "between": "additions between classes lower it"}
    sentences: dict[str, list[str]] = {form: [] for form in READINGS}
    for form, parts in sentences.items():
        for where, outcome in outcomes.items():
            total, against, size, size_against, *_ = addition_totals(result, form, where)
            share = f"{against / total:.2%} [{', '.join(f'{end:.2%}' for end in wilson(against, total))}]"
            by_size = f"{100 * size_against / size:.2g}% of the summed |change|"
            parts.append(f"{against:,} of {total:,} {outcome} ({share}; {by_size})")
    graphs = sum(row["graphs"] for row in result["random_graphs"])
    refuted = any(contradicted(result, form) for form in READINGS)
    verdict = "does not hold as stated" if refuted else "has no exception here"
    return (
        f"Theorem 3.3 {verdict}. On {graphs} random graphs within its conditions, with d under the root of Â, as in "
        f"its proof, {' and '.join(sentences['d'])}. With d+1, as in the paper's definition of Â, "
        f"{' and '.join(sentences['d1'])}. The frequency depends on the random graphs: together it is "
        f"{_by_family(result, 'd')}, and {_by_family(result, 'd1')}. An exception within a class needs an end whose "
        "messages are wrong less often than average, an exception between classes needs an end whose messages are "
        "wrong more often."
    )


def _by_family(result: Result, form: str) -> str:
    """Return the share of contradictions over all random graphs, and the families with the smallest and the largest."""
    shares = contradicted_by_family(result, form)
    low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    return (
        f"{contradicted(result, form):.2%} with {READINGS[form]}, from {shares[low]:.2%} ({low}) to "
        f"{shares[high]:.2%} ({high})"
    )


def _on_named_graphs(result: Result) -> str:
    graphs = result["graphs"]
    met = [name for name, graph in graphs.items() if graph["theorem_3_3"]["conditions"]["holds"]]
    text = f"{listed(met) if met else 'None'} of the {len(graphs)} named graphs {'meets' if len(met) < 2 else 'meet'} "
    text += "the conditions of Theorem 3.3. Share of single changes that contradict it there, median and maximum:"
    for kind, description in KINDS.items():
        for where in ("within", "between"):
            parts = []
            for form, under_root in READINGS.items():
                counts = {name: graph["theorem_3_3"][kind][form][where] for name, graph in graphs.items()}
                shares = {name: against / total for name, (total, against, *_) in counts.items() if total}
                if shares:
                    worst = max(shares, key=shares.__getitem__)
                    middle = median(shares.values())
                    parts.append(f"{middle:.1%}, {shares[worst]:.1%} ({worst}) with {under_root}")
            if parts:
                text += f" {description}, {where}: {' and '.join(parts)};"
    return text.rstrip(";") + "."


def _repaired(result: Result) -> str:
    """Return how often the repaired theorem applies, and how many exceptions it has."""
    small, random = [], []
    for form, under_root in READINGS.items():
        (paper, wrong), (met, exceptions) = (small_totals(result, form, key) for key in ("paper", "repaired"))
        small.append(
            f"with {under_root}, {wrong:,} of the {paper:,} additions that meet the paper's conditions contradict it, "
            f"and {exceptions:,} of the {met:,} that meet the repaired one"
        )
        total, *_, met, exceptions = _sums(addition_totals(result, form, where) for where in ("within", "between"))
        random.append(f"{met / total:.1%} with {under_root} ({exceptions:,} exceptions)")
    text = (
        "The repaired theorem asks that the added edge raises the sum of all messages. Then an addition within a class "
        "lowers EPR and one between classes raises it; docs/paper.md has the proof. On all graphs of up to "
        f"{max(row['nodes'] for row in result['small_graphs'])} nodes with up to three classes, "
        f"{'; '.join(small)}. Of the additions to the random graphs, {' and '.join(random)} meet its condition."
    )
    graphs = [graph["theorem_3_3"] for graph in result["graphs"].values()]
    for kind, description in KINDS.items() if graphs else ():
        shares = [
            f"{median(share for graph in graphs if (share := repaired_share(graph[kind][form])) is not None):.1%} with "
            f"{under_root}"
            for form, under_root in READINGS.items()
        ]
        text += f" {description[0].upper()}{description[1:]} of the named graphs, median: {' and '.join(shares)}."
    return text


def _as_approximation(result: Result) -> str:
    parts = []
    for kind, description in KINDS.items():
        agreements = [graph["theorem_3_5"][kind] for graph in result["graphs"].values()]
        correlations = [agreement["pearson"] for agreement in agreements if agreement["pearson"] is not None]
        signs = [agreement["sign"] for agreement in agreements]
        parts.append(
            f"{description}: the sign is right for {median(signs):.1%} (at least {min(signs):.1%}), correlation "
            f"{three_digits(median(correlations) if correlations else None)}, |predicted|/|exact| "
            f"{median(agreement['ratio'] for agreement in agreements):.2f}"
        )
    return f"Theorem 3.5 without its assumption, in the median over graphs: {'; '.join(parts)}."
