"""The tables of ``epagcl epr`` on stdout."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from epagcl.cli.rendering import show, table

if TYPE_CHECKING:
    from rich.table import Table

    from epagcl.epr.relations import RelationRates
    from epagcl.epr.summary import EPRSummary
    from epagcl.runs.operators import OperatorReport


def show_epr(
    name: str,
    summary: "EPRSummary | None",
    ids: Sequence[Any],
    report: "OperatorReport",
    relations: "Sequence[RelationRates]" = (),
) -> None:
    """Print the EPR of a graph in all its forms, of operators, and the most harmful edges.

    Args:
        name: of the graph.
        summary: of the graph; None without labels.
        ids: the user's ids of the nodes.
        report: of the operators.
        relations: the kinds or directions of edges, if there are several.
    """
    items: list[str | Table] = [] if summary is None else _epr_items(name, summary)
    if relations:
        items.append(_relation_table(relations))
    items += _operator_items(report)
    if summary is not None:
        harm = table("edge", ">EPR change if removed", ">by Theorem 3.5")
        for edge in summary.most_harmful:
            harm.add_row(f"{ids[edge.i]} – {ids[edge.j]}", f"{edge.change:+.3e}", f"{edge.predicted:+.3e}")
        items += ["Edges whose removal lowers EPR most (per edge, Prop. 3.2):", harm]
    show(*items)


def _epr_items(name: str, summary: "EPRSummary") -> "list[str | Table]":
    """Return the shape of a labelled graph, and the table of its EPR along edges."""
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
    return [shape, rates]


def _relation_table(relations: "Sequence[RelationRates]") -> "Table":
    """Return the table of the relations."""
    rows = table("relation", ">edges", ">EPR per node", ">per edge")
    for each in relations:
        rates = ("–", "–") if each.epr is None else (f"{each.epr.per_node:.4f}", f"{each.epr.per_edge:.4f}")
        rows.add_row(each.name, f"{each.edges:,}", *rates)
    return rows


def _operator_items(report: "OperatorReport") -> "list[str | Table]":
    """Return the table of the operators with the columns that are known, and a legend."""
    columns = {
        "per node": ("per_node", "{:.4f}"),
        "per edge": ("per_edge", "{:.4f}"),
        "/ chance": ("relative", "{:.3f}"),
        "estimate, no labels": ("estimate", "{:.3f}"),
        "messages": ("messages", "{:.1f}"),
        "gain": ("gain", "{:.2f}"),
        "gain, no labels": ("estimated_gain", "{:.2f}"),
    }
    rows = [row.to_dict() for row in report.rows]
    known = {words: column for words, column in columns.items() if any(row[column[0]] is not None for row in rows)}
    operators = table("EPR with own message", *(f">{words}" for words in known))
    for row in rows:
        cells = ("–" if row[field] is None else form.format(row[field]) for field, form in known.values())
        operators.add_row(row["name"], *cells)
    legend = (
        "estimate: of EPR / chance, where chance is the EPR of random messages; gain: (1 − EPR / chance)² × effective "
        "messages, 1 for raw features X"
    )
    if report.structure is None:
        return [operators, legend]
    score = f"structure score, no labels: {report.structure:.3f} (0.5: edges say nothing about features; at most 1)"
    return [operators, legend, score]
