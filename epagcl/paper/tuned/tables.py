"""Tables and figures of the methods that were tuned with one budget."""

from itertools import combinations, product
from statistics import fmean, median
from typing import TYPE_CHECKING

from epagcl.core.formatting import listed
from epagcl.methods import method
from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import (
    OURS,
    accuracy_lines,
    measured_graphs,
    ranking_over_graphs,
    runs_by_seed,
)
from epagcl.paper.paired import (
    REVERSED,
    SIGNS,
    against_table,
    by_row,
    differences_table,
    gains_figure,
    trained_counts,
    training_table,
)
from epagcl.paper.tables import Table, TableCell
from epagcl.paper.tuned.budget import (
    EPOCHS,
    METHODS,
    PROTOCOL,
    SEEDS,
    TRIALS,
    WIDTH,
    budget,
    outer_of,
    starts_at_recipe,
)
from epagcl.study.design import UNTRAINED_PREFIX
from epagcl.study.diagram import diagram
from epagcl.study.paired_test import PairedTest, group_ratio, grouped_tests
from epagcl.study.ranking import Ranking
from epagcl.study.summary import by_seed
from epagcl.study.tuning.criterion import chooses_epoch

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def titles_of(result: Result) -> list[str]:
    """Return the measured rows: raw and propagated features, then the methods in the order of the request."""
    return list(dict.fromkeys(cell["row"] for cell in result["cells"]))


def with_untrained(result: Result) -> Result:
    """Return the result with each method's own untrained encoder as a row."""
    encoders = [
        {"graph": cell["graph"], "row": UNTRAINED_PREFIX + cell["row"], "protocols": {PROTOCOL: cell["untrained"]}}
        for cell in result["cells"]
        if cell["untrained"] is not None
    ]
    return {**result, "cells": [*result["cells"], *encoders]}


def ranking_of(result: Result) -> Ranking | None:
    """Rank all rows over the graphs, the untrained encoders included."""
    result = with_untrained(result)
    return ranking_over_graphs(result, PROTOCOL, titles_of(result))


def against(result: Result, title: str) -> dict[tuple[str, str], PairedTest]:
    """Test a row against every other row on each graph, with Holm's correction for all tests.

    Runs on one outer test set share it, and the settings that were found for it.
    """
    by_graph = {graph: runs_by_seed(with_untrained(result), PROTOCOL, graph) for graph in measured_graphs(result)}
    return _tests(
        result,
        {
            (graph, other): (runs[title], runs[other])
            for graph, runs in by_graph.items()
            if title in runs
            for other in runs
            if other != title
        },
    )


def _tests(
    result: Result, pairs: dict[tuple[str, str], tuple[dict[int, float], dict[int, float]]], *, untrained: bool = False
) -> dict[tuple[str, str], PairedTest]:
    """Test pairs by (graph, row). Runs on one outer test set are a group.

    Args:
        result: the result.
        pairs: the runs of two rows by seed.
        untrained: whether all second rows are untrained encoders; otherwise the titles tell which.
    """
    trained, encoders = outer_ratios(result), outer_ratios(result, untrained=True)
    ratios = {
        (graph, title): (encoders if untrained or title.startswith(UNTRAINED_PREFIX) else trained)[graph]
        for graph, title in pairs
    }
    return grouped_tests(pairs, outer_of, ratios)


def outer_ratios(result: Result, *, untrained: bool = False) -> dict[str, float]:
    """Return λ of each graph: the variance of outer test sets in units of that of the runs on one.

    It is pooled over all pairs of a kind. λ differs between graphs: on large ones, runs on one test set scatter little.

    Args:
        result: the result.
        untrained: pool over the pairs of a row and an untrained encoder, which no search has chosen; otherwise over
            the pairs of other rows.
    """
    ratios = {}
    for graph in measured_graphs(result):
        rows = runs_by_seed(result, PROTOCOL, graph)
        every = runs_by_seed(with_untrained(result), PROTOCOL, graph)
        encoders = [runs for title, runs in every.items() if title not in rows]
        pairs = product(rows.values(), encoders) if untrained else combinations(rows.values(), 2)
        ratios[graph] = group_ratio(pairs, outer_of)
    return ratios


