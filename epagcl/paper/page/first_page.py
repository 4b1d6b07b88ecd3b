"""The first page of the results: three figures and five sentences, made from the results and the comparison."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from epagcl.core.formatting import listed, paragraph
from epagcl.paper import accuracy, add_vs_drop, drawing, views_only
from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import OURS, PAPERS, measured_graphs, ranks_of, scores, self_supervised_titles
from epagcl.paper.page.verdicts import judged
from epagcl.paper.paired import against, trained_counts
from epagcl.paper.tables import wrap
from epagcl.paper.tuned import tables as tuned_tables
from epagcl.paper.tuned.budget import TUNED
from epagcl.paper.variants.views import ADD_ONLY, DROP_ONLY
from epagcl.runs.evaluation import PROPAGATED, RAW, UNTRAINED
from epagcl.study.design import UNTRAINED_PREFIX, is_trained
from epagcl.study.diagram import BARS, diagram
from epagcl.study.paired_test import BETTER, UNDECIDED, WORSE, PairedTest
from epagcl.study.ranking import Ranking
from epagcl.study.summary import Comparison, accuracies, paired_against, ranking_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What the words of the sentences mean, and those of the details.
TERMS = (
    "A row is a method or a reference: raw features, propagated features (smoothed by personalised PageRank, then 256 "
    f"principal components), or an encoder with its initial weights. {OURS} is this package's own method. Rank 1 is "
    "the best."
)
PROTOCOL = (
    "A linear classifier scores each row, on 10% of the nodes for training, 10% for validation and 80% for testing. "
    "Its penalty is chosen on validation nodes. Tests on single graphs are paired; tests over graphs are Wilcoxon's. "
    "All have Holm's correction."
)
#: EPAGCL's nearest relatives: the same loss, other views.
RELATIVES = ("GRACE", "GCA")
RANKS, GAINS, RATES = "first-ranks", "first-gains", "add-vs-drop-curves"
TITLES = {
    RANKS: f"Mean ranks over graphs; {BARS}",
    GAINS: f"Accuracy of methods, raw features and untrained {OURS} minus propagated features; a dot is a graph",
    RATES: "Adding against dropping edges as the only augmentation",
}


class Finding(NamedTuple):
    """A sentence of the first page, and what stands behind it."""

    sentence: str
    details: str


def first_page(results: dict[str, Result], comparison: Comparison | None) -> str:
    """Return the sentences and figures that can be made from the results, and their details, as Markdown."""
    ranking = ranking_of(comparison["results"], comparison["protocol"]) if comparison else None
    made = [
        _best_row(ranking, comparison, results) if ranking and comparison else None,
        _beyond_propagation(ranking, results) if ranking else None,
        _paper(results),
        _rates(results),
        _claims(results),
    ]
    findings = [finding for finding in made if finding is not None]
    if not findings:
        return ""
    lines = ["## In two minutes", "", wrap(TERMS), ""]
    lines += [wrap(f"**{one.sentence}**", bullet=f"{number}. ") for number, one in enumerate(findings, start=1)]
    shown = [RANKS, GAINS] if ranking else []
    shown += [RATES] if "add-vs-drop" in results and measured_graphs(results["add-vs-drop"]) else []
    for name in shown:
        path = f"figures/paper/{name}"
        lines += ["", f"[![{TITLES[name]}]({path}.png)]({path}.svg)", "", wrap(f"*{TITLES[name]}.*")]
    lines += ["", "### Behind these sentences", ""]
    notes = [ranking.same_nodes_note if ranking else "", _smallest_p(ranking)]
    lines += [wrap(paragraph(PROTOCOL, *notes)), ""]
    lines += [wrap(one.details, bullet=f"{number}. ") for number, one in enumerate(findings, start=1)]
    return "\n".join([*lines, ""])


def _smallest_p(ranking: Ranking | None) -> str:
    """Return what a test over the graphs needs to decide."""
    if ranking is None or ranking.smallest_p >= ranking.alpha:
        return ""
    return (
        f"With {len(ranking.observations)} independent graphs and {len(ranking.pairs)} pairs of rows, the smallest "
        f"corrected p that a test over the graphs can have is {ranking.smallest_p:.3f}. Only a row that is ahead on "
        "nearly every graph is significantly better."
    )


def _best_row(ranking: Ranking, comparison: Comparison, results: dict[str, Result]) -> Finding | None:
    """Return the best row, with recommended settings and after tuning."""
    if OURS not in ranking.mean_ranks:
        return None
    best = next(iter(ranking.mean_ranks))
    place = f"{ranking.mean_ranks[best]:.1f} of {len(ranking.mean_ranks)} rows"
    better, worse, total = trained_counts(paired_against(comparison["results"], comparison["protocol"], OURS))
    tests = f"better in {better} of {total} cases and worse in {worse}"
    details = ""
    tuned = results.get(TUNED)
    after = tuned_tables.ranking_of(tuned) if tuned else None
    if tuned and after and {OURS, best} <= after.mean_ranks.keys():
        again = f"{after.mean_ranks[best]:.1f} of {len(after.mean_ranks)}"
        place += f", and {again} if every method is tuned with one budget"
        better, worse, total = trained_counts(tuned_tables.against(tuned, OURS))
        tests += f" (tuned: {better} of {total}, and {worse})"
        details = f"Tuned, {OURS} is significantly better than {after.beaten_rows(OURS)}."
    return Finding(
        f"{best} has the best mean rank over {len(ranking.graphs)} graphs: {place}; tests over the graphs find "
        f"{'it' if best == OURS else OURS} significantly better than {ranking.beaten_rows(OURS)}.",
        paragraph(
            f"Tests against the other trained methods on single graphs find {OURS} {tests}.",
            details,
            f"The one setting of {OURS} was chosen by validation accuracy over these graphs.",
            rank_without_penalty(results),
        ),
    )


def rank_without_penalty(results: dict[str, Result]) -> str:
    """Return a sentence on the mean rank of EPAGCL+ by the paper's protocol, or nothing."""
    result = results.get("accuracy")
    ranks = ranks_of(result, "paper") if result and "paper" in result["asked"]["protocols"] else None
    if ranks is None or OURS not in ranks.mean:
        return ""
    place = f"{ranks.mean[OURS]:.1f} of {len(ranks.mean)} over {len(ranks.graphs)} graphs"
    return f"With the paper's classifier, which has no penalty, {OURS} has mean rank {place}: use one with a penalty."


