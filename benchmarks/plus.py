"""Variants of EPAGCL+ by validation accuracy: the evidence behind its settings, which are the same for all graphs."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, TypedDict, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.cli.rendering import short_names
from epagcl.core.errors import InputError, TrainingError
from epagcl.core.files import write_json
from epagcl.core.formatting import short_commit
from epagcl.core.hardware import resolve_device
from epagcl.data.catalogue import datasets, find, load
from epagcl.data.splits import Split, random_split
from epagcl.evaluation.linear import linear_evaluation
from epagcl.methods.epagcl_plus import EPAGCLPlus
from epagcl.methods.inputs import input_graph
from epagcl.methods.mixture import Mixture
from epagcl.paper.tables import Table, markdown, marked
from epagcl.report.metrics import Provenance
from epagcl.runs.record import provenance
from epagcl.training.protocol import calibrate, embedding_of

#: The graphs that the targets of the method name, and four others.
TARGETS = (
    *("Cora", "CiteSeer", "PubMed", "Amazon-Photo", "Amazon-Computers", "Coauthor-CS", "Coauthor-Physics"),
    *("Texas", "Chameleon", "Actor", "Flickr"),
)
GRAPHS = (*TARGETS, "Cornell", "Wisconsin", "Squirrel", "Facebook")
#: Principal components are ordered, so the first 256 of 512 are the embedding with dim=256, except that the last of
#: them, of nearly equal variance, are iterated further.
DIMS = (256, 512)
SMALL, SPLITS, SPLITS_OF_SMALL = 300, 10, 30  # graphs with fewer nodes than SMALL have more splits
SHIPPED = "as shipped"

#: Trained variants: the settings that differ from the defaults.
VARIANTS: dict[str, dict[str, Any]] = {
    SHIPPED: {},
    "members 1": {"members": 1},
    "members 3": {"members": 3},
    "200 epochs, lr 0.002": {"epochs": 200, "lr": 2e-3},
    "800 epochs": {"epochs": 800},
    "hidden 512": {"hidden": 512},
    "all nodes as negatives": {"batch_size": 0},
    "no nearest neighbours": {"k": 0},
    "no added edges": {"p_add": 0.0},
    "no dropped or added edges": {"p_add": 0.0, "p_drop_1": 0.0, "p_drop_2": 0.0},
    "features as given": {"feature_scaling": "given"},
    "untrained": {"epochs": 0},
}
TRAINED_BLOCKS = ("residual", "scales", "infomax")
PROPAGATED_BLOCKS = ("two_hops", "joined", "neighbours", "neighbours_2", "own")
#: Mixtures of the blocks of the model as shipped: the weights that differ; a name stands for the weight of that block.
MIXTURES: dict[str, Mapping[str, float | str]] = {
    "without trained models": dict.fromkeys(TRAINED_BLOCKS, 0.0),
    "without residual models": {"residual": 0.0},
    "without scales models": {"scales": 0.0},
    "without the infomax model": {"infomax": 0.0},
    "without propagated features": dict.fromkeys(PROPAGATED_BLOCKS, 0.0),
    "without neighbours-only blocks": {"neighbours": 0.0, "neighbours_2": 0.0},
    "neighbours-only blocks at full weight": {"neighbours": "two_hops", "neighbours_2": "two_hops"},
    "own features at weight 1": {"own": 1.0},
    "all blocks at weight 1": dict.fromkeys((*TRAINED_BLOCKS, *PROPAGATED_BLOCKS), 1.0),
    "trained blocks at weight 1": dict.fromkeys(TRAINED_BLOCKS, 1.0),
}
PROTOCOL = (
    f"strict: random 10/10/80 splits 0 to {SPLITS - 1} (0 to {SPLITS_OF_SMALL - 1} on graphs of fewer than {SMALL} "
    "nodes), the same for every model; mean over splits of the accuracy on one half of the validation nodes, with the "
    "penalty and the step that are best on the other half; test nodes are not used"
)


class Score(TypedDict):
    """The validation accuracy of one model, by the number of principal components."""

    variant: str
    seed: int
    accuracy: dict[str, float]


class Failure(TypedDict):
    """A training that ended in an error."""

    variant: str
    seed: int
    error: str


class GraphScores(Provenance):
    """The file of a graph: the scores of all models trained so far."""

    command: str
    protocol: str
    settings: dict[str, Any]
    graph: str
    nodes: int
    splits: int
    scores: list[Score]
    failed: list[Failure]


class Evidence(Provenance):
    """The merged file: ``accuracy[variant][graph][dim]`` has one validation accuracy per training seed, from seed 0."""

    command: str
    protocol: str
    seeds: int
    settings: dict[str, Any]
    variants: dict[str, dict[str, Any]]
    mixtures: dict[str, Mapping[str, float | str]]
    splits: dict[str, int]
    accuracy: dict[str, dict[str, dict[str, list[float]]]]
    failed: dict[str, list[Failure]]


def plus(
    folder: Path,
    graphs: Sequence[str] | None = None,
    variants: Sequence[str] | None = None,
    seeds: int = 1,
    device: str = "auto",
    seconds: float = 1e9,
) -> None:
    """Train variants and write their scores, one file per graph, after each training.

    Models that a file already has are not trained again, so that an interrupted run can be continued.

    Args:
        folder: where to write.
        graphs: names of graphs; by default those of :data:`GRAPHS` that need no download.
        variants: names of :data:`VARIANTS`; all by default. The model as shipped includes :data:`MIXTURES`.
        seeds: number of training seeds: first all variants with seed 0, then with seed 1, ...
        device: auto, cpu or cuda.
        seconds: start no training after this time.
    """
    end = time.monotonic() + seconds
    names = [find(name).name for name in graphs] if graphs else present()
    data = {name: load(name) for name in names}
    files = {name: folder / f"{name}.json" for name in names}
    folder.mkdir(parents=True, exist_ok=True)
    results = {name: _started(files[name], data[name], command(name, variants, seeds), device) for name in names}
    for seed in range(seeds):
        for variant in variants or VARIANTS:
            for name, result in results.items():
                if any((row["variant"], row["seed"]) == (variant, seed) for row in result["scores"]):
                    continue
                if time.monotonic() > end:
                    print(f"{name}: stopped after {seconds:g} s, before {variant!r} with seed {seed}", flush=True)
                    return
                _extend(result, data[name], variant, seed, device)
                write_json(result, files[name])


def present() -> list[str]:
    """Return the graphs of :data:`GRAPHS` that need no download."""
    here = {row.name for row in datasets() if not row.source.startswith("download")}
    return [name for name in GRAPHS if name in here]


def command(graph: str, variants: Sequence[str] | None, seeds: int) -> str:
    """Return the command that trains the variants on one graph."""
    chosen = "".join(f" {variant!r}" for variant in variants or ())
    return f"python -m benchmarks plus --graphs {graph}{' --variants' * bool(chosen)}{chosen} --seeds {seeds}"


def _started(file: Path, data: Data, line: str, device: str) -> GraphScores:
    """Return the content of a graph's file, or a new one without scores."""
    new = GraphScores(
        **provenance(device),
        command=line,
        protocol=PROTOCOL,
        settings=_settings(),
        graph=data.name,
        nodes=data.num_nodes,
        splits=SPLITS_OF_SMALL if data.num_nodes < SMALL else SPLITS,
        scores=[],
        failed=[],
    )
    if not file.exists():
        return new
    old: GraphScores = json.loads(file.read_text(encoding="utf-8"))
    if difference := _difference(old, new):
        raise InputError(f"{file}: written with another {difference}; remove it, or choose another folder with --out")
    return GraphScores(**{**new, "scores": old["scores"]})


