"""Whole methods with their own settings: the section of the page that is made from the comparison of all graphs."""

from collections import Counter
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from epagcl.core.config import current_settings
from epagcl.core.formatting import listed, paragraph, span
from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import accuracy_lines, measured_graphs
from epagcl.paper.collapses import collapsed_reading
from epagcl.paper.paired import (
    REVERSED,
    SIGNS,
    against_table,
    differences_table,
    training_table,
)
from epagcl.paper.tables import Table, markdown, wrap
from epagcl.paper.tuned.budget import OURS, TUNED
from epagcl.study.design import UNTRAINED_PREFIX
from epagcl.study.paired_test import BETTER, UNDECIDED, WORSE, PairedTest, paired_tests
from epagcl.study.ranking import Ranking
from epagcl.study.summary import Comparison, by_seed, paired_against, ranking_of, runs_by_seed

TITLE = "Whole methods with their own settings"
#: Other sections with the same rows and seeds, and points by which equal runs differ by rounding.
REPEATING, ROUNDING = {"accuracy", "heterophily"}, 0.05
#: Where the settings of a method on a graph come from, in words.
SOURCES = {"paper": "published settings", "ours": "our own settings", "defaults": "the method's defaults"}


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
        SOURCES.get(str(cell["source"]), "others")
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
    return [*paragraphs, *collapsed_reading(_result(comparison), comparison["protocol"])]


def repeated_runs(comparison: Comparison, results: Mapping[str, Result]) -> list[str]:
    """Return a paragraph on cells of this section that others repeat with another outcome, if there are any."""
    ours, protocol = {(cell["row"], cell["graph"]["name"]): cell for cell in _cells(comparison)}, comparison["protocol"]
    shared, gaps = 0, {}
    for name in REPEATING & results.keys():
        for cell in results[name]["cells"]:
            place = cell["row"], cell["graph"]["name"]
            if place not in ours or not _same_settings(ours[place], cell):
                continue
            one, other = (by_seed(found["protocols"].get(protocol)) for found in (ours[place], cell))
            if differences := [one[seed] - other[seed] for seed in one if seed in other]:
                shared += 1
                if max(map(abs, differences)) > ROUNDING:
                    gaps[place] = differences
    if not gaps:
        return []
    where = listed(list(dict.fromkeys(graph for _, graph in gaps)))
    return [
        f"**The same runs in other sections**: {len(gaps)} of {shared} cells that this section shares with others "
        f"differ there ({where}), since they were computed on other hardware or by another version. Their means differ "
        f"by at most {max(abs(fmean(own)) for own in gaps.values()):.1f} points, single runs by at most "
        f"{max(abs(gap) for own in gaps.values() for gap in own):.1f}."
    ]


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
    short = list(dict.fromkeys(commit[:7] for commit in commits))  # some records have the long form
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


def _accuracies(comparison: Comparison, ranking: Ranking, tests: Mapping[tuple[str, str], PairedTest]) -> Table:
    result, protocol = _result(comparison), comparison["protocol"]
    signs = {cell: SIGNS[REVERSED[test.verdict]] for cell, test in tests.items()}
    titles = list(dict.fromkeys(cell["row"] for cell in _cells(comparison)))
    lines = accuracy_lines(result, protocol, titles, signs, ranking)
    counts = {len(cell["protocols"][protocol]["seeds"]) for cell in _cells(comparison) if protocol in cell["protocols"]}
    note = (
        f"Accuracy in percent, protocol {protocol}, {span(counts)} seeds: seed k trains model k, which is scored on "
        "split k. "
        f"▼ worse and ▲ better than {OURS} by paired tests with Holm's correction; other differences are undecided."
    )
    return Table("", TITLE, ["method", *measured_graphs(result), "rank"], lines, note)
