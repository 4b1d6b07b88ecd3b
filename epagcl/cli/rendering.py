"""What the terminal shows: progress, tables, the summary of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from epagcl.epr.summary import EPRSummary
    from epagcl.paper.tables import Table as ArtefactTable


def table(*columns: str) -> "Table":
    """A plain table; a column whose name begins with > is right-aligned."""
    from rich import box
    from rich.table import Table

    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        right = column.startswith(">")  # numbers, which stay on one line
        result.add_column(column.removeprefix(">"), justify="right" if right else "left", no_wrap=right)
    return result


def show(*items: Any) -> None:
    """Text and tables on stdout."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=160)  # a pipe has no width to fold to
    for item in items:
        console.print(item, highlight=False, markup=False) if isinstance(item, str) else console.print(item)


def show_metrics(metrics: dict[str, Any], folder: Path, title: str) -> None:
    """The closing summary of a run."""
    graph = metrics["graph"]
    rate = graph["epr_per_node"]
    lines = [f"{graph['name']}: {graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['features']:,} features"]
    if rate is not None:
        lines.append(f"EPR: {rate:.3f} per node, {graph['epr_per_edge']:.3f} per edge")
    items: list[Any] = ["\n".join(lines)]
    if "evaluation" in metrics:
        scores_table = table("embedding", ">accuracy", ">macro-F1", ">k-NN", ">NMI")
        rows = {**metrics.get("references", {}), title: metrics["evaluation"]}
        for name, scores in rows.items():
            nearest = f"{100 * scores['knn_accuracy']['mean']:.2f}" if "knn_accuracy" in scores else ""
            nmi = f"{scores['clustering']['nmi']:.3f}" if "clustering" in scores else ""
            accuracy, f1 = scores["accuracy"], scores["macro_f1"]
            spread = f" ± {100 * accuracy['std']:.2f}" if len(accuracy["runs"]) > 1 else ""
            scores_table.add_row(name, f"{100 * accuracy['mean']:.2f}{spread}", f"{100 * f1['mean']:.2f}", nearest, nmi)
        scores = metrics["evaluation"]
        count = len(scores["accuracy"]["runs"])
        runs = f"{count} run{'s' * (count > 1)}"
        seeds = f" (seeds {', '.join(map(str, scores['split_seeds']))})" if scores["split_seeds"] else ""
        items += [
            scores_table,
            f"protocol {scores['protocol']}, {runs}, splits {scores['split']}{seeds}, measured here",
        ]
    items += health_items(metrics.get("health", []))
    page = folder / "report.html"
    items.append(f"run folder: {folder}" + (f"\nreport: {page}" if page.exists() else ""))
    show(*items)


def show_embedding(result: dict[str, Any]) -> None:
    """The closing summary of an embedding without a run folder."""
    items = [f"{result['nodes']:,} nodes × {result['dim']} dimensions", *health_items(result["health"])]
    items.append("written: " + ", ".join(result["files"]))
    items += [f"{what}: {result[what]}" for what in ("model", "report") if result[what] is not None]
    show(*items)


def health_items(findings: list[dict[str, Any]]) -> list[Any]:
    """Label-free health: the table, a line on the whole, and advice where something is not good."""
    from epagcl.evaluation.health import Finding, overall

    if not findings:
        return []
    shown = table("health, no labels", ">value", "verdict")
    for finding in findings:
        shown.add_row(finding["name"], finding["shown"], finding["verdict"])
    advice = [f"{finding['name']}: {finding['words']}" for finding in findings if finding["verdict"] != "good"]
    return [shown, overall([Finding(**finding) for finding in findings]), *advice]


def comparison_cells(name: str, result: dict[str, Any], protocols: list[str]) -> list[str]:
    """A row of the comparison: measured by each protocol, then what was published, then how it was made."""
    from epagcl.paper import published
    from epagcl.study.cells import settings_source

    title = result["row"]
    figures = published(name, "untrained" if title == "untrained encoder" else title) if result["named"] else {}
    cells = [title]
    for protocol in protocols:
        accuracy = result["protocols"].get(protocol, {}).get("accuracy")
        spread = f" ± {100 * accuracy['std']:.1f}" if accuracy is not None and len(accuracy["runs"]) > 1 else ""
        cells.append("–" if accuracy is None else f"{100 * accuracy['mean']:.1f}{spread}")
    for kind in ("paper", "random", "public"):
        cells.append(" ± ".join(f"{value:.1f}" for value in figures[kind]) if kind in figures else "–")
    training = result["training"]
    cells.append(str(len(result["seeds"])))
    if training is None or not any(training["epochs"]):
        return [*cells, "", "", ""]
    epochs = sum(training["epochs"]) / len(training["epochs"])
    seconds = sum(training["seconds"]) / len(training["seconds"])
    return [*cells, f"{epochs:.0f}", f"{seconds:.1f}", settings_source(result)]


COMPARISON_COLUMNS = ("the paper", "elsewhere, random", "elsewhere, public", "seeds", "epochs", "s a model", "settings")


def show_comparison(name: str, results: list[dict[str, Any]], protocols: list[str]) -> None:
    """Test accuracy of every row on a graph, measured here and published."""
    columns = ["accuracy", *(f">{column}" for column in (*protocols, *COMPARISON_COLUMNS[:-1])), COMPARISON_COLUMNS[-1]]
    cells = [comparison_cells(name, result, protocols) for result in results]
    used = [k for k in range(len(columns)) if any(row[k] not in ("–", "") for row in cells)]
    shown = table(*(columns[k] for k in used))
    for row in cells:
        shown.add_row(*(row[k] for k in used))
    hardware = ", ".join(sorted({device for result in results for device in result["hardware"]}))
    show(
        f"{name}: test accuracy in %, split k for seed k (strict, paper: random 10/10/80); measured on "
        f"{hardware}; then the paper's table and figures published elsewhere, by split",
        shown,
    )


def show_epr(name: str, summary: "EPRSummary", ids: list) -> None:
    """EPR in all its forms, the shape of the graph, and the edges that do the most harm."""
    rates = table("EPR", ">per node", ">per edge")
    for words, rate in (
        ("edges, d", summary.epr),
        ("edges, d + 1 (GCN)", summary.epr_self_loops),
        ("2 hops", summary.epr_2_hops),
    ):
        rates.add_row(words, f"{rate.per_node:.4f}", f"{rate.per_edge:.4f}")
    theorem = summary.theorem_3_3
    shape = (
        f"{name}: {summary.num_nodes:,} nodes, {summary.num_edges:,} edges, {summary.num_classes} classes, "
        f"{summary.isolated_nodes:,} isolated\n"
        f"degree: {summary.degree_min} to {summary.degree_max}, mean {summary.degree_mean:.2f}, "
        f"median {summary.degree_median:g}; homophily: {summary.edge_homophily:.4f} of edges, "
        f"{summary.node_homophily:.4f} per node\n"
        f"Theorem 3.3 asks d_max ≤ 4·d_min − 1: {'met' if theorem.holds else 'not met'}"
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
    shown = table(first, *(f">{column}" for column in others))
    styles = {BEST: "bold", SECOND: "underline", "": ""}
    for row in artefact.rows:
        shown.add_row(*(Text(str(cell), style=styles[mark(cell)]) for cell in row))
    return shown
