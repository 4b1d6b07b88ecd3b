"""Appendix E: is EPAGCL better than the other methods? Exact tests on paired runs, beside the paper's procedure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from epagcl.methods import method
from epagcl.paper import accuracy, reported
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.drawing import COLOURS, GREY, new_figure
from epagcl.paper.paired import ALPHA, ENOUGH, RESAMPLES, Comparison, compare, correct, verdict
from epagcl.paper.statistics import REPEATS, RUNS, counted_once, repeated
from epagcl.paper.tables import BEST, Table, TableCell, escape_stars
from epagcl.study.statistics import signed_rank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS = "EPAGCL"
ONE_SIDED = {"better": "EPAGCL better", "worse": "EPAGCL worse"}


def measure(request: Request) -> Result:
    """Score EPAGCL and each method on the same splits, and test the differences."""
    names = tuple(dict.fromkeys(name.lower() for name in (*request.methods, OURS.lower())))
    titles = [method(name.removesuffix("*")).title + "*" * name.endswith("*") for name in names]
    measured = accuracy.measure(replace(request, methods=names))
    cells = {(cell["graph"]["name"], cell["row"]): cell for cell in measured["cells"]}
    graphs = list(dict.fromkeys(graph for graph, _ in cells))
    comparisons: list[Comparison] = []
    for protocol in request.protocols:
        pairs = [
            compare(graph, protocol, title, _runs(cells[graph, OURS], protocol), _runs(cells[graph, title], protocol))
            for graph in graphs
            for title in titles
            if title != OURS and (graph, title) in cells and (graph, OURS) in cells
        ]
        family = [comparison for comparison in pairs if comparison["seeds"]]
        correct(family)
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


def tables(result: Result) -> list[Table]:
    """Return for each protocol a table of all comparisons, and a folded one of the one-sided tests."""
    all_tables = []
    for number, protocol in enumerate(result["protocols"]):
        family = [comparison for comparison in result["comparisons"] if comparison["protocol"] == protocol]
        tested = [comparison for comparison in family if comparison["p"] is not None]
        slug = "" if number == 0 else protocol
        all_tables.append(_protocol_table(result, protocol, slug, family, len(tested)))
        if tested:
            all_tables.append(_one_sided_table(protocol, f"{slug}-one-sided".removeprefix("-"), tested))
    return all_tables


def _protocol_table(result: Result, protocol: str, slug: str, family: list[Comparison], tested: int) -> Table:
    columns = ["graph", "EPAGCL against", "n", "mean difference", "95% interval", "wins/ties/losses", "rank-biserial r"]
    columns += ["p (Holm), two-sided", "as the paper does: 5 runs × 5", "reported (its 5 runs once each)"]
    rows = [_table_row(comparison) for comparison in family]
    for graph, reason in result["absent"].items():
        rows += [
            [graph, title, "0", reason, *[""] * (len(columns) - 5), _reported_text(graph, title)]
            for title in result["methods"]
        ]
    few = (
        f" Few runs: pairs with fewer than {ENOUGH} runs are not tested, and their bootstrap interval is too narrow."
        if tested < len(family)
        else ""
    )
    note = (
        f"Protocol {protocol}, random 10/10/80 splits: model k of both methods is scored on split k. Differences of "
        "test accuracy are in points. The test is Wilcoxon's signed-rank test, exact in the presence of ties, without "
        f"zeros; in brackets p after Holm's correction for the {tested} tests of this table, bold below {ALPHA:g}. The "
        f"interval is a bootstrap interval of the mean with {RESAMPLES:,} resamples.{few} Measured on "
        f"{', '.join(result['measured_on'])}. The last column is from the paper, Appendix E, with the p of its five "
        "runs counted once in brackets, if their signs can be recovered. The last two columns are one-sided (EPAGCL "
        "better)."
    )
    return Table(slug, f"EPAGCL against each method, protocol {protocol}", columns, rows, note)


def _table_row(comparison: Comparison) -> list[TableCell | str]:
    low, high = comparison["interval"]
    few = verdict(comparison) == "untested"
    return [
        comparison["graph"],
        comparison["method"],
        str(len(comparison["seeds"])),
        f"{comparison['mean_difference']:+.2f}",
        f"{low:+.2f} to {high:+.2f}{' (few runs)' if few else ''}",
        _wins_ties_losses(comparison),
        f"{comparison['rank_biserial']:+.2f}",
        "few runs" if few else _tested_cell(comparison, "two_sided"),
        "–" if comparison["repeated"] is None else _p_text(comparison["repeated"]),
        _reported_text(comparison["graph"], comparison["method"]),
    ]


def _wins_ties_losses(comparison: Comparison) -> str:
    return f"{comparison['wins']}/{comparison['ties']}/{comparison['losses']}"


def _tested_cell(comparison: Comparison, test: str) -> TableCell:
    p, corrected = comparison["p"][test], comparison["holm"][test]
    return TableCell(f"{_p_text(p)} ({_p_text(corrected)})", BEST if corrected < ALPHA else "")


def _one_sided_table(protocol: str, slug: str, tested: list[Comparison]) -> Table:
    columns = ["graph", "EPAGCL against", "n", *(f"p (Holm), {words}" for words in ONE_SIDED.values())]
    rows: list[list[TableCell | str]] = [
        [
            comparison["graph"],
            comparison["method"],
            str(len(comparison["seeds"])),
            *(_tested_cell(comparison, test) for test in ONE_SIDED),
        ]
        for comparison in tested
    ]
    note = (
        "The same tests with one-sided alternatives; in brackets p after Holm's correction for the "
        f"{len(tested)} tests of each column, bold below {ALPHA:g}. The verdicts are those of the two-sided test."
    )
    return Table(slug, f"One-sided tests, protocol {protocol}", columns, rows, note, folded=True)


def _reported_text(graph: str, title: str) -> str:
    table = reported()["wilcoxon"]
    p = dict(zip(table["columns"], table.get(title, []), strict=False)).get(graph)
    if p is None:
        return "–"
    once = counted_once(p)
    return _p_text(p) + ("" if once is None else f" ({_p_text(once)})")


def _p_text(p: float) -> str:
    return f"{p:.3f}" if p >= 0.01 else f"{p:.2e}"


def figures(result: Result) -> "dict[str, Figure]":
    """Return a forest plot: the mean differences with their intervals, one panel for each graph."""
    comparisons = result["comparisons"]
    graphs = list(dict.fromkeys(comparison["graph"] for comparison in comparisons)) or [""]
    compared = {comparison["method"] for comparison in comparisons}
    methods = [title for title in result["methods"] if title in compared]
    protocols = result["protocols"]
    height = 1.5 + (0.28 + 0.2 * len(protocols)) * max(len(methods), 1)
    width = max(2.0 + 2.7 * len(graphs), 6.5)
    figure, panels = new_figure(1, len(graphs), width, height, sharey=True)
    for axes, graph in zip(panels, graphs, strict=True):
        _draw_panel(axes, graph, [one for one in comparisons if one["graph"] == graph], methods, protocols)
    panels[0].set_yticks(range(len(methods)), methods)
    panels[0].set_ylim(max(len(methods), 1) - 0.5, -0.5)
    figure.suptitle("EPAGCL minus each method (right of 0: EPAGCL is better)", fontsize=11)
    _draw_legend(figure, panels[0], protocols)
    return {"": figure}


def _draw_panel(
    axes: "Axes", graph: str, comparisons: list[Comparison], methods: Sequence[str], protocols: Sequence[str]
) -> None:
    axes.axvline(0, color=GREY, linewidth=1)
    for comparison in comparisons:
        place = protocols.index(comparison["protocol"])
        offset = 0.26 * (place - (len(protocols) - 1) / 2)
        _draw_interval(axes, comparison, methods.index(comparison["method"]) + offset, COLOURS[place])
    counts = {len(comparison["seeds"]) for comparison in comparisons}
    runs = f" (n = {'–'.join(map(str, sorted({min(counts), max(counts)})))} runs)" if counts else ""
    axes.set_title(f"{graph}{runs}", fontsize=10)
    axes.set_xlabel("difference in points, bootstrap 95%", fontsize=9)
    axes.tick_params(labelsize=9)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.3)


def _draw_interval(axes: "Axes", comparison: Comparison, y: float, colour: str) -> None:
    word = verdict(comparison)
    style = ":" if word == "untested" else "-"
    axes.plot(comparison["interval"], [y, y], color=colour, linewidth=1.5, linestyle=style)
    axes.plot(comparison["mean_difference"], y, color=colour, **_marker(word))


def _marker(word: str) -> dict[str, Any]:
    """Return the marker of a verdict: filled if significant, hollow if not, a cross if not tested."""
    if word == "untested":
        return {"marker": "x", "linestyle": "", "markersize": 6, "markeredgewidth": 1.8}
    hollow = {"markerfacecolor": "white"} if word == "undecided" else {}
    return {"marker": "o", "linestyle": "", "markersize": 6, **hollow}


def _draw_legend(figure: "Figure", axes: "Axes", protocols: Sequence[str]) -> None:
    for place, protocol in enumerate(protocols):
        axes.plot([], [], color=COLOURS[place], linewidth=3, label=f"protocol {protocol}")
    for word, label in (
        ("better", f"significant (two-sided, Holm, {ALPHA:g})"),
        ("undecided", "not significant"),
        ("untested", f"under {ENOUGH} runs: not tested, interval too narrow"),
    ):
        axes.plot([], [], color=GREY, label=label, **_marker(word))
    figure.legend(loc="outside lower center", ncols=len(protocols) + 3, fontsize=8, frameon=False, columnspacing=1.2)


def reading(result: Result) -> list[str]:
    """Return paragraphs on the verdicts, on untested pairs, and on the paper's repetition of results."""
    paragraphs = []
    for protocol in result["protocols"]:
        family = [comparison for comparison in result["comparisons"] if comparison["protocol"] == protocol]
        untested = [comparison for comparison in family if verdict(comparison) == "untested"]
        sentences = [_verdict_sentences(family), _untested_sentences(untested)]
        paragraphs.append(f"Protocol {protocol}: " + " ".join(filter(None, sentences)))
    if result["absent"]:
        missing = "; ".join(f"{graph}: {reason}" for graph, reason in result["absent"].items())
        paragraphs.append(f"Not measured here ({missing}).")
    return [*paragraphs, SETTINGS_SENTENCES, _repetition_sentences(), INDEPENDENCE_SENTENCES]


