"""Table 2: test accuracy of every method on every graph, measured here beside what the paper reports."""

from statistics import fmean
from typing import TYPE_CHECKING

from epagcl.comparison import RAW, UNTRAINED, Cell, rows, settings_source
from epagcl.paper import drawing, published, reported
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.tables import Cell as TableCell
from epagcl.paper.tables import Table, marked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATASETS = ("cora", "citeseer", "pubmed", "wikics", "amazon-photo", "coauthor-physics", "ogbn-arxiv")
SUPERVISED = ("GCN", "GAT")
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
    ranked = [title for title in titles if title not in (RAW, UNTRAINED, *SUPERVISED)]
    columns = [marked_column(result, protocol, graph, titles, ranked) for graph in graphs]
    ranks = mean_ranks({graph: scores(result, protocol, graph) for graph in graphs}, ranked)
    best = marked(
        [ranks.get(t) for t in titles], [f"{ranks[t]:.1f}" if t in ranks else "" for t in titles], smallest=True
    )
    known = {graph: _reported_scores(graph) for graph in graphs if graph not in result["absent"]}
    told = mean_ranks(known if protocol != "public" else {}, ranked)
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
        "Bold and underlined: best and runner-up of the self-supervised methods; rank: their mean rank over the graphs "
        f"measured here{also}.{absent}"
    )
    heads = ["method", *graphs, "rank", *(["reported rank"] if told else [])]
    return Table(slug, f"Test accuracy, {protocol} protocol", heads, table_rows, note)


def _usual_runs(result: Result, protocol: str, graph: str) -> int:
    """The number of runs that most cells of a graph have."""
    counts = [len(cell["protocols"][protocol]["seeds"]) for cell in _on(result, graph) if protocol in cell["protocols"]]
    return max(counts, key=counts.count, default=0)


