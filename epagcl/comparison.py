"""Methods side by side: the same graph, splits, seeds and classifier, so that rows differ in the method alone."""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl import __version__
from epagcl.data.check import check
from epagcl.data.graph import Graph
from epagcl.data.splits import Split
from epagcl.errors import InputError
from epagcl.evaluation import linear_evaluation, prediction_evaluation
from epagcl.hardware import resolve_device
from epagcl.methods import method, names
from epagcl.methods.base import Method
from epagcl.randomness import hash64
from epagcl.recipes import recipe
from epagcl.runs import describe, merge, peak_memory_gib, provenance, published_splits, split_of, write_json
from epagcl.training import Callback

#: The paper's starred rows: no feature masks.
UNMASKED = {"p_mask_1": 0.0, "p_mask_2": 0.0}
STARRED = ("gca", "epagcl")
#: As the paper's Table 2 has them, supervised ones first; users' own methods follow.
ORDER = ["gcn", "gat", "dgi", "gmi", "mvgrl", "grace", "gca*", "gca", "bgrl", "greet", "cca-ssg", "epagcl*", "epagcl"]
RAW, UNTRAINED = "raw features", "untrained encoder"

#: Settings that do not tell results apart: the seeds are counted, and where a model is trained changes nothing.
UNSTORED = ("device", "capture", "seed")

Progress = Callable[[Method], AbstractContextManager[Callback]]


@dataclass(frozen=True)
class Row:
    """A row of the comparison: a method, and settings that hold on every graph; without a method, a reference."""

    title: str
    method: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """For file names."""
        return self.title.lower().replace("*", "-star").replace(" ", "-")

    def models(self, graph: str | None, seeds: int, settings: dict[str, Any]) -> tuple[list[Method], str | None]:
        """A model for each seed, by the recipe of a named graph or by defaults, and where the settings are from."""
        if self.method is None:
            return [], None
        cls = method(self.method)
        chosen = {} if graph is None else recipe(graph, self.title.lower()) or recipe(graph, self.method)
        source = chosen.pop("source", "defaults")
        known = {field.name for field in cls.setting_fields()}
        given = {key: value for key, value in settings.items() if key in known}
        if any(value != chosen.get(key) for key, value in given.items() if key not in ("device", "capture")):
            source = "ours"
        return [cls(**{**chosen, **given, **self.settings}, seed=seed) for seed in range(seeds)], source


def rows(wanted: Sequence[str] = ()) -> list[Row]:
    """Raw features, untrained encoder, then the methods of these names (``gca*`` is GCA without masks), or all."""
    own = [name for name in names() if name not in ORDER]
    wanted = wanted or [*ORDER, *own]
    result = [Row(RAW), Row(UNTRAINED, "epagcl", {"epochs": 0})]
    for name in wanted:
        cls = method(name.removesuffix("*"))
        if name.endswith("*") and cls.name not in STARRED:
            starred = " and ".join(f"{key}*" for key in STARRED)
            raise InputError(f"no method {name!r}; without feature masks there are {starred}")
        star = "*" if name.endswith("*") else ""
        result.append(Row(cls.title + star, cls.name, UNMASKED if star else {}))
    return result


def settings_source(name: str, result: dict[str, Any]) -> str:
    """Where a result's settings are from: "published" if they are still those of a published recipe, else "ours"."""
    if result["source"] != "paper":
        return result["source"]
    key = result["key"]
    now = recipe(name, key["row"].lower()) or recipe(name, key["settings"]["name"])
    now |= UNMASKED if key["row"].endswith("*") else {}
    return "published" if all(key["settings"][k] == v for k, v in now.items() if k != "source") else "ours"


def protocols_of(data: Data, wanted: Sequence[str]) -> list[str]:
    """Those of the protocols that the graph has splits for."""
    has_public = "train_mask" in data or "geom_train_mask" in data
    return [protocol for protocol in wanted if protocol != "public" or has_public]


