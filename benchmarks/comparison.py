"""The comparison of all methods on all graphs in README and docs, generated from ``results/comparison.json``.

``epagcl compare ... --save results/comparison.json`` writes that file. Without it, the blocks are empty. The paragraph
on tuned methods comes from ``results/paper/tuned.json``.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from epagcl.cli.rendering import groups_note, overall_table, short_names
from epagcl.core.errors import InputError
from epagcl.core.formatting import counted, listed, paragraph
from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import OURS, SUPERVISED
from epagcl.paper.page.first_page import rank_without_penalty
from epagcl.paper.page.whole_methods import origin, training_gains
from epagcl.paper.tables import Table, escape_stars, markdown, marked, wrap
from epagcl.paper.tuned import tables as tuned_tables
from epagcl.paper.tuned.budget import EPOCHS, TRIALS
from epagcl.study.diagram import save_diagram
from epagcl.study.paired_test import BETTER, UNDECIDED, WORSE, PairedTest
from epagcl.study.ranking import Ranking
from epagcl.study.summary import Comparison, accuracies, ranking_of, read_comparison

#: The blocks of README and docs that this module fills.
BLOCKS = ("comparison", "ranking", "by-method", "by-graph", "training")
FIGURE = "comparison.svg"


@dataclass(frozen=True)
class Standing:
    """A row over all graphs: on how many it is the best, and how far it is behind the best of the others.

    Attributes:
        title: of the row.
        best_on: number of graphs on which no row is better.
        behind: points behind the best other row on the graph where it is furthest behind; negative: always ahead.
        graph: that graph.
        rivals: each graph on which a row is better, with the best of them and its lead in points, the largest first.
    """

    title: str
    best_on: int
    behind: float
    graph: str
    rivals: dict[str, tuple[str, float]]


def blocks(path: Path) -> dict[str, str]:
    """Return the text of each block: ``comparison`` in README, the others in docs.

    Args:
        path: the file of the comparison. If it does not exist, all blocks are empty.
    """
    if not path.exists():
        return dict.fromkeys(BLOCKS, "")
    comparison = read_comparison(path)
    ranking = _ranking(comparison)
    image = f"![Mean ranks of all methods over {len(ranking.graphs)} graphs]({{}}/{FIGURE})\n"
    groups, table = wrap(groups_note(ranking)) + "\n", _main_table(comparison, ranking)
    tuned, limits = (read_result(path.parent, name) for name in ("tuned", "accuracy"))
    words = [*after_tuning(tuned), *limits_of_ours(limits)]
    return {
        "comparison": "\n".join(
            [table, image.format("docs/figures"), groups, *after_tuning(tuned, "docs/"), *limits_of_ours(limits)]
        ),
        "ranking": "\n".join([wrap(reading(comparison)) + "\n", *words, image.format("figures"), groups]),
        "by-method": by_method(comparison),
        "by-graph": table,
        "training": training(comparison),
    }


def read_result(folder: Path, artefact: str) -> Result | None:
    """Return the result of an artefact in a folder of results, if there is one."""
    path = folder / "paper" / f"{artefact}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def after_tuning(tuned: Result | None, docs: str = "") -> list[str]:
    """Return a paragraph on the methods tuned with one budget; none without results.

    Args:
        tuned: the result of the tuned track.
        docs: folder of the documentation, as the page with the paragraph sees it.
    """
    words = tuned_tables.standing(tuned) if tuned else ""
    if not words:
        return []
    page = f"[Whole methods with one budget]({docs}results.md#whole-methods-with-one-budget)"
    budget = f"{TRIALS} trials of at most {EPOCHS} epochs"
    text = f"If every method is tuned with the same budget ({budget}), {OURS} has {words}. {page} has the table."
    return [wrap(text) + "\n"]


def limits_of_ours(accuracy: Result | None) -> list[str]:
    """Return a paragraph on what the lead of EPAGCL+ rests on."""
    without_penalty = rank_without_penalty({"accuracy": accuracy} if accuracy else {})
    words = f"The one setting of {OURS} was chosen by validation accuracy over these graphs."
    return [wrap(paragraph(words, without_penalty)) + "\n"]


def training(comparison: Comparison) -> str:
    """Return a paragraph on what training adds to a method's own encoder; nothing without untrained encoders."""
    gains = training_gains(comparison)
    if not gains:
        return ""
    verdicts = Counter(test.verdict for test in gains.values())
    by_graph: dict[str, list[PairedTest]] = {}
    for (graph, _), test in gains.items():
        by_graph.setdefault(graph, []).append(test)
    better = {graph: sum(test.verdict == BETTER for test in tests) for graph, tests in by_graph.items()}
    short = dict(zip(better, short_names(list(better)), strict=True))
    mostly = [graph for graph in better if 2 * better[graph] > len(by_graph[graph])]
    others = [graph for graph in better if graph not in mostly]
    behind = sum(test.mean < 0 for graph in others for test in by_graph[graph])
    sentences = [
        f"Of {len(gains)} tests of a method against its own encoder with initial weights, {verdicts[BETTER]} find the "
        f"trained one better and {verdicts[WORSE]} worse; {verdicts[UNDECIDED]} are undecided."
    ]
    if mostly:
        where = listed([f"{short[graph]} ({better[graph]} of {len(by_graph[graph])})" for graph in mostly])
        sentences.append(f"Most tests find it better on {where}.")
    if others:
        total = sum(len(by_graph[graph]) for graph in others)
        sentences.append(
            f"On {listed([short[graph] for graph in others])}, half of them or fewer do, and the untrained encoder "
            f"has the higher mean in {behind} of {total} cases."
        )
    return wrap(" ".join(sentences)) + "\n"


