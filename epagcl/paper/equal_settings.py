"""Appendix G with equal settings: EPAGCL and GCA, each with its own settings and with those of the other."""

from typing import Any

from epagcl.core.formatting import counted, percent
from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import accuracies, measured_graphs, runs_by_seed
from epagcl.paper.tables import Table
from epagcl.study.design import UNSTORED, Row
from epagcl.study.paired_test import BETTER, WORSE, PairedTest, paired_tests

#: Rows whose settings are those of the other method's recipe, as far as both methods have them.
OTHERS = {"EPAGCL, settings of GCA": ("epagcl", "gca"), "GCA, settings of EPAGCL": ("gca", "epagcl")}
#: EPAGCL and GCA with equal settings: those of GCA, and those of EPAGCL.
PAIRS = {"GCA": ("EPAGCL, settings of GCA", "GCA"), "EPAGCL": ("EPAGCL", "GCA, settings of EPAGCL")}


def other_rows(graph: str, settings: dict[str, Any]) -> list[Row]:
    """Return EPAGCL with the settings of GCA, and GCA with those of EPAGCL.

    Args:
        graph: name of the graph, whose recipes are used.
        settings: take precedence over the recipes'.

    Examples:
        >>> ours, gca = other_rows("Texas", {})
        >>> ours.title, gca.title, ours.settings.keys() == gca.settings.keys()
        ('EPAGCL, settings of GCA', 'GCA, settings of EPAGCL', True)
    """
    own = {name: Row("", name).models(graph, 1, settings)[0][0].settings() for name in ("epagcl", "gca")}
    shared = [name for name in own["epagcl"] if name in own["gca"] and name not in (*UNSTORED, "name")]
    return [
        Row(title, name, {setting: own[other][setting] for setting in shared})
        for title, (name, other) in OTHERS.items()
    ]


def without_others(result: Result) -> Result:
    """Return a result without the rows that have the settings of another method, which are not ranked."""
    return {**result, "cells": [cell for cell in result["cells"] if cell["row"] not in OTHERS]}


def equal_tests(result: Result, protocol: str) -> dict[tuple[str, str], PairedTest]:
    """Test EPAGCL against GCA with equal settings, by the owner of the settings and graph, with Holm's correction."""
    by_graph = {graph: runs_by_seed(result, protocol, graph) for graph in measured_graphs(result)}
    return paired_tests(
        {
            (settings, graph): (runs[ours], runs[other])
            for settings, (ours, other) in PAIRS.items()
            for graph, runs in by_graph.items()
            if ours in runs and other in runs
        }
    )


def equal_table(result: Result, protocol: str) -> Table | None:
    """Return the accuracy of both methods with both settings, and the difference; None without such runs."""
    tests = equal_tests(result, protocol)
    if not tests:
        return None
    graphs = [graph for graph in measured_graphs(result) if any(graph == tested for _, tested in tests)]
    lines: list[list[str]] = []
    for settings, pair in PAIRS.items():
        for title in pair:
            cells = [_accuracy(result, protocol, graph, title) for graph in graphs]
            lines.append([title.partition(",")[0], settings, *cells])
        differences = [tests.get((settings, graph)) for graph in graphs]
        texts = [f"{test.mean:+.1f} ({test.verdict})" if test else "–" for test in differences]
        lines.append(["difference", settings, *texts])
    note = (
        f"Protocol {protocol}. Accuracy in percent, mean ± standard deviation. All settings that EPAGCL and GCA have "
        "in common are equal within a pair. Differences are paired by seed, and corrected for overlapping splits and "
        "for the number of tests."
    )
    return Table("equal", "EPAGCL and GCA with equal settings", ["method", "settings of", *graphs], lines, note)


def equal_sentence(result: Result, protocol: str) -> str:
    """Return what EPAGCL gains over GCA with equal settings, in both directions; "" without such runs."""
    tests, parts = equal_tests(result, protocol), []
    for settings in PAIRS:
        own = {graph: test for (owner, graph), test in tests.items() if owner == settings}
        words = [test.verdict for test in own.values()]
        listed = ", ".join(f"{graph} {test.mean:+.1f} ({test.decision})" for graph, test in own.items())
        parts += [
            f"With the settings of {settings} for both methods, EPAGCL is better on {words.count(BETTER)} of "
            f"{counted(len(own), 'graph')} and worse on {words.count(WORSE)}. In points: {listed}."
        ] * bool(own)
    if not parts:
        return ""
    given = "Appendix G gives both methods the same hyper-parameters and does not list them."
    return " ".join([f"**Equal settings** ({protocol} protocol). {given}", *parts])


def _accuracy(result: Result, protocol: str, graph: str, title: str) -> str:
    found = accuracies(result, protocol, graph).get(title)
    return percent(found) if found else "–"
