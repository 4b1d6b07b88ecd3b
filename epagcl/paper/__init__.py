"""The paper's tables and figures, one file each; what it reports; and what others have published for its baselines."""

import importlib
import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epagcl.paper.artefact import Artefact

#: Name of each artefact: its file, where it stands in the paper, and what it shows.
ARTEFACTS = {
    "accuracy": ("accuracy", "Table 2", "every method on every graph, with ranks, references and provenance"),
    "burden": ("burden", "Table 3", "pre-processing, FLOPs, time and memory of an epoch"),
    "ablation": ("ablation", "Figure 4", "what each part of the views is worth, and what true labels would give"),
    "add-vs-drop": ("add_vs_drop", "Figure 1", "adding against dropping edges as the only augmentation"),
    "tsne": ("tsne", "Figure 3", "maps of raw features and embeddings, coloured by class"),
    "epr": ("epr", "Appendix F", "error passing rates of all graphs, in both definitions and over more hops"),
    "heterophily": ("heterophily", "Appendix G", "graphs whose neighbours are mostly of other classes"),
    "significance": (
        "significance",
        "Appendix E",
        "Wilcoxon tests on independent paired runs, effect sizes, intervals",
    ),
    "theory": ("theory", "Section 3", "how often the theorems hold, and the EPR of the views that are really made"),
    "leakage": (
        "leakage",
        "Section 4",
        "the same embeddings scored strictly, as the paper says, and as its script does",
    ),
}


def find_artefact(name: str) -> "Artefact":
    """An artefact by its name."""
    return importlib.import_module(f"{__name__}.{ARTEFACTS[name][0]}").ARTEFACT


@cache
def reported() -> dict[str, Any]:
    """The paper's figures, one table per artefact; ``reported.toml`` explains each."""
    return tomllib.loads((resources.files(__name__) / "reported.toml").read_text(encoding="utf-8"))


@cache
def _elsewhere() -> dict[str, Any]:
    return tomllib.loads((resources.files(__name__) / "published.toml").read_text(encoding="utf-8"))


def published(graph: str, title: str) -> dict[str, list[float]]:
    """Accuracies of a method on a graph in percent, ``[mean, std]`` or ``[mean]``, by where they were published.

    ``paper``: the paper's own tables (random 10/10/80 splits); ``random`` and ``public``: elsewhere, by kind of split
    (``published.toml`` says where).
    """
    figures: dict[str, list[float]] = {}
    accuracy, heterophily = reported()["accuracy"], reported()["heterophily"]
    for table in (accuracy, heterophily):
        cells = dict(zip(table["columns"], table.get(title, []), strict=False))
        if graph in cells and cells[graph] != "OOM":
            figures["paper"] = cells[graph] if isinstance(cells[graph], list) else [cells[graph]]
    for kind, graphs in _elsewhere().items():
        if title in graphs.get(graph, {}):
            figures[kind] = graphs[graph][title]
    return figures