def draw(path: Path, folder: Path) -> None:
    """Draw the critical-difference diagram into a folder, if there is a comparison."""
    if path.exists():
        save_diagram(_ranking(read_comparison(path)), folder / FIGURE)


def standings(comparison: Comparison) -> list[Standing]:
    """Return the standing of each ranked row, the best mean rank first."""
    scores = accuracies(comparison["results"], comparison["protocol"])
    ranking = _ranking(comparison)
    result = []
    for title in ranking.mean_ranks:
        leads = {
            graph: max((row[graph] - score, other) for other, row in scores.items() if other != title and graph in row)
            for graph, score in scores[title].items()
        }
        order = sorted(leads, key=leads.__getitem__, reverse=True)
        rivals = {graph: (leads[graph][1], leads[graph][0]) for graph in order if leads[graph][0] > 0}
        result.append(Standing(title, len(leads) - len(rivals), leads[order[0]][0], order[0], rivals))
    return result


def by_method(comparison: Comparison) -> str:
    """Return a table of the ranked rows: mean, rank, graphs won, and the largest deficit."""
    ranking, rows = _ranking(comparison), standings(comparison)
    titles = [row.title for row in rows]
    means, ranks = [ranking.means[title] for title in titles], list(ranking.mean_ranks.values())
    behind = [row.behind for row in rows]
    graphs = dict(zip(ranking.graphs, short_names(ranking.graphs), strict=True))
    columns = [
        marked(means, [f"{mean:.1f}" for mean in means]),
        marked(ranks, [f"{rank:.1f}" for rank in ranks], smallest=True),
        [str(row.best_on) for row in rows],
        marked(behind, [f"{row.behind:.1f} ({graphs[row.graph]})".replace("-", "−") for row in rows], smallest=True),
    ]
    heads = ["method", "mean", "rank", "best on", "furthest behind"]
    note = paragraph(
        f"Mean accuracy and mean rank over {counted(len(ranking.graphs), 'graph')}; the number of graphs on which no "
        "row is better; the points behind the best other row on the graph where a row is furthest behind (negative: "
        "ahead on every graph).",
        ranking.same_nodes_note,
    )
    title = f"All methods, protocol {comparison['protocol']}"
    return markdown(Table("", title, heads, [list(row) for row in zip(titles, *columns, strict=True)], note))


def reading(comparison: Comparison) -> str:
    """Return the result in words: the best row, the rows that differ significantly from it, and where it is behind."""
    ranking = _ranking(comparison)
    first, second, *_ = standings(comparison)
    short = dict(zip(ranking.graphs, short_names(ranking.graphs), strict=True))
    where = listed([f"{short[graph]} ({rival}, by {lead:.1f})" for graph, (rival, lead) in first.rivals.items()])
    behind = f"Another row is better on {where}" if first.rivals else "No row is better on any graph"
    return escape_stars(
        f"Over {counted(len(ranking.graphs), 'graph')}, {first.title} has the best mean rank, "
        f"{ranking.mean_ranks[first.title]:.1f} of {len(ranking.mean_ranks)} rows, with a mean accuracy of "
        f"{ranking.means[first.title]:.1f}%. It is the best on {first.best_on}. {behind}. "
        f"It is significantly better than {ranking.beaten_rows(first.title)} "
        f"(Wilcoxon's signed-rank test with Holm's correction, {ranking.alpha:g}). The "
        "second best mean rank is "
        f"{ranking.mean_ranks[second.title]:.1f} ({second.title}, with a mean accuracy of "
        f"{ranking.means[second.title]:.1f}%)."
    )


def _main_table(comparison: Comparison, ranking: Ranking) -> str:
    table = overall_table(comparison["results"], ranking, comparison["protocol"])
    supervised = [str(row[0]) for row in table.rows if row[0] in SUPERVISED]
    labels = f" {' and '.join(supervised)} are trained with labels." if supervised else ""
    note = f"{table.note.rpartition(' Measured on ')[0]}{labels}"
    text = markdown(Table(table.slug, table.title, table.columns, table.rows, note))
    folded = ["<details><summary>How this was measured</summary>", "", wrap(origin(comparison)), "", "</details>", ""]
    return "\n".join([text, *folded])


def _ranking(comparison: Comparison) -> Ranking:
    ranking = ranking_of(comparison["results"], comparison["protocol"])
    if ranking is None:
        raise InputError("results/comparison.json: nothing is ranked; compare at least two graphs")
    return ranking
