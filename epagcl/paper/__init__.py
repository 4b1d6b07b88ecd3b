"""The tables and figures of the paper, with the numbers that it reports and those published elsewhere.

Each is an artefact: one module, or a folder whose ``artefact.py`` defines it.
"""

import importlib
import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from epagcl.core.errors import InputError
from epagcl.core.formatting import suggestion

if TYPE_CHECKING:
    from epagcl.paper.artefact import Artefact


class ArtefactEntry(NamedTuple):
    """An artefact in the registry: its module, its place in the paper, and what it shows."""

    module: str
    source: str
    summary: str


#: The artefacts by name.
ARTEFACTS = {
    "accuracy": ArtefactEntry(
        "accuracy", "Table 2", "test accuracy of every method on every graph, with ranks, references and provenance"
    ),
    "burden": ArtefactEntry("burden.artefact", "Table 3", "pre-processing, FLOPs, time and memory of an epoch"),
    "ablation": ArtefactEntry(
        "ablation", "Figure 4", "the contribution of each part of the views, and an oracle with labels"
    ),
    "add-vs-drop": ArtefactEntry("add_vs_drop", "Figure 1", "adding or dropping edges as the only augmentation"),
    "views": ArtefactEntry(
        "views_only", "Beyond the paper", "views that differ in their edges only, with one encoder, loss and budget"
    ),
    "tuned": ArtefactEntry(
        "tuned.artefact",
        "Beyond the paper",
        "every method tuned with the same budget, scored on nodes hidden from its search",
    ),
    "sensitivity": ArtefactEntry(
        "sensitivity.artefact",
        "Beyond the paper",
        "which settings of EPAGCL and EPAGCL+ matter; training seeds against splits",
    ),
    "choices": ArtefactEntry(
        "choices", "Beyond the paper", "single choices against the recipe: feature scaling, directions of edges, rates"
    ),
    "tsne": ArtefactEntry("tsne", "Figure 3", "t-SNE maps of raw features and embeddings, coloured by class"),
    "epr": ArtefactEntry(
        "epr", "Appendix F", "error passing rates of all graphs, by both definitions and over more hops"
    ),
    "operators": ArtefactEntry(
        "operators.artefact",
        "Beyond the paper",
        "whether the error passing rate of an operator predicts which operator wins",
    ),
    "heterophily": ArtefactEntry(
        "heterophily", "Appendix G", "graphs on which most neighbours belong to another class"
    ),
    "significance": ArtefactEntry(
        "significance", "Appendix E", "corrected tests of EPAGCL against each method on paired runs, and effect sizes"
    ),
    "graphs": ArtefactEntry("graphs", "Section 2", "repeated nodes, and the edges that EPAGCL and GCA drop"),
    "overlap": ArtefactEntry(
        "overlap", "Beyond the paper", "the correlation of runs on overlapping splits, and the size of paired tests"
    ),
    "theory": ArtefactEntry(
        "theory.artefact", "Section 3", "how often the theorems hold, and the EPR of sampled views"
    ),
    "leakage": ArtefactEntry(
        "leakage", "Section 4", "the same embeddings under the strict rule, the paper's rule and the rule of its script"
    ),
}


def find_artefact(name: str) -> "Artefact":
    """Return an artefact by its name in :data:`ARTEFACTS`. Raise if there is none.

    Examples:
        >>> find_artefact("epr").name
        'epr'
    """
    if name not in ARTEFACTS:
        raise InputError(f"no artefact {name!r}; {suggestion(name, ARTEFACTS)}")
    artefact: Artefact = importlib.import_module(f"{__name__}.{ARTEFACTS[name].module}").ARTEFACT
    return artefact


@cache
def reported() -> dict[str, Any]:
    """Return the numbers that the paper reports, one table per artefact; ``reported.toml`` explains each.

    Examples:
        >>> reported()["datasets"]["Cora"]
        [2708, 5278, 1433, 7]
    """
    return _read_toml("reported.toml")


def reported_cell(table: str, graph: str, title: str) -> Any:
    """Return what a table of the paper has for a row on a graph: a number, several, or text; None if it has nothing.

    Examples:
        >>> reported_cell("accuracy", "Cora", "GRACE")
        [85.34, 0.29]
    """
    numbers = reported()[table]
    return dict(zip(numbers["columns"], numbers.get(title, []), strict=False)).get(graph)


def reported_accuracy(graph: str, title: str) -> Any:
    """Return what Table 2 or Appendix G has for a row on a graph: [mean, std], a mean, "OOM", or None."""
    cells = (reported_cell(table, graph, title) for table in ("accuracy", "heterophily"))
    return next((cell for cell in cells if cell is not None), None)


def published(graph: str, title: str) -> dict[str, list[float]]:
    """Return the published accuracies of a method on a graph in percent, ``[mean, std]`` or ``[mean]``, by source.

    The sources are ``paper`` (the paper's own tables, random 10/10/80 splits), and ``random`` and ``public`` (other
    publications, by kind of split; ``published.toml`` names them).

    Examples:
        >>> published("Cora", "GRACE")
        {'paper': [85.34, 0.29], 'random': [83.3, 0.4], 'public': [81.9]}
    """
    accuracies: dict[str, list[float]] = {}
    accuracy = reported_accuracy(graph, title)
    if accuracy is not None and accuracy != "OOM":
        accuracies["paper"] = accuracy if isinstance(accuracy, list) else [accuracy]
    for split, graphs in _published_elsewhere().items():
        if title in graphs.get(graph, {}):
            accuracies[split] = graphs[graph][title]
    return accuracies


@cache
def _published_elsewhere() -> dict[str, Any]:
    return _read_toml("published.toml")


def _read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files(__name__) / name).read_text(encoding="utf-8"))