def _beyond_propagation(ranking: Ranking, results: dict[str, Result]) -> Finding | None:
    """Return how the trained methods stand against propagated features."""
    means, ranks = ranking.means, ranking.mean_ranks
    trained = [title for title in means if is_trained(title)]
    if PROPAGATED not in means:
        return None
    below = [title for title in trained if means[title] < means[PROPAGATED] and ranks[title] > ranks[PROPAGATED]]
    others = [f"{title} {means[title]:.1f}" for title in trained if title not in below]
    if not below or not others:
        return None
    lower = [means[title] for title in below]
    return Finding(
        f"By a linear classifier with a penalty, {len(below)} of {len(trained)} trained methods have a lower mean "
        "accuracy and a worse mean rank than propagated features, which need no training.",
        f"Methods below propagated features have means of {min(lower):.1f} to {max(lower):.1f}; propagated features "
        f"have {means[PROPAGATED]:.1f}, {listed([f'raw features {means[RAW]:.1f}', *others])}. "
        f"{_decided(ranking, PROPAGATED, trained, 'propagated features')}{_propagated_without_penalty(results)}",
    )


def _propagated_without_penalty(results: dict[str, Result]) -> str:
    """Return a sentence on propagated features by the paper's protocol, or nothing."""
    result = results.get("accuracy")
    if result is None or "paper" not in result["asked"]["protocols"]:
        return ""
    tests = against(result, "paper", PROPAGATED, self_supervised_titles(result))
    words = [test.verdict for test in tests.values()]  # of propagated features
    if not words:
        return ""
    return (
        f" The paper's classifier has no penalty and is weak on propagated features: with it, {words.count(WORSE)} of "
        f"{len(words)} tests on single graphs find a trained method better than propagated features, and "
        f"{words.count(BETTER)} worse."
    )