def _verdict_sentences(family: list[Comparison]) -> str:
    groups = {word: [one for one in family if verdict(one) == word] for word in ("better", "worse", "undecided")}
    tested = sum(map(len, groups.values()))
    if not tested:
        most = max((len(comparison["seeds"]) for comparison in family), default=0)
        return f"no test is possible, because there are at most {most} paired runs and {ENOUGH} are needed."
    claim = "is confirmed" if len(groups["better"]) == tested else "is not confirmed"
    listed = (f"{word.capitalize()}: {_by_graph(group) or 'none'}." for word, group in groups.items())
    return (
        f"{tested} pairs of graph and method have {ENOUGH} paired runs or more. EPAGCL is significantly better in "
        f"{len(groups['better'])}, significantly worse in {len(groups['worse'])}, and {len(groups['undecided'])} are "
        f"undecided (two-sided, Holm's correction, α = {ALPHA:g}). The paper's significant improvement over all "
        f"methods {claim}. " + " ".join(listed)
    )


def _untested_sentences(untested: list[Comparison]) -> str:
    """Count wins and losses of the pairs with too few runs for a test."""
    if not untested:
        return ""
    counts = sorted({len(comparison["seeds"]) for comparison in untested})
    runs = f"{counts[0]} runs" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} runs"
    ahead = [comparison for comparison in untested if comparison["wins"] == len(comparison["seeds"])]
    behind = [comparison for comparison in untested if comparison["losses"] == len(comparison["seeds"])]
    mixed = [comparison for comparison in untested if comparison not in ahead and comparison not in behind]
    return (
        f"Not tested, with fewer than {ENOUGH} paired runs: {len(untested)} pair{'s' * (len(untested) > 1)} with "
        f"{runs} ({', '.join(dict.fromkeys(comparison['graph'] for comparison in untested))}). In these, EPAGCL is "
        f"ahead in every run against {_by_graph(ahead) or 'none'}, and behind in every run against "
        f"{_by_graph(behind) or 'none'}. Mixed (wins/ties/losses): {_by_graph(mixed, counts=True) or 'none'}."
    )


