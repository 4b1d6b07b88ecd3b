"""Methods side by side: the same graph, splits, seeds and classifier, so that rows differ in the method alone."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from sklearn.base import clone
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import TrainingError
from epagcl.core.hardware import resolve_device
from epagcl.core.log import log
from epagcl.core.progress import Progress
from epagcl.data import splits
from epagcl.data.splits import published_splits
from epagcl.evaluation import linear, scores
from epagcl.evaluation.linear import linear_evaluation
from epagcl.evaluation.scores import Evaluation, prediction_evaluation
from epagcl.methods.base import Method
from epagcl.runs.evaluation import split_of
from epagcl.runs.provenance import peak_memory_gib, provenance
from epagcl.study.store import Record, Store

if TYPE_CHECKING:
    from epagcl.study.cells import Cell


def score_seeds(cell: "Cell", seeds: list[int], store: Store, work: Progress) -> dict[int, Record]:
    """A record for each of these seeds: its scores by protocol, and what training took; none of one that fails."""
    # A seed that was scored by other protocols before keeps those scores: the same training gives the same model.
    before = [store.read(cell.key(seed)) or {} for seed in seeds]
    known = [set(record.get("protocols", ())) for record in before]
    protocols = list(dict.fromkeys([*cell.protocols, *(p for found in known for p in found)]))
    where = resolve_device(cell.settings.get("device", "auto"))
    if where.type == "cuda":
        torch.cuda.reset_peak_memory_stats(where)
    scores: dict[str, dict[int, dict[str, Any]]]
    training: dict[int, dict[str, Any]] = {}
    if not cell.models:
        work.say(f"{cell.row.title} of {cell.name}")
        scores = {p: _linear(dict.fromkeys(seeds, cell.data.x.to(where)), cell.data, p) for p in protocols}
    elif cell.models[0].supervised:
        # Strict and the paper's protocol have the same splits: one training serves both.
        kinds = {p: "public" if p == "public" else "random" for p in protocols}
        by_kind = {
            kind: _each(cell, seeds, training, partial(_supervised, cell, kind, work))
            for kind in sorted(set(kinds.values()))
        }
        scores = {p: by_kind[kinds[p]] for p in protocols}
    else:
        embeddings = _each(cell, seeds, training, lambda model: _fit(model, cell, work).embed(cell.data).to(where))
        scores = {p: _linear(embeddings, cell.data, p) for p in protocols}
    made = {**provenance(str(where)), "graph": cell.about}
    memory = {"peak_memory_gib": peak_memory_gib(str(where))}
    return {
        seed: {
            **made,
            "training": training[seed] | memory if cell.models else None,
            "protocols": {protocol: found[seed] for protocol, found in scores.items()},
        }
        for seed in seeds
        if all(seed in found for found in scores.values())
    }


def _each(
    cell: "Cell", seeds: list[int], training: dict[int, dict[str, Any]], train: Callable[[Method], Any]
) -> dict[int, Any]:
    """What training gives for each seed, and in ``training`` what it took; one that fails is left out, and said."""
    found = {}
    for seed in seeds:
        model = clone(cell.models[seed])  # a copy, so that a long table does not hold every network it has trained
        try:
            found[seed] = train(model)
        except TrainingError as error:
            log.warning("%s on %s, seed %d: left out (%s)", cell.row.title, cell.name, seed, error)
            continue
        last = model.history_[-1] if model.history_ else {"seconds": 0.0, "effective_rank": None}
        training[seed] = {"epochs": len(model.history_), **{k: last[k] for k in ("seconds", "effective_rank")}}
    return found


def _fit(model: Method, cell: "Cell", work: Progress, **options: Any) -> Method:
    with work.training(f"{model.title} on {cell.name}, seed {model.seed}", model.epochs) as callback:
        return model.fit(cell.data, callback=callback, **options)


def _supervised(cell: "Cell", kind: str, work: Progress, model: Method) -> dict[str, Any]:
    split = split_of(cell.data, kind, model.seed)
    _fit(model, cell, work, split=split)
    return _by_run(prediction_evaluation(model.predict(cell.data), cell.data.y, split, kind, model.seed))[0]


def _linear(embeddings: dict[int, Tensor], data: Data, protocol: str) -> dict[int, dict[str, Any]]:
    """Scores by seed, each embedding on the split of its seed; all together, which costs a GPU little more than one."""
    if not embeddings:
        return {}
    seeds = list(embeddings)
    splits = [split_of(data, "public", seed) for seed in seeds] if protocol == "public" else None
    scores = linear_evaluation(list(embeddings.values()), data.y, protocol, seed=seeds, splits=splits)
    words = f"published, {len(published_splits(data))}" if splits else scores.split
    return {seed: score | {"split": words} for seed, score in zip(seeds, _by_run(scores), strict=True)}


def _by_run(scores: Evaluation) -> list[dict[str, Any]]:
    chosen = scores.chosen or [{}] * len(scores.runs)
    return [
        {"accuracy": accuracy, "macro_f1": macro_f1, "split": scores.split, **choice}
        for accuracy, macro_f1, choice in zip(scores.runs, scores.macro_f1, chosen, strict=True)
    ]


#: What the scores of a run depend on beside its method: code for the keys of stored runs.
SCORED_BY = (linear, scores, splits, score_seeds, _each, _supervised, _linear, split_of)