def _decided(ranking: Ranking, base: str, titles: Sequence[str], name: str) -> str:
    """Return a sentence on the rows that are significantly better or worse than a base, which has a name in words."""
    ahead = [title for title in titles if base in ranking.beaten_by(title)]
    behind = [title for title in titles if title in ranking.beaten_by(base)]
    parts = [
        f"{listed(rows)} {'is' if len(rows) == 1 else 'are'} significantly {word}"
        for rows, word in ((ahead, "better"), (behind, "worse"))
        if rows
    ]
    rest = len(titles) - len(ahead) - len(behind)
    if not parts:
        verb = "separate neither" if len(titles) == 2 else f"separate none of the {len(titles)}"
        return f"Tests over the graphs {verb} from {name}."
    words = listed(parts)
    if rest:
        words += "; the other differences are undecided" if rest > 1 else "; the other difference is undecided"
    return f"By tests over the graphs, {words}."


def _paper(results: dict[str, Result]) -> Finding | None:
    tests = accuracy.against_others(results["accuracy"]) if "accuracy" in results else {}
    if not tests:
        return None
    words = [test.verdict for test in tests.values()]
    graphs = {graph for graph, _ in tests}
    return Finding(
        f"{PAPERS}, with its paper's settings, is better than another method in {words.count(BETTER)} of {len(words)} "
        f"tests, and worse in {words.count(WORSE)}.",
        paragraph(
            _against_ours(tests),
            f"The tests are on the {len(graphs)} measured graphs of the paper's main table.",
            "The settings of the others were published, tuned, or taken from a related graph.",
            _ranks_after_tuning(results),
        ),
    )


def _against_ours(tests: Mapping[tuple[str, str], PairedTest]) -> str:
    """Return how many of the tests of EPAGCL are against EPAGCL+, which its paper does not know."""
    own = [test.verdict for (_, title), test in tests.items() if title == OURS]
    return f"Of the tests that find it worse, {own.count(WORSE)} are against {OURS}." if own else ""


def _ranks_after_tuning(results: dict[str, Result]) -> str:
    """Return a sentence on the mean ranks of EPAGCL and its nearest relatives after tuning."""
    ranking = tuned_tables.ranking_of(results[TUNED]) if TUNED in results else None
    if ranking is None or any(title not in ranking.mean_ranks for title in (PAPERS, *RELATIVES)):
        return ""
    others = listed([f"{ranking.mean_ranks[title]:.1f} ({title})" for title in RELATIVES])
    return (
        f"If every method is tuned with one budget, {PAPERS} has mean rank {ranking.mean_ranks[PAPERS]:.1f} of "
        f"{len(ranking.mean_ranks)} rows, against {others}. {_decided(ranking, PAPERS, RELATIVES, PAPERS)}"
    )


def _rates(results: dict[str, Result]) -> Finding | None:
    if "add-vs-drop" not in results:
        return None
    result = results["add-vs-drop"]
    few = _few_new_pairs(result, result["asked"]["protocols"][0])
    kind = "pool" if few else "add"
    counts, means, gaps = [], [], add_vs_drop.all_gaps(result)
    for graph in measured_graphs(result):
        if tests := [test for (place, own, _), test in gaps.items() if (place, own) == (graph, kind)]:
            counts.append(f"{sum(test.verdict == BETTER for test in tests)} of {len(tests)} rates on {graph}")
            means.append(f"{fmean(test.mean for test in tests):+.1f} points on {graph}")
    if not counts:
        return None
    added = "random edges of a fixed pool" if few else "new random edges"
    note = " With new random edges for every view, there are too few runs." if few else ""
    alone, edges = _edges_alone(results)
    return Finding(
        f"Dropping edges is better than adding {added} at {listed(counts)}{alone}.",
        f"Dropping or adding edges is the only augmentation here. On average over the rates, the difference is "
        f"{listed(means)}.{note}"
        f"{_below_untrained(result, kind)}{edges}",
    )


