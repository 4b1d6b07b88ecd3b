"""Appendix G: graphs on which most neighbours belong to another class, on random 10/10/80 and on Geom-GCN's splits."""

from typing import TYPE_CHECKING, Any

from epagcl.core.config import current_settings
from epagcl.core.formatting import counted
from epagcl.paper import accuracy
from epagcl.paper.accuracy_reading import missing_sentences, settings_sentences
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.cell_scores import compared_scores, measured_graphs
from epagcl.paper.collapses import low_rank_reading
from epagcl.paper.equal_settings import equal_sentence, equal_table, other_rows, without_others
from epagcl.paper.paired import against
from epagcl.paper.tables import Table
from epagcl.runs.evaluation import RAW
from epagcl.study.design import ORDER, Cell, rows
from epagcl.study.paired_test import BETTER, WORSE, PairedTest
from epagcl.study.ranking import same_nodes_note
from epagcl.study.summary import MIN_RUNS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPLITS = {
    "paper": "random 10/10/80 splits, the paper's protocol",
    "public": "Geom-GCN's ten 48/32/20 splits, the runs on a split averaged, c = 20/48",
}
#: The number of these splits, and c of tests on them: test nodes divided by training nodes, as for large training sets.
PUBLISHED_SPLITS, PUBLISHED_OVERLAP = 10, 20 / 48
#: Settings that the paper gives both methods alike in Appendix G.
SHARED = ("lr", "temperature", "p_mask_1", "p_mask_2", "p_drop_1", "p_drop_2", "epochs", "hidden", "dim")
#: Graphs of which more than a third of the nodes repeat another, as ``epagcl paper graphs`` counts.
REPEATING = ("Chameleon", "Squirrel")


def measure(request: Request) -> Result:
    """Measure every row on every available graph."""
    return request.runs_of(cells_of(request))


def cells_of(request: Request) -> list[Cell]:
    """Return the cells of the tables; EPAGCL and GCA also have each other's settings."""
    both = {"epagcl", "gca"} <= {name.lower() for name in request.methods or ORDER}
    return request.cells(
        lambda name, _: [*rows(request.methods), *(other_rows(name, request.settings) if both else [])]
    )


def tables(result: Result) -> list[Table]:
    """Return the tables of all methods, and the one of EPAGCL and GCA with equal settings."""
    own = accuracy.tables(without_others(result))
    equal = equal_table(result, result["asked"]["protocols"][0])
    return own if equal is None else [*own[:-1], equal, own[-1]]


def figures(result: Result) -> "dict[str, Figure]":
    """Return the figure of all methods with the settings of their recipes."""
    return accuracy.figures(without_others(result))


def reading(result: Result) -> list[str]:
    """Return paragraphs on EPAGCL against GCA, as the paper claims, and against the raw features, which it omits."""
    equal, lines = equal_sentence(result, result["asked"]["protocols"][0]), low_rank_reading(result["cells"])
    result = without_others(result)
    paragraphs = []
    for protocol, split in SPLITS.items():
        if protocol not in result["asked"]["protocols"]:
            continue
        paragraphs.append(_against_sentence(result, protocol, "GCA", f"EPAGCL minus GCA** ({split})"))
        paragraphs.append(_against_sentence(result, protocol, RAW, f"EPAGCL minus the raw features** ({split})"))
        by_graph = {graph: compared_scores(result, protocol, graph) for graph in measured_graphs(result)}
        best = {graph: max(by_row, key=by_row.__getitem__) for graph, by_row in by_graph.items() if by_row}
        if best:
            listed = ", ".join(f"{title} on {graph}" for graph, title in best.items())
            paragraphs.append(f"Highest mean accuracy of rows with at least {MIN_RUNS} runs ({split}): {listed}.")
    paragraphs += [
        _difference_of_settings(result),
        equal,
        *lines,
        _repeats(result),
        same_nodes_note(measured_graphs(result)),
        settings_sentences(result),
    ]
    paragraphs.append(missing_sentences(result, result["asked"]["protocols"][0]))
    return [paragraph for paragraph in paragraphs if paragraph]


def over_gca(result: Result, protocol: str) -> dict[tuple[str, str], PairedTest]:
    """Test EPAGCL against GCA on each graph, with Holm's correction for the graphs."""
    return _tests(result, protocol, "GCA")


def _tests(result: Result, protocol: str, other: str) -> dict[tuple[str, str], PairedTest]:
    """Test EPAGCL against a row on each graph, with one value for each of Geom-GCN's splits."""
    if protocol != "public":
        return against(result, protocol, "EPAGCL", [other])
    return against(result, protocol, "EPAGCL", [other], splits=PUBLISHED_SPLITS, overlap=PUBLISHED_OVERLAP)


def _against_sentence(result: Result, protocol: str, other: str, title: str) -> str:
    tests = _tests(result, protocol, other)
    if not tests:
        return ""
    words = [test.verdict for test in tests.values()]
    listed = ", ".join(f"{graph} {test.mean:+.1f} ({test.decision})" for (graph, _), test in tests.items())
    return (
        f"**{title}: EPAGCL is better on {words.count(BETTER)} of {counted(len(tests), 'graph')} and worse on "
        f"{words.count(WORSE)}. In points: {listed}."
    )


def _cells_of(result: Result, title: str) -> dict[str, dict[str, Any]]:
    return {cell["graph"]["name"]: cell for cell in result["cells"] if cell["row"] == title}


def _difference_of_settings(result: Result) -> str:
    """Return on which graphs the two methods have different settings, where the paper gives them the same."""
    ours, gca = _cells_of(result, "EPAGCL"), _cells_of(result, "GCA")
    differing: dict[str, list[str]] = {}
    for graph in ours:
        if graph in gca:
            one, other = (current_settings(cells[graph]["settings"]) for cells in (ours, gca))
            names = [name for name in SHARED if name in one and name in other and one[name] != other[name]]
            if names:
                differing.setdefault(", ".join(names), []).append(graph)
    if not differing:
        return ""
    listed = "; ".join(f"{names} on {', '.join(graphs)}" for names, graphs in differing.items())
    return (
        "**Settings differ**: the differences above are those of recipes, and the recipes of EPAGCL and GCA differ in "
        f"{listed}."
    )


def _repeats(result: Result) -> str:
    """Return a warning of graphs with many repeated nodes."""
    names = [graph for graph in measured_graphs(result) if graph in REPEATING]
    if not names:
        return ""
    return (
        f"Many nodes of {' and '.join(names)} repeat another node, so that a test node often has a twin in training; "
        "[The graphs](#the-graphs) counts them."
    )


ARTEFACT = Artefact(
    name="heterophily",
    title="Heterophilous graphs",
    datasets=("texas", "cornell", "wisconsin", "chameleon", "squirrel", "actor"),
    protocols=("paper", "strict", "public"),
    runs=10,
    measure=measure,
    cells=cells_of,
    tables=tables,
    figures=figures,
    reading=reading,
)
