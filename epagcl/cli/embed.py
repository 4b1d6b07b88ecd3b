"""``epagcl embed``: embeddings of a graph, without labels."""

import json
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from epagcl.cli.auto import AUTO, check_settings, chosen_method, load_graph
from epagcl.cli.from_disk import embed_from_disk, graph_on_disk, opened_folder, refuse
from epagcl.cli.graph_input import GraphInput, takes_graph
from epagcl.cli.loaded_graph import LoadedGraph
from epagcl.cli.options import (
    DEFAULT_METHOD,
    AsJson,
    Columns,
    Config,
    Map,
    Quiet,
    Vectors,
    check_map,
    check_ranks,
    interruptible,
    make_method,
    method_of,
    resume_line,
    settings_of,
)
from epagcl.cli.progress import TrainingProgress, busy, console_for
from epagcl.cli.rendering import EmbeddingResult, show_embedding
from epagcl.cli.reproduce import Deterministic, fixed_order
from epagcl.cli.versions import (
    Align,
    Earlier,
    Hops,
    Only,
    Previous,
    check_versions,
    compare_with_earlier,
    embed_only,
    needed_part,
    read_earlier,
)
from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.core.torchrun import launched_rank, launched_ranks

if TYPE_CHECKING:
    import pandas as pd

    from epagcl.data.disk.graph import OnDiskGraph
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
    only: Only = None,
    hops: Hops = None,
    previous: Previous = None,
    align: Align = None,
    save: Annotated[Path | None, typer.Option(help="Folder to keep the trained model in.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model in that folder.")] = False,
    method: Annotated[
        str | None,
        typer.Option(
            "--method", "-m", help="The method; see `epagcl methods`; auto: chosen for the graph. Default: epagcl+."
        ),
    ] = None,
    config: Config = None,
    map_: Map = "auto",
    columns: Columns = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep a checkpoint beside --out, and continue from it if there is one.")
    ] = False,
    deterministic: Deterministic = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Embed the nodes of a graph: train on it without labels, or use a trained model; write embeddings and a report.

    Example: epagcl embed --edges e.csv --features f.csv --out z.npy
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.distributed.group import several_ranks

        asked, method = method, method_of(method, config)
        _check_options(context, method, out, map_, vectors=vectors)
        check_versions(model, only, hops, previous, align)
        if not out.suffix and (only or previous or align):
            raise InputError("--only, --previous and --align: these write one file; give --out a suffix, such as .npy")
        _keep_inputs(out, inputs.graph, *inputs.files.values(), columns, config, only, previous, align)
    if model is not None and resume:
        raise InputError("--resume continues a training, and --model is trained already; leave it out")
    trained = None if model is None else _load_model(context, model, method, save, config)
    if trained is not None and asked not in (None, type(trained).name):
        raise InputError(f"--method {asked}: the model is of {type(trained).name}; leave it out")
    if trained is not None and only is not None and (folder := opened_folder(inputs)) is not None:
        inputs.roles()  # rejects options of columns that are wrong
        refuse({"--columns": columns})
        result = _embed_only(trained, folder, only, hops, _Target(out, map_, None, None, overwrite, vectors))
        _show(result, trained, as_json=as_json, quiet=quiet)
        return
    if (disk := graph_on_disk(context, inputs, method, config, trained)) is not None:
        refuse({"--only": only, "--previous": previous, "--align": align, "--columns": columns, "--vectors": vectors})
        refuse({"--resume": resume})
        _claim(save, overwrite=overwrite, make=False)
        target = _Target(out, map_, None, save, overwrite, vectors)
        with fixed_order(disk.model, deterministic), TrainingProgress(console, disk.model) as progress:
            result = embed_from_disk(disk, out, progress, None if trained else lambda model: _save(model, target))
        result["model"] = None if save is None else str(save)
        _show(result, disk.model, as_json=as_json, quiet=quiet)
        return
    with busy(console, "reading the graph"):
        near = None if only is None or trained is None else needed_part(trained, only, hops)
        loaded = load_graph(inputs, method, None if trained is None else trained.encoding_, near)
        table = None if columns is None else _read_columns(columns, loaded)
    estimator = trained or _new_model(context, loaded, method, config)
    _note_positions(trained)
    if launched_rank() == 0:
        _claim(save, overwrite=overwrite, make=False)
    check_ranks(estimator)
    if launched_ranks() > 1 and (only or previous or align):
        raise InputError("--only, --previous and --align: these run on one rank; start the command without torchrun")
    target = _Target(out, map_, table, save, overwrite, vectors, resume, no_report)
    ordered = fixed_order(estimator, deterministic)
    with ordered, several_ranks(estimator.device), TrainingProgress(console, estimator) as progress:
        if only is not None:
            result = _embed_only(estimator, loaded, only, hops, target)
        elif not out.suffix:
            result = _embed_shards(estimator, loaded, target, progress, train=trained is None)
        else:
            earlier = read_earlier(estimator, previous, align)
            result = _embed_all(estimator, loaded, earlier, target, progress, train=trained is None)
    if launched_rank() == 0:
        _show(result, estimator, as_json=as_json, quiet=quiet)


