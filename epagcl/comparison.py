"""Methods side by side: the same graph, splits, seeds and classifier, so that rows differ in the method alone."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
from sklearn.base import clone
from torch import Tensor
from torch_geometric.data import Data

from epagcl.data.check import check
from epagcl.data.graph import Graph
from epagcl.errors import InputError, TrainingError
from epagcl.evaluation import Evaluation, linear_evaluation, prediction_evaluation, spread
from epagcl.hardware import resolve_device
from epagcl.methods import method, names
from epagcl.methods.base import Method
from epagcl.randomness import hash64
from epagcl.recipes import recipe
from epagcl.runs import describe, peak_memory_gib, provenance, published_splits, split_of
from epagcl.store import Key, Record, Store, code_version
from epagcl.terminal import Work

log = logging.getLogger("epagcl")

#: The paper's starred rows: no feature masks.
UNMASKED = {"p_mask_1": 0.0, "p_mask_2": 0.0}
STARRED = ("gca", "epagcl")
#: As the paper's Table 2 has them, supervised ones first; users' own methods follow.
ORDER = ["gcn", "gat", "dgi", "gmi", "mvgrl", "grace", "gca*", "gca", "bgrl", "greet", "cca-ssg", "epagcl*", "epagcl"]
RAW, UNTRAINED = "raw features", "untrained encoder"

#: Settings that do not tell results apart: the seeds are counted, and where a model is trained changes no more than
#: rounding does; each record says where it was.
UNSTORED = ("device", "capture", "seed")

Result = dict[str, Any]

#: Epochs × nodes that a GPU trains in some seconds: so many seeds are trained before they are scored together.
BATCH = 2e7


@dataclass(frozen=True)
class Row:
    """A row of the comparison: a method, and settings that hold on every graph; without a method, a reference.

    ``kind`` is the method's class where it is none of those with a name.
    """

    title: str
    method: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    kind: type[Method] | None = None

    @property
    def key(self) -> str:
        """For file names."""
        return self.title.lower().replace("*", "-star").replace(" ", "-")

    def models(self, graph: str | None, seeds: int, settings: dict[str, Any]) -> tuple[list[Method], str | None]:
        """A model for each seed, by the recipe of a named graph or by defaults, and where the settings are from."""
        if self.method is None:
            return [], None
        cls = self.kind or method(self.method)
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


def settings_source(result: Result) -> str:
    """Where a result's settings are from: "published" if they are still those of a published recipe, else "ours"."""
    if result["source"] != "paper":
        return result["source"]
    row, settings, name = result["row"], result["settings"], result["graph"]["name"]
    now = recipe(name, row.lower()) or recipe(name, settings["name"])
    now |= UNMASKED if row.endswith("*") else {}
    return "published" if all(settings[k] == v for k, v in now.items() if k != "source") else "ours"


def protocols_of(data: Data, wanted: Sequence[str]) -> list[str]:
    """Those of the protocols that the graph has splits for."""
    has_public = "train_mask" in data or "geom_train_mask" in data
    return [protocol for protocol in wanted if protocol != "public" or has_public]


@dataclass(frozen=True, eq=False)
class Cell:
    """A row on a graph: models of the seeds 0, 1, ..., each scored by the protocols on the split of its seed.

    Attributes:
        data: the graph, with labels.
        about: its description, and its fingerprint.
        row: what to train.
        seeds: how many.
        protocols: of strict, paper, public.
        settings: in place of the recipe's, such as ``epochs`` and ``device``.
        named: whether it is the named graph; a user's own file that is called alike has no recipe and no published
            figures.
    """

    data: Data
    about: dict[str, Any]
    row: Row
    seeds: int
    protocols: list[str]
    settings: dict[str, Any]
    named: bool = True

    @property
    def name(self) -> str:
        """What the graph is called."""
        return self.about["name"]

    @cached_property
    def models(self) -> list[Method]:
        """A model for each seed; none for a reference that is not trained."""
        return self._made[0]

    @cached_property
    def source(self) -> str | None:
        """Where the settings are from."""
        return self._made[1]

    @cached_property
    def _made(self) -> tuple[list[Method], str | None]:
        return self.row.models(self.name if self.named else None, self.seeds, self.settings)

    @cached_property
    def resolved(self) -> dict[str, Any]:
        """The settings that tell results apart."""
        settings = self.models[0].settings() if self.models else {}
        return {key: value for key, value in settings.items() if key not in UNSTORED}

    def key(self, seed: int) -> Key:
        """Under which a run is kept: all that its result depends on."""
        kinds = [type(self.models[0])] if self.models else []
        return {
            "what": self.row.method or "raw-features",
            "class": kinds[0].__qualname__ if kinds else None,
            "graph": {"name": self.name, "fingerprint": self.about["fingerprint"]},
            "settings": self.resolved,
            "seed": seed,
            "code": code_version(*kinds, _score, _each, _supervised, _linear, split_of),
        }

    def missing(self, store: Store) -> list[int]:
        """Seeds that the store does not hold by all protocols."""
        wanted = set(self.protocols)
        records = ((seed, store.read(self.key(seed))) for seed in range(self.seeds))
        return [seed for seed, record in records if record is None or not wanted <= set(record["protocols"])]

    @property
    def cost(self) -> float:
        """Of one seed, roughly: epochs × size of the graph, with what small graphs and short trainings cost anyway."""
        epochs = self.models[0].epochs if self.models else 0
        return (epochs + 50) * (self.about["nodes"] + self.about["edges"] + 5000)

    @property
    def at_once(self) -> int:
        """Seeds to train before their scores are computed together: on a GPU one batch costs little more than one."""
        if not self.models or self.models[0].epochs == 0:
            return self.seeds
        if resolve_device(self.models[0].device).type != "cuda":
            return 1
        return max(1, int(BATCH / (self.models[0].epochs * self.about["nodes"])))


