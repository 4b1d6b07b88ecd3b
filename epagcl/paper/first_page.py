"""The first page of the results: three figures and five sentences, made from the results and the comparison."""

from statistics import fmean
from typing import TYPE_CHECKING

from epagcl.core.formatting import listed
from epagcl.paper import add_vs_drop, drawing, significance, tuned_tables
from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import measured_graphs
from epagcl.paper.tables import wrap
from epagcl.paper.tuned_tables import OURS, TUNED
from epagcl.paper.verdicts import verdicts
from epagcl.runs.evaluation import PROPAGATED, RAW
from epagcl.study.design import UNTRAINED_PREFIX
from epagcl.study.diagram import diagram
from epagcl.study.paired_test import BETTER, UNDECIDED, WORSE
from epagcl.study.summary import Comparison, accuracies, paired_against, ranking_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPERS = "EPAGCL"
#: EPAGCL's nearest relatives: the same loss, other views.
RELATIVES = ("GRACE", "GCA")
RANKS, GAINS, RATES = "first-ranks", "first-gains", "add-vs-drop-curves"
TITLES = {
    RANKS: "Mean ranks over graphs; rows that share a bar do not differ significantly",
    GAINS: "Accuracy of each row minus that of propagated features, which need no training; a dot is a graph",
    RATES: "Adding against dropping edges as the only augmentation",
}


def first_page(results: dict[str, Result], comparison: Comparison | None) -> str:
    """Return the sentences and figures that can be made from the results, as Markdown."""
    sentences = [
        *(_comparison_sentences(comparison, results.get(TUNED)) if comparison else []),
        _significance_sentence(results),
        _rates_sentence(results),
        _claims_sentence(results),
    ]
    shown = [RANKS, GAINS] if comparison and ranking_of(comparison["results"], comparison["protocol"]) else []
    shown += [RATES] if "add-vs-drop" in results and measured_graphs(results["add-vs-drop"]) else []
    lines = [wrap(sentence, bullet=f"{number}. ") for number, sentence in enumerate(filter(None, sentences), start=1)]
    if not lines:
        return ""
    for name in shown:
        path = f"figures/paper/{name}"
        lines += ["", f"[![{TITLES[name]}]({path}.png)]({path}.svg)", "", wrap(f"*{TITLES[name]}.*")]
    return "\n".join(["## In two minutes", "", *lines, ""])


def _comparison_sentences(comparison: Comparison, tuned: Result | None) -> list[str]:
    """Return a sentence on the best row, also after tuning, and one on what training adds to the graph itself."""
    results, protocol = comparison["results"], comparison["protocol"]
    ranking = ranking_of(results, protocol)
    if ranking is None or OURS not in ranking.mean_ranks or PROPAGATED not in ranking.means:
        return []
    scores = accuracies(results, protocol)
    wins = sum(
        scores[OURS][graph] >= max(row[graph] for row in scores.values() if graph in row) for graph in ranking.graphs
    )
    tests = {
        pair: test
        for pair, test in paired_against(results, protocol, OURS).items()
        if not pair[1].startswith((UNTRAINED_PREFIX, RAW, PROPAGATED))
    }
    words = [test.verdict for test in tests.values()]
    counts = sorted({len(cell["seeds"]) for cells in results.values() for cell in cells})
    methods = {title: mean for title, mean in ranking.means.items() if not title.startswith((UNTRAINED_PREFIX, RAW))}
    below = [title for title, mean in methods.items() if mean < methods[PROPAGATED]]
    above = [title for title, mean in methods.items() if mean > methods[PROPAGATED]]
    first = (
        f"**{OURS} has the best mean rank, {ranking.mean_ranks[OURS]:.1f} of {len(ranking.mean_ranks)} rows over "
        f"{len(ranking.graphs)} graphs**"
        if next(iter(ranking.mean_ranks)) == OURS
        else f"**{next(iter(ranking.mean_ranks))} has the best mean rank over {len(ranking.graphs)} graphs**"
    )
    sentences = [
        f"{first}: the mean of {OURS} is the highest on {wins}, and of {len(words)} paired tests against the other "
        f"trained methods, {words.count(BETTER)} find it better and {words.count(WORSE)} worse ({protocol} protocol, "
        f"{counts[0]} to {counts[-1]} seeds; its one setting was chosen by validation accuracy over these graphs)"
        f"{_after_tuning(tuned)}."
    ]
    without = ranking.means.get(UNTRAINED_PREFIX + OURS)
    reached = [
        f"{title} ({methods[title]:.1f}{f'; {without:.1f} untrained' if title == OURS and without is not None else ''})"
        for title in above
    ]
    if below and above:
        sentences.append(
            "**The graph itself does most of the work**: propagated features, which need no training, reach "
            f"{methods[PROPAGATED]:.1f} on average, raw features {ranking.means[RAW]:.1f}; of the methods that were "
            f"run on all graphs, {listed(below)} stay below ({fmean(methods[title] for title in below):.1f} on "
            f"average), and only {listed(reached)} {'is' if len(above) == 1 else 'are'} above."
        )
    return sentences


def _after_tuning(tuned: Result | None) -> str:
    """Return how the best row stands if every method is tuned with the same budget, as the end of a sentence."""
    words = tuned_tables.standing(tuned) if tuned else ""
    return f"; tuned with one budget for every method, {OURS} has {words}" if words else ""


