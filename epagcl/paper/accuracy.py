"""Table 2: test accuracy of every method on every graph, measured here beside what the paper reports."""

from statistics import fmean
from typing import TYPE_CHECKING

from epagcl.paper import drawing, published, reported
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.tables import Cell as TableCell
from epagcl.paper.tables import Table, marked
from epagcl.study.cells import ORDER, RAW, UNTRAINED, Cell, rows, settings_source

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DATASETS = ("cora", "citeseer", "pubmed", "wikics", "amazon-photo", "coauthor-physics", "ogbn-arxiv")
SUPERVISED = ("GCN", "GAT")
#: The same in every figure.
PROTOCOL_STYLE = {
    "strict": (drawing.COLOURS[0], "o"),
    "paper": (drawing.COLOURS[1], "s"),
    "public": (drawing.COLOURS[2], "D"),
}
SPLITS = {"strict": "random 10/10/80", "paper": "random 10/10/80", "public": "published"}


def measure(request: Request) -> Result:
    """Every row on every graph that is at hand."""
    return request.runs_of(cells_of(request))


def cells_of(request: Request) -> list[Cell]:
    """The cells of the table, graph by graph."""
    return request.cells(lambda _: rows(request.methods))


def tables(result: Result) -> list[Table]:
    """A table for each protocol, then how every cell was made."""
    protocols = result["asked"]["protocols"]
    made = [
        _protocol_table(result, protocol, slug="" if protocol == protocols[0] else protocol) for protocol in protocols
    ]
    return [*made, provenance_table(result)]


def _protocol_table(result: Result, protocol: str, slug: str) -> Table:
    graphs, titles = graphs_of(result), titles_of(result)
    rivals = ranked(result)
    columns = [marked_column(result, protocol, graph, titles, rivals) for graph in graphs]
    ranks = mean_ranks({graph: scores(result, protocol, graph) for graph in graphs}, rivals)
    best = marked(
        [ranks.get(t) for t in titles], [f"{ranks[t]:.1f}" if t in ranks else "" for t in titles], smallest=True
    )
    known = {graph: _reported_scores(graph) for graph in graphs if graph not in result["absent"]}
    told = mean_ranks(known if protocol != "public" else {}, rivals)
    last = [f"{told[title]:.1f}" if title in told else "" for title in titles]
    table_rows = [
        [title, *(column[place] for column in columns), best[place], *last[place : place + bool(told)]]
        for place, title in enumerate(titles)
    ]
    usual = ", ".join(f"{graph} {runs}" for graph in graphs if (runs := _usual_runs(result, protocol, graph)))
    absent = "".join(f" {graph}: {reason} here." for graph, reason in result["absent"].items())
    theirs = "what others have published for such splits" if protocol == "public" else "what the paper reports"
    also = ", and by the paper's figures on the same graphs" if told else ""
    note = (
        f"Protocol {protocol}, {SPLITS[protocol]} splits, mean ± standard deviation in percent; in brackets {theirs}. "
        f"Runs: {usual or 'none'}, where a cell has no other number; seed k trains model k and is scored on split k. "
        "Bold and underlined: best and runner-up of the self-supervised methods with all runs; rank: their mean rank "
        "over the graphs "
        f"measured here{also}.{absent}"
    )
    heads = ["method", *graphs, "rank", *(["reported rank"] if told else [])]
    return Table(slug, f"Test accuracy, {protocol} protocol", heads, table_rows, note)


def _usual_runs(result: Result, protocol: str, graph: str) -> int:
    """The number of runs that most cells of a graph have."""
    counts = [len(found["runs"]) for found in _accuracies(result, protocol, graph).values()]
    return max(counts, key=counts.count, default=0)


def marked_column(
    result: Result, protocol: str, graph: str, titles: list[str], rivals: list[str]
) -> list[TableCell | str]:
    """A graph's cells: ``83.1 ± 1.2 (86.1)``, with the number of runs where it is not the usual one."""
    found = _accuracies(result, protocol, graph)
    usual = _usual_runs(result, protocol, graph)
    texts = []
    for title in titles:
        text = "absent" if graph in result["absent"] else "–"
        if title in found:
            mean, std, runs = (found[title][key] for key in ("mean", "std", "runs"))
            other = "" if len(runs) == usual else f" [{len(runs)} run{'s' if len(runs) > 1 else ''}]"
            text = f"{100 * mean:.1f} ± {100 * std:.1f}{other}"
        told = reported_cell(graph, title, protocol)
        texts.append(f"{text} ({told})" if told else text)
    whole = {title for title in found if len(found[title]["runs"]) == usual}
    return marked([found[t]["mean"] if t in whole and t in rivals else None for t in titles], texts)


