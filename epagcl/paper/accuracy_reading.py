"""What the accuracy tables show, in sentences."""

from collections.abc import Mapping
from typing import Any

from epagcl.core.config import current_settings
from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import (
    accuracies,
    compared_scores,
    graphs_of,
    ranks_of,
    reported_gaps,
    reported_ranks_of,
    self_supervised_titles,
    titles_of,
    usual_runs,
)
from epagcl.paper.collapses import collapsed_reading
from epagcl.paper.paired import against
from epagcl.paper.tables import escape_stars
from epagcl.runs.evaluation import PROPAGATED, UNTRAINED
from epagcl.study.design import settings_source
from epagcl.study.paired_test import BETTER, WORSE
from epagcl.study.summary import MIN_RUNS

#: References that trained methods are compared with, and their names in a sentence.
REFERENCE_WORDS = {UNTRAINED: "EPAGCL's untrained encoder", PROPAGATED: "propagated features"}
#: What published settings are.
PUBLISHED = (
    "a script of the method's repository or of a port of it, a table of its paper, or a study that tuned the method "
    "has them"
)
#: Graphs whose feature rows the loader of EPAGCL's authors divides by their sums.
NORMALISED_BY_AUTHORS = ("Amazon-Photo", "Amazon-Computers", "Coauthor-CS", "Coauthor-Physics")


def source_text(cell: Mapping[str, Any]) -> str:
    """Return where the settings of a cell come from: published, ours or defaults, and where the features differ."""
    source = settings_source(cell)
    scaling = current_settings(cell["settings"]).get("feature_scaling")
    by_authors = cell["row"].startswith("EPAGCL") and cell["graph"]["name"] in NORMALISED_BY_AUTHORS
    return f"{source}, features as given" if source == "published" and by_authors and scaling == "given" else source


def reading(result: Result) -> list[str]:
    """Return paragraphs on ranks, settings, the distance to the paper, weak methods and missing cells."""
    protocols = result["asked"]["protocols"]
    parts = [_rank_sentences(result, protocols[0]), settings_sentences(result)]
    if "paper" in protocols:
        parts.append(_reported_sentences(result))
    parts += [_reference_sentence(result, protocols[0], reference) for reference in REFERENCE_WORDS]
    parts += collapsed_reading(result, protocols[0])
    parts.append(missing_sentences(result, protocols[0]))
    return [part for part in parts if part]


def _rank_sentences(result: Result, protocol: str) -> str:
    ranking = ranks_of(result, protocol)
    ranks, graphs, unranked = ranking
    if "EPAGCL" not in ranks or len(ranks) == 1:
        return ""
    place = ranking.place("EPAGCL")
    reported = reported_ranks_of(result, protocol).mean if protocol != "public" else {}
    reported_rank = (
        f" By the paper's numbers on these graphs, it is {reported['EPAGCL']:.1f} among {len(reported)} methods."
        if "EPAGCL" in reported
        else ""
    )
    first = min(ranks, key=ranks.__getitem__)
    by_graph = {graph: compared_scores(result, protocol, graph) for graph in graphs}
    rivals = self_supervised_titles(result)
    best = {graph: max(set(rivals) & set(found), key=found.__getitem__) for graph, found in by_graph.items()}
    wins = [graph for graph, title in best.items() if title in ("EPAGCL", "EPAGCL*")]
    lacking = (
        f" Not ranked, with fewer than {MIN_RUNS} runs on a graph: {', '.join(map(escape_stars, unranked))}."
        if unranked
        else ""
    )
    return (
        f"**EPAGCL ranks {place} of {len(ranks)}** by mean rank over {', '.join(graphs)} under the {protocol} "
        f"protocol. Its mean rank is {ranks['EPAGCL']:.1f}.{reported_rank} {escape_stars(first)} has the lowest mean "
        f"rank ({ranks[first]:.1f}). EPAGCL or EPAGCL\\* has the highest mean on {len(wins)} of {len(graphs)} graphs"
        + (f" ({', '.join(wins)})." if wins else ".")
        + f"{lacking} The ranking compares methods with the settings of their recipes: some were published, some "
        "tuned, some taken from a related graph, and widths and epochs differ."
    )