def _settings() -> dict[str, Any]:
    return {key: value for key, value in EPAGCLPlus().settings().items() if key not in ("dim", "seed", "device")}


def _difference(one: GraphScores, other: GraphScores) -> str:
    """Return in what two files differ that must be equal, or an empty string."""
    if one["hardware"]["device"] != other["hardware"]["device"]:
        return "device"
    return next((key for key in ("commit", "versions", "settings", "protocol") if one[key] != other[key]), "")


def _extend(result: GraphScores, data: Data, variant: str, seed: int, device: str) -> None:
    """Train one variant and add its scores, or the error of the training."""
    start = time.perf_counter()
    try:
        scores = [
            Score(variant=name, seed=seed, accuracy=accuracies(z, data.y, result["splits"]))
            for name, z in embeddings(data, variant, seed, device)
        ]
    except (TrainingError, torch.OutOfMemoryError) as error:
        result["failed"].append(Failure(variant=variant, seed=seed, error=str(error)))
        print(f"{result['graph']}, {variant}, seed {seed}: {error}", flush=True)
        return
    result["scores"] += scores
    shown = ", ".join(f"{100 * value:.2f}" for value in scores[0]["accuracy"].values())
    print(f"{result['graph']}, {variant}, seed {seed}: {shown} ({time.perf_counter() - start:.1f} s)", flush=True)


def embeddings(data: Data, variant: str, seed: int, device: str = "auto") -> Iterator[tuple[str, Tensor]]:
    """Train a variant and yield its name and embedding; then, as shipped, the embedding of each mixture.

    Args:
        data: the graph.
        variant: a name of :data:`VARIANTS`.
        seed: of the training.
        device: auto, cpu or cuda.
    """
    model = EPAGCLPlus(**{"dim": max(DIMS), **VARIANTS[variant], "seed": seed, "device": device}).fit(data)
    network, graph = cast("Mixture", model.network_), input_graph(model, data, resolve_device(device))
    yield variant, embedding_of(model, network, graph)
    if variant == SHIPPED:
        shipped = network.weights.clone()
        for name, changes in MIXTURES.items():
            network.weights.copy_(mixed_weights(network, shipped, changes))
            network.fit_propagated(graph)  # weights of 0 may have changed
            calibrate(model, network, graph)
            yield name, embedding_of(model, network, graph)


