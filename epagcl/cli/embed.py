"""``epagcl embed``: embeddings of a graph, without labels."""

import json
from pathlib import Path
from typing import Annotated

import typer
import typer.core

from epagcl.cli.options import (
    AsJson,
    Columns,
    Config,
    Edges,
    Features,
    Graph,
    Map,
    MethodName,
    Nodes,
    Quiet,
    Root,
    graph_of,
    interruptible,
    make_method,
    options_of,
    settings_of,
)
from epagcl.cli.progress import Line, busy, console_for
from epagcl.cli.rendering import show_embedding
from epagcl.core.errors import InputError


def embed(
    context: typer.Context,
    graph: Graph = None,
    edges: Edges = None,
    features: Features = None,
    nodes: Nodes = None,
    out: Annotated[Path, typer.Option(help="Where to: .npy (ids beside it), .csv, .tsv or .parquet.")] = Path("z.npy"),
    model: Annotated[Path | None, typer.Option(help="Folder of a trained model to use; nothing is trained.")] = None,
    save: Annotated[Path | None, typer.Option(help="Folder to keep the trained model in.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model in that folder.")] = False,
    data: Root = None,
    method: MethodName = "epagcl",
    config: Config = None,
    map_: Map = "auto",
    columns: Columns = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Embed the nodes of a graph: train on it without labels, or use a trained model; write embeddings and a report.

    Example: epagcl embed --edges e.csv --features f.npy --out z.npy
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.core.hardware import resolve_device
        from epagcl.methods import load_model
        from epagcl.report.files import check_columns, read_columns, write_embedding_report
        from epagcl.report.maps import check_kind
        from epagcl.runs.execute import trained_metrics
        from epagcl.runs.export import check_output, write_embeddings
        from epagcl.runs.folder import claim

    check_output(out)
    check_kind(map_)
    options_of(context, method)
    if model is not None and (save is not None or config is not None):
        raise InputError("--model is trained already; leave out --save and --config")
    with busy(console, "reading the graph"):
        name, graph_data, source = graph_of(graph, data, edges=edges, features=features, nodes=nodes)
        extra = None if columns is None else read_columns(columns)
        if extra is not None:
            check_columns(extra, graph_data.get("node_ids", range(graph_data.num_nodes)), name)
    settings = settings_of(context, None if source or model else name, method, config)
    if model is not None:
        if any(flag != "--device" for flag, _ in context.meta["settings"]):
            raise InputError("--model is trained already; leave out its settings (only --device can be given)")
        trained = load_model(model, settings.get("device", "auto"))
    else:
        trained = make_method(method, settings)
        if trained.supervised:
            raise InputError(f"{method} learns from labels: train it with `epagcl train`, then embed with --model")
        resolve_device(trained.device)
        if save is not None:
            claim(save, overwrite=overwrite, option="--save", make=False)
    with Line(console, trained) as line:
        with interruptible("nothing was written (`epagcl train` keeps checkpoints)", line):
            if model is None:
                trained.fit(graph_data, callback=line)
                if save is not None:
                    claim(save, overwrite=overwrite, option="--save")
                    trained.save(save)
            line.say("embedding")
            z = trained.embed(graph_data)
        written = write_embeddings(z, graph_data.get("node_ids"), out)
        with interruptible("the embeddings are written, the report is not", line):
            metrics = trained_metrics(graph_data, trained, name)
            page = write_embedding_report(out, graph_data, trained, z, metrics, kind=map_, extra=extra, say=line.say)
    result = {
        "nodes": z.shape[0],
        "dim": z.shape[1],
        "health": metrics["health"],
        "files": [str(path) for path in written],
        "model": None if save is None else str(save),
        "report": None if page is None else str(page),
    }
    if as_json:
        print(json.dumps(result, indent=2))
    elif not quiet:
        show_embedding(result)