def settings_sentences(result: Result) -> str:
    """State where the settings come from. Methods are compared as published, not with their best settings."""
    ours: dict[str, list[str]] = {}
    given: list[str] = []
    for cell in result["cells"]:
        title, graph = cell["row"], cell["graph"]["name"]
        if title not in self_supervised_titles(result) or cell["source"] is None:
            continue
        source = source_text(cell)
        if not source.startswith("published"):
            ours.setdefault(title, []).append(graph)
        elif source != "published":
            given.append(f"{escape_stars(title)} on {graph}")
    if not ours:
        return ""
    alike: dict[str, list[str]] = {}
    for title, graphs in ours.items():
        alike.setdefault(", ".join(graphs), []).append(escape_stars(title))
    listed = "; ".join(f"{', '.join(titles)} on {graphs}" for graphs, titles in alike.items())
    parts = [
        f"Settings and epochs are published where {PUBLISHED}, and the recipe follows it. For EPAGCL they are those of "
        "Appendix D, which describes a grid search for the best average accuracy and does not say by which scoring "
        "rule; p_add = 0.05 is ours, since the paper does not give it. Settings of our own, taken from related graphs "
        "or chosen on validation nodes of these graphs (no journals of these choices are kept), are used for: "
        f"{listed}."
    ]
    if given:
        parts.append(
            f"The authors' loader divides feature rows by their sums; here they stay as given: {', '.join(given)}."
        )
    if "GCA*" in ours and "EPAGCL*" not in ours:
        parts.append(
            "GCA\\* was tuned on validation nodes, EPAGCL\\* was not, so their difference is no comparison of views."
        )
    return " ".join(parts)


def _reported_sentences(result: Result) -> str:
    gaps = reported_gaps(result, "paper")
    groups = {
        "More than a point below the paper": [title for title, gap in gaps.items() if gap < -1],
        "More than a point above it": [title for title, gap in gaps.items() if gap > 1],
        "Within a point of it": [title for title, gap in gaps.items() if abs(gap) <= 1],
    }
    parts = [
        f"{label}: "
        + ", ".join(f"{escape_stars(title)} ({gaps[title]:+.1f})" for title in sorted(titles, key=gaps.__getitem__))
        for label, titles in groups.items()
        if titles
    ]
    if not parts:
        return ""
    return (
        f"Measured minus reported accuracy under the paper's protocol in points, mean over graphs. {'. '.join(parts)}."
    )


def _reference_sentence(result: Result, protocol: str, reference: str) -> str:
    """Return which trained methods are worse than a reference, and on which graphs."""
    tests = against(result, protocol, reference, self_supervised_titles(result))
    if not tests:
        return ""
    above = [pair for pair, test in tests.items() if test.verdict == WORSE]
    below = {pair: test for pair, test in tests.items() if test.verdict == BETTER}
    name = REFERENCE_WORDS[reference]
    gaps = [f"{escape_stars(title)} on {graph} ({-test.mean:+.1f})" for (graph, title), test in below.items()]
    listed = f" (in points: {', '.join(gaps)})" if gaps else ""
    return (
        f"**Trained methods against {name}**, by a paired test of each method and graph: {len(above)} of {len(tests)} "
        f"are better, {len(below)} worse{listed}, and {len(tests) - len(above) - len(below)} undecided."
    )


def missing_sentences(result: Result, protocol: str) -> str:
    """List the cells that are missing or have fewer runs than the others."""
    incomplete = []
    for graph in graphs_of(result):
        usual, measured = usual_runs(result, protocol, graph), accuracies(result, protocol, graph)
        for title in titles_of(result):
            count = len(measured[title]["runs"]) if title in measured else 0
            if count < usual:
                runs = "no run" if count == 0 else f"{count} of {usual} runs"
                incomplete.append(f"{escape_stars(title)} on {graph} ({runs})")
    absent = [f"{graph} ({reason} here)" for graph, reason in result["absent"].items()]
    if not incomplete and not absent:
        return ""
    missing = ", ".join([*incomplete, *absent])
    return f"Missing or incomplete: {missing}. Run the command again to compute these cells, if the data are available."