def _below_untrained(result: Result, kind: str) -> str:
    """Return a sentence on the graphs on which adding leaves the encoder worse than untrained at every rate."""
    protocol = result["asked"]["protocols"][0]
    below = []
    for graph in measured_graphs(result):
        floor = scores(result, protocol, graph).get(UNTRAINED)
        added = [fmean(runs.values()) for runs in add_vs_drop.curves(result, protocol, graph)[kind].values()]
        if floor is not None and added and max(added) < floor:
            below.append(graph)
    return f" On {listed(below)}, adding edges gives a lower mean than no training, at every rate." if below else ""


def _edges_alone(results: dict[str, Result]) -> tuple[str, str]:
    """Return a clause and a sentence on dropping against adding with everything else equal."""
    tests = views_only.drop_over_add(results["views"]) if "views" in results else []
    if not tests:
        return "", ""
    words = [test.verdict for test in tests]
    means = [test.mean for test in tests]
    counts = f"on {words.count(BETTER)}, worse on {words.count(WORSE)}, undecided on {words.count(UNDECIDED)}"
    return (
        f"; with {PAPERS}'s probabilities, it is better than adding {counts} of {len(words)} graphs",
        f" {DROP_ONLY} minus {ADD_ONLY}, with {PAPERS}'s probabilities and amounts of edges and everything else equal, "
        f"is {fmean(means):+.1f} points over {len(words)} graphs (median {median(means):+.1f}).",
    )


def _few_new_pairs(result: Result, protocol: str) -> bool:
    """Return whether adding new random pairs was measured with fewer seeds than adding from a pool."""
    by_graph = [add_vs_drop.curves(result, protocol, graph) for graph in measured_graphs(result)]
    new, pool = ([len(runs) for one in by_graph for runs in one[kind].values()] for kind in ("add", "pool"))
    return min(new, default=0) < min(pool, default=0)


def _claims(results: dict[str, Result]) -> Finding | None:
    words = [verdict.word for _, verdict in judged(results)]
    counts = {word: words.count(word) for word in ("holds", "in part", "contradicted", "undecided")}
    if not words:
        return None
    return Finding(
        f"Of the paper's {sum(counts.values())} claims that were tested, {counts['holds']} hold, {counts['in part']} "
        f"hold in part, {counts['contradicted']} are contradicted, and {counts['undecided']} are undecided.",
        "The next table has all claims, with the numbers that decide them.",
    )


def figures(comparison: Comparison) -> "dict[str, Figure]":
    """Return the critical-difference diagram, and the accuracy of rows beyond propagated features."""
    ranking = ranking_of(comparison["results"], comparison["protocol"])
    if ranking is None:
        return {}
    return {RANKS: diagram(ranking), GAINS: _gain_figure(comparison, list(ranking.mean_ranks))}


def _gain_figure(comparison: Comparison, titles: list[str]) -> "Figure":
    scores = accuracies(comparison["results"], comparison["protocol"])
    drawn = [title for title in titles if is_trained(title) or title in (RAW, UNTRAINED_PREFIX + OURS)]
    figure, (axes,) = drawing.new_figure(1, 1, 7.4, 0.9 + 0.27 * len(drawn))
    for place, title in enumerate(drawn):
        gaps = [score - scores[PROPAGATED][graph] for graph, score in scores[title].items()]
        colour = drawing.COLOURS[1] if title == OURS else drawing.COLOURS[0]
        colour = drawing.GREY if title.startswith((UNTRAINED_PREFIX, RAW)) else colour
        axes.plot(gaps, [place] * len(gaps), "o", color=colour, alpha=0.45, markersize=5, markeredgewidth=0)
        axes.plot([fmean(gaps)] * 2, [place - 0.36, place + 0.36], color=colour, lw=2.5)
    axes.axvline(0, color="black", lw=0.8)
    drawing.label_rows(axes, drawn, fontsize=9)
    axes.set_xlabel("points above or below propagated features; bar: mean over graphs", fontsize=9)
    axes.grid(axis="x", lw=0.3)
    return figure
