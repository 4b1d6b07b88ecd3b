"""Accuracies of a result that consists of cells: by graph and row, beside the reported ones, and as ranks."""

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from epagcl.evaluation.scores import Spread
from epagcl.paper import published, reported_accuracy
from epagcl.paper.artefact import Result
from epagcl.paper.tables import TableCell, marked
from epagcl.runs.evaluation import REFERENCES
from epagcl.study.design import ORDER, rows
from epagcl.study.ranking import Ranking, by_observation, mean_ranks, rank
from epagcl.study.summary import by_seed, compared_rows

SUPERVISED = ("GCN", "GAT")
#: The paper's method, and this package's own.
PAPERS, OURS = "EPAGCL", "EPAGCL+"


def graphs_of(result: Result) -> list[str]:
    """Return the measured and the absent graphs, in the order of the request."""
    names = {*(cell["graph"]["name"] for cell in result["cells"]), *result["absent"]}
    order = {name.lower(): place for place, name in enumerate(result["asked"]["datasets"])}
    return sorted(names, key=lambda name: order.get(name.lower(), len(order)))


def measured_graphs(result: Result) -> list[str]:
    """Return the graphs that are not absent, in the order of the request."""
    return [graph for graph in graphs_of(result) if graph not in result["absent"]]


def titles_of(result: Result) -> list[str]:
    """Return the titles of the rows in the order of the table, including requested methods without a finished run."""
    titles = {cell["row"] for cell in result["cells"]}
    if titles and "methods" in result["asked"]:
        titles |= {row.title for row in rows(result["asked"]["methods"] or ORDER) if not row.reference}
    ordered = [row.title for row in rows() if row.title in titles]
    return [*ordered, *sorted(titles - set(ordered))]


def self_supervised_titles(result: Result) -> list[str]:
    """Return the titles of the self-supervised methods, which the paper ranks."""
    return [title for title in titles_of(result) if title not in (*REFERENCES, *SUPERVISED)]


def accuracies(result: Result, protocol: str, graph: str) -> dict[str, Spread]:
    """Return mean, standard deviation and runs of each row on a graph, between 0 and 1."""
    cells: list[dict[str, Any]] = [cell for cell in result["cells"] if cell["graph"]["name"] == graph]
    return {cell["row"]: cell["protocols"][protocol]["accuracy"] for cell in cells if protocol in cell["protocols"]}


def scores(result: Result, protocol: str, graph: str) -> dict[str, float]:
    """Return the mean accuracy of each row on a graph, in percent."""
    return {title: 100 * accuracy["mean"] for title, accuracy in accuracies(result, protocol, graph).items()}


def runs_by_seed(result: Result, protocol: str, graph: str) -> dict[str, dict[int, float]]:
    """Return the accuracy of each row on a graph by seed, in percent."""
    return {
        cell["row"]: by_seed(found)
        for cell in result["cells"]
        if cell["graph"]["name"] == graph and (found := cell["protocols"].get(protocol))
    }


def ranking_over_graphs(result: Result, protocol: str, titles: Sequence[str]) -> Ranking | None:
    """Rank rows by their mean accuracies on the measured graphs; None if they cannot be ranked."""
    by_graph = {graph: scores(result, protocol, graph) for graph in measured_graphs(result)}
    return rank(
        {title: {graph: found[title] for graph, found in by_graph.items() if title in found} for title in titles}
    )


def columns_by_graph(
    result: Result,
    protocol: str,
    titles: Sequence[str],
    signs: Mapping[tuple[str, str], str],
    unmarked: Collection[str] = (),
) -> list[list[TableCell]]:
    """Return a column for each measured graph: the mean accuracy of each row, and its sign.

    Args:
        result: the result.
        protocol: the protocol.
        titles: the rows.
        signs: what follows the accuracy, by (graph, row); nothing for others.
        unmarked: rows that are not marked as the best or the second best.
    """
    columns = []
    for graph in measured_graphs(result):
        found = scores(result, protocol, graph)
        texts = [f"{found[title]:.1f}{signs.get((graph, title), '')}" if title in found else "–" for title in titles]
        columns.append(marked([found.get(title) if title not in unmarked else None for title in titles], texts))
    return columns


