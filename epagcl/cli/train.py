"""``epagcl train``: train, evaluate and write a run folder."""

import json
from pathlib import Path
from typing import Annotated

import typer
import typer.core

from epagcl.cli.options import (
    AsJson,
    Config,
    Edges,
    Features,
    Graph,
    Labels,
    Map,
    MethodName,
    Nodes,
    Quiet,
    Root,
    graph_of,
    interruptible,
    make_method,
    options_of,
    resume_line,
    settings_of,
)
from epagcl.cli.progress import Line, busy, console_for
from epagcl.cli.rendering import show_metrics
from epagcl.core.errors import InputError
from epagcl.core.log import log


def train(
    context: typer.Context,
    graph: Graph = None,
    edges: Edges = None,
    features: Features = None,
    labels: Labels = None,
    nodes: Nodes = None,
    data: Root = None,
    method: MethodName = "epagcl",
    config: Config = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; else runs/<graph>-<method>.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in that folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in that folder.")] = False,
    seeds: Annotated[int, typer.Option(help="Train this many seeds, counting up from --seed.")] = 1,
    runs: Annotated[int, typer.Option(help="Random splits to evaluate on (several seeds: one split each).")] = 5,
    protocol: Annotated[str, typer.Option(help="Evaluation: strict, paper or public.")] = "strict",
    references: Annotated[bool, typer.Option(help="Also score raw features and the untrained encoder.")] = False,
    map_: Map = "auto",
    logger: Annotated[str | None, typer.Option("--log", help="Also log to tensorboard or wandb.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train on a graph, evaluate where it has labels, and write a run folder with a report.

    Example: epagcl train cora --epochs 200 --references
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.core.hardware import resolve_device
        from epagcl.evaluation.protocol import PROTOCOLS
        from epagcl.integrations.loggers import check_logger
        from epagcl.report.maps import check_kind
        from epagcl.runs.evaluation import Plan, unfit_labels
        from epagcl.runs.execute import run, run_seeds
        from epagcl.runs.folder import claim

    if protocol not in PROTOCOLS:
        raise InputError(f"--protocol {protocol}: choose one of {', '.join(PROTOCOLS)}")
    if seeds < 1 or runs < 1:
        raise InputError("--seeds and --runs must be at least 1")
    check_kind(map_)
    if logger is not None:
        check_logger(logger)
    options_of(context, method)  # a mistyped option ends here, not after a download
    with busy(console, "reading the graph"):
        name, graph_data, source = graph_of(graph, data, edges=edges, features=features, labels=labels, nodes=nodes)
    settings = settings_of(context, None if source else name, method, config)
    models = [make_method(method, {**settings, "seed": settings.get("seed", 0) + k}) for k in range(seeds)]
    resolve_device(models[0].device)
    plan: Plan | None = Plan(protocol, runs, references)
    if models[0].supervised:
        if graph_data.y is None:
            raise InputError(f"{name}: {method} learns from labels, and the graph has none; give --labels")
        log.info("%s is trained for one split: --seeds 5 for the spread over several", models[0].title)
    if reason := unfit_labels(graph_data, plan):
        if protocol == "public" or models[0].supervised:
            raise InputError(reason)
        log.warning("%s: not evaluated (%s)", name, reason)
        plan = None
    folder = out or Path("runs") / f"{name}-{models[0].name}".lower()
    claim(folder, resume=resume, overwrite=overwrite, seeds=seeds)
    shared = {"name": name, "source": source, "map_kind": map_}
    lines = [Line(console, model, logger, folder if seeds == 1 else folder / f"seed-{model.seed}") for model in models]
    with interruptible(resume_line()):
        if seeds == 1:
            with lines[0] as line:
                metrics = run(graph_data, models[0], folder, plan=plan, callback=line, say=line.say, **shared)
        else:
            metrics = run_seeds(graph_data, models, folder, plan=plan, progress=lines, **shared)
    if as_json:
        print(json.dumps({**metrics, "folder": str(folder)}, indent=2))
    elif not quiet:
        show_metrics(metrics, folder, type(models[0]).title)