def compare(
    data: Data,
    name: str,
    row: Row,
    folder: Path,
    *,
    seeds: int = 5,
    protocols: Sequence[str] = ("strict", "paper"),
    settings: dict[str, Any] | None = None,
    named: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train and score one row on one graph; a result in the folder that was made the same way is read.

    Seed k's model is scored on split k, at its last epoch; a supervised method is trained on that split.

    Args:
        data: the graph, with labels.
        name: what it is called; recipes are found by it.
        row: what to train.
        folder: where ``<graph>/<row>.json`` is kept.
        seeds: models, from seed 0.
        protocols: strict, paper, public.
        settings: in place of the recipe's, such as ``epochs`` and ``device``.
        named: whether it is the named graph; a user's own file that is called alike has no recipe
            and no published figures.
        progress: gives a method's training a context whose value is called with each epoch's history row.
    """
    models, source = row.models(name if named else None, seeds, settings or {})
    protocols = protocols_of(data, protocols)
    key = {
        "version": __version__,
        "row": row.title,
        "graph": _fingerprint(data),
        "settings": {k: v for k, v in (models[0].settings() if models else {}).items() if k not in UNSTORED},
        "seeds": seeds,
    }
    path = folder / name.lower() / f"{row.key}.json"
    found = _read(path)
    if found.get("key") == key:
        if set(protocols) <= set(found["protocols"]):
            return found
        protocols = [*found["protocols"], *(p for p in protocols if p not in found["protocols"])]
    device = (settings or {}).get("device", "auto")
    where = resolve_device(device)
    if where.type == "cuda":
        torch.cuda.reset_peak_memory_stats(where)
    scores, training = _score(data, models, protocols, seeds, where, progress)
    result = {
        **provenance(device),
        "key": key,
        "graph": describe(data, name),
        "named": named,
        "source": source,
        "training": training,
        "protocols": scores,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(result, path)
    return result


def _fingerprint(data: Data) -> str:
    """Of the graph and its labels."""
    labels = int(hash64(data.y.cpu().long().flatten() * 2**32 + torch.arange(data.num_nodes)).sum()) % 2**64
    return f"{Graph.from_data(check(data, quiet=True)).fingerprint}-{labels:016x}"


def _read(path: Path) -> dict[str, Any]:
    """A result file; nothing if there is none, or none that can be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _score(
    data: Data,
    models: Sequence[Method],
    protocols: Sequence[str],
    seeds: int,
    where: torch.device,
    progress: Progress | None,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Scores by protocol, and what training took."""
    if not models:
        return {p: _linear([data.x.to(where)] * seeds, data, p) for p in protocols}, None
    if models[0].supervised:
        # Strict and the paper's protocol have the same splits: one training serves both.
        kinds = {"public" if p == "public" else "random" for p in protocols}
        by_kind = {
            kind: merge([_supervised(model, data, kind, progress).to_dict() for model in models]) for kind in kinds
        }
        scores = {p: by_kind["public" if p == "public" else "random"] | {"protocol": p} for p in protocols}
    else:
        embeddings = [_fit(model, data, progress).embed(data).to(where) for model in models]
        scores = {p: _linear(embeddings, data, p) for p in protocols}
    histories = [model.history_ for model in models]
    training = {
        "epochs": [len(history) for history in histories],
        "seconds": [history[-1]["seconds"] if history else 0.0 for history in histories],
        "effective_rank": [history[-1]["effective_rank"] if history else None for history in histories],
        "peak_memory_gib": peak_memory_gib(str(where)),
    }
    return scores, training


def _fit(model: Method, data: Data, progress: Progress | None, **options: Any) -> Method:
    if progress is None:
        return model.fit(data, **options)
    with progress(model) as callback:
        return model.fit(data, callback=callback, **options)


def _supervised(model: Method, data: Data, kind: str, progress: Progress | None) -> Any:
    split = split_of(data, kind, model.seed)
    _fit(model, data, progress, split=split)
    return prediction_evaluation(model.predict(data), data.y, split, kind, model.seed)


def _linear(embeddings: list[Tensor], data: Data, protocol: str) -> dict[str, Any]:
    splits: list[Split] | None = None
    if protocol == "public":
        published = published_splits(data)
        splits = [published[k % len(published)] for k in range(len(embeddings))]
    return linear_evaluation(embeddings, data.y, protocol, splits=splits).to_dict()
