"""Table 2: test accuracy of every method on every graph, with the numbers that the paper reports."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from epagcl.core.formatting import counted, percent, short_commit
from epagcl.paper import drawing
from epagcl.paper.accuracy_reading import PUBLISHED, reading, source_text
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.cell_scores import (
    Ranks,
    accuracies,
    compared_scores,
    graphs_of,
    measured_graphs,
    ranks_of,
    reported_ranks_of,
    reported_scores,
    reported_text,
    self_supervised_titles,
    titles_of,
    usual_runs,
)
from epagcl.paper.paired import against, differences_table
from epagcl.paper.tables import Table, TableCell, marked
from epagcl.runs.evaluation import PROPAGATED, RAW, UNTRAINED
from epagcl.study.design import Cell, rows
from epagcl.study.paired_test import PairedTest
from epagcl.study.summary import MIN_RUNS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DATASETS = ("cora", "citeseer", "pubmed", "wikics", "amazon-photo", "coauthor-physics", "ogbn-arxiv")
#: Colour and marker of each protocol.
PROTOCOL_STYLE = {
    "strict": (drawing.COLOURS[0], "o"),
    "paper": (drawing.COLOURS[1], "s"),
    "public": (drawing.COLOURS[2], "D"),
}
#: References of which tables show the difference to each method: their names in words, and those of the tables.
REFERENCE_TABLES = {PROPAGATED: ("Propagated features", "propagated"), UNTRAINED: ("Untrained encoder", "untrained")}
SPLITS = {"strict": "random 10/10/80", "paper": "random 10/10/80", "public": "published"}


def measure(request: Request) -> Result:
    """Measure every row on every available graph."""
    return request.runs_of(cells_of(request))


def cells_of(request: Request) -> list[Cell]:
    """Return the cells of the table, graph by graph."""
    return request.cells(lambda *_: rows(request.methods))


def tables(result: Result) -> list[Table]:
    """Return a table for each protocol, and the provenance of every cell."""
    first, *others = result["asked"]["protocols"]
    by_protocol = [protocol_table(result, first), *(protocol_table(result, p, slug=p) for p in others)]
    return [*by_protocol, *_differences(result, first), _provenance_table(result)]


def _differences(result: Result, protocol: str) -> list[Table]:
    """Return EPAGCL and each reference minus each method on each graph, with the detectable differences."""
    methods, graphs = self_supervised_titles(result), measured_graphs(result)
    families = {("EPAGCL", "ours"): against_others(result)}
    for title, names in REFERENCE_TABLES.items():
        families[names] = against(result, protocol, title, methods)
    return [
        differences_table(f"{words} minus each method", tests, graphs, slug=slug)
        for (words, slug), tests in families.items()
        if tests
    ]


def against_others(result: Result) -> dict[tuple[str, str], PairedTest]:
    """Test EPAGCL against every other self-supervised method on every graph, by the first protocol."""
    others = [title for title in self_supervised_titles(result) if title != "EPAGCL*"]
    return against(result, result["asked"]["protocols"][0], "EPAGCL", others)


def protocol_table(result: Result, protocol: str, slug: str = "", *, reported_ranks: bool = True) -> Table:
    """Return the accuracies by one protocol.

    Args:
        result: the result.
        protocol: the protocol.
        slug: last part of the name of the table's file.
        reported_ranks: whether the table has the mean ranks of the paper's numbers, if there are any.
    """
    graphs, titles, rivals = graphs_of(result), titles_of(result), self_supervised_titles(result)
    columns = [_graph_column(result, protocol, graph, titles, rivals) for graph in graphs]
    ranks = ranks_of(result, protocol)
    columns.append(marked([ranks.mean.get(title) for title in titles], _rank_texts(ranks, titles), smallest=True))
    reported = reported_ranks_of(result, protocol).mean if reported_ranks and protocol != "public" else {}
    if reported:
        texts = [f"{reported[title]:.1f}" if title in reported else "" for title in titles]
        columns.append([TableCell(text) for text in texts])
    table_rows = [list(line) for line in zip(titles, *columns, strict=True)]
    headers = ["method", *graphs, "rank", *(["reported rank"] if reported else [])]
    note = _protocol_note(result, protocol, bool(reported))
    return Table(slug, f"Test accuracy, {protocol} protocol", headers, table_rows, note)


def _rank_texts(ranks: Ranks, titles: Sequence[str]) -> list[str]:
    """Return the mean ranks; a dash for methods that lack a graph."""
    return [f"{ranks.mean[title]:.1f}" if title in ranks.mean else "–" * (title in ranks.unranked) for title in titles]


def _protocol_note(result: Result, protocol: str, has_reported_ranks: bool) -> str:
    counts = {graph: usual_runs(result, protocol, graph) for graph in graphs_of(result)}
    runs = ", ".join(f"{graph} {count}" for graph, count in counts.items() if count) or "none"
    absent = "".join(f" {graph}: {reason} here." for graph, reason in result["absent"].items())
    source = (
        "accuracies from other publications for such splits"
        if protocol == "public"
        else "the accuracy that the paper reports"
    )
    reported_ranks = (
        " The reported rank is computed in the same way from the paper's numbers on these graphs." * has_reported_ranks
    )
    return (
        f"Protocol {protocol}, {SPLITS[protocol]} splits. Accuracy in percent, mean ± standard deviation. In brackets: "
        f"{source}. Runs: {runs}, unless a cell gives another number. Seed k trains model k, which is scored on split "
        f"k{' modulo their number' if protocol == 'public' else ''}. Of the self-supervised methods with at least "
        f"{MIN_RUNS} runs, the best is bold and the second best underlined. The rank is the mean rank over the graphs "
        "measured here, of the methods that have so many runs on "
        f"each of them; the others (–) are not ranked.{reported_ranks}{absent}"
    )


def _graph_column(
    result: Result, protocol: str, graph: str, titles: Sequence[str], rivals: Sequence[str]
) -> list[TableCell]:
    """Return the cells of a graph, such as ``83.1 ± 1.2 (86.1)``, with the number of runs if it is unusual."""
    measured = accuracies(result, protocol, graph)
    usual = usual_runs(result, protocol, graph)
    texts = []
    for title in titles:
        text = "absent" if graph in result["absent"] else "–"
        if title in measured:
            accuracy = measured[title]
            count = len(accuracy["runs"])
            text = percent(accuracy)
            text += "" if count == usual else f" [{counted(count, 'run')}]"
        reported = reported_text(graph, title, protocol)
        texts.append(f"{text} ({reported})" if reported else text)
    compared = compared_scores(result, protocol, graph)
    return marked([compared.get(title) if title in rivals else None for title in titles], texts)


def _provenance_table(result: Result) -> Table:
    lines = []
    for cell in result["cells"]:
        training = cell["training"]
        epochs = f"{fmean(training['epochs']):.0f}" if training else ""
        seconds = f"{fmean(training['seconds']):.1f}" if training and any(training["epochs"]) else ""
        commits = ", ".join(map(short_commit, cell["commits"]))
        source = "" if cell["source"] is None else source_text(cell)
        where = [", ".join(cell["hardware"]), ", ".join(cell["dates"]), commits]
        lines.append([cell["row"], cell["graph"]["name"], str(len(cell["seeds"])), source, epochs, seconds, *where])
    columns = ["method", "graph", "runs", "settings", "epochs", "s a model", "hardware", "date", "commit"]
    note = (
        "All cells were measured here, with several processes sharing one device. The numbers in brackets above are "
        f"the paper's; for published splits, those of other publications. Settings are published, if {PUBLISHED}, or "
        "ours: taken from related graphs or chosen on validation nodes. The recipes name the source of each."
    )
    return Table("provenance", "Provenance of each cell", columns, lines, note, folded=True)


def figures(result: Result) -> "dict[str, Figure]":
    """Return a figure with a panel for each graph: every row under each protocol, and the reported accuracy."""
    graphs, titles = measured_graphs(result), titles_of(result)
    if not graphs or not titles:
        return {}
    columns = min(3, len(graphs))
    lines = -(-len(graphs) // columns)
    height = lines * (0.26 * len(titles) + 0.9) + 0.5
    figure, panels = drawing.new_figure(lines, columns, 3.6 * columns + 0.8, height)
    for axes, graph in zip(panels, graphs, strict=False):
        _draw_panel(axes, result, graph, titles)
    for axes in panels[len(graphs) :]:
        axes.set_axis_off()
    drawing.legend(figure, panels[0], 2 * columns)
    return {"": figure}


def _draw_panel(axes: "Axes", result: Result, graph: str, titles: list[str]) -> None:
    protocols = result["asked"]["protocols"]
    for place, protocol in enumerate(protocols):
        measured = accuracies(result, protocol, graph)
        drawn = [title for title in titles if title in measured]
        colour, shape = PROTOCOL_STYLE[protocol]
        axes.errorbar(
            [100 * measured[title]["mean"] for title in drawn],
            [titles.index(title) + 0.24 * (place - (len(protocols) - 1) / 2) for title in drawn],
            xerr=[100 * measured[title]["std"] for title in drawn],
            fmt=shape,
            markersize=4,
            elinewidth=0.9,
            color=colour,
            label=f"{protocol} protocol",
        )
    reported = reported_scores(graph)
    drawn = [title for title in titles if title in reported]
    axes.plot([reported[t] for t in drawn], [titles.index(t) for t in drawn], "x", color="black", label="reported")
    _cut_off_raw_features(axes, result, graph, titles)
    drawing.label_rows(axes, titles)
    axes.set_title(graph, fontsize=10)
    axes.set_xlabel("test accuracy in %, mean ± std", fontsize=9)
    axes.grid(axis="x", lw=0.3)


def _cut_off_raw_features(axes: "Axes", result: Result, graph: str, titles: list[str]) -> None:
    """Write the accuracies of raw features at the edge if they would make the other points crowd together."""
    by_protocol = [accuracies(result, protocol, graph) for protocol in result["asked"]["protocols"]]
    raw = [100 * measured[RAW]["mean"] for measured in by_protocol if RAW in measured]
    others = [
        100 * measured[title]["mean"] + sign * 100 * measured[title]["std"]
        for measured in by_protocol
        for title in titles
        if title in measured and title != RAW
        for sign in (-1, 1)
    ]
    if not others or not raw:
        return
    values = [*others, *reported_scores(graph).values()]
    low, high = min(values), max(values)
    if high > low and min(raw) < low - 0.4 * (high - low):
        axes.set_xlim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        text = "◂ " + ", ".join(f"{value:.1f}" for value in raw)
        axes.text(0.01, titles.index(RAW), text, transform=axes.get_yaxis_transform(), va="center", fontsize=8)


ARTEFACT = Artefact(
    name="accuracy",
    title="Accuracy of every method",
    datasets=DATASETS,
    measure=measure,
    cells=cells_of,
    tables=tables,
    figures=figures,
    reading=reading,
)