def _by_graph(comparisons: list[Comparison], counts: bool = False) -> str:
    graphs: dict[str, list[str]] = {}
    for comparison in comparisons:
        suffix = f" {_wins_ties_losses(comparison)}" if counts else ""
        graphs.setdefault(comparison["graph"], []).append(escape_stars(comparison["method"]) + suffix)
    return "; ".join(f"{', '.join(titles)} on {graph}" for graph, titles in graphs.items())


SETTINGS_SENTENCES = (
    "EPAGCL is trained with the settings of its paper. The baselines have the settings of their own papers or, for "
    "some, ours (see the provenance of the accuracy table). Methods are compared as published, not with "
    "their best settings."
)
INDEPENDENCE_SENTENCES = (
    "Runs differ in the seed and the split of one graph, and their training nodes overlap. The p-values therefore "
    "generalise over seeds and splits of these graphs with these settings, not over other graphs."
)


def _repetition_sentences() -> str:
    """Show the effect of counting each of five results five times."""
    table = reported()["wilcoxon"]
    p_values = [p for title, row in table.items() if title != "columns" for p in row]
    all_positive = np.ones(RUNS)
    smallest, least = repeated(all_positive), signed_rank(all_positive)
    once = [q for q in map(counted_once, p_values) if q is not None]
    return (
        f"The paper counts each of {RUNS} results {REPEATS} times and tests n = {RUNS * REPEATS}. If all {RUNS} "
        f"differences are positive, this gives p = {smallest:.2e} = 2^-{RUNS * REPEATS}, which "
        f"{sum(f'{p:.2e}' == f'{smallest:.2e}' for p in p_values)} of its {len(p_values)} cells show. Counted once, "
        f"{RUNS} runs cannot give p below 2^-{RUNS} = {least['better']:.3f} (one-sided) or {least['two_sided']:.4f} "
        f"(two-sided). After correction for {len(p_values)} comparisons, the limit is "
        f"{min(1, len(p_values) * least['better']):.2f}. The signs of the five differences can be recovered for "
        f"{len(once)} of its cells. Counted once, {sum(q < ALPHA for q in once)} of these have p < {ALPHA:g}, all at "
        f"the smallest possible p; the others lie between {min((q for q in once if q >= ALPHA), default=1.0):.3f} and "
        f"{max(once):.3f}. Repeating a result adds no observation. The column 'as the paper does' repeats our results "
        "in the same way."
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