def accuracy_lines(
    result: Result,
    protocol: str,
    titles: Sequence[str],
    signs: Mapping[tuple[str, str], str],
    ranking: Ranking | None,
) -> list[list[TableCell | str]]:
    """Return the lines of a table: each row with its mean accuracy on each measured graph, and its mean rank.

    Args:
        result: the result.
        protocol: the protocol.
        titles: the rows.
        signs: what follows the accuracy, by (graph, row).
        ranking: the mean ranks; rows without one have a dash.
    """
    ranks = [ranking.mean_ranks.get(title) if ranking else None for title in titles]
    rank_cells = marked(ranks, [f"{one:.1f}" if one is not None else "–" for one in ranks], smallest=True)
    columns = [*columns_by_graph(result, protocol, titles, signs), rank_cells]
    return [list(line) for line in zip(titles, *columns, strict=True)]


def usual_runs(result: Result, protocol: str, graph: str) -> int:
    """Return the number of runs that most rows have on a graph."""
    counts = [len(accuracy["runs"]) for accuracy in accuracies(result, protocol, graph).values()]
    return max(counts, key=counts.count, default=0)


def compared_scores(result: Result, protocol: str, graph: str) -> dict[str, float]:
    """Return the mean accuracy of each row that has enough runs on a graph to be compared, in percent."""
    found = accuracies(result, protocol, graph)
    compared = compared_rows({title: len(one["runs"]) for title, one in found.items()})
    return {title: 100 * one["mean"] for title, one in found.items() if title in compared}


class Ranks(NamedTuple):
    """Mean ranks of the methods with enough runs on every graph, the graphs, and the methods that are not ranked."""

    mean: dict[str, float]
    graphs: list[str]
    unranked: list[str]

    def place(self, title: str) -> int:
        """Return the place of a ranked method by its mean rank; methods of equal rank share the best place."""
        return 1 + sum(rank < self.mean[title] for rank in self.mean.values())


def ranks_of(result: Result, protocol: str) -> Ranks:
    """Rank the self-supervised methods over the graphs that were measured by a protocol.

    A mean over fewer graphs, or of very few runs, cannot be compared with the others. So a method that lacks a graph,
    or has too few runs there, is not ranked.
    """
    by_graph = {graph: compared_scores(result, protocol, graph) for graph in measured_graphs(result)}
    return _complete_ranks({graph: found for graph, found in by_graph.items() if found}, self_supervised_titles(result))


def reported_ranks_of(result: Result, protocol: str) -> Ranks:
    """Rank the methods by the paper's numbers on the same graphs."""
    graphs = [graph for graph in ranks_of(result, protocol).graphs if reported_scores(graph)]
    return _complete_ranks({graph: reported_scores(graph) for graph in graphs}, self_supervised_titles(result))


def _complete_ranks(by_graph: dict[str, dict[str, float]], titles: list[str]) -> Ranks:
    complete = [title for title in titles if by_graph and all(title in found for found in by_graph.values())]
    observed = by_observation(by_graph, complete)
    return Ranks(mean_ranks(observed, complete), list(by_graph), [title for title in titles if title not in complete])


def reported_scores(graph: str) -> dict[str, float]:
    """Return the mean accuracy that the paper reports for each row on a graph, in percent."""
    by_title = {row.title: published(graph, row.title).get("paper") for row in rows()}
    return {title: accuracy[0] for title, accuracy in by_title.items() if accuracy}


def reported_text(graph: str, title: str, protocol: str) -> str:
    """Return the accuracy that the paper reports, or "OOM", or nothing; under the public protocol, that of others."""
    if protocol == "public":
        accuracy = published(graph, title).get("public")
        return f"{accuracy[0]:.1f}" if accuracy else ""
    cell = reported_accuracy(graph, title)
    if cell is None or isinstance(cell, str):
        return cell or ""
    return f"{cell[0] if isinstance(cell, list) else cell:.1f}"


def reported_gaps(result: Result, protocol: str) -> dict[str, float]:
    """Return measured minus reported accuracy of each row in points, as a mean over graphs."""
    gaps: dict[str, list[float]] = {}
    for cell in result["cells"]:
        reported_score = reported_scores(cell["graph"]["name"]).get(cell["row"])
        if reported_score is not None and protocol in cell["protocols"]:
            measured = 100 * cell["protocols"][protocol]["accuracy"]["mean"]
            gaps.setdefault(cell["row"], []).append(measured - reported_score)
    return {title: fmean(values) for title, values in gaps.items()}
