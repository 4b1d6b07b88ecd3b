"""Tables and summaries on stdout."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from epagcl.core.formatting import counted, counted_span, mean_and_std, paragraph, percent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from epagcl.evaluation.health import FindingDict
    from epagcl.evaluation.scores import ScoresDict
    from epagcl.paper.tables import Table as ArtefactTable
    from epagcl.report.metrics import RunMetrics, SeedsMetrics
    from epagcl.study.comparison import CellResult
    from epagcl.study.ranking import Ranking
    from epagcl.study.summary import Results

#: Columns of the comparison after those of the protocols.
COMPARISON_COLUMNS = ("the paper", "elsewhere, random", "elsewhere, public", "seeds", "epochs", "s a model", "settings")


class DriftResult(TypedDict):
    """How far old nodes have moved, see :class:`epagcl.tasks.Drift`."""

    common: int
    median: float
    p95: float
    changed_neighbours: float | None
    novelty: float | None
    train_again: bool
    words: str


class AlignmentResult(TypedDict):
    """How well the axes of an earlier embedding could be kept, see :class:`epagcl.tasks.Alignment`."""

    residual: float
    common: int


class NeighbourhoodResult(TypedDict):
    """The part of the graph from which new nodes were embedded, see :class:`epagcl.methods.local.LocalEmbedding`."""

    hops: int
    nodes_used: int
    nodes_in_graph: int
    exact: bool
    error: float | None


class EmbeddingResult(TypedDict):
    """The result of ``epagcl embed``. ``model`` and ``report`` are None if they were not written."""

    nodes: int
    dim: int
    health: "list[FindingDict]"
    files: list[str]
    model: str | None
    report: str | None
    drift: NotRequired[DriftResult]
    alignment: NotRequired[AlignmentResult]
    neighbourhood: NotRequired[NeighbourhoodResult]


def table(*columns: str) -> "Table":
    """Return an empty table. A column whose name begins with > is right-aligned."""
    from rich import box
    from rich.table import Table

    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        right = column.startswith(">")  # numbers, which stay on one line
        result.add_column(column.removeprefix(">"), justify="right" if right else "left", no_wrap=right)
    return result


def show(*items: "str | Table") -> None:
    """Print text and tables on stdout."""
    console = _console()
    for item in items:
        console.print(item, highlight=False, markup=False) if isinstance(item, str) else console.print(item)


def _console() -> "Console":
    from rich.console import Console

    console = Console()
    # A pipe has no width, so lines are not wrapped.
    return console if console.is_terminal else Console(width=160)


def show_metrics(metrics: "RunMetrics | SeedsMetrics", folder: Path, title: str) -> None:
    """Print the summary of a run.

    Args:
        metrics: of the run.
        folder: the run folder.
        title: of the method.
    """
    graph = metrics["graph"]
    lines = [f"{graph['name']}: {graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['features']:,} features"]
    if graph["epr_per_node"] is not None:
        lines.append(f"EPR: {graph['epr_per_node']:.3f} per node, {graph['epr_per_edge']:.3f} per edge")
    items: list[str | Table] = ["\n".join(lines)]
    if "evaluation" in metrics:
        items += _score_items(metrics["evaluation"], metrics.get("references", {}), title)
    items += health_items(metrics.get("health", []), trained="epochs" in metrics["method"])
    page = folder / "report.html"
    items.append(f"run folder: {folder}" + (f"\nreport: {page}" if page.exists() else ""))
    show(*items)


def _score_items(scores: "ScoresDict", references: "Mapping[str, ScoresDict]", title: str) -> "list[str | Table]":
    """Return the table of scores and a line on how they were measured."""
    from epagcl.report.metrics import lost_to, untrained_note

    scores_table = table("embedding", ">accuracy", ">macro-F1", ">k-NN", ">NMI")
    for name, row in {**references, title: scores}.items():
        nearest = mean_and_std(100 * row["knn_accuracy"]["mean"], digits=2) if "knn_accuracy" in row else ""
        nmi = f"{row['clustering']['nmi']:.3f}" if "clustering" in row else ""
        macro_f1 = mean_and_std(100 * row["macro_f1"]["mean"], digits=2)
        scores_table.add_row(name, percent(row["accuracy"], digits=2), macro_f1, nearest, nmi)
    runs = counted(len(scores["accuracy"]["runs"]), "run")
    seeds = f" (seeds {', '.join(map(str, scores['split_seeds']))})" if scores["split_seeds"] else ""
    note = untrained_note(title, references)
    lost = lost_to(title, scores, references)
    how = f"protocol {scores['protocol']}, {runs}, splits {scores['split']}{seeds}, measured here"
    return [scores_table, *(line for line in (lost, note) if line), how]


def show_embedding(result: EmbeddingResult, *, trained: bool = True) -> None:
    """Print the summary of an embedding without a run folder.

    Args:
        result: of the command.
        trained: whether the method has a training.
    """
    health = health_items(result["health"], trained=trained)
    items = [f"{result['nodes']:,} nodes × {result['dim']} dimensions", *health]
    if used := result.get("neighbourhood"):
        error = "exact" if used["exact"] else f"estimated error {100 * (used['error'] or 0):.1f}% of the spread"
        part = f"{used['nodes_used']:,} of {used['nodes_in_graph']:,} nodes"
        items.append(f"from {counted(used['hops'], 'hop')} around them, {part}: {error}")
    if alignment := result.get("alignment"):
        nodes = counted(alignment["common"], "common node")
        items.append(f"aligned with {nodes}: residual {100 * alignment['residual']:.1f}%")
    if moved := result.get("drift"):
        items.append(moved["words"])
    items.append("written: " + ", ".join(result["files"]))
    items += [f"{what}: {result[what]}" for what in ("model", "report") if result[what] is not None]
    show(*items)


def health_items(findings: "Sequence[FindingDict]", *, trained: bool = True) -> "list[str | Table]":
    """Return the table of label-free health, a line on the whole, and advice on findings that are not good.

    Args:
        findings: of an embedding.
        trained: whether its method has a training.
    """
    from epagcl.evaluation.health import Finding, overall

    if not findings:
        return []
    health_table = table("health, no labels", ">value", "verdict")
    for finding in findings:
        health_table.add_row(finding["name"], finding["shown"], finding["verdict"])
    advice = [f"{finding['name']}: {finding['words']}" for finding in findings if finding["verdict"] != "good"]
    return [health_table, overall([Finding(**finding) for finding in findings], trained=trained), *advice]


def comparison_cells(name: str, result: "CellResult", protocols: Sequence[str]) -> list[str]:
    """Return a row of the comparison: the title, accuracy by each protocol, then :data:`COMPARISON_COLUMNS`.

    Args:
        name: of the graph.
        result: as :func:`epagcl.study.collect` returns it.
        protocols: the columns of measured accuracy.
    """
    from epagcl.paper import published
    from epagcl.runs.evaluation import UNTRAINED
    from epagcl.study.design import settings_source

    title = result["row"]
    figures = published(name, "untrained" if title == UNTRAINED else title) if result["named"] else {}
    scores = [result["protocols"].get(protocol) for protocol in protocols]
    cells = [title, *("–" if score is None else percent(score["accuracy"]) for score in scores)]
    for kind in ("paper", "random", "public"):
        mean, std = (*figures.get(kind, []), None, None)[:2]
        cells.append("–" if mean is None else mean_and_std(mean, std))
    training = result["training"]
    cells.append(str(len(result["seeds"])))
    if training is None or not any(training["epochs"]):
        return [*cells, "", "", ""]
    epochs = sum(training["epochs"]) / len(training["epochs"])
    seconds = sum(training["seconds"]) / len(training["seconds"])
    return [*cells, f"{epochs:.0f}", f"{seconds:.1f}", settings_source(result)]


def show_comparison(name: str, results: "Sequence[CellResult]", protocols: Sequence[str]) -> None:
    """Print the test accuracy of every row on a graph, measured here and published."""
    columns = ["accuracy", *(f">{column}" for column in (*protocols, *COMPARISON_COLUMNS[:-1])), COMPARISON_COLUMNS[-1]]
    rows = [comparison_cells(name, result, protocols) for result in results]
    used = [k for k in range(len(columns)) if any(row[k] not in ("–", "") for row in rows)]
    accuracy_table = table(*(columns[k] for k in used))
    for row in rows:
        accuracy_table.add_row(*(row[k] for k in used))
    hardware = ", ".join(sorted({device for result in results for device in result["hardware"]}))
    show(
        f"{name}: test accuracy in %. Seed k is scored on split k (strict, paper: random 10/10/80). Measured on "
        f"{hardware}, except for published results: the paper's table, and others by kind of split.",
        accuracy_table,
    )


def overall_table(results: "Results", ranking: "Ranking | None", protocol: str) -> "ArtefactTable":
    """Return the table over all graphs: accuracy of each row on each graph, then their mean and the mean rank.

    Ranked rows come first, the best at the top.

    Rows that lack a graph have no mean and no rank. The best of each column is marked, and the second best. Means of
    too few runs to be compared are in parentheses.

    Args:
        results: the results of each graph.
        ranking: of the rows by this protocol, if there is one.
        protocol: the protocol of the accuracies.
    """
    from epagcl.paper.tables import Table, marked
    from epagcl.study.summary import accuracies

    scores, compared = accuracies(results, protocol, min_runs=1), accuracies(results, protocol)
    order = dict.fromkeys([*(ranking.mean_ranks if ranking else []), *scores])
    scores = {title: scores[title] for title in order}
    graphs = [graph for graph in results if any(graph in row for row in scores.values())]
    columns = []
    for graph in graphs:
        solid = [compared.get(title, {}).get(graph) for title in scores]
        texts = _texts([row.get(graph) for row in scores.values()])
        thin = [value is None and text != "–" for value, text in zip(solid, texts, strict=True)]
        columns.append(marked(solid, [f"({text})" if few else text for few, text in zip(thin, texts, strict=True)]))
    means = [ranking.means.get(title) if ranking else None for title in scores]
    ranks = [ranking.mean_ranks.get(title) if ranking else None for title in scores]
    columns += [marked(means, _texts(means)), marked(ranks, _texts(ranks), smallest=True)]
    return Table(
        "",
        f"Test accuracy in percent on {counted(len(graphs), 'graph')}, protocol {protocol}",
        ["method", *short_names(graphs), "mean", "rank"],
        [[title, *cells] for title, *cells in zip(scores, *columns, strict=True)],
        overall_note(results, ranking, protocol),
    )


def _texts(values: Sequence[float | None]) -> list[str]:
    return ["–" if value is None else f"{value:.1f}" for value in values]


def short_names(graphs: Sequence[str]) -> list[str]:
    """Return short names of graphs for columns: Photo for Amazon-Photo. Names that would be equal stay long."""
    from epagcl.data.catalogue.entries import CATALOGUE

    aliased = {entry.name for entry in CATALOGUE.values() if entry.alias}
    short = [graph.rpartition("-")[2] if graph in aliased else graph for graph in graphs]
    return [graph if short.count(name) > 1 else name for graph, name in zip(graphs, short, strict=True)]


def overall_note(results: "Results", ranking: "Ranking | None", protocol: str) -> str:
    """Return the note of the table over all graphs: splits, seeds, tests and hardware."""
    from epagcl.study.summary import MIN_RUNS

    cells = [cell for row in results.values() for cell in row if protocol in cell["protocols"]]
    scores = [cell["protocols"][protocol] for cell in cells]
    splits = " or ".join(sorted({score["split"] for score in scores}))
    counts = sorted({len(score["seeds"]) for score in scores})
    seeds = counted_span(counts, "seed")
    sentences = [f"Protocol {protocol}, splits {splits}, {seeds}: seed k trains model k, which is scored on split k."]
    if ranking is not None:
        test = ranking.friedman
        sentences.append(
            f"The rank is the mean over the graphs, among the {len(ranking.mean_ranks)} ranked rows; 1 is "
            f"the best, and ties share their mean rank. Friedman test of equal ranks: χ² = {test.statistic:.1f} with "
            f"{test.degrees} degrees of freedom, p = {test.p:.2g}. Mean ranks that differ by "
            f"{ranking.critical_difference:.2f} or more are significantly different by Nemenyi's test at "
            f"{ranking.alpha:g}."
        )
        sentences.append(ranking.same_nodes_note)
    if counts[0] < MIN_RUNS <= counts[-1]:
        sentences.append(f"In parentheses: means of fewer than {MIN_RUNS} runs, which are not compared.")
    if ranking is not None and ranking.unranked:
        sentences.append(
            f"Not ranked, since results on some graphs are missing or too few: {', '.join(ranking.unranked)}."
        )
    hardware = " and ".join(sorted({device for cell in cells for device in cell["hardware"]}))
    sentences.append(f"Measured on {hardware}.")
    return paragraph(*sentences)


def groups_note(ranking: "Ranking") -> str:
    """Return a sentence on the bars of the critical-difference diagram."""
    pairs = f"{counted(len(ranking.pairs), 'pair')}, {ranking.alpha:g}"
    note = (
        f"A bar joins rows that do not differ significantly (Wilcoxon's test of each pair, Holm: {pairs}). Rows "
        "without a common bar need not differ."
    )
    if ranking.smallest_p >= ranking.alpha:
        note += f" With {counted(len(ranking.observations), 'observation')}, no pair can."
    return f"{note} The ruler is Nemenyi's critical difference, which the bars do not use."


def show_overall(results: "Results", ranking: "Ranking | None", protocol: str) -> None:
    """Print the table over all graphs and the critical-difference diagram."""
    from epagcl.study.diagram import as_text

    whole = overall_table(results, ranking, protocol)
    console, columns = _console(), len(whole.columns)
    unlimited = console.options.update_width(10_000)  # a measure within the console's width is never wider than it
    for parts in range(1, columns):  # a table that is wider than the terminal is continued below
        ends = [1 + (columns - 1) * part // parts for part in range(parts + 1)]
        tables = [artefact_table(_columns_of(whole, [0, *range(*span)])) for span in pairwise(ends)]
        if all(console.measure(part, options=unlimited).maximum <= console.width for part in tables):
            break
    show(f"{whole.title}. The best is bold, the second best underlined.", *tables, whole.note)
    if ranking is not None:
        title = "Mean ranks (1 is the best) and critical difference (CD)"
        show("", title, "", as_text(ranking), "", groups_note(ranking))


def _columns_of(whole: "ArtefactTable", chosen: Sequence[int]) -> "ArtefactTable":
    """Return some columns of a table."""
    rows = [[row[k] for k in chosen] for row in whole.rows]
    return replace(whole, columns=[whole.columns[k] for k in chosen], rows=rows)


def artefact_table(artefact: "ArtefactTable") -> "Table":
    """Return a table of the paper for the terminal: best in bold, runner-up underlined."""
    from rich.text import Text

    from epagcl.paper.tables import BEST, SECOND, mark

    first, *others = artefact.columns
    result = table(first, *(f">{column}" for column in others))
    styles = {BEST: "bold", SECOND: "underline", "": ""}
    for row in artefact.rows:
        result.add_row(*(Text(str(cell), style=styles[mark(cell)]) for cell in row))
    return result
