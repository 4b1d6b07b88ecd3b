"""Recipes: one TOML file for each named graph, with the settings of each method in a section."""

import tomllib
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
    file = resources.files(__name__) / f"{graph.lower()}.toml"
    if not file.is_file():
        return {}
    return tomllib.loads(file.read_text(encoding="utf-8")).get(method, {})
