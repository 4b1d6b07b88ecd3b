"""A run: train, embed, evaluate, and leave a folder that says what was done and what came out."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl import __version__
from epagcl.config import read_config, write_config
from epagcl.data.check import check
from epagcl.data.graph import Graph
from epagcl.data.splits import Split, geom_splits, public_splits, random_split
from epagcl.data.writers import check_ids, write_embeddings
from epagcl.epr import error_passing_rate
from epagcl.errors import InputError
from epagcl.evaluation import clustering, knn_accuracy, linear_evaluation, prediction_evaluation, spread
from epagcl.files import write_json
from epagcl.hardware import resolve_device
from epagcl.health import FEWEST, judge_agreement, neighbour_agreement
from epagcl.methods.base import Method
from epagcl.training import Callback, write_history

CHECKPOINT = "checkpoint.safetensors"
RUN_FILES = (
    "config.toml",
    "metrics.json",
    "history.csv",
    "embeddings.npy",
    "embeddings.ids.txt",
    "model.safetensors",
    "nodes.csv",
    "report.json.gz",
    "report.html",
    "training.png",
    "embedding.png",
    "README.md",
    CHECKPOINT,
)
#: Of these, what only a run has: a folder with none of them is somebody's own.
RUN_MARKS = ("config.toml", "metrics.json", "model.safetensors", "report.json.gz", CHECKPOINT)


@dataclass(frozen=True)
class Plan:
    """How a run is evaluated.

    Attributes:
        protocol: strict, paper or public.
        runs: random splits per model (with several seeds: one, the split of that seed).
        references: also score the raw features and the untrained encoder.
    """

    protocol: str = "strict"
    runs: int = 5
    references: bool = False


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
) -> dict[str, Any]:
    """Train one model and write its run folder; a run that was begun there goes on, a finished one is read.

    ``config.toml`` (resolved configuration), ``metrics.json``, ``history.csv``, ``embeddings.npy`` with its ids,
    ``model.safetensors``, ``report.html`` with its data and figures, ``nodes.csv`` (a row per node: label, degree,
    cluster, place on the map) and the model card ``README.md``; during training also a checkpoint.

    Args:
        data: the graph; evaluated if it has labels.
        method: the method with its settings.
        folder: where to write; see :func:`claim`.
        name: what the graph is called.
        plan: how to evaluate; None: not at all.
        source: where the graph came from, for the configuration.
        callback: called with each epoch's history row.
        map_kind: of the report's map: auto, tsne, umap, pca or none.
        say: told what is being done after training.

    Returns:
        What ``metrics.json`` holds.
    """
    from epagcl.card import write_card
    from epagcl.report.files import write_run_report

    folder = Path(folder)
    check_ids(data.get("node_ids"))
    fingerprint = Graph.from_data(check(data, quiet=True)).fingerprint
    sections = {"data": {"name": name, "fingerprint": fingerprint, **(source or {})}}
    if plan is not None:
        sections["evaluation"] = vars(plan)
    _begin(folder, method, sections)
    if (folder / "metrics.json").exists():  # the last file that a run writes
        return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    checkpoint = folder / CHECKPOINT
    start = time.monotonic()
    protocol = "strict" if plan is None else plan.protocol
    labelled = method.supervised and data.y is not None
    split = {"split": split_of(data, protocol, method.seed)} if labelled else {}
    method.fit(data, checkpoint=checkpoint, resume=True, callback=callback, **split)
    say("embedding")
    z = method.embed(data)
    metrics = trained_metrics(data, method, name)
    # What training gave is safe before anything else can go wrong.
    write_history(method.history_, folder / "history.csv")
    write_embeddings(z, data.get("node_ids"), folder / "embeddings.npy")
    method.save(folder, **sections)
    if plan is not None and data.y is not None:
        say("evaluation")
        if method.supervised:
            scores = prediction_evaluation(method.predict(data), data.y, *split.values(), protocol, method.seed)
            metrics["evaluation"] = scores.to_dict()
        else:
            metrics["evaluation"] = evaluate(z, data, plan, seed=method.seed, device=method.device)
        if plan.references:
            metrics["references"] = references(data, method, plan, list(split.values()) or None)
    metrics["total_seconds"] = time.monotonic() - start

    write_run_report(folder, data, method, z, metrics, kind=map_kind, say=say)
    write_card(folder, metrics, read_config(folder / "config.toml"))
    write_json(metrics, folder / "metrics.json")
    checkpoint.unlink(missing_ok=True)
    return metrics


def trained_metrics(data: Data, method: Method, name: str) -> dict[str, Any]:
    """What there is to say of a trained model before its embedding is scored."""
    history = getattr(method, "history_", [])
    seconds = history[-1]["seconds"] if history else 0.0
    return {
        **provenance(method.device),
        "graph": describe(data, name),
        "method": method.settings(),
        "training": {
            "final_loss": history[-1]["loss"] if history else None,
            "effective_rank": history[-1]["effective_rank"] if history else None,
            "seconds": seconds,
            "epochs": len(history),
            "seconds_per_epoch": seconds / max(len(history), 1),
            "peak_memory_gib": peak_memory_gib(method.device),
        },
        # Class scores of a supervised method have few directions by right.
        "health": [] if method.supervised else [asdict(finding) for finding in method.health(data)],
    }


def run_seeds(
    data: Data,
    methods: Sequence[Method],
    folder: Path,
    *,
    plan: Plan | None,
    progress: Sequence[AbstractContextManager[Callback]] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Several seeds of one method: a run folder each, and their scores together in ``folder/metrics.json``.

    Seed k is scored on split k, so that the spread is that of training and split together. The folder has a report of
    all seeds too, and says how far they agree on nearest neighbours. ``progress`` has a context for each seed that
    gives the callback of its training, with its ``say``; ``options`` are those of :func:`run`.
    """
    from epagcl.report.files import have_plotly, write_comparison

    folder = Path(folder)
    single = None if plan is None else Plan(plan.protocol, 1, references=plan.references)
    results = []
    for method, context in zip(methods, progress or [nullcontext()] * len(methods), strict=True):
        with context as line:
            shown = {} if line is None else {"callback": line, "say": line.say}
            seed_folder = folder / f"seed-{method.seed}"
            results.append(run(data, method, seed_folder, plan=single, **shown, **options))
    own = ("evaluation", "references", "training", "health")
    metrics = {key: value for key, value in results[0].items() if key not in own}
    metrics["seeds"] = [method.seed for method in methods]
    metrics["training"] = {key: [result["training"][key] for result in results] for key in results[0]["training"]}
    if "evaluation" in results[0]:
        metrics["evaluation"] = merge([result["evaluation"] for result in results])
    if "references" in results[0]:
        metrics["references"] = {
            row: merge([result["references"][row] for result in results]) for row in results[0]["references"]
        }
    if results[0]["health"]:
        grades = ("poor", "fair", "good")
        by_measure = zip(*(result["health"] for result in results), strict=True)
        metrics["health"] = [min(found, key=lambda one: grades.index(one["verdict"])) for found in by_measure]
        if len(methods) > 1 and data.num_nodes >= FEWEST:
            arrays = [np.load(folder / f"seed-{method.seed}" / "embeddings.npy") for method in methods]
            matrix = neighbour_agreement([torch.from_numpy(array) for array in arrays])
            metrics["health"].append(asdict(judge_agreement(matrix)))
    if have_plotly():
        write_comparison(
            [folder], title=f"{type(methods[0]).title} on {metrics['graph']['name']}, {len(methods)} seeds"
        )
    write_config(
        folder / "config.toml", {**read_config(seed_folder / "config.toml"), "seeds": {"seeds": metrics["seeds"]}}
    )
    write_json(metrics, folder / "metrics.json")
    return metrics


