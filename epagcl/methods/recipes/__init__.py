"""Recipes: for each named graph one TOML file, with a section of settings for each method."""

import tomllib
from importlib import resources
from typing import Any


def recipe(graph: str, method: str) -> dict[str, Any]:
    """The settings of a method for a named graph, and their ``source``: "paper" (published) or "ours".

    Empty where there is no recipe; the method's defaults hold then. A starred name (``gca*``) has a section only where
    its settings differ from the method's in more than the masks.
    """
    file = resources.files(__name__) / f"{graph.lower()}.toml"
    if not file.is_file():
        return {}
    return tomllib.loads(file.read_text(encoding="utf-8")).get(method, {})