def marked_column(
    result: Result, protocol: str, graph: str, titles: list[str], ranked: list[str]
) -> list[TableCell | str]:
    """A graph's cells: ``83.1 ± 1.2 (86.1)``, with the number of runs where it is not the usual one."""
    found = {c["row"]: c["protocols"][protocol]["accuracy"] for c in _on(result, graph) if protocol in c["protocols"]}
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
    return marked([found[t]["mean"] if t in found and t in ranked else None for t in titles], texts)


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
    note = "All cells are measured here; figures in brackets above are reported by the paper."
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
    """For each graph a panel: measured by each protocol, reported, and the references as lines."""
    graphs = [graph for graph in graphs_of(result) if graph not in result["absent"]]
    titles = [title for title in titles_of(result) if title not in (RAW, UNTRAINED)]
    if not graphs or not titles:
        return {}
    columns = min(3, len(graphs))
    lines = -(-len(graphs) // columns)
    height = lines * (0.26 * len(titles) + 0.9) + 0.5
    figure, panels = drawing.new_figure(lines, columns, 3.6 * columns + 0.8, height)
    protocols = result["asked"]["protocols"]
    shapes = dict(zip(protocols, "osD", strict=False))
    for axes, graph in zip(panels, graphs, strict=False):
        for place, protocol in enumerate(protocols):
            found = {
                c["row"]: c["protocols"][protocol]["accuracy"] for c in _on(result, graph) if protocol in c["protocols"]
            }
            shift = 0.24 * (place - (len(protocols) - 1) / 2)
            shown = [title for title in titles if title in found]
            axes.errorbar(
                [100 * found[title]["mean"] for title in shown],
                [titles.index(title) + shift for title in shown],
                xerr=[100 * found[title]["std"] for title in shown],
                fmt=shapes[protocol],
                markersize=4,
                elinewidth=0.9,
                color=drawing.COLOURS[place],
                label=f"measured, {protocol}",
            )
        told = _reported_scores(graph)
        shown = [title for title in titles if title in told]
        axes.plot([told[t] for t in shown], [titles.index(t) for t in shown], "x", color="black", label="reported")
        first = scores(result, protocols[0], graph)
        for title, style in ((RAW, ":"), (UNTRAINED, "--")):
            if title in first:
                axes.axvline(first[title], ls=style, lw=1, color=drawing.GREY, label=f"{title}, {protocols[0]}")
        axes.set_yticks(range(len(titles)), titles)
        axes.set_ylim(len(titles) - 0.5, -0.5)
        axes.set_title(graph, fontsize=10)
        axes.set_xlabel("test accuracy, %")
        axes.grid(axis="x", lw=0.3)
    for axes in panels[len(graphs) :]:
        axes.set_axis_off()
    drawing.legend(figure, panels[0], 2 * columns)
    return {"": figure}


def reading(result: Result) -> list[str]:
    """What the table says."""
    protocol = result["asked"]["protocols"][0]
    graphs = [graph for graph in graphs_of(result) if graph not in result["absent"]]
    titles = [title for title in titles_of(result) if title not in (RAW, UNTRAINED, *SUPERVISED)]
    ranks = mean_ranks({graph: scores(result, protocol, graph) for graph in graphs}, titles)
    words = []
    if "EPAGCL" in ranks and len(ranks) > 1:
        order = sorted(ranks, key=ranks.get)
        firsts = [g for g in graphs if _first(result, protocol, g, titles) in ("EPAGCL", "EPAGCL*")]
        told = mean_ranks({graph: _reported_scores(graph) for graph in graphs}, titles)
        place = 1 + sum(rank < ranks["EPAGCL"] for rank in ranks.values())
        theirs = (
            f"; by the paper's figures on these graphs its mean rank is {told['EPAGCL']:.1f}"
            if "EPAGCL" in told
            else ""
        )
        words.append(
            f"**EPAGCL has place {place} of {len(ranks)}** by mean rank over {', '.join(graphs)} under the {protocol} "
            f"protocol ({ranks['EPAGCL']:.1f}{theirs}). The lowest mean rank is {_plain(order[0])}'s "
            f"({ranks[order[0]]:.1f}). EPAGCL or EPAGCL\\* is first on {len(firsts)} of {len(graphs)} graphs"
            + (f" ({', '.join(firsts)})." if firsts else ".")
        )
    gaps = _gaps(result, "paper" if "paper" in result["asked"]["protocols"] else protocol)
    if gaps:
        below = {title: gap for title, gap in gaps.items() if gap < -1}
        above = {title: gap for title, gap in gaps.items() if gap > 1}
        parts = [
            f"{kind} the paper's figures by more than a point on average: "
            + ", ".join(
                f"{_plain(title)} ({gap:+.1f})" for title, gap in sorted(found.items(), key=lambda item: item[1])
            )
            for kind, found in (("below", below), ("above", above))
            if found
        ]
        near = [_plain(title) for title in gaps if title not in below and title not in above]
        parts += [f"within a point: {', '.join(near)}"] if near else []
        words.append(f"Under the paper's protocol, mean over graphs of measured minus reported: {'; '.join(parts)}.")
    weak = [
        f"{_plain(c['row'])} on {c['graph']['name']}"
        for c in result["cells"]
        if c["row"] in titles
        and (floor := scores(result, protocol, c["graph"]["name"]).get(UNTRAINED)) is not None
        and protocol in c["protocols"]
        and 100 * c["protocols"][protocol]["accuracy"]["mean"] < floor
    ]
    if any(c["row"] == UNTRAINED for c in result["cells"]):
        words.append(
            "**Trained, but not above the untrained encoder**: " + ", ".join(weak) + "."
            if weak
            else "Every trained method is above the untrained encoder on every graph."
        )
    if result["absent"]:
        words.append(
            "Not measured: "
            + ", ".join(f"{graph} ({reason} here)" for graph, reason in result["absent"].items())
            + ". "
            "The command fills these cells where the data can be downloaded."
        )
    return words


def _gaps(result: Result, protocol: str) -> dict[str, float]:
    """Mean over graphs of measured minus reported, in points."""
    gaps: dict[str, list[float]] = {}
    for cell in result["cells"]:
        told = _reported_scores(cell["graph"]["name"]).get(cell["row"])
        if told is not None and protocol in cell["protocols"]:
            gaps.setdefault(cell["row"], []).append(100 * cell["protocols"][protocol]["accuracy"]["mean"] - told)
    return {title: fmean(found) for title, found in gaps.items()}


def _first(result: Result, protocol: str, graph: str, titles: list[str]) -> str | None:
    found = {title: score for title, score in scores(result, protocol, graph).items() if title in titles}
    return max(found, key=found.get) if found else None


def graphs_of(result: Result) -> list[str]:
    """Graphs measured or absent, in the order in which they were asked for."""
    asked = result["asked"]["datasets"]
    found = {*(cell["graph"]["name"] for cell in result["cells"]), *result["absent"]}
    order = {name.lower(): place for place, name in enumerate(asked)}
    return sorted(found, key=lambda name: order.get(name.lower(), len(order)))


def titles_of(result: Result) -> list[str]:
    """Rows in the table's order."""
    found = {cell["row"] for cell in result["cells"]}
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
    titles = [row.title for row in rows()]
    told = {title: reported_cell(graph, title) for title in titles}
    return {title: float(text) for title, text in told.items() if text not in ("", "OOM")}


def scores(result: Result, protocol: str, graph: str) -> dict[str, float]:
    """Mean accuracy in percent by row."""
    found = (cell for cell in _on(result, graph) if protocol in cell["protocols"])
    return {cell["row"]: 100 * cell["protocols"][protocol]["accuracy"]["mean"] for cell in found}


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