def evaluate(
    z: Tensor,
    data: Data,
    plan: Plan,
    *,
    seed: int,
    device: str = "auto",
    companions: bool = True,
    splits: Sequence[Split] | None = None,
) -> dict[str, Any]:
    """Scores of an embedding by the plan's protocol; with companions: k-nearest neighbours and clustering."""
    z, y = z.to(resolve_device(device)), data.y
    if splits is None and plan.protocol == "public":
        splits = published_splits(data)
    scores = linear_evaluation(z, y, plan.protocol, plan.runs, seed, splits).to_dict()
    if companions:
        scores["knn_accuracy"] = spread(knn_accuracy(z, y, plan.runs, seed, splits))
        scores["clustering"] = clustering(z, y, seed)
    return scores


def references(data: Data, method: Method, plan: Plan, splits: Sequence[Split] | None = None) -> dict[str, Any]:
    """What every accuracy is to be held against: the raw features, and the method's encoder before training.

    A supervised method has no encoder apart from its classifier; it is held against EPAGCL's, on its own split.
    """
    from epagcl.methods.epagcl import EPAGCL

    same = {} if method.supervised else method.get_params()
    kind = EPAGCL if method.supervised else type(method)
    untrained = kind(**{**same, "seed": method.seed, "device": method.device, "epochs": 0}).fit_embed(data)
    options = {"seed": method.seed, "device": method.device, "companions": False, "splits": splits}
    return {
        "raw features": evaluate(data.x, data, plan, **options),
        "untrained encoder": evaluate(untrained, data, plan, **options),
    }


