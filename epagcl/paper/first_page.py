"""The first page of the results: three figures and five sentences, made from the results and the comparison."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from epagcl.core.formatting import listed
from epagcl.paper import add_vs_drop, drawing, judges, tuned_tables, views_only
from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import measured_graphs, ranks_of
from epagcl.paper.tables import wrap
from epagcl.paper.tuned_tables import OURS, TUNED
from epagcl.paper.verdicts import verdicts
from epagcl.runs.evaluation import PROPAGATED, RAW
from epagcl.study.design import UNTRAINED_PREFIX
from epagcl.study.diagram import BARS, diagram
from epagcl.study.paired_test import BETTER, UNDECIDED, WORSE
from epagcl.study.ranking import Ranking, same_nodes_note
from epagcl.study.summary import Comparison, accuracies, paired_against, ranking_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What the words of the page mean.
TERMS = (
    "A row is a method or a reference: raw features, propagated features, or an encoder with its initial weights. Rank "
    "1 is the best. Tests on single graphs are paired; tests over graphs are Wilcoxon's. All have Holm's correction."
)
PAPERS = "EPAGCL"
#: EPAGCL's nearest relatives: the same loss, other views.
RELATIVES = ("GRACE", "GCA")
RANKS, GAINS, RATES = "first-ranks", "first-gains", "add-vs-drop-curves"
TITLES = {
    RANKS: f"Mean ranks over graphs; {BARS}",
    GAINS: "Accuracy of each row minus that of propagated features, which need no training; a dot is a graph",
    RATES: "Adding against dropping edges as the only augmentation",
}


def first_page(results: dict[str, Result], comparison: Comparison | None) -> str:
    """Return the sentences and figures that can be made from the results, as Markdown."""
    items = [
        *(_comparison_items(comparison, results) if comparison else []),
        _papers_item(results),
        _rates_item(results),
        _claims_item(results),
    ]
    shown = [RANKS, GAINS] if comparison and ranking_of(comparison["results"], comparison["protocol"]) else []
    shown += [RATES] if "add-vs-drop" in results and measured_graphs(results["add-vs-drop"]) else []
    lines = [wrap(item, bullet=f"{number}. ") for number, item in enumerate(filter(None, items), start=1)]
    if not lines:
        return ""
    for name in shown:
        path = f"figures/paper/{name}"
        lines += ["", f"[![{TITLES[name]}]({path}.png)]({path}.svg)", "", wrap(f"*{TITLES[name]}.*")]
    terms = f"{TERMS} {same_nodes_note(list(comparison['results'])) if comparison else ''}".rstrip()
    return "\n".join(["## In two minutes", "", wrap(terms), "", *lines, ""])


def _comparison_items(comparison: Comparison, results: dict[str, Result]) -> list[str]:
    """Return an item on the best row, also after tuning, and one on what training adds to propagated features."""
    protocol = comparison["protocol"]
    ranking = ranking_of(comparison["results"], protocol)
    if ranking is None or OURS not in ranking.mean_ranks or PROPAGATED not in ranking.means:
        return []
    best = next(iter(ranking.mean_ranks))
    counts = sorted({len(cell["seeds"]) for cells in comparison["results"].values() for cell in cells})
    seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    tests = {
        pair: test
        for pair, test in paired_against(comparison["results"], protocol, OURS).items()
        if not pair[1].startswith((UNTRAINED_PREFIX, RAW, PROPAGATED))
    }
    words = [test.verdict for test in tests.values()]
    sentences = [
        f"**{best} has the best mean rank, {ranking.mean_ranks[best]:.1f} of {len(ranking.mean_ranks)} rows over "
        f"{len(ranking.graphs)} graphs** ({protocol} protocol, {seeds} seeds).",
        f"{ranking.lead(best)}.",
        f"Of {len(words)} tests of {OURS} against the other trained methods on single graphs, {words.count(BETTER)} "
        f"find it better and {words.count(WORSE)} worse.",
        *_after_tuning(results.get(TUNED)),
        f"Limits of {OURS}: its one setting was chosen by validation accuracy over these graphs, and tuning starts "
        f"from it{_with_papers_classifier(results)}.",
    ]
    return [" ".join(sentences), *_beyond_propagation(ranking)]


def _after_tuning(tuned: Result | None) -> list[str]:
    """Return a sentence on the best row if every method is tuned with the same budget."""
    words = tuned_tables.standing(tuned) if tuned else ""
    return [f"If every method is tuned with one budget, {OURS} has {words}."] if words else []


def _with_papers_classifier(results: dict[str, Result]) -> str:
    """Return the mean rank of EPAGCL+ by the paper's protocol, as the end of a sentence."""
    result = results.get("accuracy")
    ranks = ranks_of(result, "paper") if result and "paper" in result["asked"]["protocols"] else None
    if ranks is None or OURS not in ranks.mean:
        return ""
    place = f"{ranks.mean[OURS]:.1f} of {len(ranks.mean)} over {len(ranks.graphs)} graphs"
    return f"; with the paper's classifier, which has no penalty, its mean rank is {place}"


