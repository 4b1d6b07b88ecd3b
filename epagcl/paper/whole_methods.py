"""Whole methods with their own settings: the section of the page that is made from the comparison of all graphs."""

from collections import Counter

from epagcl.core.formatting import listed
from epagcl.paper.cell_scores import columns_by_graph
from epagcl.paper.paired import (
    REVERSED,
    SIGNS,
    VERDICT_COLUMNS,
    against_table,
    differences_table,
    verdict_cells,
)
from epagcl.paper.tables import Table, TableCell, markdown, marked, wrap
from epagcl.study.paired_test import PairedTest, paired_tests
from epagcl.study.ranking import Ranking
from epagcl.study.summary import Comparison, paired_against, ranking_of, runs_by_seed

OURS = "EPAGCL+"
UNTRAINED = "untrained "
TITLE = "Whole methods with their own settings"
#: Where the settings of a method on a graph come from, in words.
SOURCES = {"paper": "published", "ours": "our own", "defaults": "the defaults"}


def section(comparison: Comparison) -> str:
    """Return the section as Markdown; nothing if the rows cannot be ranked."""
    ranking = ranking_of(comparison["results"], comparison["protocol"])
    if ranking is None:
        return ""
    intro = (
        f"Beyond the paper: every method on {len(ranking.graphs)} graphs, with published settings where there are any. "
        "The next section has the same methods tuned with one budget."
    )
    lines = [f"## {TITLE}", "", wrap(intro), ""]
    lines += [wrap(paragraph, bullet="- ") for paragraph in reading(comparison, ranking)]
    for table in tables(comparison, ranking):
        lines += ["", markdown(table).rstrip("\n")]
    return "\n".join([*lines, "", wrap(origin(comparison)), ""])


def reading(comparison: Comparison, ranking: Ranking) -> list[str]:
    """Return paragraphs on the ranking, on the settings, and on what training adds to each method's own encoder."""
    best = ", ".join(f"{title} {value:.1f}" for title, value in list(ranking.mean_ranks.items())[:5])
    paragraphs = [
        f"**Mean ranks over {len(ranking.graphs)} graphs**, the best first: {best}. The first figure of this page "
        "shows them all.",
        _settings(comparison),
    ]
    gains = training_gains(comparison)
    if gains:
        cells = [verdict_cells([test for (_, row), test in gains.items() if row == title]) for title in _tested(gains)]
        better, worse, undecided = (sum(int(line[place]) for line in cells) for place in (1, 2, 3))
        paragraphs.append(
            f"**Training against the own untrained encoder**: of {len(gains)} paired tests of a method on a graph, "
            f"{better} find training better, {worse} worse, and {undecided} are undecided."
        )
    return paragraphs


def tables(comparison: Comparison, ranking: Ranking) -> list[Table]:
    """Return the accuracies by graph, the tests of EPAGCL+ against each row, and what training adds."""
    results, protocol = comparison["results"], comparison["protocol"]
    graphs, titles = list(results), _titles(comparison)
    tests = paired_against(results, protocol, OURS) if OURS in titles else {}
    others = [title for title in titles if title != OURS]
    found = [_accuracies(comparison, ranking, tests)]
    if tests:
        found.append(against_table(OURS, tests, others))
        found.append(differences_table(f"{OURS} minus each row", tests, others, graphs))
    gains = training_gains(comparison)
    if gains:
        lines = [
            [title, *verdict_cells([test for (_, row), test in gains.items() if row == title])]
            for title in _tested(gains)
        ]
        columns = ["method", "minus untrained", *VERDICT_COLUMNS]
        note = "Each method minus its own encoder with initial weights, in points; the columns are those above."
        found.append(Table("training", "What training adds to the own encoder", columns, lines, note))
    return found


def training_gains(comparison: Comparison) -> dict[tuple[str, str], PairedTest]:
    """Test each method against its own untrained encoder on each graph, with Holm's correction for all tests."""
    runs = runs_by_seed(comparison["results"], comparison["protocol"])
    return paired_tests(
        {
            (graph, title): (by_seed, runs[UNTRAINED + title][graph])
            for title, by_graph in runs.items()
            if UNTRAINED + title in runs
            for graph, by_seed in by_graph.items()
            if graph in runs[UNTRAINED + title]
        }
    )


def origin(comparison: Comparison) -> str:
    """Return the settings, hardware, dates, commits and command behind the results."""
    cells = [cell for row in comparison["results"].values() for cell in row]
    hardware, dates, commits = (
        sorted({value for cell in cells for value in cell[key]}) for key in ("hardware", "dates", "commits")
    )
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    short = list(dict.fromkeys(commit[:7] for commit in commits))  # some records have the long form
    return (
        "A method uses its recipe for a graph if there is one, otherwise its defaults. Measured on "
        f"{' and '.join(hardware)}, {when}, commit{'s' * (len(short) > 1)} {listed(short)}. "
        f"Command: `{comparison['command']}`."
    )


def _settings(comparison: Comparison) -> str:
    """Return how many pairs of method and graph have published settings, as a paragraph."""
    sources = Counter(
        cell["source"]
        for cells in comparison["results"].values()
        for cell in cells
        if cell["training"] is not None and any(cell["training"]["epochs"])
    )
    found = [f"{words} on {sources[source]}" for source, words in SOURCES.items() if source in sources]
    return f"**Settings**: of {sum(sources.values())} pairs of method and graph, they are {listed(found)}."


def _titles(comparison: Comparison) -> list[str]:
    """Return the titles of the rows in their order."""
    return list(dict.fromkeys(cell["row"] for cells in comparison["results"].values() for cell in cells))


def _tested(tests: dict[tuple[str, str], PairedTest]) -> list[str]:
    """Return the titles of the rows that have tests, in their order."""
    return list(dict.fromkeys(title for _, title in tests))


def _accuracies(comparison: Comparison, ranking: Ranking, tests: dict[tuple[str, str], PairedTest]) -> Table:
    graphs, titles = list(comparison["results"]), _titles(comparison)
    cells = [cell for own in comparison["results"].values() for cell in own]
    result = {"cells": cells, "absent": {}, "asked": {"datasets": graphs}}
    signs = {cell: SIGNS[REVERSED[test.verdict]] for cell, test in tests.items()}
    columns = columns_by_graph(result, comparison["protocol"], titles, signs)
    ranks = [ranking.mean_ranks.get(title) for title in titles]
    columns.append(marked(ranks, [f"{one:.1f}" if one is not None else "–" for one in ranks], smallest=True))
    lines: list[list[TableCell | str]] = [
        [title, *(column[place] for column in columns)] for place, title in enumerate(titles)
    ]
    counts = sorted({len(cell["protocols"][comparison["protocol"]]["seeds"]) for cell in cells})
    note = (
        f"Accuracy in percent, protocol {comparison['protocol']}, {counts[0]} to {counts[-1]} seeds: seed k trains "
        f"model k, which is scored on split k. ▼ worse and ▲ better than {OURS} by paired tests with Holm's "
        "correction; other differences are undecided."
    )
    return Table("", TITLE, ["method", *graphs, "rank"], lines, note)