def _show(result: EmbeddingResult, model: "Method", *, as_json: bool, quiet: bool) -> None:
    if as_json:
        print(json.dumps(result, indent=2))
    elif not quiet:
        show_embedding(result, trained=type(model).trained)


class _Target(NamedTuple):
    """What to write, and where."""

    out: Path
    map_: str
    columns: "pd.DataFrame | None"
    save: Path | None
    overwrite: bool
    vectors: bool
    resume: bool = False
    no_report: bool = False

    @property
    def checkpoint(self) -> Path | None:
        """The file that training continues from."""
        return self.out.with_name(f"{self.out.name}.checkpoint") if self.resume else None

    def stopped(self, what_now: str) -> str:
        """Return what is left after an interruption of training."""
        return resume_line() if self.resume else f"{what_now} (--resume keeps a checkpoint)"

    def done(self) -> None:
        """Remove the checkpoint, since the embedding is written."""
        if self.checkpoint is not None and launched_rank() == 0:
            self.checkpoint.unlink(missing_ok=True)


def _check_options(context: typer.Context, method: str, out: Path, map_: str, *, vectors: bool) -> None:
    """Raise on a wrong output file, an unknown map or a mistyped option, before a download."""
    from epagcl.runs.export import check_output
    from epagcl.runs.shards import check_shards

    if out.suffix:
        check_output(out, vectors=vectors)
    else:
        check_shards(out)
    check_map(map_)
    check_settings(context, method)


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


def _load_model(context: typer.Context, folder: Path, method: str, save: Path | None, config: Path | None) -> "Method":
    """Load a trained model. Raise if settings other than the device are given."""
    from epagcl.methods import load_model

    if save is not None or config is not None:
        raise InputError("--model is trained already; leave out --save and --config")
    method = DEFAULT_METHOD if method == AUTO else method
    settings = settings_of(context, None, method, None)
    if any(flag != "--device" for flag, _ in context.meta["settings"]):
        raise InputError("--model is trained already; leave out its settings (only --device can be given)")
    return load_model(folder, settings.get("device", "auto"))


def _new_model(context: typer.Context, graph: LoadedGraph, method: str, config: Path | None) -> "Method":
    """Return an untrained model. Raise if it learns from labels, or if its device is missing."""
    from epagcl.core.hardware import resolve_device

    method = chosen_method(context, method, graph)
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


def _note_positions(model: "Method | None") -> None:
    """Log that features which are positions have a meaning in the training graph only."""
    from epagcl.data.structural.features import positions_in

    if model is not None and positions_in(model.feature_names_):
        log.warning("the model knows positions in its training graph only; for other graphs, use --features roles")


def _embed_only(
    model: "Method", graph: "LoadedGraph | OnDiskGraph", only: Path, hops: int | None, target: _Target
) -> EmbeddingResult:
    """Embed some nodes by a trained model, and write their embeddings. There is no report on a part of a graph."""
    from epagcl.runs.export import write_embeddings

    z, ids, used = embed_only(model, graph, only, hops)
    files = write_embeddings(z, ids, target.out, vectors=target.vectors)
    return {
        "nodes": z.shape[0],
        "dim": z.shape[1],
        "health": [],
        "files": [str(path) for path in files],
        "model": None,
        "report": None,
        "neighbourhood": used,
    }