def split_of(data: Data, protocol: str, seed: int) -> Split:
    """The split that a supervised method of this seed learns from: its random one, or one of the published."""
    if protocol != "public":
        return random_split(data.y, seed=seed)
    splits = published_splits(data)
    return splits[seed % len(splits)]


def unfit_labels(data: Data, plan: Plan) -> str | None:
    """Why a graph's labels cannot be evaluated by the plan, or None if they can; asked before training, not after."""
    if data.y is None:
        return None
    try:
        if plan.protocol == "public":
            published_splits(data)
        else:
            random_split(data.y)
        if (classes := data.y[data.y >= 0].unique().numel()) < 2:
            return f"{classes} class among the labels, evaluation needs at least 2"
    except InputError as error:
        return str(error)
    return None


def published_splits(data: Data) -> list[Split]:
    """The dataset's own splits, or else Geom-GCN's."""
    return geom_splits(data) if "geom_train_mask" in data else public_splits(data)


def merge(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The scores of several seeds as one, their runs side by side."""
    merged = {key: results[0][key] for key in ("protocol", "split", "classes")}
    merged["confusion"] = torch.tensor([result["confusion"] for result in results]).sum(0).tolist()
    merged["split_seeds"] = [seed for result in results for seed in result["split_seeds"]]
    for key in ("accuracy", "macro_f1", "knn_accuracy"):
        if key in results[0]:
            merged[key] = spread([value for result in results for value in result[key]["runs"]])
    if "clustering" in results[0]:
        merged["clustering"] = {
            key: fmean(result["clustering"][key] for result in results) for key in results[0]["clustering"]
        }
    return merged


def describe(data: Data, name: str) -> dict[str, Any]:
    """Size of a graph and, with labels on all nodes, its EPR."""
    labelled = data.y is not None and bool((data.y >= 0).all())
    return {
        "name": name,
        "nodes": data.num_nodes,
        "edges": data.edge_index.shape[1] // 2,
        "features": data.x.shape[1],
        "classes": None if data.y is None else int(data.y[data.y >= 0].unique().numel()),
        "epr_per_node": error_passing_rate(data.edge_index, data.y) if labelled else None,
        "epr_per_edge": error_passing_rate(data.edge_index, data.y, per="edge") if labelled else None,
    }


def provenance(device: str = "auto") -> dict[str, Any]:
    """When, on what and with which versions a figure was measured."""
    import numpy
    import torch_geometric

    where = resolve_device(device)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": {
            "device": torch.cuda.get_device_name(where) if where.type == "cuda" else where.type,
            "cpu": _cpu_name(),
            "threads": torch.get_num_threads(),
        },
        "versions": {
            "epagcl": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "torch_geometric": torch_geometric.__version__,
            "numpy": numpy.__version__,
            "triton": version("triton") if find_spec("triton") else None,
        },
        "commit": _commit(),
    }


def _commit() -> str | None:
    """EPAGCL_COMMIT in the environment, else that of the repository the code lies in, with "+" if it was changed."""
    if "EPAGCL_COMMIT" in os.environ:
        return os.environ["EPAGCL_COMMIT"]
    root = Path(__file__).resolve().parent.parent

    def git(*words: str) -> list[str]:
        try:
            done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return []
        return done.stdout.splitlines()

    # An installed copy may lie inside a repository of somebody else's.
    answer = git("rev-parse", "--show-toplevel", "HEAD")
    if len(answer) != 2 or Path(answer[0]) != root:
        return None
    return answer[1] + ("+" if git("status", "--porcelain", "--", "epagcl", "benchmarks") else "")


def peak_memory_gib(device: str) -> float | None:
    """Most memory the process has held, on the GPU if it trains there, else in RAM (None where it cannot be read)."""
    where = resolve_device(device)
    if where.type == "cuda":
        return torch.cuda.max_memory_allocated(where) / 2**30
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**30 if platform.system() == "Darwin" else 2**20)


def claim(
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    seeds: int = 1,
    option: str = "--out",
    make: bool = True,
) -> None:
    """Make a folder ready for a run: refuse to mix two runs, and with ``overwrite`` remove the files of the old one.

    Messages name the ``option`` that gave the folder. With ``make=False`` nothing is changed, only checked.
    """
    if resume:
        several = any(folder.glob("seed-*/config.toml"))
        if several != (seeds > 1) or not (several or (folder / "config.toml").is_file()):
            many = " of several seeds" if seeds > 1 else " of one seed"
            raise InputError(f"{folder}: no run{many} to resume; leave out --resume to start one")
        return
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; give the name of a folder with {option}")
    if folder.is_dir() and any(folder.iterdir()):
        if not any((old / name).exists() for old in (folder, *folder.glob("seed-*")) for name in RUN_MARKS):
            raise InputError(f"{folder}: holds other files and no run; give another {option}")
        if not overwrite:
            resumed = "--resume to continue it, " if option == "--out" else ""
            raise InputError(f"{folder}: already there; give another {option}, {resumed}or --overwrite")
    if not make:
        return
    if folder.is_dir():
        for old in (*folder.glob("seed-*"), folder):
            for name in (*RUN_FILES, *(event.name for event in old.glob("events.out.tfevents.*"))):
                (old / name).unlink(missing_ok=True)
            if old != folder and old.is_dir() and not any(old.iterdir()):
                old.rmdir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); give another {option}") from None
    if not os.access(folder, os.W_OK):
        raise InputError(f"{folder}: not writable; give another {option}")


def _begin(folder: Path, method: Method, sections: dict[str, dict[str, Any]]) -> None:
    """Write what is about to run; of a run that goes on, check that it is the same method, graph and evaluation."""
    config = folder / "config.toml"
    if not config.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_config(config, {"method": method.settings(), **sections})
        return
    saved = read_config(config)
    now = {"method": method.settings(), "evaluation": sections.get("evaluation", {})}
    now["data"] = {"fingerprint": sections["data"]["fingerprint"]}
    for section, values in now.items():
        for key, value in values.items():
            before = saved.get(section, {}).get(key)
            if key not in ("device", "capture") and before != value:
                what = "another graph" if key == "fingerprint" else f"{key} = {before}, now {key} = {value}"
                raise InputError(
                    f"{folder}: was started with {what}; resume it as it was, or start anew with --overwrite"
                )


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
