"""Appendix E: is EPAGCL better than the other methods? Paired runs, exact tests, and what repeating does to them."""

from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from epagcl.paper import reported
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.drawing import COLOURS, GREY, new_figure
from epagcl.paper.statistics import bootstrap_interval
from epagcl.paper.tables import BEST, Cell, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS = "EPAGCL"
ALPHA = 0.05
ENOUGH = 20  # pairs; with n of them no one-sided p is below 2⁻ⁿ, and a correction for 28 tests multiplies it by 28
RUNS, REPEATS = 5, 5  # the paper's: each of 5 results is counted 5 times
RESAMPLES = 10_000
DECIMALS = 9  # of a difference in points: equal ones are to be ties, whatever float64 makes of them
ONE_SIDED = {"better": "EPAGCL better", "worse": "EPAGCL worse"}
TESTS = (*ONE_SIDED, "two_sided")


def holm(p: list[float]) -> list[float]:
    r"""Holm's step-down correction: :math:`\tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1)\, p_{(j)})`, p sorted.

    All m comparisons together then have at most one chance in 1/α of a false discovery where p̃ < α, whatever depends
    on what.
    """
    corrected, largest = [0.0] * len(p), 0.0
    for place, index in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        largest = max(largest, min(1.0, (len(p) - place) * p[index]))
        corrected[index] = largest
    return corrected


def rank_biserial(differences: ArrayLike) -> float:
    r"""Matched-pairs rank-biserial correlation :math:`r = (W^+ - W^-)/(W^+ + W^-)`: 1 if every difference is positive.

    W± sums the ranks of \|d\| where d > 0 or d < 0, ties at their mean rank. Zeros are left out; of zeros alone r = 0.
    """
    ranks, positive = _signed_ranks(differences)
    total = ranks.sum()
    return float((2 * ranks[positive].sum() - total) / total) if total else 0.0


def signed_rank(differences: ArrayLike) -> dict[str, float]:
    r"""Wilcoxon's signed-rank test, :math:`p = P(W^+ \ge w)` over all :math:`2^n` equally likely signs of the ranks.

    Zeros are left out (``zero_method="wilcox"``). Always exact: the distribution of W⁺ is counted for the ranks as they
    are, where scipy's exact method takes them for 1..n, and its other one a normal distribution, once two differences
    tie, which accuracies on the same test nodes often do. Without ties it is ``scipy.stats.wilcoxon``'s.

    Returns:
        p of "better" (H₁: positive), "worse" (negative), "two_sided".
    """
    ranks, positive = _signed_ranks(differences)
    doubled = np.rint(2 * ranks).astype(int)  # mean ranks are whole or half numbers
    ways = np.zeros(doubled.sum() + 1)
    ways[0] = 1
    for rank in doubled:  # Π_i (1 + x^{2 r_i}): the coefficient of x^{2w} counts the signs that give w
        ways[rank:] = ways[rank:] + ways[: len(ways) - rank]
    share = ways / ways.sum()
    w = doubled[positive].sum()
    better, worse = min(1.0, float(share[w:].sum())), min(1.0, float(share[: w + 1].sum()))
    return {"better": better, "worse": worse, "two_sided": min(1.0, 2 * min(better, worse))}