def _beyond_propagation(ranking: Ranking) -> list[str]:
    """Return an item on the trained methods against propagated features."""
    own = ranking.means[PROPAGATED]
    trained = {
        title: mean
        for title, mean in ranking.means.items()
        if not title.startswith((UNTRAINED_PREFIX, RAW, PROPAGATED))
    }
    below, above = ([title for title in trained if (trained[title] > own) == over] for over in (False, True))
    if not below or not above:
        return []
    reached = listed([f"{title} {trained[title]:.1f}" for title in above])
    return [
        f"**{len(below)} of {len(trained)} trained methods have a lower mean than propagated features, which need no "
        f"training**: {min(trained[title] for title in below):.1f} to {max(trained[title] for title in below):.1f}, "
        f"against {own:.1f} (raw features {ranking.means[RAW]:.1f}). The others reach more: {reached}. "
        f"{_decided(ranking, PROPAGATED, list(trained))}"
    ]


def _decided(ranking: Ranking, base: str, titles: Sequence[str]) -> str:
    """Return a sentence that names the rows that are significantly better or worse than a base."""
    ahead = [title for title in titles if base in ranking.beaten_by(title)]
    behind = [title for title in titles if title in ranking.beaten_by(base)]
    parts = [
        f"{listed(rows)} {'is' if len(rows) == 1 else 'are'} significantly {word}"
        for rows, word in ((ahead, "better"), (behind, "worse"))
        if rows
    ]
    rest = len(titles) - len(ahead) - len(behind)
    words = listed(parts) if parts else "no difference is decided"
    if parts and rest:
        words += "; the other differences are undecided" if rest > 1 else "; the other difference is undecided"
    return f"Over the graphs, {words}."


def _papers_item(results: dict[str, Result]) -> str:
    tests = judges.against_others(results["accuracy"]) if "accuracy" in results else {}
    if not tests:
        return ""
    words = [test.verdict for test in tests.values()]
    protocol = results["accuracy"]["asked"]["protocols"][0]
    return (
        f"**{PAPERS}, with its paper's settings, is better than another method in {words.count(BETTER)} of "
        f"{len(words)} tests, and worse in {words.count(WORSE)}** ({len({graph for graph, _ in tests})} graphs, "
        f"{protocol} protocol). This compares settings as well as methods: those of the others were published or "
        f"tuned.{_ranks_after_tuning(results)}"
    )


def _ranks_after_tuning(results: dict[str, Result]) -> str:
    """Return a sentence on the mean ranks of EPAGCL and its nearest relatives after tuning."""
    ranking = tuned_tables.ranking_of(results[TUNED]) if TUNED in results else None
    if ranking is None or any(title not in ranking.mean_ranks for title in (PAPERS, *RELATIVES)):
        return ""
    others = listed([f"{ranking.mean_ranks[title]:.1f} ({title})" for title in RELATIVES])
    return (
        f" Tuned with one budget, its mean rank is {ranking.mean_ranks[PAPERS]:.1f} of {len(ranking.mean_ranks)} rows, "
        f"against {others}. {_decided(ranking, PAPERS, RELATIVES)}"
    )


def _rates_item(results: dict[str, Result]) -> str:
    if "add-vs-drop" not in results:
        return ""
    result = results["add-vs-drop"]
    few = _few_new_pairs(result, result["asked"]["protocols"][0])
    kind = "pool" if few else "add"
    parts, decided, gaps = [], [], add_vs_drop.all_gaps(result)
    for graph in measured_graphs(result):
        if tests := [test for (place, own, _), test in gaps.items() if (place, own) == (graph, kind)]:
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
        f"{listed(parts)} on average over the rates{note}.{_edges_alone(results)}"
    )


def _edges_alone(results: dict[str, Result]) -> str:
    """Return a sentence on dropping against adding with everything else equal."""
    tests = views_only.drop_over_add(results["views"]) if "views" in results else []
    if not tests:
        return ""
    words = [test.verdict for test in tests]
    return (
        f" With equal settings on {len(words)} graphs, and edges chosen by EPR, the difference is "
        f"{fmean(test.mean for test in tests):+.1f} points: better on {words.count(BETTER)}, worse on "
        f"{words.count(WORSE)}, undecided on {words.count(UNDECIDED)}."
    )


def _few_new_pairs(result: Result, protocol: str) -> bool:
    """Return whether adding new random pairs was measured with fewer seeds than adding from a pool."""
    by_graph = [add_vs_drop.curves(result, protocol, graph) for graph in measured_graphs(result)]
    new, pool = ([len(runs) for one in by_graph for runs in one[kind].values()] for kind in ("add", "pool"))
    return min(new, default=0) < min(pool, default=0)


def _claims_item(results: dict[str, Result]) -> str:
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
