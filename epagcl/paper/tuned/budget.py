"""The budget of the tuned track: what every search may do, and where it starts."""

from collections.abc import Mapping
from typing import Any

from epagcl.core.config import current_settings
from epagcl.methods import method, names
from epagcl.methods.base import Method
from epagcl.methods.recipes import recipe
from epagcl.paper.study_size import seeds_of

#: Methods of the track, in the order of the paper's table.
METHODS = ("dgi", "gmi", "mvgrl", "grace", "gca", "bgrl", "greet", "cca-ssg", "epagcl", "epagcl+")
#: The fewest outer test sets with which a graph enters the tables.
FEWEST_OUTER = 2
PROTOCOL = "strict"
TUNED = "tuned"
#: The budget of each method on each outer split: trials of one model, then models of new seeds that are scored.
TRIALS, SEEDS, EPOCHS, WIDTH = 6, 5, 300, 256
#: How feature rows are scaled in every search.
SCALINGS = ("given", "row-sum", "row-norm")
#: Methods that concatenate two vectors of width ``dim``. Their ``dim`` is halved.
JOINED = ("greet",)


def budget(name: str) -> dict[str, Any]:
    """Return the settings that no search may change: the width of the embedding, and the number of epochs.

    Training does not stop early. The search chooses the number of epochs among ten, by validation accuracy, unless the
    learning rate of the method depends on it.

    Examples:
        >>> budget("greet")
        {'dim': 128, 'epochs': 300, 'patience': 0}
    """
    return {"dim": WIDTH // 2 if name in JOINED else WIDTH, "epochs": EPOCHS, "patience": 0}


def outer_sets(graph: str) -> range:
    """Return the seeds of a graph's outer splits. Each has a test set of its own, which its searches do not see.

    Examples:
        >>> len(outer_sets("Cora")), len(outer_sets("Squirrel"))
        (4, 2)
    """
    return range(seeds_of(graph) // SEEDS)


def outer_of(seed: int) -> int:
    """Return the outer test set of a run."""
    return seed // SEEDS


def start_of(graph: str, cls: type[Method]) -> dict[str, Any]:
    """Return the settings of the first trial of a method on a graph: those of the recipe, without the budget.

    Examples:
        >>> start_of("Cora", method("dgi"))
        {'feature_scaling': 'row-sum'}
    """
    return {name: value for name, value in recipe(graph, cls.name).items() if name not in ("source", *budget(cls.name))}


def space_around(start: Mapping[str, Any]) -> list[str]:
    """Return the searched settings: the default space, and how feature rows are scaled. It contains the start.

    Examples:
        >>> space_around({"feature_scaling": "row-max"})
        ['default', 'feature_scaling=given,row-sum,row-norm,row-max']
    """
    scalings = dict.fromkeys((*SCALINGS, start.get("feature_scaling", SCALINGS[0])))
    return ["default", f"feature_scaling={','.join(scalings)}"]


def starts_at_recipe(search: Mapping[str, Any], graph: str, title: str) -> bool:
    """Return whether the first trial of a search has the settings of today's recipe.

    Args:
        search: a search of a result.
        graph: name of the graph.
        title: title of the method.
    """
    cls = next(cls for cls in map(method, names()) if cls.title == title)
    wanted = {**cls().settings(), **start_of(graph, cls)}
    first = current_settings(search["trials"][0].get("settings", {}))
    return all(value == wanted[name] for name, value in first.items())