def _signed_ranks(differences: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    from scipy.stats import rankdata

    d = np.round(np.asarray(differences, dtype=float), DECIMALS)
    d = d[d != 0]
    return rankdata(np.abs(d)), d > 0


def repeated(differences: ArrayLike) -> float | None:
    """The paper's procedure: p of H₁ "better" from the first five differences, each counted five times, n = 25.

    Tied as they are, they go through the exact distribution of untied ranks; that gives the paper's figures. None for
    fewer than five, or if all are 0.
    """
    from scipy.stats import wilcoxon

    d = np.round(np.asarray(differences, dtype=float)[:RUNS], DECIMALS)
    if len(d) < RUNS or not d.any():
        return None
    return float(wilcoxon(np.repeat(d, REPEATS), alternative="greater", method="exact", zero_method="wilcox").pvalue)


def counted_once(p: float) -> float | None:
    """The p that five untied differences have when each is counted once, from the p that :func:`repeated` gives them.

    Found among the 2⁵ patterns of signs; None if no pattern gives a p with these three digits.
    """
    return _counted_once().get(f"{p:.2e}")


@cache
def _counted_once() -> dict[str, float]:
    patterns = [np.arange(1, RUNS + 1) * signs for signs in product((1, -1), repeat=RUNS)]
    return {f"{repeated(d):.2e}": signed_rank(d)["better"] for d in patterns}


def measure(request: Request) -> Result:
    """Accuracies of EPAGCL and of each method on the same splits, and every statistic of their differences."""
    from epagcl.methods import method
    from epagcl.paper import accuracy

    names = tuple(dict.fromkeys(name.lower() for name in (*request.methods, OURS.lower())))
    titles = [method(name.removesuffix("*")).title + "*" * name.endswith("*") for name in names]
    measured = accuracy.measure(replace(request, methods=names))
    cells = {(cell["graph"]["name"], cell["row"]): cell for cell in measured["cells"]}
    graphs = list(dict.fromkeys(graph for graph, _ in cells))
    comparisons = []
    for protocol in request.protocols:
        family = [
            _comparison(
                graph, protocol, title, _runs(cells[graph, OURS], protocol), _runs(cells[graph, title], protocol)
            )
            for graph in graphs
            for title in titles
            if title != OURS and (graph, title) in cells and (graph, OURS) in cells
        ]
        family = [one for one in family if one["seeds"]]
        tested = [one for one in family if one["p"] is not None]
        for test in TESTS:
            for one, p in zip(tested, holm([one["p"][test] for one in tested]), strict=True):
                one["holm"][test] = p
        comparisons += family
    return {
        "comparisons": comparisons,
        "methods": [title for title in titles if title != OURS],
        "protocols": list(request.protocols),
        "absent": measured["absent"],
        "measured_on": sorted({name for cell in cells.values() for name in cell["hardware"]}),
    }


def _runs(cell: dict[str, Any], protocol: str) -> dict[int, float]:
    scores = cell["protocols"].get(protocol)
    return {} if scores is None else dict(zip(scores["seeds"], scores["accuracy"]["runs"], strict=True))


def _comparison(
    graph: str, protocol: str, title: str, ours: dict[int, float], theirs: dict[int, float]
) -> dict[str, Any]:
    """Paired by seed, for seed k of both was scored on split k."""
    seeds = sorted(set(ours) & set(theirs))
    found = {"graph": graph, "protocol": protocol, "method": title, "seeds": seeds}
    if not seeds:
        return found
    d = np.round([100 * (ours[seed] - theirs[seed]) for seed in seeds], DECIMALS)
    return found | {
        "ours": [ours[seed] for seed in seeds],
        "theirs": [theirs[seed] for seed in seeds],
        "mean_difference": float(d.mean()),
        "interval": bootstrap_interval(d.tolist(), RESAMPLES),
        "rank_biserial": rank_biserial(d),
        "wins": int((d > 0).sum()),
        "ties": int((d == 0).sum()),
        "losses": int((d < 0).sum()),
        "p": signed_rank(d) if len(d) >= ENOUGH else None,
        "holm": {},
        "repeated": repeated(d),
    }


def verdict(comparison: dict[str, Any]) -> str:
    """better, worse, undecided (two-sided, corrected), or untested."""
    if comparison["p"] is None:
        return "untested"
    if comparison["holm"]["two_sided"] >= ALPHA:
        return "undecided"
    return "better" if comparison["rank_biserial"] > 0 else "worse"


def _reported(graph: str, title: str) -> float | None:
    figures = reported()["wilcoxon"]
    return dict(zip(figures["columns"], figures.get(title, []), strict=False)).get(graph)


def tables(result: Result) -> list[Table]:
    """For each protocol one with a row for each graph and method, and a folded one of the one-sided tests."""
    made = []
    for number, protocol in enumerate(result["protocols"]):
        family = [one for one in result["comparisons"] if one["protocol"] == protocol]
        tested = [one for one in family if one["p"] is not None]
        slug = "" if number == 0 else protocol
        made.append(_table(result, protocol, slug, family, len(tested)))
        if tested:
            made.append(_one_sided_table(protocol, f"{slug}-one-sided".removeprefix("-"), tested))
    return made


def _table(result: Result, protocol: str, slug: str, family: list[dict[str, Any]], tested: int) -> Table:
    columns = ["graph", "EPAGCL against", "n", "mean difference", "95% interval", "wins/ties/losses", "rank-biserial r"]
    columns += ["p (Holm), two-sided", "as the paper does: 5 runs × 5", "reported (its 5 runs once each)"]
    rows: list[list[Cell | str]] = [_row(one) for one in family]
    for graph, reason in result["absent"].items():
        rows += [
            [graph, title, "0", reason, *[""] * (len(columns) - 5), _reported_text(graph, title)]
            for title in result["methods"]
        ]
    few = f" Few runs: under {ENOUGH}, of which a bootstrap interval is too narrow, and none is tested."
    note = (
        f"Protocol {protocol}: model k of both methods is scored on split k, random 10/10/80; differences of test "
        "accuracy in points. Wilcoxon signed-rank, exact also with ties, zeros left out; in brackets corrected by Holm "
        f"over the {tested} comparisons of this table that are tested, bold below {ALPHA:g}. Interval: bootstrap of "
        f"the mean, {RESAMPLES:,} resamples.{few if tested < len(family) else ''} Measured on "
        f"{', '.join(result['measured_on'])}; reported: the paper, Appendix E (one-sided, EPAGCL better, as is the "
        "column before), and beside it the p that its five runs have when each is counted once (where its sign pattern "
        "can be found)."
    )
    return Table(slug, f"EPAGCL against each method, protocol {protocol}", columns, rows, note)


def _row(one: dict[str, Any]) -> list[Cell | str]:
    low, high = one["interval"]
    few = verdict(one) == "untested"
    return [
        one["graph"],
        one["method"],
        str(len(one["seeds"])),
        f"{one['mean_difference']:+.2f}",
        f"{low:+.2f} to {high:+.2f}{' (few runs)' if few else ''}",
        f"{one['wins']}/{one['ties']}/{one['losses']}",
        f"{one['rank_biserial']:+.2f}",
        "few runs" if few else _tested(one, "two_sided"),
        "–" if one["repeated"] is None else _p(one["repeated"]),
        _reported_text(one["graph"], one["method"]),
    ]


def _tested(one: dict[str, Any], test: str) -> Cell:
    return Cell(f"{_p(one['p'][test])} ({_p(one['holm'][test])})", BEST if one["holm"][test] < ALPHA else "")


def _one_sided_table(protocol: str, slug: str, tested: list[dict[str, Any]]) -> Table:
    columns = ["graph", "EPAGCL against", "n", *(f"p (Holm), {words}" for words in ONE_SIDED.values())]
    rows = [
        [one["graph"], one["method"], str(len(one["seeds"])), *(_tested(one, test) for test in ONE_SIDED)]
        for one in tested
    ]
    note = (
        f"The same tests with one-sided alternatives; in brackets corrected by Holm over the {len(tested)} comparisons "
        f"of each column, bold below {ALPHA:g}. The verdicts are those of the two-sided test."
    )
    return Table(slug, f"One-sided tests, protocol {protocol}", columns, rows, note, folded=True)


def _reported_text(graph: str, title: str) -> str:
    p = _reported(graph, title)
    if p is None:
        return "–"
    once = counted_once(p)
    return _p(p) + ("" if once is None else f" ({_p(once)})")


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.01 else f"{p:.2e}"


def figures(result: Result) -> "dict[str, Figure]":
    """Forest plot: mean difference with its interval, one panel for each graph."""
    comparisons = result["comparisons"]
    graphs = list(dict.fromkeys(one["graph"] for one in comparisons)) or [""]
    methods = [title for title in result["methods"] if any(one["method"] == title for one in comparisons)]
    protocols = result["protocols"]
    height = 1.5 + (0.28 + 0.2 * len(protocols)) * max(len(methods), 1)
    width = max(2.0 + 2.7 * len(graphs), 6.5)
    figure, panels = new_figure(1, len(graphs), width, height, sharey=True)
    for axes, graph in zip(panels, graphs, strict=True):
        axes.axvline(0, color=GREY, linewidth=1)
        for one in comparisons:
            if one["graph"] == graph:
                place = protocols.index(one["protocol"])
                offset = 0.26 * (place - (len(protocols) - 1) / 2)
                _point(axes, one, methods.index(one["method"]) + offset, COLOURS[place])
        counts = {len(one["seeds"]) for one in comparisons if one["graph"] == graph}
        runs = f" (n = {'–'.join(map(str, sorted({min(counts), max(counts)})))} runs)" if counts else ""
        axes.set_title(f"{graph}{runs}", fontsize=10)
        axes.set_xlabel("difference in points, bootstrap 95%", fontsize=9)
        axes.tick_params(labelsize=9)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(range(len(methods)), methods)
    panels[0].set_ylim(max(len(methods), 1) - 0.5, -0.5)
    figure.suptitle("EPAGCL minus each method (right of 0: EPAGCL is better)", fontsize=11)
    _legend(figure, panels[0], protocols)
    return {"": figure}


def _point(axes: "Axes", one: dict[str, Any], y: float, colour: str) -> None:
    kind = verdict(one)
    axes.plot(one["interval"], [y, y], color=colour, linewidth=1.5, linestyle=":" if kind == "untested" else "-")
    axes.plot(one["mean_difference"], y, color=colour, **_marker(kind))


def _marker(kind: str) -> dict[str, Any]:
    """Full: significant; hollow: not; a cross: not tested."""
    if kind == "untested":
        return {"marker": "x", "linestyle": "", "markersize": 6, "markeredgewidth": 1.8}
    hollow = {"markerfacecolor": "white"} if kind == "undecided" else {}
    return {"marker": "o", "linestyle": "", "markersize": 6, **hollow}


def _legend(figure: "Figure", axes: "Axes", protocols: list[str]) -> None:
    for place, protocol in enumerate(protocols):
        axes.plot([], [], color=COLOURS[place], linewidth=3, label=f"protocol {protocol}")
    for kind, words in (
        ("better", f"significant (two-sided, Holm, {ALPHA:g})"),
        ("undecided", "not significant"),
        ("untested", f"under {ENOUGH} runs: not tested, interval too narrow"),
    ):
        axes.plot([], [], color=GREY, label=words, **_marker(kind))
    figure.legend(loc="outside lower center", ncols=len(protocols) + 3, fontsize=8, frameon=False, columnspacing=1.2)


def reading(result: Result) -> list[str]:
    """Which methods EPAGCL is better or worse than, what is not tested, and what the paper's repetition does."""
    paragraphs = []
    for protocol in result["protocols"]:
        family = [one for one in result["comparisons"] if one["protocol"] == protocol]
        words = [_on_tests(family), _on_untested([one for one in family if verdict(one) == "untested"])]
        paragraphs.append(f"Protocol {protocol}: " + " ".join(filter(None, words)))
    if result["absent"]:
        missing = "; ".join(f"{graph}: {reason}" for graph, reason in result["absent"].items())
        paragraphs.append(f"Not measured here ({missing}).")
    return [*paragraphs, _on_settings(), _on_repetition(), _on_independence()]


def _on_tests(family: list[dict[str, Any]]) -> str:
    found = {kind: [one for one in family if verdict(one) == kind] for kind in ("better", "worse", "undecided")}
    tested = sum(map(len, found.values()))
    if not tested:
        most = max((len(one["seeds"]) for one in family), default=0)
        return f"no test is made: there are at most {most} paired runs, and {ENOUGH} are wanted."
    claim = "found" if len(found["better"]) == tested else "not found"
    named = (f"{kind.capitalize()}: {_by_graph(ones) or 'none'}." for kind, ones in found.items())
    return (
        f"of {tested} pairs of graph and method with {ENOUGH} paired runs or more EPAGCL is significantly better in "
        f"{len(found['better'])}, significantly worse in {len(found['worse'])}, undecided in "
        f"{len(found['undecided'])} (two-sided, Holm's correction, α = {ALPHA:g}); the paper's significant "
        f"improvement over all is {claim}. " + " ".join(named)
    )


def _on_untested(ones: list[dict[str, Any]]) -> str:
    """Where the runs of pairs with too few of them point, in counts."""
    if not ones:
        return ""
    counts = sorted({len(one["seeds"]) for one in ones})
    runs = f"{counts[0]} runs" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} runs"
    for_us = [one for one in ones if one["wins"] == len(one["seeds"])]
    against = [one for one in ones if one["losses"] == len(one["seeds"])]
    mixed = [one for one in ones if one not in for_us and one not in against]
    return (
        f"Not tested, as there are fewer than {ENOUGH} paired runs: {len(ones)} pair{'s' * (len(ones) > 1)} with "
        f"{runs} ({', '.join(dict.fromkeys(one['graph'] for one in ones))}). There EPAGCL is ahead in every run "
        f"against {_by_graph(for_us) or 'none'}; behind in every run against {_by_graph(against) or 'none'}; mixed, "
        f"wins/ties/losses: {_by_graph(mixed, counts=True) or 'none'}."
    )


