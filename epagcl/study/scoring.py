"""Training and scoring of the seeds of a cell: seed k is scored on split k."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import isfunction
from types import ModuleType
from typing import Any, Protocol, TypedDict, TypeVar

import torch
from sklearn.base import clone
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError, TrainingError
from epagcl.core.hardware import resolve_device
from epagcl.core.log import log
from epagcl.core.progress import Progress
from epagcl.data import splits as split_module
from epagcl.data.splits import published_splits
from epagcl.evaluation import linear as linear_module
from epagcl.evaluation import scores as scores_module
from epagcl.evaluation.linear import linear_evaluation
from epagcl.evaluation.scores import Evaluation, prediction_evaluation
from epagcl.methods.base import Method
from epagcl.methods.supervised import Supervised
from epagcl.runs.evaluation import split_of
from epagcl.runs.record import peak_memory_gib, provenance
from epagcl.study.shapes import ORIGIN, Shape
from epagcl.study.store import Key, Record, Store
from epagcl.study.workers import number_of_workers

_Value = TypeVar("_Value")


class SeedTraining(TypedDict):
    """The cost of training one seed, and the effective rank of its embedding if it was measured."""

    epochs: int
    seconds: float
    effective_rank: float | None


#: The scores of one seed by one protocol: accuracy, macro_f1, split, and choices on validation nodes.
SeedScores = dict[str, Any]
#: The shape of the record of a seed.
SEED_RECORD: Shape = {
    **ORIGIN,
    "date": str,
    "commit": (str, None),
    "training": (None, {"epochs": int, "seconds": float}),
    "protocols": {str: {"accuracy": float, "macro_f1": float, "split": str, "validation_accuracy?": float}},
}


class ScoredCell(Protocol):
    """The parts of a :class:`~epagcl.study.design.Cell` that scoring reads."""

    @property
    def data(self) -> Data:
        """The graph, with labels."""

    @property
    def about(self) -> dict[str, Any]:
        """The description of the graph."""

    @property
    def name(self) -> str:
        """Name of the graph."""

    @property
    def title(self) -> str:
        """Title of the row."""

    @property
    def models(self) -> list[Method]:
        """A model for each seed; empty for the raw features."""

    @property
    def protocols(self) -> list[str]:
        """The protocols to score by."""

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that take precedence over the recipe's."""

    def key(self, seed: int) -> Key:
        """Return the key of a seed's record."""


def score_seeds(cell: ScoredCell, seeds: list[int], store: Store, work: Progress) -> dict[int, Record]:
    """Train and score some seeds of a cell.

    Args:
        cell: a row of the comparison on a graph.
        seeds: the seeds.
        store: may hold scores of these seeds by other protocols. They are computed again with the new ones, because the
            same training gives the same model.
        work: receives the progress.

    Returns:
        A record for each seed: its scores by protocol, and the cost of training. Seeds whose training failed have none.
    """
    stored = [store.read(cell.key(seed)) or {} for seed in seeds]
    stored_protocols = [set(record.get("protocols", ())) for record in stored]
    protocols = list(dict.fromkeys([*cell.protocols, *(p for names in stored_protocols for p in names)]))
    device = resolve_device(cell.settings.get("device", "auto"))
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    scores: dict[str, dict[int, SeedScores]]
    training: dict[int, SeedTraining] = {}
    if not cell.models:
        work.say(f"{cell.title} of {cell.name}")
        scores = {p: _score_linear(dict.fromkeys(seeds, cell.data.x.to(device)), cell.data, p) for p in protocols}
    elif isinstance(cell.models[0], Supervised):
        # The strict and the paper's protocol share their splits: one training serves both.
        kinds = {p: "public" if p == "public" else "random" for p in protocols}
        by_kind = {
            kind: _train_each(cell, seeds, training, partial(_score_supervised, cell, kind, work))
            for kind in sorted(set(kinds.values()))
        }
        scores = {p: by_kind[kinds[p]] for p in protocols}
    else:
        embeddings = _train_each(cell, seeds, training, partial(_embedding, cell, store, work))
        scores = {p: _score_linear(embeddings, cell.data, p) for p in protocols}
    shared = {**provenance(str(device)), "graph": cell.about}
    cost = {"peak_memory_gib": peak_memory_gib(str(device)), "processes": number_of_workers()}
    return {
        seed: {
            **shared,
            "training": {**training[seed], **cost} if cell.models else None,
            "protocols": {protocol: by_seed[seed] for protocol, by_seed in scores.items()},
        }
        for seed in seeds
        if all(seed in by_seed for by_seed in scores.values())
    }