def _train(model: "Method", graph: LoadedGraph, target: _Target, progress: TrainingProgress) -> None:
    """Train a model. Keep it in a folder if one is given."""
    from epagcl.methods.plan import cost_note

    if launched_ranks() == 1 and (note := cost_note(model, graph.data)):
        log.warning("%s: %s", graph.name, note)
    model.fit(graph.data, callback=progress, checkpoint=target.checkpoint, resume=target.resume)
    _save(model, target)


def _embed_shards(
    model: "Method", graph: LoadedGraph, target: _Target, progress: TrainingProgress, *, train: bool
) -> EmbeddingResult:
    """Train the model if it is new, and write the embedding in shards as it is computed, without a report."""
    from epagcl.methods.sampled import Sampled
    from epagcl.runs.execute import finding_dict
    from epagcl.runs.shards import write_shards

    with interruptible(target.stopped("the shards are not complete"), progress):
        if train:
            _train(model, graph, target, progress)
        progress.say("embedding")
        chunks = model.embed_chunks(graph.data) if isinstance(model, Sampled) else iter([model.embed(graph.data)])
        first = next(chunks)  # on several ranks, all rows: they are computed together, and rank 0 writes them
        ids, files = graph.data.get("node_ids"), []
        if launched_rank() == 0:
            files = write_shards(
                chain([first.cpu()], chunks),
                target.out,
                ids=None if ids is None else lambda nodes: [str(node) for node in ids[nodes]],
                expected=(graph.data.num_nodes, first.shape[1]),
            )
        target.done()
        health = [] if model.supervised else [finding_dict(finding) for finding in model.health(graph.data)]
    return {
        "nodes": graph.data.num_nodes,
        "dim": first.shape[1],
        "health": health,
        "files": [str(path) for path in files],
        "model": None if target.save is None else str(target.save),
        "report": None,
    }


def _embed_all(
    model: "Method",
    graph: LoadedGraph,
    earlier: Earlier | None,
    target: _Target,
    progress: TrainingProgress,
    *,
    train: bool,
) -> EmbeddingResult:
    """Train the model if it is new, and write the embeddings of all nodes, the model and the report."""
    from epagcl.report.files import write_embedding_report
    from epagcl.runs.execute import trained_metrics
    from epagcl.runs.export import write_embeddings

    with interruptible(target.stopped("nothing was written"), progress):
        if train:
            _train(model, graph, target, progress)
        progress.say("embedding")
        z = model.embed(graph.data)
        moved, alignment = None, None
        if earlier is not None:
            z, moved, alignment = compare_with_earlier(model, graph, z, earlier, new_model=train)
        if alignment is not None and train:
            _save(model, target._replace(overwrite=True))  # with its rotation
    files, page = [], None
    if launched_rank() == 0:
        files = write_embeddings(z, graph.data.get("node_ids"), target.out, vectors=target.vectors)
    target.done()
    with interruptible("the embeddings are written, the report is not", progress):
        metrics = trained_metrics(graph.data, model, graph.name)  # all ranks share the embeddings that health needs
        if launched_rank() == 0 and not target.no_report:
            page = write_embedding_report(
                target.out, graph.data, model, z, metrics, kind=target.map_, extra=target.columns, say=progress.say
            )
    result: EmbeddingResult = {
        "nodes": z.shape[0],
        "dim": z.shape[1],
        "health": metrics["health"],
        "files": [str(path) for path in files],
        "model": None if target.save is None else str(target.save),
        "report": None if page is None else str(page),
    }
    if moved is not None:
        result["drift"] = moved
    if alignment is not None:
        result["alignment"] = alignment
    return result


def _save(model: "Method", target: _Target) -> None:
    """Keep a trained model in its folder, if one is given. Rank 0 writes."""
    if target.save is not None and launched_rank() == 0:
        _claim(target.save, overwrite=target.overwrite)
        model.save(target.save)