def provenance_table(result: Result) -> Table:
    """How each cell was made: runs, settings, epochs, time, hardware, date, commit."""
    lines = []
    for cell in result["cells"]:
        training = cell["training"]
        epochs = f"{fmean(training['epochs']):.0f}" if training else ""
        seconds = f"{fmean(training['seconds']):.1f}" if training and any(training["epochs"]) else ""
        commits = ", ".join(commit[:7] for commit in cell["commits"])
        source = "" if cell["source"] is None else settings_source(cell)
        where = [", ".join(cell["hardware"]), ", ".join(cell["dates"]), commits]
        lines.append([cell["row"], cell["graph"]["name"], str(len(cell["seeds"])), source, epochs, seconds, *where])
    columns = ["method", "graph", "runs", "settings", "epochs", "s a model", "hardware", "date", "commit"]
    note = (
        "All cells are measured here, several processes at a time on one device; figures in brackets above are "
        "reported by "
        "the paper, for published splits by others. Settings: published, or ours: taken from related graphs or "
        "chosen on "
        "validation nodes (the recipes say which)."
    )
    return Table("provenance", "Provenance of each cell", columns, lines, note, folded=True)


def mean_ranks(by_graph: dict[str, dict[str, float]], titles: list[str]) -> dict[str, float]:
    """Mean over graphs of a method's rank among those that have a score there; ties share the mean of their places."""
    places: dict[str, list[float]] = {}
    for found in by_graph.values():
        present = {title: found[title] for title in titles if title in found}
        for title, score in present.items():
            above = sum(other > score for other in present.values())
            ties = sum(other == score for other in present.values())
            places.setdefault(title, []).append(above + (ties + 1) / 2)
    return {title: fmean(found) for title, found in places.items()}