def _by_graph(ones: list[dict[str, Any]], counts: bool = False) -> str:
    graphs: dict[str, list[str]] = {}
    for one in ones:
        more = f" {one['wins']}/{one['ties']}/{one['losses']}" if counts else ""
        graphs.setdefault(one["graph"], []).append(one["method"].replace("*", r"\*") + more)
    return "; ".join(f"{', '.join(titles)} on {graph}" for graph, titles in graphs.items())


def _on_settings() -> str:
    return (
        "EPAGCL is run with the settings that its paper publishes, the baselines with those of their own papers or, "
        "for some, with ours (provenance: the accuracy table's): methods are compared as published, not each at its "
        "best."
    )


def _on_repetition() -> str:
    """What counting each of five results five times does, computed."""
    figures = reported()["wilcoxon"]
    every = [p for title, row in figures.items() if title != "columns" for p in row]
    ones = np.ones(RUNS)
    most, least = repeated(ones), signed_rank(ones)
    once = [q for q in map(counted_once, every) if q is not None]
    return (
        f"The paper counts each of {RUNS} results {REPEATS} times and tests n = {RUNS * REPEATS}. If all {RUNS} "
        f"differences are positive that gives {most:.2e} = 2^-{RUNS * REPEATS}, the figure that "
        f"{sum(f'{p:.2e}' == f'{most:.2e}' for p in every)} of its {len(every)} cells show; {RUNS} runs counted once "
        f"can never be below 2^-{RUNS} = {least['better']:.3f} one-sided or {least['two_sided']:.4f} two-sided, and "
        f"corrected for {len(every)} comparisons not below {min(1, len(every) * least['better']):.2f}. "
        f"{len(once)} of its cells can be traced back to the signs of five differences: counted once, "
        f"{sum(q < ALPHA for q in once)} of these have p < {ALPHA:g}, all at the smallest p there is, and the others "
        f"lie between {min((q for q in once if q >= ALPHA), default=1.0):.3f} and {max(once):.3f}. "
        "Repeating a result adds no observation; the column 'as the paper does' repeats ours in the same way."
    )


def _on_independence() -> str:
    return (
        "Runs differ in seed and split of one graph, whose training nodes overlap: the p-values speak of seeds and "
        "splits of these graphs, with the settings of the recipes, not of other graphs."
    )


ARTEFACT = Artefact(
    name="significance",
    title="Is the improvement significant?",
    datasets=("cora", "citeseer", "pubmed", "wikics"),
    methods=("dgi", "gmi", "mvgrl", "grace", "gca", "bgrl", "greet", "epagcl"),
    runs=20,
    protocols=("strict", "paper"),
    measure=measure,
    tables=tables,
    figures=figures,
    reading=reading,
)