def _significance_sentence(results: dict[str, Result]) -> str:
    if "significance" not in results:
        return ""
    result = results["significance"]
    protocol = result["protocols"][0]
    words = [test.verdict for _, test in significance.family_of(result, protocol)]
    found = "No test finds" if BETTER not in words else f"{words.count(BETTER)} of {len(words)} tests find"
    return (
        f"**{found} {PAPERS}, with its paper's settings, better than a baseline**: of {len(words)} pairs of graph and "
        f"method ({protocol} protocol), it is worse in {words.count(WORSE)}, and {words.count(UNDECIDED)} are "
        "undecided; the settings of the baselines were published or tuned, so that this compares settings as well as "
        f"methods{_ranks_after_tuning(results)}."
    )


def _ranks_after_tuning(results: dict[str, Result]) -> str:
    """Return the mean ranks of EPAGCL and its nearest relatives after tuning, as the end of a sentence."""
    ranking = tuned_tables.ranking_of(results[TUNED]) if TUNED in results else None
    if ranking is None or any(title not in ranking.mean_ranks for title in (PAPERS, *RELATIVES)):
        return ""
    others = listed([f"{ranking.mean_ranks[title]:.1f} ({title})" for title in RELATIVES])
    alike = any({PAPERS, *RELATIVES} <= set(group) for group in ranking.groups)
    return (
        f"; tuned with one budget for every method, the mean rank of {PAPERS} is {ranking.mean_ranks[PAPERS]:.1f} of "
        f"{len(ranking.mean_ranks)} rows, against {others}{', which is no significant difference' if alike else ''}"
    )


def _rates_sentence(results: dict[str, Result]) -> str:
    if "add-vs-drop" not in results:
        return ""
    result = results["add-vs-drop"]
    protocol = result["asked"]["protocols"][0]
    few = _few_new_pairs(result, protocol)
    parts, decided = [], []
    for graph in measured_graphs(result):
        tests = add_vs_drop.gaps(result, protocol, graph, "pool" if few else "add").values()
        if tests:
            better = sum(test.verdict == BETTER for test in tests)
            decided += [graph] * (better == len(tests))
            mean = fmean(test.mean for test in tests)
            parts.append(f"{mean:+.1f} points on {graph} (better at {better} of {len(tests)} rates)")
    if not parts:
        return ""
    where = f"on {listed(decided)}" if decided else "on no graph"
    added = "adding from a fixed pool" if few else "adding new random pairs to every view"
    note = "; with new random pairs for every view, there are too few runs" if few else ""
    return (
        f"**Dropping edges is better than adding them at every rate {where}**: dropping minus {added} is "
        f"{listed(parts)} on average over the rates{note}."
    )


def _few_new_pairs(result: Result, protocol: str) -> bool:
    """Return whether adding new random pairs was measured with fewer seeds than adding from a pool."""
    by_graph = [add_vs_drop.curves(result, protocol, graph) for graph in measured_graphs(result)]
    new, pool = ([len(runs) for one in by_graph for runs in one[kind].values()] for kind in ("add", "pool"))
    return min(new, default=0) < min(pool, default=0)


def _claims_sentence(results: dict[str, Result]) -> str:
    words = [str(row[2]) for row in verdicts(results).rows]
    counts = {word: words.count(word) for word in ("holds", "in part", "contradicted", "undecided")}
    if not words:
        return ""
    return (
        f"**Of the paper's {sum(counts.values())} claims that were tested, {counts['holds']} hold**, "
        f"{counts['in part']} hold in part, {counts['contradicted']} are contradicted, and {counts['undecided']} are "
        "undecided; the next table has them all."
    )


def figures(comparison: Comparison) -> "dict[str, Figure]":
    """Return the critical-difference diagram, and the accuracy of each row beyond propagated features."""
    ranking = ranking_of(comparison["results"], comparison["protocol"])
    if ranking is None:
        return {}
    return {RANKS: diagram(ranking), GAINS: _gain_figure(comparison, list(ranking.mean_ranks))}


def _gain_figure(comparison: Comparison, titles: list[str]) -> "Figure":
    scores = accuracies(comparison["results"], comparison["protocol"])
    drawn = [title for title in titles if title != PROPAGATED and not title.startswith(UNTRAINED_PREFIX)]
    drawn += [title for title in titles if title.startswith(UNTRAINED_PREFIX)]
    figure, (axes,) = drawing.new_figure(1, 1, 7.4, 0.9 + 0.27 * len(drawn))
    for place, title in enumerate(drawn):
        gaps = [score - scores[PROPAGATED][graph] for graph, score in scores[title].items()]
        colour = drawing.COLOURS[1] if title == OURS else drawing.COLOURS[0]
        colour = drawing.GREY if title.startswith((UNTRAINED_PREFIX, RAW)) else colour
        axes.plot(gaps, [place] * len(gaps), "o", color=colour, alpha=0.45, markersize=5, markeredgewidth=0)
        axes.plot([fmean(gaps)] * 2, [place - 0.36, place + 0.36], color=colour, lw=2.5)
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(drawn)), drawn, fontsize=9)
    axes.set_ylim(len(drawn) - 0.5, -0.5)
    axes.set_xlabel("points above or below propagated features; bar: mean over graphs", fontsize=9)
    axes.grid(axis="x", lw=0.3)
    return figure