def _train_each(
    cell: ScoredCell, seeds: list[int], training: dict[int, SeedTraining], train: Callable[[Method], _Value]
) -> dict[int, _Value]:
    """Return the value of ``train`` for each seed, and fill ``training``. Seeds that fail are logged and left out."""
    values = {}
    for seed in seeds:
        model = clone(cell.models[seed])  # a copy, so that the cell does not hold every trained network
        try:
            values[seed] = train(model)
        except (TrainingError, torch.OutOfMemoryError) as error:
            log.warning("%s on %s, seed %d: left out (%s)", cell.title, cell.name, seed, error)
            continue
        history = model.history_
        training[seed] = {
            "epochs": len(history),
            "seconds": history[-1]["seconds"] if history else 0.0,
            "effective_rank": history[-1]["effective_rank"] if history else None,
        }
    return values


def _embedding(cell: ScoredCell, store: Store, work: Progress, model: Method) -> Tensor:
    """Train a model, or finish a training that was interrupted, and return the embedding on the model's device.

    Before an interruption, and every few seconds, the training is saved in the store.
    """
    checkpoint = store.checkpoint(cell.key(model.seed))
    try:
        _fit(model, cell, work, checkpoint=checkpoint, resume=True)
    except InputError as error:
        if not checkpoint.exists():  # the error is not about the saved training
            raise
        log.warning("%s, seed %d starts over: %s", cell.title, model.seed, error)
        checkpoint.unlink()
        _fit(model, cell, work, checkpoint=checkpoint)
    checkpoint.unlink(missing_ok=True)
    return model.embed(cell.data).to(resolve_device(model.device))


def _fit(model: Method, cell: ScoredCell, work: Progress, **options: Any) -> Method:
    with work.training(training_title(model, cell.name), model.epochs) as callback:
        return model.fit(cell.data, callback=callback, **options)


def training_title(model: Method, graph: str) -> str:
    """Return the title of a training in the progress."""
    return f"{model.title} on {graph}, seed {model.seed}"


def _score_supervised(cell: ScoredCell, kind: str, work: Progress, model: Method) -> SeedScores:
    split = split_of(cell.data, kind, model.seed)
    assert isinstance(model, Supervised)  # as all models of the cell
    _fit(model, cell, work, split=split)
    return _scores_by_run(prediction_evaluation(model.predict(cell.data), cell.data.y, split, kind, model.seed))[0]


def _score_linear(embeddings: dict[int, Tensor], data: Data, protocol: str) -> dict[int, SeedScores]:
    """Score each embedding on the split of its seed. All are fitted together: on a GPU that costs little more."""
    if not embeddings:
        return {}
    seeds = list(embeddings)
    splits = [split_of(data, "public", seed) for seed in seeds] if protocol == "public" else None
    scores = linear_evaluation(list(embeddings.values()), data.y, protocol, seed=seeds, splits=splits)
    description = f"published, {len(published_splits(data))}" if splits else scores.split
    return {seed: run | {"split": description} for seed, run in zip(seeds, _scores_by_run(scores), strict=True)}


def _scores_by_run(scores: Evaluation) -> list[SeedScores]:
    chosen: Sequence[Mapping[str, object]] = scores.chosen or [{}] * len(scores.runs)
    return [
        {"accuracy": accuracy, "macro_f1": macro_f1, "split": scores.split, **choice}
        for accuracy, macro_f1, choice in zip(scores.runs, scores.macro_f1, chosen, strict=True)
    ]


def scored_by() -> list[Callable[..., object] | ModuleType]:
    """Return the code that scores depend on besides the method, for the keys of stored runs.

    Every function of this module counts, so that a new one needs no entry in a list.
    """
    functions = [value for value in globals().values() if isfunction(value) and value.__module__ == __name__]
    return [linear_module, scores_module, split_module, split_of, *functions]
