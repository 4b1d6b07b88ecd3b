"""Appendix G: graphs whose neighbours are mostly of other classes, on random 10/10/80 and on Geom-GCN's splits."""

from epagcl.paper import accuracy
from epagcl.paper.artefact import Artefact, Result
from epagcl.study.cells import RAW


def reading(result: Result) -> list[str]:
    """What the appendix claims, and what it leaves out."""
    graphs = [graph for graph in accuracy.graphs_of(result) if graph not in result["absent"]]
    words = []
    for protocol, name in (
        ("paper", "random 10/10/80 splits, the paper's protocol"),
        ("public", "Geom-GCN's 48/32/20 splits"),
    ):
        if protocol not in result["asked"]["protocols"]:
            continue
        scores = {graph: accuracy.scores(result, protocol, graph) for graph in graphs}
        both = {g: s["EPAGCL"] - s["GCA"] for g, s in scores.items() if "EPAGCL" in s and "GCA" in s}
        if both:
            told = ", ".join(f"{graph} {gap:+.1f}" for graph, gap in both.items())
            wins = sum(gap > 0 for gap in both.values())
            words.append(f"**EPAGCL over GCA**, {name}: ahead on {wins} of {len(both)} graphs ({told} points).")
        raw = {g: s["EPAGCL"] - s[RAW] for g, s in scores.items() if "EPAGCL" in s and RAW in s}
        if raw:
            told = ", ".join(f"{graph} {gap:+.1f}" for graph, gap in raw.items())
            below = sum(gap < 0 for gap in raw.values())
            words.append(
                f"**EPAGCL over the raw features**, {name}: below them on {below} of {len(raw)} graphs ({told} points)."
            )
        first = {graph: max(found, key=found.get) for graph, found in scores.items() if found}
        words.append(
            f"Highest accuracy, {name}: " + ", ".join(f"{title} on {graph}" for graph, title in first.items()) + "."
        )
    words += [accuracy.on_settings(result), accuracy.on_gaps(result, result["asked"]["protocols"][0])]
    return [part for part in words if part]


ARTEFACT = Artefact(
    name="heterophily",
    title="Heterophilous graphs",
    datasets=("texas", "cornell", "wisconsin", "chameleon", "squirrel", "actor"),
    protocols=("paper", "strict", "public"),
    runs=10,
    measure=accuracy.measure,
    cells=accuracy.cells_of,
    tables=accuracy.tables,
    figures=accuracy.figures,
    reading=reading,
)
