"""What the tables of the tuned methods show, in sentences."""

from collections import Counter
from statistics import fmean

from epagcl.core.formatting import counted, listed, paragraph
from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import OURS, graphs_of, measured_graphs, scores
from epagcl.paper.collapses import collapsed_reading
from epagcl.paper.tuned.budget import PROTOCOL, TRIALS
from epagcl.paper.tuned.tables import ranking_of, titles_of, untrained_gains
from epagcl.runs.evaluation import PROPAGATED, RAW
from epagcl.study.paired_test import WORSE
from epagcl.study.ranking import Ranking, rank


def reading(result: Result) -> list[str]:
    """Return paragraphs on the ranking with one budget, on training, on collapsed runs, and on what is missing."""
    ranking, titles = ranking_of(result), titles_of(result)
    paragraphs = []
    if ranking is not None:
        best = ", ".join(f"{title} {value:.1f}" for title, value in list(ranking.mean_ranks.items())[:5])
        beaten = {title: rows for title in ranking.mean_ranks if (rows := ranking.beaten_by(title))}
        pairs = [
            f"{title} from {min(listed(sorted(rows)), ranking.beaten_rows(title), key=len)}"
            for title, rows in beaten.items()
        ]
        test = f"Wilcoxon's test of each pair, Holm: {counted(len(ranking.pairs), 'pair')}"
        differ = f"These differ significantly: {'; '.join(pairs)}. No other pair does" if pairs else "No pair differs"
        paragraphs.append(
            paragraph(
                f"**Mean ranks over {len(ranking.graphs)} graphs**, the best first: {best}. {differ} ({test}).",
                ranking.same_nodes_note,
            )
        )
    for other in (PROPAGATED, RAW):
        behind = {
            title: gain
            for title in titles
            if title not in (RAW, PROPAGATED) and round(gain := _mean_gain(result, title, other), 1) < 0
        }
        if behind and other in titles:
            words = listed([f"{title} {-gain:.1f}" for title, gain in behind.items()])
            paragraphs.append(f"Tuned, and on average over the graphs below {other}, in points: {words}.")
    gains = untrained_gains(result)
    if ahead := Counter(graph for (graph, _), test in gains.items() if test.mean < 0):
        decided = sum(test.verdict == WORSE for test in gains.values())
        where = ", ".join(f"{graph} {count}" for graph, count in ahead.most_common())
        ours = [graph for (graph, title), test in gains.items() if title == OURS and test.mean < 0]
        paragraphs.append(
            f"A method's own untrained encoder has a higher mean than the tuned method in {ahead.total()} of "
            f"{len(gains)} cases ({where}; {OURS}: {listed(ours)}). "
            f"{f'Tests decide {decided}' if decided else 'No test decides any'} of them."
        )
    paragraphs += _without_first_trial(result)
    paragraphs += collapsed_reading(result, PROTOCOL)
    absent = [graph for graph in graphs_of(result) if graph in result["absent"]]
    if absent:
        paragraphs.append(f"Not measured: {', '.join(absent)}.")
    return paragraphs


def _without_first_trial(result: Result) -> list[str]:
    """Return a paragraph on the ranking without the recipes, from which the searches start, if it can be made."""
    every, others = validation_ranking(result), validation_ranking(result, first=1)
    if every is None or others is None or OURS not in others.mean_ranks:
        return []
    best, rest = (
        ", ".join(f"{title} {value:.1f}" for title, value in list(ranking.mean_ranks.items())[:3])
        for ranking in (every, others)
    )
    return [
        f"**Without the first trial**, which has the settings of the recipe: by the best validation accuracy of the "
        f"other {TRIALS - 1} trials, the mean ranks of {len(others.mean_ranks)} methods begin with {rest}, and {OURS} "
        f"is significantly better than {others.beaten_rows(OURS)}. By the best of all trials, they begin with {best}. "
        "No test node enters these ranks."
    ]


def validation_ranking(result: Result, first: int = 0) -> Ranking | None:
    """Rank the methods by the best validation accuracy of their trials, as a mean over the searches on a graph.

    Args:
        result: the result.
        first: the first trial that counts.
    """
    by_row: dict[str, dict[str, float]] = {}
    for cell in result["cells"]:
        searches = [search["trials"][first:] for search in cell["searches"]]
        measured = [[one["validation"] for one in own if one["validation"] is not None] for own in searches]
        if best := [100 * max(own) for own in measured if own]:
            by_row.setdefault(cell["row"], {})[cell["graph"]["name"]] = fmean(best)
    return rank(by_row)


def _mean_gain(result: Result, title: str, other: str) -> float:
    """Return the mean difference of two rows over the graphs that have both; 0 without any."""
    found = [scores(result, PROTOCOL, graph) for graph in measured_graphs(result)]
    gains = [one[title] - one[other] for one in found if title in one and other in one]
    return fmean(gains) if gains else 0.0
