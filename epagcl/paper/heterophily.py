"""Appendix G: graphs on which most neighbours belong to another class, on random 10/10/80 and on Geom-GCN's splits."""

from epagcl.paper import accuracy
from epagcl.paper.artefact import Artefact, Result
from epagcl.paper.cell_scores import measured_graphs, scores
from epagcl.runs.evaluation import RAW

SPLITS = {
    "paper": "random 10/10/80 splits, the paper's protocol",
    "public": "Geom-GCN's 48/32/20 splits",
}


def reading(result: Result) -> list[str]:
    """Return paragraphs on EPAGCL against GCA, as the paper claims, and against the raw features, which it omits."""
    paragraphs = []
    for protocol, split in SPLITS.items():
        if protocol not in result["asked"]["protocols"]:
            continue
        by_graph = {graph: scores(result, protocol, graph) for graph in measured_graphs(result)}
        over_gca = _differences(by_graph, "GCA")
        if over_gca:
            ahead = sum(gap > 0 for gap in over_gca.values())
            paragraphs.append(
                f"**EPAGCL minus GCA** ({split}): EPAGCL is ahead on {ahead} of {len(over_gca)} graphs "
                f"({_points_text(over_gca)})."
            )
        over_raw = _differences(by_graph, RAW)
        if over_raw:
            below = sum(gap < 0 for gap in over_raw.values())
            paragraphs.append(
                f"**EPAGCL minus the raw features** ({split}): EPAGCL is below them on {below} of {len(over_raw)} "
                f"graphs ({_points_text(over_raw)})."
            )
        best = {graph: max(by_row, key=by_row.__getitem__) for graph, by_row in by_graph.items() if by_row}
        listed = ", ".join(f"{title} on {graph}" for graph, title in best.items())
        paragraphs.append(f"Highest accuracy ({split}): {listed}.")
    paragraphs.append(accuracy.settings_sentences(result))
    paragraphs.append(accuracy.missing_sentences(result, result["asked"]["protocols"][0]))
    return [paragraph for paragraph in paragraphs if paragraph]


def _differences(by_graph: dict[str, dict[str, float]], title: str) -> dict[str, float]:
    """Return EPAGCL minus another row on each graph that has both."""
    return {
        graph: by_row["EPAGCL"] - by_row[title]
        for graph, by_row in by_graph.items()
        if "EPAGCL" in by_row and title in by_row
    }


def _points_text(differences: dict[str, float]) -> str:
    return ", ".join(f"{graph} {gap:+.1f}" for graph, gap in differences.items()) + " points"


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
