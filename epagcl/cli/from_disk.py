"""``train`` and ``embed`` on a graph on disk that does not fit into memory, or that is trained on subgraphs."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from epagcl.cli.auto import AUTO
from epagcl.cli.graph_input import GraphInput
from epagcl.cli.options import interruptible, make_method, settings_of
from epagcl.cli.progress import TrainingProgress
from epagcl.cli.rendering import EmbeddingResult
from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.core.torchrun import launched_ranks

if TYPE_CHECKING:
    from epagcl.data.disk.graph import OnDiskGraph
    from epagcl.methods.base import Method
    from epagcl.methods.sampled import Sampled


class DiskInput(NamedTuple):
    """A graph that stays on disk, its name in results, and the model."""

    graph: "OnDiskGraph"
    name: str
    model: "Sampled"


def graph_on_disk(
    context: typer.Context,
    inputs: GraphInput,
    method: str,
    config: Path | None,
    trained: "Method | None" = None,
) -> DiskInput | None:
    """Return the graph and the model if the command works on the graph from disk; None: it is read into memory.

    Args:
        context: of the command, with its settings.
        inputs: the options that name the graph.
        method: value of ``--method``.
        config: file of settings.
        trained: a trained model to use in place of a new one.
    """
    if (graph := opened_folder(inputs)) is None or (method == AUTO and trained is None):
        return None
    from epagcl.methods.sampled import Sampled
    from epagcl.runs.from_disk import stays_on_disk

    model = trained or make_method(method, settings_of(context, None, method, config))
    if not isinstance(model, Sampled) or not stays_on_disk(graph, model, training=trained is None):
        return None
    inputs.roles()  # rejects options of columns that are wrong
    log.info("%s: read from disk as it is needed; there will be no report", inputs.name or graph.name)
    return DiskInput(graph, inputs.name or graph.name, model)


def opened_folder(inputs: GraphInput) -> "OnDiskGraph | None":
    """Return the graph on disk if the command line names one and nothing beside it, on one rank; else None."""
    from epagcl.data.disk.layout import is_graph_folder

    alone = not any(inputs.files.values()) and launched_ranks() == 1
    if inputs.graph is None or not alone or not is_graph_folder(inputs.graph):
        return None
    from epagcl.data.disk.graph import OnDiskGraph

    return OnDiskGraph.open(inputs.graph)


def note_cost(disk: DiskInput) -> None:
    """Log what a long training will take."""
    from epagcl.methods.plan import cost_note

    if note := cost_note(disk.model, disk.graph):
        log.warning("%s: %s", disk.name, note)


def refuse(options: dict[str, object]) -> None:
    """Raise if an option is given that needs the whole graph in memory.

    Args:
        options: the value of each option, false if it is not given.
    """
    if given := [name for name, value in options.items() if value]:
        raise InputError(
            f"{', '.join(given)}: not for a graph that is read from disk; leave it out, or give --subgraphs off"
        )


def embed_from_disk(
    disk: DiskInput, out: Path, progress: TrainingProgress, keep: "Callable[[Method], None] | None"
) -> EmbeddingResult:
    """Train the model if it is new, and write the embedding as it is computed, without a report.

    Args:
        disk: the graph and the model.
        out: an ``.npy`` file, or a folder for shards.
        progress: shows the progress.
        keep: called with the model once it is trained; None: it was trained before.
    """
    from epagcl.runs.execute import finding_dict
    from epagcl.runs.from_disk import check_part_by_part, write_embedding

    graph, _, model = disk
    check_part_by_part(out)
    with interruptible("the embedding is not complete (`epagcl train` keeps checkpoints)", progress):
        if keep is not None:
            note_cost(disk)
            keep(model.fit(graph, callback=progress))
        progress.say("embedding")
        files, dim = write_embedding(graph, model, out)
    return {
        "nodes": graph.num_nodes,
        "dim": dim,
        "health": [finding_dict(finding) for finding in model.health(graph)],
        "files": [str(path) for path in files],
        "model": None,
        "report": None,
    }