def standing(result: Result) -> str:
    """Return the mean rank of EPAGCL+ and its tests against the other rows in words; nothing if it has none."""
    ranking = ranking_of(result)
    if ranking is None or OURS not in ranking.mean_ranks:
        return ""
    better, worse, total = trained_counts(against(result, OURS))
    return (
        f"mean rank {ranking.mean_ranks[OURS]:.1f} of {len(ranking.mean_ranks)} rows over {len(ranking.graphs)} "
        f"graphs, and a significant lead over {ranking.beaten_rows(OURS)}; of {total} tests against the other trained "
        f"methods on single graphs, {better} find it better and {worse} worse"
    )


def untrained_gains(result: Result) -> dict[tuple[str, str], PairedTest]:
    """Test each tuned method against its own untrained encoder on each graph, with Holm's correction."""
    pairs = {}
    for cell in result["cells"]:
        if cell["untrained"] is not None:
            name = cell["graph"]["name"], cell["row"]
            pairs[name] = by_seed(cell["protocols"][PROTOCOL]), by_seed(cell["untrained"])
    return _tests(result, pairs, untrained=True)


def tables(result: Result) -> list[Table]:
    """Return the accuracies by graph with ranks, the tests of EPAGCL+, what training adds, and the searches."""
    tests, gains = against(result, OURS), untrained_gains(result)
    tested = [against_table(OURS, tests), differences_table(f"{OURS} minus each row", tests, measured_graphs(result))]
    training = [training_table(gains, _other_scalings(result))] if gains else []
    return [_accuracies(result, tests), *(tested if tests else []), *training, _chosen(result)]


def _accuracies(result: Result, tests: dict[tuple[str, str], PairedTest]) -> Table:
    graphs, rows = measured_graphs(result), with_untrained(result)
    signs = {cell: SIGNS[REVERSED[test.verdict]] for cell, test in tests.items()}
    lines = accuracy_lines(rows, PROTOCOL, titles_of(rows), signs, ranking_of(result))
    ratios = list(outer_ratios(result).values()) or [0.0]
    note = (
        f"Accuracy in percent on outer test sets that are hidden from their own search ({_counts_of_sets(result)}), "
        f"{SEEDS} new seeds each. Searches for the other test sets of a graph read labels of some of their nodes. "
        f"Every method has the same budget on each: {TRIALS} trials, the first with the settings of its recipe "
        "(published, ours, or defaults, which may have been chosen on other splits of the "
        f"graph), at most {EPOCHS} epochs, and embeddings of {WIDTH} dimensions. {_choice_of_epochs()} The budget does "
        "not limit the time, nor which settings of a method `epagcl tune` searches; for some methods these include "
        "inner widths. Untrained encoders have the settings of the recipe. ▼ worse and ▲ better than "
        f"{OURS} by paired tests with Holm's correction; other differences are undecided. The tests allow for runs on "
        "one test set being alike: the "
        f"variance between the test sets is {min(ratios):.1f} to {max(ratios):.1f} times that of the runs on one, and "
        f"{median(ratios):.1f} times in the median over graphs.{_other_starts(result)}"
    )
    return Table("", "Methods tuned with one budget", ["method", *graphs, "rank"], lines, note)


def _counts_of_sets(result: Result) -> str:
    """Return how many outer test sets the graphs have, in words."""
    graphs: dict[int, list[str]] = {}
    for graph in measured_graphs(result):
        one_row, *_ = runs_by_seed(result, PROTOCOL, graph).values()  # all rows have the same test sets
        graphs.setdefault(len(set(map(outer_of, one_row))), []).append(graph)
    if len(graphs) == 1:
        return f"{next(iter(graphs))} on each graph"
    return ", ".join(f"{count} on {listed(names)}" for count, names in sorted(graphs.items(), reverse=True)) or "none"


