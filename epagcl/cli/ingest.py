"""``epagcl ingest``: a graph on disk from tables of any size."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from epagcl.cli.graph_input import GraphInput, takes_graph
from epagcl.cli.options import AsJson, Quiet, interruptible
from epagcl.cli.progress import busy, console_for, progress_log
from epagcl.cli.rendering import show
from epagcl.core.formatting import counted

if TYPE_CHECKING:
    from rich.console import Console

    from epagcl.data.disk.graph import OnDiskGraph
    from epagcl.data.io.roles import Roles


@takes_graph("graph", "data")
def ingest(
    inputs: GraphInput,
    out: Annotated[Path, typer.Option(help="Folder of the graph, new or empty, or of a stopped ingestion.")] = Path(
        "graph"
    ),
    bad_rows: Annotated[
        str, typer.Option(metavar="refuse|skip", help="What to do about rows of the edges that cannot be used.")
    ] = "refuse",
    model: Annotated[
        Path | None, typer.Option(help="Folder of a trained model: encode the features for it, as in its training.")
    ] = None,
    memory: Annotated[float, typer.Option(metavar="GIB", help="Memory that may be used, roughly; at least 1.")] = 4.0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the graph in that folder.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write tables of any size to a graph on disk. Every command takes its folder in place of files.

    The same command continues an ingestion that was stopped.

    Example: epagcl ingest --edges e.parquet --features f.parquet --bad-rows skip --out graph
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.data.disk.ingest.run import ingest_files
    roles = inputs.roles() if model is None else _roles_for(model, inputs)
    with IngestProgress(console) as progress, interruptible("the same command continues"):
        graph = ingest_files(
            inputs.files,
            out,
            roles,
            bad_rows,
            inputs.name,
            memory,
            overwrite=overwrite,
            report=progress,
        )
    if as_json:
        sizes = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
        result = {"folder": str(graph.path), "name": graph.name, **sizes, "rows": graph.manifest["rows"]}
        print(json.dumps(result, indent=2))
    elif not quiet:
        _show(graph)


def _roles_for(model: Path, inputs: GraphInput) -> "Roles":
    """Return the columns that the options name, encoded as those of a model."""
    from epagcl.methods.registry import load_model

    encoding = load_model(model, "cpu").encoding_
    if encoding is None and inputs.columns_as is None:
        inputs = replace(inputs, columns_as="*=given")
    return inputs.roles(encoding)


def _show(graph: "OnDiskGraph") -> None:
    """Show the size of the graph and how to use it."""
    parts = [counted(graph.num_nodes, "node"), counted(graph.num_edges, "edge")]
    parts += [counted(graph.num_features, "feature")] if graph.num_features else ["no features"]
    size = sum(entry["bytes"] for entry in graph.manifest["arrays"].values())
    show(f"{graph.path}: {', '.join(parts)} ({size / 1e6:,.1f} MB)")
    features = "" if graph.num_features else " --features structure"
    show(f"next: epagcl embed {graph.path}{features} --out z.npy")


class IngestProgress:
    """Progress of an ingestion: the current stage, and the share of it that is done.

    It is called with both, and is a context manager.

    Args:
        console: where to show it.
    """

    def __init__(self, console: "Console"):
        from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

        self.console, self._stage, self._task = console, "", TaskID(0)
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._bar.stop()

    def __call__(self, words: str, share: float | None) -> None:
        """Show the share of a stage that is done; None if it is unknown."""
        if words != self._stage:
            if self._bar.tasks:
                self._bar.update(self._task, total=1.0, completed=1.0)
            self._stage, self._task = words, self._bar.add_task(words, total=None)
            if not self.console.is_terminal:
                progress_log.info("%s", words)
        if share is not None:
            self._bar.update(self._task, total=1.0, completed=share)