def figures(result: Result) -> "dict[str, Figure]":
    """For each graph a panel: every row by each protocol, and what is reported."""
    graphs = [graph for graph in graphs_of(result) if graph not in result["absent"]]
    titles = titles_of(result)
    if not graphs or not titles:
        return {}
    columns = min(3, len(graphs))
    lines = -(-len(graphs) // columns)
    height = lines * (0.26 * len(titles) + 0.9) + 0.5
    figure, panels = drawing.new_figure(lines, columns, 3.6 * columns + 0.8, height)
    for axes, graph in zip(panels, graphs, strict=False):
        _draw(axes, result, graph, titles)
    for axes in panels[len(graphs) :]:
        axes.set_axis_off()
    drawing.legend(figure, panels[0], 2 * columns)
    return {"": figure}


def _draw(axes: "Axes", result: Result, graph: str, titles: list[str]) -> None:
    protocols = result["asked"]["protocols"]
    trained: list[float] = []
    for place, protocol in enumerate(protocols):
        found = _accuracies(result, protocol, graph)
        shown = [title for title in titles if title in found]
        colour, shape = PROTOCOL_STYLE[protocol]
        axes.errorbar(
            [100 * found[title]["mean"] for title in shown],
            [titles.index(title) + 0.24 * (place - (len(protocols) - 1) / 2) for title in shown],
            xerr=[100 * found[title]["std"] for title in shown],
            fmt=shape,
            markersize=4,
            elinewidth=0.9,
            color=colour,
            label=f"{protocol} protocol",
        )
        trained += [100 * found[t]["mean"] + k * 100 * found[t]["std"] for t in shown if t != RAW for k in (-1, 1)]
    told = _reported_scores(graph)
    shown = [title for title in titles if title in told]
    axes.plot([told[t] for t in shown], [titles.index(t) for t in shown], "x", color="black", label="reported")
    # Raw features far below all else would press the rest together: their figures then stand at the edge as text.
    raw = [100 * found[RAW]["mean"] for protocol in protocols if RAW in (found := _accuracies(result, protocol, graph))]
    if trained and raw:
        low, high = min([*trained, *told.values()]), max([*trained, *told.values()])
        if high > low and min(raw) < low - 0.4 * (high - low):
            axes.set_xlim(low - 0.05 * (high - low), high + 0.05 * (high - low))
            words = "◂ " + ", ".join(f"{value:.1f}" for value in raw)
            axes.text(0.01, titles.index(RAW), words, transform=axes.get_yaxis_transform(), va="center", fontsize=8)
    axes.set_yticks(range(len(titles)), titles)
    axes.set_ylim(len(titles) - 0.5, -0.5)
    axes.set_title(graph, fontsize=10)
    axes.set_xlabel("accuracy, %, ± deviation", fontsize=9)
    axes.grid(axis="x", lw=0.3)


def reading(result: Result) -> list[str]:
    """What the table says."""
    protocols = result["asked"]["protocols"]
    parts = [_on_rank(result, protocols[0]), on_settings(result)]
    if "paper" in protocols:
        parts.append(_on_reported(result))
    parts += [_on_untrained(result, protocols[0]), on_gaps(result, protocols[0])]
    return [words for words in parts if words]


def _on_rank(result: Result, protocol: str) -> str:
    graphs = [graph for graph in graphs_of(result) if scores(result, protocol, graph)]
    rivals = ranked(result)
    ranks = mean_ranks({graph: scores(result, protocol, graph) for graph in graphs}, rivals)
    if "EPAGCL" not in ranks or len(ranks) == 1:
        return ""
    place = 1 + sum(rank < ranks["EPAGCL"] for rank in ranks.values())
    told = mean_ranks({graph: _reported_scores(graph) for graph in graphs}, rivals) if protocol != "public" else {}
    theirs = (
        f"; by the paper's figures on these graphs, which lack CCA-SSG, {told['EPAGCL']:.1f}"
        if "EPAGCL" in told
        else ""
    )
    first = min(ranks, key=ranks.get)
    best = {
        graph: max((t for t in rivals if t in found), key=found.get)
        for graph in graphs
        if (found := scores(result, protocol, graph))
    }
    wins = [graph for graph, title in best.items() if title in ("EPAGCL", "EPAGCL*")]
    return (
        f"**EPAGCL has place {place} of {len(ranks)}** by mean rank over {', '.join(graphs)} under the {protocol} "
        "protocol "
        f"({ranks['EPAGCL']:.1f}{theirs}). The lowest mean rank is {_plain(first)}'s ({ranks[first]:.1f}). EPAGCL or "
        "EPAGCL\\* is "
        f"first on {len(wins)} of {len(graphs)} graphs" + (f" ({', '.join(wins)})." if wins else ".")
    )


def on_settings(result: Result) -> str:
    """Whose settings the rows have: the comparison is of methods as they were published, not as they could be tuned."""
    ours: dict[str, list[str]] = {}
    for cell in result["cells"]:
        if cell["row"] in ranked(result) and cell["source"] is not None and settings_source(cell) != "published":
            ours.setdefault(_plain(cell["row"]), []).append(cell["graph"]["name"])
    if not ours:
        return ""
    told = "; ".join(f"{title} on {', '.join(graphs)}" for title, graphs in ours.items())
    return (
        "Every row has the settings that were published for it, where there are any, and their number of epochs: "
        "EPAGCL "
        "the paper's (Appendix D: a grid search for the best average accuracy; by which rule of scoring it does not "
        "say). "
        f"Settings of ours, taken from related graphs or chosen on validation nodes, are those of: {told}."
    )


def _on_reported(result: Result) -> str:
    found = gaps(result, "paper")
    kinds = {
        "below the paper's figures by more than a point on average": [t for t, gap in found.items() if gap < -1],
        "above them by more than a point": [t for t, gap in found.items() if gap > 1],
        "within a point": [t for t, gap in found.items() if abs(gap) <= 1],
    }
    parts = [
        f"{words}: " + ", ".join(f"{_plain(title)} ({found[title]:+.1f})" for title in sorted(titles, key=found.get))
        for words, titles in kinds.items()
        if titles
    ]
    return (
        f"Under the paper's protocol, mean over graphs of measured minus reported: {'; '.join(parts)}." if parts else ""
    )


def _on_untrained(result: Result, protocol: str) -> str:
    """Methods whose mean is below that of the encoder before training."""
    if not any(cell["row"] == UNTRAINED for cell in result["cells"]):
        return ""
    weak = [
        f"{_plain(title)} on {graph} ({score - found[UNTRAINED]:+.1f})"
        for graph in graphs_of(result)
        if UNTRAINED in (found := scores(result, protocol, graph))
        for title, score in found.items()
        if title in ranked(result) and score < found[UNTRAINED]
    ]
    if not weak:
        return "Every trained method is above the untrained encoder on every graph."
    return f"**Trained, but with a mean below the untrained encoder's**, in points: {', '.join(weak)}."


def on_gaps(result: Result, protocol: str) -> str:
    """What is missing, so that nobody takes it for measured."""
    few = [
        f"{_plain(title)} on {graph} ({'no run' if count == 0 else f'{count} of {usual} runs'})"
        for graph in graphs_of(result)
        if (usual := _usual_runs(result, protocol, graph))
        for title in titles_of(result)
        if (count := len(_accuracies(result, protocol, graph).get(title, {"runs": []})["runs"])) < usual
    ]
    absent = [f"{graph} ({reason} here)" for graph, reason in result["absent"].items()]
    if not few and not absent:
        return ""
    twins = {"Texas", "Cornell"} <= set(graphs_of(result))
    also = (
        " Texas and Cornell share features and labels in the published files, and differ in their edges alone."
        if twins
        else ""
    )
    missing = ", ".join([*few, *absent])
    return f"Not or not fully measured: {missing}. The command fills these cells where data and time allow.{also}"


def ranked(result: Result) -> list[str]:
    """The self-supervised methods, which the paper ranks."""
    return [title for title in titles_of(result) if title not in (RAW, UNTRAINED, *SUPERVISED)]


def gaps(result: Result, protocol: str) -> dict[str, float]:
    """Mean over graphs of measured minus reported, in points."""
    gaps: dict[str, list[float]] = {}
    for cell in result["cells"]:
        told = _reported_scores(cell["graph"]["name"]).get(cell["row"])
        if told is not None and protocol in cell["protocols"]:
            gaps.setdefault(cell["row"], []).append(100 * cell["protocols"][protocol]["accuracy"]["mean"] - told)
    return {title: fmean(found) for title, found in gaps.items()}


def graphs_of(result: Result) -> list[str]:
    """Graphs measured or absent, in the order in which they were asked for."""
    asked = result["asked"]["datasets"]
    found = {*(cell["graph"]["name"] for cell in result["cells"]), *result["absent"]}
    order = {name.lower(): place for place, name in enumerate(asked)}
    return sorted(found, key=lambda name: order.get(name.lower(), len(order)))


def titles_of(result: Result) -> list[str]:
    """Rows in the table's order."""
    found = {cell["row"] for cell in result["cells"]}
    if found and "methods" in result["asked"]:
        found |= {
            row.title for row in rows(result["asked"]["methods"] or ORDER)
        }  # also those of which no run was finished
    known = [row.title for row in rows() if row.title in found]
    return [*known, *sorted(found - set(known))]


def reported_cell(graph: str, title: str, protocol: str = "paper") -> str:
    """What the paper has in a cell: a figure, OOM, or nothing; for published splits, what others have published."""
    if protocol == "public":
        figure = published(graph, title).get("public")
        return f"{figure[0]:.1f}" if figure else ""
    for table in (reported()["accuracy"], reported()["heterophily"]):
        told = dict(zip(table["columns"], table.get(title, []), strict=False)).get(graph)
        if told is not None:
            return told if isinstance(told, str) else f"{told[0] if isinstance(told, list) else told:.1f}"
    return ""


def _reported_scores(graph: str) -> dict[str, float]:
    """The paper's figures of a graph, as it prints them."""
    told = {row.title: published(graph, row.title).get("paper") for row in rows()}
    return {title: figures[0] for title, figures in told.items() if figures}


def scores(result: Result, protocol: str, graph: str) -> dict[str, float]:
    """Mean accuracy in percent by row."""
    return {title: 100 * found["mean"] for title, found in _accuracies(result, protocol, graph).items()}


def _accuracies(result: Result, protocol: str, graph: str) -> dict[str, dict]:
    """Mean, deviation and runs by row."""
    return {c["row"]: c["protocols"][protocol]["accuracy"] for c in _on(result, graph) if protocol in c["protocols"]}


def _on(result: Result, graph: str) -> list[dict]:
    return [cell for cell in result["cells"] if cell["graph"]["name"] == graph]


def _plain(title: str) -> str:
    return title.replace("*", r"\*")


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
