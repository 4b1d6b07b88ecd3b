"""A run from the graph to the finished folder: train, embed, evaluate, report; with one seed or several."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.config import read_config, write_config
from epagcl.core.files import check_space, read_json, reading, write_json
from epagcl.core.memory import read_array
from epagcl.core.outputs import CHECKPOINT, CONFIG, METRICS
from epagcl.data.checking import check
from epagcl.data.disk.graph import OnDiskGraph
from epagcl.data.identity import data_fingerprint
from epagcl.data.splits import Split
from epagcl.distributed.group import Ranks, active_ranks, alone
from epagcl.evaluation.health import FEWEST, Finding, FindingDict, judge_agreement, neighbour_agreement
from epagcl.evaluation.scores import prediction_evaluation
from epagcl.methods.base import Method
from epagcl.report.files import write_comparison, write_run_report
from epagcl.report.maps import check_kind
from epagcl.report.metrics import RunMetrics, SeedsMetrics
from epagcl.runs.card import write_card
from epagcl.runs.evaluation import Plan, evaluate, merge, references, split_of
from epagcl.runs.export import check_ids, write_embeddings
from epagcl.runs.folder import begin_run, run_config, writing
from epagcl.runs.record import describe, peak_memory_gib, provenance
from epagcl.training.history import Callback, Row, write_history

VERDICTS = ("poor", "fair", "good")  # worst first


class SeedProgress(Protocol):
    """Receives the progress of one seed."""

    def __call__(self, row: Row) -> None:
        """Receive the history row of an epoch."""

    def say(self, words: str) -> None:
        """Receive the name of the step after training that is in progress."""


def run(
    data: Data,
    method: Method,
    folder: Path,
    *,
    name: str = "graph",
    plan: Plan | None = None,
    source: dict[str, Any] | None = None,
    callback: Callback | None = None,
    map_kind: str = "auto",
    say: Callable[[str], None] = lambda words: None,
) -> RunMetrics:
    """Train one model and write its run folder. Continue an interrupted run; return the metrics of a finished one.

    The folder has ``config.toml`` (resolved configuration), ``metrics.json``, ``history.csv``, ``embeddings.npy`` with
    its ids, ``model.safetensors``, ``report.html`` with its data and figures, ``nodes.csv`` (label, degree, cluster and
    map position of each node) and the model card ``README.md``; during training also a checkpoint.

    Args:
        data: the graph; evaluated if it has labels.
        method: the method with its settings.
        folder: the run folder; see :func:`claim`.
        name: the graph's name.
        plan: how to evaluate; None: no evaluation.
        source: the origin of the graph, for the configuration.
        callback: called with each epoch's history row.
        map_kind: map of the report: auto, tsne, umap, pca or none.
        say: called with the name of each step after training.

    Returns:
        The content of ``metrics.json``. On several ranks, rank 0 evaluates and writes; the others return no scores.

    Examples:
        >>> import tempfile
        >>> from epagcl import EPAGCL
        >>> from epagcl.data import block_model
        >>> data = block_model(60, num_classes=3, num_features=40, topic_words=10, seed=3)
        >>> method = EPAGCL(epochs=1, hidden=8, dim=4, projection=4, device="cpu")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metrics = run(data, method, Path(folder), name="demo", map_kind="none")
        ...     metrics["graph"]["nodes"], metrics["training"]["epochs"], Path(folder, "report.html").is_file()
        (60, 1, True)
    """
    folder = Path(folder)
    check_kind(map_kind, "map_kind")
    check_ids(data.get("node_ids"))
    sections: dict[str, dict[str, Any]] = {"data": {"name": name}}

    def begin() -> RunMetrics | None:
        """Return the metrics of a finished run; otherwise prepare the folder."""
        fingerprint = data_fingerprint(check(data, quiet=True))
        sections["data"] |= {"fingerprint": fingerprint, **(source or {})}
        if plan is not None:
            sections["evaluation"] = vars(plan)
        lock.enter_context(writing(folder))
        finished = (folder / METRICS).exists()  # the last file that a run writes
        if not finished:  # before the configuration, which marks the folder as that of a run
            check_space(folder, _expected_bytes(data, method))
        begin_run(folder, method, sections)
        return cast(RunMetrics, read_json(folder / METRICS, "overwrite the run")) if finished else None

    with ExitStack() as lock:
        finished = _ranks().on_first(begin)
        if finished is not None:
            return finished
        return _run(data, method, folder, name, plan, sections, callback, map_kind, say)


def _ranks() -> Ranks:
    """Return the ranks that share this run; rank 0 of 1 if this process works alone."""
    return active_ranks() or Ranks(0, 1)


def _run(
    data: Data,
    method: Method,
    folder: Path,
    name: str,
    plan: Plan | None,
    sections: dict[str, dict[str, Any]],
    callback: Callback | None,
    map_kind: str,
    say: Callable[[str], None],
) -> RunMetrics:
    """Train, embed, evaluate and write all files of a run; see :func:`run`."""
    start = time.monotonic()
    split = _training_split(data, method, plan)
    options: dict[str, Any] = {} if split is None else {"split": split}
    method.fit(data, checkpoint=folder / CHECKPOINT, resume=True, callback=callback, **options)
    say("embedding")
    z = method.embed(data)
    metrics = trained_metrics(data, method, name)
    evaluated = plan is not None and data.y is not None
    if not _ranks().is_first:  # which writes, prints and evaluates; all ranks share the embedding of references
        if evaluated and plan is not None and plan.references:
            references(data, method, plan)
        return metrics
    # The results of training are safe on disk before a later step can fail; the model first, since it gives the rest.
    method.save(folder, **sections)
    write_history(method.history_, folder / "history.csv")
    write_embeddings(z, data.get("node_ids"), folder / "embeddings.npy")
    if plan is not None and evaluated:
        say("evaluation")
        add_scores(metrics, z, data, method, plan, split)
    metrics["total_seconds"] = time.monotonic() - start

    with alone():
        write_run_report(folder, data, method, z, metrics, kind=map_kind, say=say)
    write_card(folder, metrics, run_config(folder))
    write_json(dict(metrics), folder / METRICS)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return metrics


def trained_metrics(data: Data | OnDiskGraph, method: Method, name: str) -> RunMetrics:
    """Return the metrics of a trained model, without scores.

    Args:
        data: the graph.
        method: the trained model.
        name: the graph's name.

    Examples:
        >>> from epagcl import EPAGCL
        >>> from epagcl.data import block_model
        >>> data = block_model(60, num_classes=3, num_features=40, topic_words=10, seed=3)
        >>> metrics = trained_metrics(data, EPAGCL(epochs=1, hidden=8, dim=4, device="cpu").fit(data), "demo")
        >>> metrics["training"]["epochs"], [finding["name"] for finding in metrics["health"]]
        (1, ['effective rank', 'uniformity', 'alignment'])
    """
    history = getattr(method, "history_", [])
    seconds = history[-1]["seconds"] if history else 0.0
    record = provenance(method.device)
    return {
        "date": record["date"],
        "hardware": record["hardware"],
        "versions": record["versions"],
        "commit": record["commit"],
        "graph": describe(data, name),
        "method": method.settings(),
        "training": {
            "final_loss": history[-1]["loss"] if history else None,
            "effective_rank": history[-1]["effective_rank"] if history else None,
            "seconds": seconds,
            "epochs": len(history),
            "seconds_per_epoch": seconds / max(len(history), 1),
            "peak_memory_gib": peak_memory_gib(method.device),
            "ranks": _ranks().size,
        },
        # The output of a supervised method is class scores, which legitimately have low rank.
        "health": [] if method.supervised else [finding_dict(finding) for finding in method.health(data)],
    }


def run_seeds(
    data: Data,
    methods: Sequence[Method],
    folder: Path,
    *,
    plan: Plan | None,
    progress: Sequence[AbstractContextManager[SeedProgress]] | None = None,
    **options: Any,
) -> SeedsMetrics:
    """Run several seeds of one method, each in a folder of its own, and write their scores together.

    Seed k is scored on split k, so the spread covers training and split together. ``folder/metrics.json`` also has
    the agreement of the seeds on nearest neighbours, and ``folder/report.html`` compares the seeds.

    Args:
        data: the graph; evaluated if it has labels.
        methods: the method, once per seed.
        folder: the run folder; seed k is in ``folder/seed-k``.
        plan: how to evaluate; None: no evaluation.
        progress: a context manager for each seed; its value is the callback of training and has a method ``say``.
        options: further arguments of :func:`run`.

    Returns:
        The content of ``folder/metrics.json``.

    Examples:
        >>> import tempfile
        >>> from epagcl import EPAGCL
        >>> from epagcl.data import block_model
        >>> data = block_model(60, num_classes=3, num_features=40, topic_words=10, seed=3)
        >>> methods = [EPAGCL(epochs=1, hidden=8, dim=4, projection=4, seed=seed, device="cpu") for seed in (0, 1)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     metrics = run_seeds(data, methods, Path(folder), plan=None, map_kind="none")
        >>> metrics["seeds"], metrics["training"]["epochs"], metrics["health"][-1]["name"]
        ([0, 1], [1, 1], 'neighbour agreement')
    """
    with ExitStack() as lock:

        def begin() -> None:
            lock.enter_context(writing(Path(folder)))

        _ranks().on_first(begin)
        return _run_seeds(data, methods, Path(folder), plan, progress, options)


def _run_seeds(
    data: Data,
    methods: Sequence[Method],
    folder: Path,
    plan: Plan | None,
    progress: Sequence[AbstractContextManager[SeedProgress]] | None,
    options: dict[str, Any],
) -> SeedsMetrics:
    """Run the seeds and write their common files; see :func:`run_seeds`."""
    seeds = [method.seed for method in methods]
    folders = [folder / f"seed-{seed}" for seed in seeds]
    one_split = None if plan is None else Plan(plan.protocol, 1, references=plan.references)
    contexts: Sequence[AbstractContextManager[SeedProgress | None]] = progress or [nullcontext()] * len(methods)
    results = []
    for method, seed_folder, context in zip(methods, folders, contexts, strict=True):
        with context as line:
            reporting: dict[str, Any] = {} if line is None else {"callback": line, "say": line.say}
            results.append(run(data, method, seed_folder, plan=one_split, **reporting, **options))
    if not _ranks().is_first:
        scored = ("evaluation", "references")
        bare = [{key: value for key, value in result.items() if key not in scored} for result in results]
        return _merge_metrics([cast(RunMetrics, {**result, "health": []}) for result in bare], seeds)
    with reading(folder, "overwrite the run"):  # metrics of finished seeds come from their files
        metrics = _merge_metrics(results, seeds)
    if "health" in metrics and len(seeds) > 1 and data.num_nodes >= FEWEST:
        files = [seed_folder / "embeddings.npy" for seed_folder in folders]
        embeddings = [torch.from_numpy(read_array(file, "overwrite the run")) for file in files]
        metrics["health"].append(finding_dict(judge_agreement(neighbour_agreement(embeddings))))
    title = f"{type(methods[0]).title} on {metrics['graph']['name']}, {len(methods)} seeds"
    write_comparison([folder], title=title)
    write_config(folder / CONFIG, {**read_config(folders[-1] / CONFIG), "seeds": {"seeds": seeds}})
    write_json(dict(metrics), folder / METRICS)
    return metrics


def _expected_bytes(data: Data, method: Method) -> int:
    """Return roughly the size of a run folder: embedding, model and checkpoint, table of nodes, page and figures."""
    settings = method.get_params()
    width = max(settings.get("dim", 0), settings.get("hidden", 0), 1)
    weights = 4 * width * (data.x.shape[1] + 2 * width)
    return data.num_nodes * (4 * width + 200) + 5 * weights + 10_000_000


def _training_split(data: Data, method: Method, plan: Plan | None) -> Split | None:
    """Return the split that a supervised method is trained on; None for methods that read no labels."""
    if not method.supervised or data.y is None:
        return None
    return split_of(data, "strict" if plan is None else plan.protocol, method.seed)


def add_scores(metrics: RunMetrics, z: Tensor, data: Data, method: Method, plan: Plan, split: Split | None) -> None:
    """Add the scores of the embedding (of the predictions, if the method has trained on ``split``) and references."""
    if split is not None:
        scores = prediction_evaluation(method.predict(data), data.y, split, plan.protocol, method.seed)
        metrics["evaluation"] = scores.to_dict()
    else:
        metrics["evaluation"] = evaluate(z, data, plan, seed=method.seed, device=method.device)
    if plan.references:
        metrics["references"] = references(data, method, plan, None if split is None else [split])


def _merge_metrics(results: Sequence[RunMetrics], seeds: list[int]) -> SeedsMetrics:
    """Return the metrics of several seeds together; each health measure is its worst value over the seeds."""
    first = results[0]
    per_seed = ("evaluation", "references", "training", "health")
    shared = {key: value for key, value in first.items() if key not in per_seed}
    training = [cast(dict[str, float | None], result["training"]) for result in results]
    lists = {key: [summary.get(key) for summary in training] for key in training[0]}
    metrics = cast(SeedsMetrics, {**shared, "seeds": seeds, "training": lists})
    if "evaluation" in first:
        metrics["evaluation"] = merge([result["evaluation"] for result in results])
    if "references" in first:
        metrics["references"] = {
            row: merge([result["references"][row] for result in results]) for row in first["references"]
        }
    if first["health"]:
        by_measure = zip(*(result["health"] for result in results), strict=True)
        metrics["health"] = [
            min(findings, key=lambda finding: VERDICTS.index(finding["verdict"])) for findings in by_measure
        ]
    return metrics


def finding_dict(finding: Finding) -> FindingDict:
    """Return a finding as plain values, for JSON."""
    return cast(FindingDict, asdict(finding))
