"""Whole methods with their own settings: the section of the page that is made from the comparison of all graphs."""

from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from statistics import fmean
from typing import Any

from epagcl.core.config import current_settings
from epagcl.core.formatting import counted_span, listed, paragraph, short_commit, span
from epagcl.paper.accuracy_reading import missing_sentences, source_text
from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import OURS, accuracy_lines, measured_graphs
from epagcl.paper.collapses import collapsed_reading, low_rank_reading
from epagcl.paper.paired import (
    REVERSED,
    SIGNS,
    against_table,
    differences_table,
    training_table,
)
from epagcl.paper.tables import Table, escape_stars, markdown, wrap
from epagcl.paper.tuned.budget import JOINED, TUNED
from epagcl.study.design import UNTRAINED_PREFIX
from epagcl.study.paired_test import BETTER, UNDECIDED, WORSE, PairedTest, paired_tests
from epagcl.study.ranking import Ranking
from epagcl.study.summary import Comparison, by_seed, paired_against, ranking_of, runs_by_seed

TITLE = "Whole methods with their own settings"
#: Other sections with the same rows and seeds, and points by which equal runs differ by rounding.
REPEATING, ROUNDING = ("accuracy", "heterophily", "ablation"), 0.05
#: Rows that have another title elsewhere: the ablation has no feature masks.
NO_MASKS = {("ablation", "EPAGCL"): "EPAGCL*"}
#: Where the settings of a method on a graph come from, in words.
SOURCES = {
    "published": "published settings",
    "published, features as given": "published settings with features as given",
    "ours": "our own settings",
    "defaults": "the method's defaults",
}


def section(comparison: Comparison, results: Mapping[str, Result]) -> str:
    """Return the section as Markdown; nothing if the rows cannot be ranked.

    Args:
        comparison: the comparison of all graphs.
        results: the results of the artefacts by name, which have sections of their own.
    """
    ranking = ranking_of(comparison["results"], comparison["protocol"])
    if ranking is None:
        return ""
    intro = (
        f"Beyond the paper: every method on {len(ranking.graphs)} graphs, with published settings where there are any."
    )
    intro += " The next section has the same methods tuned with one budget." if TUNED in results else ""
    lines = [f"## {TITLE}", "", wrap(intro), ""]
    paragraphs = [*reading(comparison, ranking), *repeated_runs(comparison, results)]
    lines += [wrap(text, bullet="- ") for text in paragraphs]
    for table in tables(comparison, ranking):
        lines += ["", markdown(table).rstrip("\n")]
    return "\n".join([*lines, "", wrap(origin(comparison)), ""])


def reading(comparison: Comparison, ranking: Ranking) -> list[str]:
    """Return paragraphs on the ranking, on the settings, and on what training adds to each method's own encoder."""
    best = ", ".join(f"{title} {value:.1f}" for title, value in list(ranking.mean_ranks.items())[:5])
    paragraphs = [
        paragraph(
            f"**Mean ranks over {len(ranking.graphs)} graphs**, the best first: {best}.",
            "The first figure of this page shows them all.",
            ranking.same_nodes_note,
        )
    ]
    sources = Counter(
        SOURCES[source_text(cell)]
        for cell in _cells(comparison)
        if cell["training"] is not None and any(cell["training"]["epochs"])
    )
    if sources:
        found = listed([f"{count} use {words}" for words, count in sources.most_common()])
        paragraphs.append(f"**Settings**: of {sources.total()} pairs of method and graph, {found}.")
    if words := [test.verdict for test in training_gains(comparison).values()]:
        paragraphs.append(
            f"**Training against a method's own untrained encoder**: of {len(words)} paired tests of a method on a "
            f"graph, {words.count(BETTER)} find training better, {words.count(WORSE)} worse, and "
            f"{words.count(UNDECIDED)} are undecided."
        )
    result, protocol = _result(comparison), comparison["protocol"]
    paragraphs += [*collapsed_reading(result, protocol), *low_rank_reading(_cells(comparison))]
    if missing := missing_sentences(result, protocol):
        paragraphs.append(f"{missing} Ranks compare means of all runs that a row has.")
    return paragraphs


def repeated_runs(comparison: Comparison, results: Mapping[str, Result]) -> list[str]:
    """Return a paragraph on cells that several sections have with different outcomes, if there are any."""
    sections = {"comparison": _cells(comparison)} | {
        name: results[name]["cells"] for name in REPEATING if name in results
    }
    by_place: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for name, cells in sections.items():
        for cell in cells:
            title = NO_MASKS.get((name, cell["row"]), cell["row"])
            by_place.setdefault((title, cell["graph"]["name"]), []).append(cell)
    shared = 0
    gaps: dict[tuple[str, str], list[float]] = {}
    for place, cells in by_place.items():
        for one, other in combinations(cells, 2):
            if _same_settings(one, other) and (differences := _differences(one, other, comparison["protocol"])):
                shared += 1
                if max(map(abs, differences)) > ROUNDING:
                    gaps[place] = max(gaps.get(place, []), differences, key=lambda own: max(map(abs, own), default=0.0))
    if not gaps:
        return []
    (title, graph), most = max(gaps.items(), key=lambda item: abs(fmean(item[1])))
    where = listed(list(dict.fromkeys(graph for _, graph in gaps)))
    return [
        f"**The same runs in several sections**: {len(gaps)} of {shared} cells that two sections share have other "
        f"outcomes there ({where}), since they were computed on other hardware or by another version. The means differ "
        f"by up to {abs(fmean(most)):.1f} points ({escape_stars(title)} on {graph}, where single runs differ by up to "
        f"{max(map(abs, most)):.1f})."
    ]


