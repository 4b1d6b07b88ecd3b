"""``epagcl links``: link prediction with edges held out before training."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epagcl.cli.completion import complete_methods
from epagcl.cli.graph_input import GraphInput, takes_graph
from epagcl.cli.options import (
    AsJson,
    Config,
    Quiet,
    interruptible,
    make_method,
    method_of,
    options_of,
    settings_of,
)
from epagcl.cli.progress import TrainingProgress, busy, console_for
from epagcl.cli.rendering import show, table
from epagcl.core.errors import InputError
from epagcl.core.log import log

if TYPE_CHECKING:
    from epagcl.tasks.links import LinkPrediction


@takes_graph("labels")
def links(
    context: typer.Context,
    inputs: GraphInput,
    time: Annotated[
        str | None, typer.Option(help="Column of the edges with times: the last edges are held out. Default: random.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            "-m",
            help="The method; see `epagcl methods`. Default: epagcl+.",
            autocompletion=complete_methods,
        ),
    ] = None,
    config: Config = None,
    split_seed: Annotated[int, typer.Option(min=0, help="Seed of the held-out edges.")] = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure link prediction: hold out 15% of the edges, train on the others, and compare with classical scores.

    Example: epagcl links --edges e.csv --features f.npy
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.core.hardware import resolve_device
        from epagcl.data.structural.features import PRESETS, split_preset, with_structural_features
        from epagcl.tasks.edge_split import edge_times
        from epagcl.tasks.links import predict_links

        method = method_of(method, config)
        options_of(context, method)
    if time is not None and inputs.edges is None:
        raise InputError(f"--time {time}: names a column of the edges; give --edges")
    with busy(console, "reading the graph"):
        preset, file = split_preset(inputs.features)
        loaded = replace(inputs, features=None if file is None else Path(file)).load(
            need_features=preset is None, time=time
        )
        # Features computed from the edges must not see the held-out ones.
        structure = None if preset is None else partial(with_structural_features, kinds=PRESETS[preset])
        times = None
        if time is not None and inputs.edges is not None:
            times = edge_times(inputs.edges, time, loaded.data, inputs.roles())
            log.info("%s: the last edges by %s are held out", inputs.edges.name, time)
    estimator = make_method(method, settings_of(context, loaded.recipe_name, method, config))
    resolve_device(estimator.device)
    with TrainingProgress(console, estimator) as progress, interruptible("nothing was measured", progress):
        result = predict_links(
            loaded.data, estimator, times=times, features=structure, seed=split_seed, callback=progress
        )
    if as_json:
        print(json.dumps({"name": loaded.name, "method": type(estimator).name, **result.to_dict()}, indent=2))
    elif not quiet:
        _show(loaded.name, type(estimator).title, result)


def _show(name: str, title: str, result: "LinkPrediction") -> None:
    found = result.to_dict()
    counts = f"{found['edges']['train']:,} training, {found['edges']['val']:,} validation"
    scores = table("score", ">AUC", ">average precision", ">MRR", ">hits@10", ">hits@50")
    for row in found["rows"]:
        values = (row["auc"], row["average_precision"], row["mrr"], row["hits10"], row["hits50"])
        scores.add_row(row["score"], *(f"{value:.3f}" for value in values))
    show(
        f"{name}, {title}: {found['edges']['test']:,} test edges ({counts}; split {found['split']})",
        scores,
        "AUC and average precision: against as many random pairs without an edge. MRR and hits: rank among "
        f"{found['ranked_among']} random pairs of one end. All scores see the training edges only.",
        result.verdict,
    )
