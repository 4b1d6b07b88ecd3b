"""``epagcl embed``: embeddings of a graph, without labels."""

import json
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epagcl.cli.graph_input import GraphInput, takes_graph
from epagcl.cli.options import (
    AsJson,
    Columns,
    Config,
    LoadedGraph,
    Map,
    Quiet,
    Vectors,
    check_map,
    interruptible,
    make_method,
    method_of,
    options_of,
    settings_of,
)
from epagcl.cli.progress import TrainingProgress, busy, console_for
from epagcl.cli.rendering import EmbeddingResult, show_embedding
from epagcl.core.errors import InputError
from epagcl.core.log import log

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from epagcl.methods.base import Method


@takes_graph("labels")
def embed(
    context: typer.Context,
    inputs: GraphInput,
    out: Annotated[
        Path,
        typer.Option(
            help="Output file: .npy (with a file of ids), .csv, .tsv or .parquet; without suffix, a folder of shards."
        ),
    ] = Path("z.npy"),
    vectors: Vectors = False,
    model: Annotated[Path | None, typer.Option(help="Folder of a trained model to use; nothing is trained.")] = None,
    save: Annotated[Path | None, typer.Option(help="Folder to keep the trained model in.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model in that folder.")] = False,
    method: Annotated[
        str | None, typer.Option("--method", "-m", help="The method; see `epagcl methods`. Default: epagcl+.")
    ] = None,
    config: Config = None,
    map_: Map = "auto",
    columns: Columns = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Embed the nodes of a graph: train on it without labels, or use a trained model; write embeddings and a report.

    Example: epagcl embed --edges e.csv --features f.csv --out z.npy
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        method = method_of(method, config)
        _check_options(context, method, out, map_, vectors=vectors)
        _keep_inputs(out, inputs.graph, *inputs.files.values(), columns, config)
    if model is not None and (save is not None or config is not None):
        raise InputError("--model is trained already; leave out --save and --config")
    trained = None if model is None else _load_model(context, model, method)
    with busy(console, "reading the graph"):
        loaded = inputs.load(encoding=None if trained is None else trained.encoding_)
        table = None if columns is None else _read_columns(columns, loaded)
    if trained is not None:
        _note_positions(trained)
        estimator = trained
    else:
        estimator = _new_model(context, loaded, method, config)
        _claim(save, overwrite=overwrite, make=False)
    with TrainingProgress(console, estimator) as progress:
        with interruptible("nothing was written (`epagcl train` keeps checkpoints)", progress):
            if model is None:
                _train(estimator, loaded, progress, save, overwrite=overwrite)
            progress.say("embedding")
            if not out.suffix:
                result = _write_shards(estimator, loaded, out, save)
            else:
                z = estimator.embed(loaded.data)
        if out.suffix:
            result = _write(estimator, loaded, z, out, map_, table, progress, save, vectors=vectors)
    if as_json:
        print(json.dumps(result, indent=2))
    elif not quiet:
        show_embedding(result, trained=type(estimator).trained)


def _check_options(context: typer.Context, method: str, out: Path, map_: str, *, vectors: bool) -> None:
    """Raise on a wrong output file, an unknown map or a mistyped option, before a download."""
    from epagcl.runs.export import check_output
    from epagcl.runs.shards import check_shards

    if out.suffix:
        check_output(out, vectors=vectors)
    else:
        check_shards(out)
    check_map(map_)
    options_of(context, method)


def _keep_inputs(out: Path, *files: Path | str | None) -> None:
    """Raise if the output would replace a file that the command reads."""
    from epagcl.runs.export import check_replaced

    check_replaced(out, *files)


def _read_columns(path: Path, graph: LoadedGraph) -> "pd.DataFrame":
    """Read the table of columns. Raise unless some of its ids are nodes of the graph."""
    from epagcl.report.files import check_columns, read_columns

    table = read_columns(path)
    check_columns(table, graph.data.get("node_ids", range(graph.data.num_nodes)), graph.name, "--columns")
    return table


def _load_model(context: typer.Context, folder: Path, method: str) -> "Method":
    """Load a trained model. Raise if settings other than the device are given."""
    from epagcl.methods import load_model

    settings = settings_of(context, None, method, None)
    if any(flag != "--device" for flag, _ in context.meta["settings"]):
        raise InputError("--model is trained already; leave out its settings (only --device can be given)")
    return load_model(folder, settings.get("device", "auto"))


def _new_model(context: typer.Context, graph: LoadedGraph, method: str, config: Path | None) -> "Method":
    """Return an untrained model. Raise if it learns from labels, or if its device is missing."""
    from epagcl.core.hardware import resolve_device

    model = make_method(method, settings_of(context, graph.recipe_name, method, config))
    if model.supervised:
        raise InputError(f"{method} learns from labels: train it with `epagcl train`, then embed with --model")
    resolve_device(model.device)
    return model


def _claim(save: Path | None, *, overwrite: bool, make: bool = True) -> None:
    """Prepare the folder of the model, if it is to be kept. An embedding cannot be resumed."""
    from epagcl.runs.folder import claim

    if save is not None:
        claim(save, overwrite=overwrite, argument="save", resumable=False, make=make)


def _train(
    model: "Method", graph: LoadedGraph, progress: TrainingProgress, save: Path | None, *, overwrite: bool
) -> None:
    """Train a model. Keep it in a folder if one is given."""
    from epagcl.methods.plan import cost_note

    if note := cost_note(model, graph.data):
        log.warning("%s: %s", graph.name, note)
    model.fit(graph.data, callback=progress)
    _claim(save, overwrite=overwrite)
    if save is not None:
        model.save(save)


def _note_positions(model: "Method") -> None:
    """Log that features which are positions have a meaning in the training graph only."""
    from epagcl.data.structural.features import positions_in

    if positions_in(model.feature_names_):
        log.warning("the model knows positions in its training graph only; for other graphs, use --features roles")


def _write_shards(model: "Method", graph: LoadedGraph, out: Path, save: Path | None) -> EmbeddingResult:
    """Write the embedding in shards as it is computed, without a report. Return the summary."""
    from epagcl.methods.sampled import Sampled
    from epagcl.runs.execute import finding_dict
    from epagcl.runs.shards import write_shards

    chunks = model.embed_chunks(graph.data) if isinstance(model, Sampled) else iter([model.embed(graph.data)])
    first = next(chunks)
    ids = graph.data.get("node_ids")
    files = write_shards(
        chain([first.cpu()], chunks),
        out,
        ids=None if ids is None else lambda nodes: [str(node) for node in ids[nodes]],
        expected=(graph.data.num_nodes, first.shape[1]),
    )
    return {
        "nodes": graph.data.num_nodes,
        "dim": first.shape[1],
        "health": [] if model.supervised else [finding_dict(finding) for finding in model.health(graph.data)],
        "files": [str(path) for path in files],
        "model": None if save is None else str(save),
        "report": None,
    }


def _write(
    model: "Method",
    graph: LoadedGraph,
    z: "Tensor",
    out: Path,
    map_: str,
    columns: "pd.DataFrame | None",
    progress: TrainingProgress,
    save: Path | None,
    *,
    vectors: bool,
) -> EmbeddingResult:
    """Write the embedding and its report. Return the summary."""
    from epagcl.report.files import write_embedding_report
    from epagcl.runs.execute import trained_metrics
    from epagcl.runs.export import write_embeddings

    files = write_embeddings(z, graph.data.get("node_ids"), out, vectors=vectors)
    with interruptible("the embeddings are written, the report is not", progress):
        metrics = trained_metrics(graph.data, model, graph.name)
        page = write_embedding_report(out, graph.data, model, z, metrics, kind=map_, extra=columns, say=progress.say)
    return {
        "nodes": z.shape[0],
        "dim": z.shape[1],
        "health": metrics["health"],
        "files": [str(path) for path in files],
        "model": None if save is None else str(save),
        "report": None if page is None else str(page),
    }