def _choice_of_epochs() -> str:
    """Return a sentence on how the number of epochs is chosen."""
    fixed = _fixed_epochs()
    rest = f", except for {listed(fixed)}, whose learning rate depends on it" if fixed else ""
    return f"The search chooses the number of epochs among ten{rest}."


def _fixed_epochs() -> list[str]:
    """Return the titles of the methods whose number of epochs no search chooses."""
    models = [method(name)(**budget(name)) for name in METHODS]
    return [model.title for model in models if not chooses_epoch(model)]


def _other_starts(result: Result) -> str:
    """Return a sentence on the searches that did not start at the recipe; empty if there are none."""
    places: dict[str, list[str]] = {}
    count = total = 0
    for cell in result["cells"]:
        graph, title = cell["graph"]["name"], cell["row"]
        others = sum(not starts_at_recipe(search, graph, title) for search in cell["searches"])
        count, total = count + others, total + len(cell["searches"])
        if others:
            places.setdefault(title, []).append(graph)
    if not count:
        return ""
    where = "; ".join(f"{title}: {', '.join(graphs)}" for title, graphs in places.items())
    return (
        f" In {count} of {total} searches, the first trial has other settings than today's recipe, which was outside "
        f"the searched space or has changed ({where})."
    )


def _other_scalings(result: Result) -> str:
    """Return a sentence on the searches that chose another feature scaling than that of the untrained encoder."""
    searches = [search for cell in result["cells"] if cell["untrained"] is not None for search in cell["searches"]]
    others = sum(
        search["settings"].get("feature_scaling") != search["trials"][0]["settings"].get("feature_scaling")
        for search in searches
        if "feature_scaling" in search["trials"][0].get("settings", {})
    )
    if not others:
        return ""
    return (
        f"The untrained encoder has the feature scaling of the recipe; {others} of {len(searches)} searches chose "
        "another one, so that part of the difference is due to the scaling."
    )


def _chosen(result: Result) -> Table:
    """Return how often the search kept the settings of the recipe, and what it gained on validation nodes."""
    lines: list[list[TableCell | str]] = []
    for title in titles_of(result):
        searches = [search for cell in result["cells"] if cell["row"] == title for search in cell["searches"]]
        if not searches:
            continue
        gains, first, epochs = [], 0, [search["settings"]["epochs"] for search in searches]
        for search in searches:
            done = [trial for trial in search["trials"] if trial["validation"] is not None]
            best = max(trial["validation"] for trial in done)
            start = search["trials"][0]["validation"]
            first += start == best
            gains += [100 * (best - start)] if start is not None else []
        mean_gain = f"{fmean(gains):+.1f}" if gains else "–"
        at_most = "fixed" if title in _fixed_epochs() else str(epochs.count(EPOCHS))
        counts = [str(len(searches)), str(first), mean_gain, f"{fmean(epochs):.0f}", at_most]
        lines.append([title, *counts])
    columns = ["method", "searches", "first trial best", "gain on validation nodes", "mean epochs", f"{EPOCHS} epochs"]
    exceptions = ", but for the searches that the first table names" if _other_starts(result) else ""
    note = (
        f"The first trial has the settings of the recipe{exceptions}. Gains on validation nodes are too high, since "
        f"trials compete. Where many searches choose {EPOCHS} epochs, the budget is short. The journals of all "
        "searches are in `results/tuning`."
    )
    return Table("searches", "What the searches chose", columns, lines, note, folded=True)


def figures(result: Result) -> "dict[str, Figure]":
    """Return the gain of each method over its untrained encoder, and the diagram of mean ranks."""
    tests = untrained_gains(result)
    if not tests:
        return {}
    figure = gains_figure(by_row(tests), "tuned method minus its untrained encoder")
    ranking = ranking_of(result)
    return {"": figure} | ({"ranks": diagram(ranking)} if ranking else {})
