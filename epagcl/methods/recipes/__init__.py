"""Recipes: one TOML file for each named graph, with the settings of each method in a section."""

import tomllib
from copy import deepcopy
from functools import cache
from importlib import resources
from typing import Any


def recipe(graph: str, method: str) -> dict[str, Any]:
    """Return the settings of a method for a named graph, with their ``source``: "paper" (published) or "ours".

    Without a recipe the result is empty, and the defaults of the method apply. A starred name (``gca*``, without masks)
    has its own section only if it differs from the method in other settings too.

    Args:
        graph: name of the graph, in upper or lower case.
        method: name of the method.

    Examples:
        >>> recipe("cora", "gmi")
        {'source': 'paper', 'layers': 2, 'feature_scaling': 'row-sum'}
    """
    return deepcopy(_sections(graph.lower()).get(method, {}))


@cache
def _sections(graph: str) -> dict[str, dict[str, Any]]:
    """Return the settings of all methods for a graph, whose name is in lower case."""
    file = resources.files(__name__) / f"{graph}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
