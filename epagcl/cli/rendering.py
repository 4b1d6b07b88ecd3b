"""Tables and summaries on stdout."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from epagcl.core.formatting import counted, mean_and_std, percent

if TYPE_CHECKING:
    from rich.table import Table

    from epagcl.epr.summary import EPRSummary
    from epagcl.evaluation.health import FindingDict
    from epagcl.evaluation.scores import ScoresDict
    from epagcl.paper.tables import Table as ArtefactTable
    from epagcl.report.metrics import RunMetrics, SeedsMetrics
    from epagcl.study.comparison import CellResult

#: Columns of the comparison after those of the protocols.
COMPARISON_COLUMNS = ("the paper", "elsewhere, random", "elsewhere, public", "seeds", "epochs", "s a model", "settings")


class EmbeddingResult(TypedDict):
    """The result of ``epagcl embed``. ``model`` and ``report`` are None if they were not written."""

    nodes: int
    dim: int
    health: "list[FindingDict]"
    files: list[str]
    model: str | None
    report: str | None


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
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=160)  # a pipe has no width, so lines are not wrapped
    for item in items:
        console.print(item, highlight=False, markup=False) if isinstance(item, str) else console.print(item)


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
    items += health_items(metrics.get("health", []))
    page = folder / "report.html"
    items.append(f"run folder: {folder}" + (f"\nreport: {page}" if page.exists() else ""))
    show(*items)


def _score_items(scores: "ScoresDict", references: "Mapping[str, ScoresDict]", title: str) -> "list[str | Table]":
    """Return the table of scores and a line on how they were measured."""
    scores_table = table("embedding", ">accuracy", ">macro-F1", ">k-NN", ">NMI")
    for name, row in {**references, title: scores}.items():
        nearest = mean_and_std(100 * row["knn_accuracy"]["mean"], digits=2) if "knn_accuracy" in row else ""
        nmi = f"{row['clustering']['nmi']:.3f}" if "clustering" in row else ""
        macro_f1 = mean_and_std(100 * row["macro_f1"]["mean"], digits=2)
        scores_table.add_row(name, percent(row["accuracy"], digits=2), macro_f1, nearest, nmi)
    runs = counted(len(scores["accuracy"]["runs"]), "run")
    seeds = f" (seeds {', '.join(map(str, scores['split_seeds']))})" if scores["split_seeds"] else ""
    return [scores_table, f"protocol {scores['protocol']}, {runs}, splits {scores['split']}{seeds}, measured here"]


def show_embedding(result: EmbeddingResult) -> None:
    """Print the summary of an embedding without a run folder."""
    items = [f"{result['nodes']:,} nodes × {result['dim']} dimensions", *health_items(result["health"])]
    items.append("written: " + ", ".join(result["files"]))
    items += [f"{what}: {result[what]}" for what in ("model", "report") if result[what] is not None]
    show(*items)


def health_items(findings: "Sequence[FindingDict]") -> "list[str | Table]":
    """Return the table of label-free health, a line on the whole, and advice on findings that are not good."""
    from epagcl.evaluation.health import Finding, overall

    if not findings:
        return []
    health_table = table("health, no labels", ">value", "verdict")
    for finding in findings:
        health_table.add_row(finding["name"], finding["shown"], finding["verdict"])
    advice = [f"{finding['name']}: {finding['words']}" for finding in findings if finding["verdict"] != "good"]
    return [health_table, overall([Finding(**finding) for finding in findings]), *advice]


def comparison_cells(name: str, result: "CellResult", protocols: Sequence[str]) -> list[str]:
    """Return a row of the comparison: the title, accuracy by each protocol, then :data:`COMPARISON_COLUMNS`.

    Args:
        name: of the graph.
        result: as :func:`epagcl.study.collect` returns it.
        protocols: the columns of measured accuracy.
    """
    from epagcl.paper import published
    from epagcl.study.design import UNTRAINED, settings_source

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


def show_epr(name: str, summary: "EPRSummary", ids: Sequence[Any]) -> None:
    """Print the EPR of a graph in all its forms, the shape of the graph, and the most harmful edges.

    Args:
        name: of the graph.
        summary: of the graph.
        ids: the user's ids of the nodes.
    """
    rates = table("EPR", ">per node", ">per edge")
    for words, rate in (
        ("edges, d", summary.epr),
        ("edges, d + 1 (GCN)", summary.epr_self_loops),
        ("2 hops", summary.epr_2_hops),
    ):
        rates.add_row(words, f"{rate.per_node:.4f}", f"{rate.per_edge:.4f}")
    shape = (
        f"{name}: {summary.num_nodes:,} nodes, {summary.num_edges:,} edges, {summary.num_classes} classes, "
        f"{summary.isolated_nodes:,} isolated\n"
        f"degree: {summary.degree_min} to {summary.degree_max}, mean {summary.degree_mean:.2f}, "
        f"median {summary.degree_median:g}; homophily: {summary.edge_homophily:.4f} of edges, "
        f"{summary.node_homophily:.4f} per node\n"
        f"Theorem 3.3 requires d_max ≤ 4·d_min − 1: {'met' if summary.theorem_3_3.holds else 'not met'}"
    )
    harm = table("edge", ">EPR change if removed", ">by Theorem 3.5")
    for edge in summary.most_harmful:
        harm.add_row(f"{ids[edge.i]} – {ids[edge.j]}", f"{edge.change:+.3e}", f"{edge.predicted:+.3e}")
    show(shape, rates, "Edges whose removal lowers EPR most (per edge, Prop. 3.2):", harm)


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
