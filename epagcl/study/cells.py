"""Methods side by side: the same graph, splits, seeds and classifier, so that rows differ in the method alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch_geometric.data import Data

from epagcl.core.config import current_settings
from epagcl.core.errors import InputError
from epagcl.core.hardware import resolve_device
from epagcl.core.hashing import hash64
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.methods import method, names
from epagcl.methods.base import Method
from epagcl.methods.recipes import recipe
from epagcl.runs.provenance import describe
from epagcl.study.code_version import code_version
from epagcl.study.scoring import SCORED_BY
from epagcl.study.store import Key, Store

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
    row, settings, name = result["row"], current_settings(result["settings"]), result["graph"]["name"]
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
            "code": code_version(*kinds, *SCORED_BY),
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
    def seeds_per_batch(self) -> int:
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


def fingerprint(data: Data) -> str:
    """Of the graph and its labels."""
    labels = int(hash64(data.y.cpu().long().flatten() * 2**32 + torch.arange(data.num_nodes)).sum()) % 2**64
    return f"{Graph.from_data(check(data, quiet=True)).fingerprint}-{labels:016x}"
