"""``epagcl train``: train, evaluate and write a run folder."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from epagcl.cli.auto import check_settings, chosen_method, load_graph
from epagcl.cli.completion import complete_protocols
from epagcl.cli.from_disk import DiskInput, graph_on_disk, note_cost, refuse
from epagcl.cli.graph_input import GraphInput, takes_graph
from epagcl.cli.loaded_graph import LoadedGraph
from epagcl.cli.options import (
    AsJson,
    Config,
    Map,
    MethodName,
    Quiet,
    check_map,
    check_ranks,
    interruptible,
    make_method,
    method_of,
    resume_line,
    settings_of,
)
from epagcl.cli.progress import TrainingProgress, busy, console_for
from epagcl.cli.rendering import show_metrics
from epagcl.cli.reproduce import Deterministic, fixed_order
from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.core.torchrun import requeues, restarts

if TYPE_CHECKING:
    from rich.console import Console

    from epagcl.methods.base import Method
    from epagcl.report.metrics import RunMetrics, SeedsMetrics
    from epagcl.runs.evaluation import Plan


@takes_graph()
def train(
    context: typer.Context,
    inputs: GraphInput,
    method: MethodName = None,
    config: Config = None,
    out: Annotated[Path | None, typer.Option(help="Run folder. Default: runs/<graph>-<method>.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in that folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in that folder.")] = False,
    seeds: Annotated[int, typer.Option(help="Train this many seeds, counting up from --seed.")] = 1,
    runs: Annotated[int, typer.Option(help="Number of random splits (with several seeds: one per seed).")] = 5,
    protocol: Annotated[
        str, typer.Option(help="Evaluation: strict, paper or public.", autocompletion=complete_protocols)
    ] = "strict",
    references: Annotated[bool, typer.Option(help="Also score raw, untrained and propagated features.")] = True,
    map_: Map = "auto",
    deterministic: Deterministic = False,
    logger: Annotated[str | None, typer.Option("--log", help="Also log to tensorboard or wandb.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train on a graph, evaluate if it has labels, and write a run folder with a report.

    Example: epagcl train cora --epochs 200
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.core.hardware import resolve_device
        from epagcl.distributed.group import several_ranks
        from epagcl.methods.plan import cost_note
        from epagcl.runs.evaluation import Plan

        _check_options(protocol, seeds, runs, map_, logger)
        method = method_of(method, config, inputs.graph)
        check_settings(context, method)
    if (disk := graph_on_disk(context, inputs, method, config)) is not None:
        refuse({"--seeds": seeds > 1, "--log": logger})
        folder = out or Path("runs") / f"{disk.name}-{disk.model.name}".lower()
        _claim(folder, 1, resume=resume, overwrite=overwrite, restarted=requeues() > 0)
        with interruptible(resume_line()), fixed_order(disk.model, deterministic):
            result = _run_on_disk(console, disk, str(inputs.graph), folder, Plan(protocol, runs, references))
        _show(result, folder, type(disk.model).title, as_json=as_json, quiet=quiet)
        return
    with busy(console, "reading the graph"):
        loaded = load_graph(inputs, method)
        method = chosen_method(context, method, loaded)
    settings = settings_of(context, loaded.recipe_name, method, config)
    models = [make_method(method, {**settings, "seed": settings.get("seed", 0) + k}) for k in range(seeds)]
    resolve_device(models[0].device)
    plan = _usable_plan(Plan(protocol, runs, references), loaded, models[0])
    folder = out or Path("runs") / f"{loaded.name}-{models[0].name}".lower()
    check_ranks(models[0])
    with several_ranks(models[0].device) as ranks:
        restarted = max(ranks.gathered(restarts() + requeues())) > 0  # machines count by themselves
        ranks.on_first(lambda: _claim(folder, seeds, resume=resume, overwrite=overwrite, restarted=restarted))
        if ranks.size == 1 and (note := cost_note(models[0], loaded.data)):
            log.warning("%s: %s", loaded.name, note)
        with interruptible(resume_line()), fixed_order(models[0], deterministic):
            metrics = _run(console, loaded, models, folder, plan, map_, logger if ranks.is_first else None)
    if ranks.is_first:
        _show(metrics, folder, type(models[0]).title, as_json=as_json, quiet=quiet)


def _show(metrics: "RunMetrics | SeedsMetrics", folder: Path, title: str, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        print(json.dumps({**metrics, "folder": str(folder)}, indent=2))
    elif not quiet:
        show_metrics(metrics, folder, title)


def _run_on_disk(console: "Console", disk: DiskInput, file: str, folder: Path, plan: "Plan") -> "RunMetrics":
    """Train a model on a graph that stays on disk. Labels are evaluated on a sample of nodes."""
    from epagcl.runs.from_disk import labelled_sample, run_from_disk

    graph, name, model = disk
    note_cost(disk)
    source = {"file": file}
    usable = _usable_plan(plan, LoadedGraph(name, labelled_sample(graph)[1], source), model)
    with Observer(console, model, None, folder) as observer:
        return run_from_disk(
            graph, model, folder, name=name, plan=usable, source=source, callback=observer, say=observer.say
        )


def _claim(folder: Path, seeds: int, *, resume: bool, overwrite: bool, restarted: bool) -> None:
    """Prepare the run folder. If torchrun or Slurm has started this program again, the run of the first start goes on.

    If it had not begun by then, it begins now.
    """
    from epagcl.core.outputs import CONFIG
    from epagcl.runs.folder import claim

    if restarted:
        resume = any(folder.glob(f"seed-*/{CONFIG}")) if seeds > 1 else (folder / CONFIG).is_file()
    claim(folder, resume=resume, overwrite=overwrite, seeds=seeds)


def _check_options(protocol: str, seeds: int, runs: int, map_: str, logger: str | None) -> None:
    """Raise if an option is wrong by itself."""
    from epagcl.evaluation.protocol import PROTOCOLS
    from epagcl.integrations.loggers import check_logger

    if protocol not in PROTOCOLS:
        raise InputError(f"--protocol {protocol}: choose one of {', '.join(PROTOCOLS)}")
    if seeds < 1 or runs < 1:
        raise InputError("--seeds and --runs must be at least 1")
    check_map(map_)
    if logger is not None:
        check_logger(logger)


def _usable_plan(plan: "Plan", graph: LoadedGraph, model: "Method") -> "Plan | None":
    """Return the plan if the labels allow it, else None with a warning. Raise if the run needs labels."""
    from epagcl.runs.evaluation import unfit_labels

    if model.supervised:
        if graph.data.y is None:
            raise InputError(f"{graph.name}: {model.name} learns from labels, and the graph has none; give --labels")
        log.info("%s is trained on one split; use --seeds 5 to measure the spread over splits", model.title)
    if reason := unfit_labels(graph.data, plan):
        if plan.protocol == "public" or model.supervised:
            raise InputError(reason)
        log.warning("%s: not evaluated (%s)", graph.name, reason)
        return None
    return plan


def _run(
    console: "Console",
    graph: LoadedGraph,
    models: "list[Method]",
    folder: Path,
    plan: "Plan | None",
    map_kind: str,
    logger: str | None,
) -> "RunMetrics | SeedsMetrics":
    """Train the models, one run folder each, and return their metrics."""
    from epagcl.runs.execute import run, run_seeds

    if len(models) > 1:
        observers = [Observer(console, model, logger, folder / f"seed-{model.seed}") for model in models]
        return run_seeds(
            graph.data,
            models,
            folder,
            plan=plan,
            progress=observers,
            name=graph.name,
            source=graph.source,
            map_kind=map_kind,
        )
    with Observer(console, models[0], logger, folder) as observer:
        return run(
            graph.data,
            models[0],
            folder,
            name=graph.name,
            plan=plan,
            source=graph.source,
            callback=observer,
            map_kind=map_kind,
            say=observer.say,
        )


class Observer:
    """The callback of a training: its progress in the terminal and, if asked for, a logger.

    Args:
        console: where to show the progress.
        model: the model to be trained.
        logger: name of a logger, or None.
        folder: the run folder.
    """

    def __init__(self, console: "Console", model: "Method", logger: str | None, folder: Path):
        self._progress = TrainingProgress(console, model)
        self._logger_arguments = None if logger is None else (logger, folder, model.settings())
        self._contexts = ExitStack()

    def __enter__(self) -> Self:
        self._callbacks: list[Any] = []
        if self._logger_arguments is not None:
            from epagcl.integrations.loggers import open_logger

            self._callbacks.append(self._contexts.enter_context(open_logger(*self._logger_arguments)))
        self._callbacks.append(self._contexts.enter_context(self._progress))
        return self

    def __exit__(self, *reason: Any) -> None:
        self._contexts.__exit__(*reason)

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Pass on an epoch's row of the history."""
        for callback in self._callbacks:
            callback(row)

    def say(self, words: str) -> None:
        """Show the current activity after training."""
        self._progress.say(words)