def cells(
    data: Data,
    name: str,
    wanted: Iterable[Row],
    *,
    seeds: int = 5,
    protocols: Sequence[str] = ("strict", "paper"),
    settings: dict[str, Any] | None = None,
    named: bool = True,
) -> list[Cell]:
    """These rows on one graph; the arguments are :class:`Cell`'s. What is wrong with a setting is said here."""
    about = {**describe(data, name), "fingerprint": fingerprint(data)}
    made = [Cell(data, about, row, seeds, protocols_of(data, protocols), settings or {}, named) for row in wanted]
    for cell in made:
        assert len(cell.models) in (0, seeds)
    return made


def fill(wanted: Sequence[Cell], store: Store, work: Work | None = None) -> None:
    """Train and score what the store lacks of these cells.

    Seeds are kept as soon as they are scored, on a GPU some at a time, so that an interrupted table goes on where it
    stopped; a training that fails is left out. Other processes may fill the same store, and what one of them is at is
    passed over until it is done.
    """
    work = work or Work()
    left = [(cell, cell.missing(store)) for cell in wanted]
    work.plan([cell.cost for cell, seeds in left for _ in seeds])
    while left:
        busy = [(cell, seeds) for cell, seeds in left if not _fill(cell, seeds, store, work)]
        if len(busy) == len(left):
            time.sleep(0.5)  # others are at all that is left
        left = busy


def _fill(cell: Cell, left: list[int], store: Store, work: Work) -> bool:
    """Compute what no other process is computing; whether the cell is complete. ``left`` loses what is done."""
    while left:
        still = cell.missing(store)
        work.drop([cell.cost for seed in left if seed not in still])
        left[:] = [seed for seed in left if seed in still]  # one that has failed here does not come back
        with store.claim([cell.key(seed) for seed in left], most=cell.at_once) as mine:
            unmade = set(cell.missing(store))  # it may have been written between the look and the claim
            seeds = [seed for seed in (key["seed"] for key in mine) if seed in unmade]
            if not mine:
                return not left
            if seeds:
                start = time.monotonic()
                for seed, record in _score(cell, seeds, store, work).items():
                    store.write(cell.key(seed), record)
                left[:] = [seed for seed in left if seed not in seeds]
                work.finish([cell.cost] * len(seeds), time.monotonic() - start)
    return True


def collect(cell: Cell, store: Store) -> Result | None:
    """What the store holds of a cell, its seeds side by side; None if it holds none."""
    records = {seed: store.read(cell.key(seed)) for seed in range(cell.seeds)}
    found: dict[int, Record] = {seed: record for seed, record in records.items() if record is not None}
    protocols = {
        p: _merged(found, p) for p in cell.protocols if any(p in record["protocols"] for record in found.values())
    }
    if not protocols:
        return None
    trained = [record["training"] for record in found.values() if record["training"] is not None]
    return {
        "row": cell.row.title,
        "graph": cell.about,
        "named": cell.named,
        "source": cell.source,
        "settings": cell.resolved,
        "seeds": list(found),
        "code": cell.key(0)["code"],
        "hardware": sorted({record["hardware"]["device"] for record in found.values()}),
        "dates": sorted({record["date"][:10] for record in found.values()}),
        "commits": sorted({record["commit"] or "unknown" for record in found.values()}),
        "training": {key: [one[key] for one in trained] for key in trained[0]} if trained else None,
        "protocols": protocols,
    }


def _merged(records: dict[int, Record], protocol: str) -> dict[str, Any]:
    scores = {
        seed: record["protocols"][protocol] for seed, record in records.items() if protocol in record["protocols"]
    }
    return {
        "protocol": protocol,
        "split": next(iter(scores.values()))["split"],
        "seeds": list(scores),
        "accuracy": spread([score["accuracy"] for score in scores.values()]),
        "macro_f1": spread([score["macro_f1"] for score in scores.values()]),
    }


def fingerprint(data: Data) -> str:
    """Of the graph and its labels."""
    labels = int(hash64(data.y.cpu().long().flatten() * 2**32 + torch.arange(data.num_nodes)).sum()) % 2**64
    return f"{Graph.from_data(check(data, quiet=True)).fingerprint}-{labels:016x}"


def _score(cell: Cell, seeds: list[int], store: Store, work: Work) -> dict[int, Record]:
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
    cell: Cell, seeds: list[int], training: dict[int, dict[str, Any]], train: Callable[[Method], Any]
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


def _fit(model: Method, cell: Cell, work: Work, **options: Any) -> Method:
    with work.training(model, cell.name) as callback:
        return model.fit(cell.data, callback=callback, **options)


def _supervised(cell: Cell, kind: str, work: Work, model: Method) -> dict[str, Any]:
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
