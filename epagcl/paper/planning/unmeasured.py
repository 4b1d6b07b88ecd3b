"""The parts of the study that do not consist of runs, and what their results lack."""

from collections.abc import Collection, Mapping

from epagcl.paper import find_artefact
from epagcl.paper.artefact import Result, proper_name
from epagcl.paper.study_size import seeds_of

BURDEN, OPERATORS = "burden", "operators"
#: Artefacts whose results have an entry for each graph.
BY_GRAPH = ("epr", "theory", "graphs", OPERATORS)


def unmeasured(results: Mapping[str, Result], graphs: Collection[str] = ()) -> dict[str, list[str]]:
    """Return what each artefact lacks: graphs, or methods on a graph. Graphs without data are left out.

    Args:
        results: results of the artefacts by name.
        graphs: names of graphs, as in :func:`epagcl.data.load`; empty for all.

    Examples:
        >>> unmeasured({"epr": {"graphs": {"Cora": {}}, "absent": {}}}, ["cora", "texas"])["epr"]
        ['Texas']
    """
    wanted = {proper_name(name) for name in graphs}
    lacking = {}
    for name in (*BY_GRAPH, BURDEN):
        result = results.get(name, {"graphs": {}, "absent": {}, "cells": []})
        planned = [proper_name(graph) for graph in find_artefact(name).datasets]
        planned = [graph for graph in planned if graph not in result["absent"] and (not wanted or graph in wanted)]
        places = [graph for graph in planned if graph not in result["graphs"]]
        if name == OPERATORS:
            places += [
                graph for graph in planned if graph in result["graphs"] and _splits(result, graph) < seeds_of(graph)
            ]
        if name == BURDEN:
            places += [
                f"{cell['method']} on {cell['graph']}"
                for cell in result["cells"]
                if cell["hardware"] is None and cell["graph"] in planned
            ]
        lacking[name] = places
    return {name: places for name, places in lacking.items() if places}


def _splits(result: Result, graph: str) -> int:
    """Return the smallest number of splits on which an operator of a graph was scored."""
    return min(len(row["accuracy"]) for row in result["graphs"][graph]["operators"].values())