def mixed_weights(network: Mixture, shipped: Tensor, changes: Mapping[str, float | str]) -> Tensor:
    """Return the weights of all blocks after some changes.

    Args:
        network: the trained network.
        shipped: its weights.
        changes: the new weight by the name of a block, or the name of another block whose weight it gets.
    """
    kinds = network.kinds
    weights = dict(zip(kinds, shipped.tolist(), strict=True))  # blocks of a kind have the same weight
    chosen = {kind: weights[new] if isinstance(new, str) else new for kind, new in changes.items()}
    return torch.tensor([chosen.get(kind, weights[kind]) for kind in kinds])


def accuracies(z: Tensor, y: Tensor, splits: int) -> dict[str, float]:
    """Return the mean validation accuracy over splits 0, 1, ... of the first columns of an embedding, by their number.

    The penalty and the step of the classifier are chosen on one half of the validation nodes, and the other half is
    scored. On the nodes that the choice was made on, accuracies are too high: on small graphs by ten points and more.

    Args:
        z: the embedding.
        y: class of each node.
        splits: number of splits.
    """
    halves = [half for seed in range(splits) for half in halved(random_split(y, seed=seed))]
    return {str(dim): linear_evaluation(z[:, :dim], y, "strict", splits=halves).mean for dim in DIMS}


def halved(split: Split) -> tuple[Split, Split]:
    """Return two splits with the same training nodes. Each half of the validation nodes is the test part of one.

    Args:
        split: its test nodes are in no part of the result.
    """
    even, odd = split.val[::2], split.val[1::2]
    return Split(split.train, even, odd), Split(split.train, odd, even)


def merge(folder: Path) -> Evidence:
    """Merge the files of all graphs.

    Args:
        folder: where :func:`plus` wrote them.
    """
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    if not found:
        raise InputError(f"--merge {folder}: no files; measure first with --out {folder}")
    files: list[GraphScores] = sorted(found, key=lambda file: GRAPHS.index(file["graph"]))
    first = files[0]
    for file in files:
        if difference := _difference(first, file):
            raise InputError(f"--merge {folder}: {first['graph']} and {file['graph']} differ in {difference}")
    accuracy: dict[str, dict[str, dict[str, list[float]]]] = {name: {} for name in (*VARIANTS, *MIXTURES)}
    for file in files:
        for row in sorted(file["scores"], key=lambda row: row["seed"]):
            cell = accuracy[row["variant"]].setdefault(file["graph"], {str(dim): [] for dim in DIMS})
            for dim, value in row["accuracy"].items():
                cell[dim].append(value)
    seeds = 1 + max(row["seed"] for file in files for row in file["scores"])
    return Evidence(
        date=max(file["date"] for file in files),
        hardware=first["hardware"],
        versions=first["versions"],
        commit=first["commit"],
        command=f"python -m benchmarks plus --seeds {seeds}, then python -m benchmarks plus --merge",
        protocol=PROTOCOL,
        seeds=seeds,
        settings=first["settings"],
        variants=VARIANTS,
        mixtures=MIXTURES,
        splits={file["graph"]: file["splits"] for file in files},
        accuracy={variant: cells for variant, cells in accuracy.items() if cells},
        failed={file["graph"]: file["failed"] for file in files if file["failed"]},
    )


def table(result: Evidence, dim: int = DIMS[0]) -> str:
    """Return the validation accuracies of all variants in percent: means over seeds, by graph and over graphs.

    Args:
        result: the merged file.
        dim: number of principal components.
    """
    scores = {
        variant: {graph: 100 * fmean(cell[str(dim)]) for graph, cell in cells.items()}
        for variant, cells in result["accuracy"].items()
    }
    graphs = [graph for graph in GRAPHS if graph in result["splits"]]
    means = {
        f"mean of {len(group)}": [
            fmean(row[graph] for graph in group) if all(graph in row for graph in group) else None
            for row in scores.values()
        ]
        for group in (TARGETS, GRAPHS)
    }
    counts = {v: [len(cell[str(dim)]) for cell in cells.values()] for v, cells in result["accuracy"].items()}
    columns: dict[str, Sequence[Any]] = {
        "variant": list(scores),
        **{
            short: [f"{row[graph]:.1f}" if graph in row else "–" for row in scores.values()]
            for graph, short in zip(graphs, short_names(graphs), strict=True)
        },
        **{
            head: marked(values, ["–" if value is None else f"{value:.2f}" for value in values])
            for head, values in means.items()
        },
        "seeds": [str(min(c)) if min(c) == max(c) else f"{min(c)}–{max(c)}" for c in counts.values()],
    }
    note = (
        f"Accuracy on validation nodes: mean over {SPLITS} splits ({SPLITS_OF_SMALL} on "
        f"graphs of fewer than {SMALL} nodes) and training seeds. Measured on {result['hardware']['device']}, "
        f"{result['date'][:10]}, commit {short_commit(result['commit'])}."
    )
    rows = list(zip(*columns.values(), strict=True))
    return markdown(Table("", f"Variants of EPAGCL+, {dim} numbers per node", list(columns), rows, note))