def _differences(one: Mapping[str, Any], other: Mapping[str, Any], protocol: str) -> list[float]:
    """Return the differences of two cells on common seeds, in points."""
    ours, theirs = (by_seed(cell["protocols"].get(protocol)) for cell in (one, other))
    return [ours[seed] - theirs[seed] for seed in ours if seed in theirs]


def _same_settings(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two cells have the same settings. Older records lack some settings, which had their defaults."""
    first, second = (current_settings(cell["settings"]) for cell in (one, other))
    return all(first[name] == second[name] for name in first.keys() & second.keys())


def tables(comparison: Comparison, ranking: Ranking) -> list[Table]:
    """Return the accuracies by graph, the tests of EPAGCL+ against each row, and what training adds."""
    result = _result(comparison)
    tests = paired_against(comparison["results"], comparison["protocol"], OURS)
    found = [_accuracies(comparison, ranking, tests)]
    if tests:
        found += [against_table(OURS, tests)]
        found += [differences_table(f"{OURS} minus each row", tests, measured_graphs(result))]
    if gains := training_gains(comparison):
        found.append(training_table(gains))
    return found


def training_gains(comparison: Comparison) -> dict[tuple[str, str], PairedTest]:
    """Test each method against its own untrained encoder on each graph, with Holm's correction for all tests."""
    runs = runs_by_seed(comparison["results"], comparison["protocol"])
    untrained = {title: runs.get(UNTRAINED_PREFIX + title, {}) for title in runs}
    return paired_tests(
        {
            (graph, title): (by_seed, untrained[title][graph])
            for title, by_graph in runs.items()
            for graph, by_seed in by_graph.items()
            if graph in untrained[title]
        }
    )


def origin(comparison: Comparison) -> str:
    """Return the settings, hardware, dates, commits and command behind the results."""
    hardware, dates, commits = (
        sorted({value for cell in _cells(comparison) for value in cell[key]})
        for key in ("hardware", "dates", "commits")
    )
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    short = list(dict.fromkeys(map(short_commit, commits)))  # some records have the long form
    return (
        "A method uses its recipe for a graph if there is one, otherwise its defaults. Measured on "
        f"{' and '.join(hardware)}, {when}, commit{'s' * (len(short) > 1)} {listed(short)}. "
        f"Command: `{comparison['command']}`."
    )


def _cells(comparison: Comparison) -> list[Mapping[str, Any]]:
    return [cell for cells in comparison["results"].values() for cell in cells]


def _result(comparison: Comparison) -> Result:
    """Return the comparison in the form of an artefact's result."""
    return {"cells": _cells(comparison), "absent": {}, "asked": {"datasets": list(comparison["results"])}}


def _widths(comparison: Comparison) -> str:
    """Return a sentence on the widths of the trained embeddings; nothing if no method has a setting for it."""
    widths = [
        cell["settings"]["dim"] * (2 if cell["settings"].get("name") in JOINED else 1)
        for cell in _cells(comparison)
        if cell["training"] is not None and any(cell["training"]["epochs"]) and "dim" in cell["settings"]
    ]
    found = f"embeddings have {span(widths, ',')} dimensions" if widths else ""
    return f"Widths and epochs are those of the recipes: {found}." if found else ""


def _accuracies(comparison: Comparison, ranking: Ranking, tests: Mapping[tuple[str, str], PairedTest]) -> Table:
    result, protocol = _result(comparison), comparison["protocol"]
    signs = {cell: SIGNS[REVERSED[test.verdict]] for cell, test in tests.items()}
    titles = list(dict.fromkeys(cell["row"] for cell in _cells(comparison)))
    lines = accuracy_lines(result, protocol, titles, signs, ranking)
    counts = {len(cell["protocols"][protocol]["seeds"]) for cell in _cells(comparison) if protocol in cell["protocols"]}
    seeds = counted_span(counts, "seed")
    note = paragraph(
        f"Accuracy in percent, protocol {protocol}, {seeds}: seed k trains model k, which is scored on split k.",
        f"▼ worse and ▲ better than {OURS} by paired tests with Holm's correction; other differences are undecided.",
        _widths(comparison),
    )
    return Table("", TITLE, ["method", *measured_graphs(result), "rank"], lines, note)
