"""The effect of the scoring rule: the same models, scored by the rule of the authors' script and by stricter rules.

The authors' script scores the embedding every 50 epochs, on a new random split each time, and keeps the highest *test*
accuracy. Here each model is trained once and scored at the same epochs, then evaluated by each rule. Scoring a model
during training is called a look.
"""

from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from epagcl.core.errors import InputError, TrainingError
from epagcl.core.hardware import resolve_device
from epagcl.data import splits
from epagcl.data.catalogue.entries import find
from epagcl.data.splits import random_split
from epagcl.evaluation import linear
from epagcl.evaluation.health import effective_rank
from epagcl.evaluation.linear import linear_evaluation
from epagcl.methods import Method
from epagcl.paper import published
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.leakage_tables import EVERY, LOOKS, SHORT, figures, reading, tables
from epagcl.runs.record import provenance
from epagcl.study.code_version import code_version
from epagcl.study.design import UNSTORED, fingerprint, rows
from epagcl.study.jobs import Job
from epagcl.study.shapes import ORIGIN, Shape
from epagcl.study.store import Record

if TYPE_CHECKING:
    from torch_geometric.data import Data


def look_interval(epochs: int) -> int:
    """Return the number of epochs between two looks at a model that is trained for ``epochs`` epochs."""
    return EVERY if epochs >= SHORT else max(1, epochs // LOOKS)


#: Errors of a training that do not stop the others.
LEFT_OUT = (TrainingError, torch.OutOfMemoryError)
#: The shape of the record of a model.
RECORD: Shape = {
    **ORIGIN,
    "epochs": [int],
    **{key: [float] for key in ("test", "validation", "new_split")},
    "effective_rank": list,
    **dict.fromkeys(("strict", "seconds"), float),
}


class LookedAt(NamedTuple):
    """A model that is scored several times during its training.

    Attributes:
        graph: name of the graph.
        title: title of the row.
        source: where the settings come from.
        model: the model.
        job: its training, with the scores.
    """

    graph: str
    title: str
    source: str | None
    model: Method
    job: Job


def models_of(request: Request) -> list[LookedAt]:
    """Return all models of a request: every method on every graph with every seed."""
    found = []
    for name, data in request.graphs.items():
        graph = {"name": name, "fingerprint": fingerprint(data)}
        for row in [row for row in rows(request.methods) if not row.reference]:
            models, source = row.models(name, request.runs, request.settings)
            if models and models[0].supervised:
                raise InputError(f"methods: {models[0].name} is a classifier without embeddings to score; leave it out")
            found += [
                LookedAt(name, row.title, source, one, _job(request, graph, data, row.title, one)) for one in models
            ]
    return found


def measure(request: Request) -> Result:
    """Train every method on every graph and score it by every rule; ``protocols`` has no influence."""
    models = models_of(request)
    results = _rows(zip(models, request.records_of([one.job for one in models], LEFT_OUT), strict=True))
    request.require(results)
    return {"rows": results, "absent": request.absent}


def with_missing(result: Result, request: Request, titles: Collection[str]) -> Result | None:
    """Return a result with the models that it lacks, or None if there are no new ones.

    Args:
        result: the result.
        request: says which graphs, methods and seeds are wanted, and how to compute them.
        titles: the rows to compute.
    """
    lacking = [one for one in missing_models(result, request) if one.title in titles]
    new = _rows(zip(lacking, request.records_of([one.job for one in lacking], LEFT_OUT), strict=True))
    if not new:
        return None
    by_place = {(row["graph"], row["method"]): row for row in result["rows"]}
    for row in new:
        place = row["graph"], row["method"]
        runs = {run["seed"]: run for run in (*by_place.get(place, {"runs": []})["runs"], *row["runs"])}
        by_place[place] = {**row, "runs": [runs[seed] for seed in sorted(runs)]}
    graphs = [find(name).name for name in ARTEFACT.datasets]
    ordered = sorted(
        by_place.values(), key=lambda row: graphs.index(row["graph"]) if row["graph"] in graphs else len(graphs)
    )
    datasets = list(dict.fromkeys(row["graph"] for row in ordered))
    seeds = sorted({run["seed"] for row in ordered for run in row["runs"]})
    return {
        **result,
        "asked": {**result["asked"], "datasets": datasets, "runs": len(seeds), "seeds": seeds},
        "absent": {graph: reason for graph, reason in result["absent"].items() if graph not in datasets},
        "rows": ordered,
    }


def missing_models(result: Result | None, request: Request) -> list[LookedAt]:
    """Return the models of a request that a result lacks, or has with another number of epochs."""
    stored = result["rows"] if result else []
    done = {(row["graph"], row["method"], run["seed"]): run["epochs"][-1] for row in stored for run in row["runs"]}

    def is_done(one: LookedAt) -> bool:
        epochs = done.get((one.graph, one.title, one.model.seed))
        return epochs is not None and (epochs == one.model.epochs or one.model.patience > 0)

    return [one for one in models_of(request) if not is_done(one)]


def _rows(records: Iterable[tuple[LookedAt, Record | None]]) -> list[dict[str, Any]]:
    """Return the runs of each method on each graph."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for one, record in records:
        if record is not None:
            about: dict[str, Any] = {"graph": one.graph, "method": one.title, "source": one.source}
            about["reported"] = published(one.graph, one.title).get("paper")
            found.setdefault((one.graph, one.title), {**about, "runs": []})["runs"].append(_run(one.model.seed, record))
    return list(found.values())


def _job(request: Request, graph: dict[str, str], data: "Data", title: str, model: Method) -> Job:
    """Return the training of a model with its looks."""
    key = {
        "what": "leakage",
        "graph": graph,
        "method": title,
        "settings": {name: value for name, value in model.settings().items() if name not in UNSTORED},
        "every": look_interval(model.epochs),
        "seed": model.seed,
        "code": code_version(type(model), linear, splits, observe, score),
    }
    compute = partial(observe, request, graph["name"], data, model)
    cost = float(model.epochs) * data.num_nodes**2
    return Job(f"{title} on {graph['name']}, seed {model.seed}", key, compute, cost, RECORD)


def _run(seed: int, record: Record) -> Record:
    names = ("epochs", "test", "validation", "new_split", "effective_rank", "strict", "seconds")
    return {"seed": seed, "device": record["hardware"]["device"], **{name: record[name] for name in names}}


def observe(request: Request, name: str, data: "Data", model: Method) -> Record:
    """Train a model and score its embedding at every look."""
    seen: dict[int, Tensor] = {}
    with request.work.training(f"{model.title} on {name}, seed {model.seed}", model.epochs) as callback:
        model.fit(data, callback=callback, look=(look_interval(model.epochs), seen.__setitem__))
    where = resolve_device(request.device)
    # The last look is the model as users get it: with patience, its best weights.
    seen[len(model.history_)] = model.embed(data)
    looks = {epoch: z.to(where) for epoch, z in seen.items()}
    seconds = model.history_[-1]["seconds"] if model.history_ else 0.0
    return {**score(looks, data.y, model.seed), "seconds": seconds, **provenance(request.device)}


def score(looks: dict[int, Tensor], y: Tensor, seed: int) -> Record:
    """Score the embedding of each look, given by epoch.

    Returns:
        ``test`` and ``validation``: accuracies of the paper's protocol on the split of the seed. ``new_split``: its
        test accuracy of look k on split 1000 (seed + 1) + k. ``strict``: the strict accuracy of the last embedding.
    """
    embeddings = list(looks.values())
    # Latest first, so that the classifier of the last epoch starts from the same weights as in every other table.
    split = random_split(y, seed=seed)
    own = linear_evaluation(embeddings[::-1], y, "paper", seed=seed, splits=[split] * len(embeddings))
    new = linear_evaluation(embeddings, y, "paper", seed=1000 * (seed + 1))
    return {
        "epochs": list(looks),
        "test": own.runs[::-1],
        "validation": [chosen["validation_accuracy"] for chosen in own.chosen[::-1]],
        "new_split": new.runs,
        "effective_rank": [effective_rank(z) for z in embeddings],
        "strict": linear_evaluation(embeddings[-1:], y, "strict", seed=seed).runs[0],
    }


ARTEFACT = Artefact(
    name="leakage",
    title="What the scoring rule adds",
    datasets=("cora", "citeseer", "pubmed", "amazon-photo"),
    measure=measure,
    tables=tables,
    figures=figures,
    reading=reading,
    methods=("epagcl", "grace", "gca"),
)
