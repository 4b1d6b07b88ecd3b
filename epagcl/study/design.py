"""The cells of a comparison: a row (a method and its settings) on a graph, for seeds 0, 1, ... and some protocols.

All rows of a graph share its splits, seeds and classifier, so that they differ in the method only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch_geometric.data import Data

from epagcl.core.checks import check_whole
from epagcl.core.config import current_settings
from epagcl.core.errors import InputError
from epagcl.core.hardware import resolve_device
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.data.identity import label_digest, split_digest
from epagcl.methods import method, names
from epagcl.methods.base import Method
from epagcl.methods.propagated import Propagated
from epagcl.methods.recipes import recipe
from epagcl.runs.evaluation import PROPAGATED, RAW, UNTRAINED
from epagcl.runs.record import describe
from epagcl.study.code_version import code_version
from epagcl.study.scoring import SEED_RECORD, scored_by
from epagcl.study.store import Key, Store, holding

#: Settings of the paper's starred rows: no feature masks.
UNMASKED = {"p_mask_1": 0.0, "p_mask_2": 0.0}
#: Methods that have a starred row.
STARRED = ("gca", "epagcl")
#: The order of the paper's Table 2, supervised methods first. Users' own methods follow.
ORDER = ["gcn", "gat", "dgi", "gmi", "mvgrl", "grace", "gca*", "gca", "bgrl", "greet", "cca-ssg", "epagcl*", "epagcl"]
#: Settings that are not part of a key. Seeds are stored one by one. The device and the capture of epochs change a
#: result by the rounding of the device's precision only (fp32, tf32, bf16), and each record names its hardware.
UNSTORED = ("device", "capture", "seed")
#: What precedes the title of a method in that of its own untrained encoder.
UNTRAINED_PREFIX = "untrained "
#: A GPU trains seeds for about this many seconds, and then scores them together.
BATCH_SECONDS = 10.0


@dataclass(frozen=True)
class Row:
    """A row of the comparison: a method with settings that hold on every graph, or the raw features.

    Attributes:
        title: name of the row.
        method: name of the method; None: the raw features, without training.
        settings: settings that take precedence over all others.
        kind: class of the method if it is not registered under ``method``.
        reference: whether the row is there for comparison only.
        recipe: title of the row whose recipe is used; empty: that of the row itself.

    Examples:
        >>> Row("GCA*", "gca", {"p_mask_1": 0.0, "p_mask_2": 0.0}).key
        'gca-star'
    """

    title: str
    method: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    kind: type[Method] | None = None
    reference: bool = False
    recipe: str = ""

    @property
    def key(self) -> str:
        """The title as a file name."""
        return self.title.lower().replace("*", "-star").replace(" ", "-")

    def models(self, graph: str | None, seeds: int, settings: dict[str, Any]) -> tuple[list[Method], str | None]:
        """Return a model for each seed, and the source of their settings.

        Args:
            graph: name of the graph, whose recipe is used; None: the method's defaults.
            seeds: number of models.
            settings: take precedence over the recipe. Settings that the method does not have are ignored.
        """
        if self.method is None:
            return [], None
        cls = self.kind or method(self.method)
        title = (self.recipe or self.title).lower()
        recipe_settings = {} if graph is None else recipe(graph, title) or recipe(graph, self.method)
        source = recipe_settings.pop("source", "defaults")
        setting_names = {field.name for field in cls.setting_fields()}
        own = {name: value for name, value in current_settings(settings).items() if name in setting_names}
        if any(value != recipe_settings.get(name) for name, value in own.items() if name not in ("device", "capture")):
            source = "ours"
        return [cls(**{**recipe_settings, **own, **self.settings}, seed=seed) for seed in range(seeds)], source


def rows(wanted: Sequence[str] = (), *, untrained: bool = False) -> list[Row]:
    """Return the rows of a comparison: raw features, the untrained encoder, propagated features, then methods.

    Args:
        wanted: names of methods; ``gca*`` is GCA without feature masks. Empty: all methods.
        untrained: include the own untrained encoder of each self-supervised method, in place of EPAGCL's.

    Examples:
        >>> [row.title for row in rows(["grace", "gca*"])]
        ['raw features', 'untrained encoder', 'propagated', 'GRACE', 'GCA*']
        >>> [row.title for row in rows(["mvgrl"], untrained=True)]
        ['raw features', 'untrained MVGRL', 'propagated', 'MVGRL']
    """
    others = [name for name in names() if name not in (*ORDER, Propagated.name)]
    chosen = [_method_row(name) for name in wanted or [*ORDER, *others]]
    without_training = [Row(UNTRAINED, "epagcl", {"epochs": 0}, reference=True)]
    if untrained:
        classes = dict.fromkeys(method(row.method) for row in chosen if row.method is not None)
        without_training = [
            Row(UNTRAINED_PREFIX + cls.title, cls.name, {"epochs": 0}, reference=True)
            for cls in classes
            if cls.trained and not cls.supervised
        ]
    # The reference keeps its α if another method's is set. As one of the wanted methods it takes any setting.
    propagated = Row(PROPAGATED, Propagated.name, {"alpha": Propagated().alpha}, reference=True)
    propagated = next((row for row in chosen if row.method == Propagated.name), propagated)
    methods = [row for row in chosen if row is not propagated]
    return [Row(RAW, reference=True), *without_training, propagated, *methods]


def _method_row(name: str) -> Row:
    """Return the row of a method by its name, with a star for the method without feature masks."""
    cls = method(name.removesuffix("*"))
    star = "*" if name.endswith("*") else ""
    if star and cls.name not in STARRED:
        starred = " and ".join(f"{key}*" for key in STARRED)
        raise InputError(f"no method {name!r}; the methods without feature masks are {starred}")
    return Row(cls.title + star, cls.name, UNMASKED if star else {})


def settings_source(result: Mapping[str, Any]) -> str:
    """Return where the settings of a result come from: "published", "ours" or "defaults".

    Settings are published as long as they equal those of the published recipe.

    Args:
        result: as :func:`~epagcl.study.collect` returns it, or as an earlier version wrote it.

    Examples:
        >>> settings_source({"source": "defaults"})
        'defaults'
    """
    if result["source"] != "paper":
        return str(result["source"])
    row, settings, graph = result["row"], current_settings(result["settings"]), result["graph"]["name"]
    published = recipe(graph, row.lower()) or recipe(graph, settings.get("name", ""))
    published |= UNMASKED if row.endswith("*") else {}
    # Earlier records lack some settings.
    unchanged = all(settings.get(name, value) == value for name, value in published.items() if name != "source")
    return "published" if unchanged else "ours"


def is_trained(title: str) -> bool:
    """Return whether a row is a trained method rather than features or an encoder with its initial weights.

    Examples:
        >>> [is_trained(title) for title in ("GRACE", "untrained GRACE", "raw features", "propagated")]
        [True, False, False, False]
    """
    return not title.startswith((UNTRAINED_PREFIX, RAW, PROPAGATED))


def protocols_of(data: Data, wanted: Sequence[str]) -> list[str]:
    """Return the protocols that a graph has splits for.

    Examples:
        >>> from epagcl.data import block_model
        >>> protocols_of(block_model(60), ["strict", "paper", "public"])
        ['strict', 'paper']
    """
    has_public = "train_mask" in data or "geom_train_mask" in data
    return [protocol for protocol in wanted if protocol != "public" or has_public]


@dataclass(frozen=True, eq=False)
class Cell:
    """A row on a graph: models of the seeds 0, 1, ..., each scored by the protocols on the split of its seed.

    Attributes:
        data: the graph, with labels.
        about: its description and its fingerprint.
        row: the method and its settings.
        seeds: number of seeds.
        protocols: some of strict, paper, public.
        settings: take precedence over the recipe's, such as ``epochs`` and ``device``.
        named: whether the graph is the named graph. A user's graph of the same name has no recipe and no published
            figures.
        known: seeds whose results are stored elsewhere, and which are not computed again.

    Examples:
        >>> from epagcl.data import block_model
        >>> [cell] = cells(block_model(60), "demo", rows(["grace"])[3:], seeds=2, settings={"epochs": 5})
        >>> cell.row.title, [model.seed for model in cell.models], cell.models[0].epochs
        ('GRACE', [0, 1], 5)
    """

    data: Data
    about: dict[str, Any]
    row: Row
    seeds: int
    protocols: list[str]
    settings: dict[str, Any]
    named: bool = True
    known: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """Name of the graph."""
        return str(self.about["name"])

    @property
    def title(self) -> str:
        """Title of the row."""
        return self.row.title

    @property
    def models(self) -> list[Method]:
        """A model for each seed; empty for the raw features."""
        return self._models_and_source[0]

    @property
    def source(self) -> str | None:
        """Where the settings come from: a recipe's source, "defaults" or "ours"."""
        return self._models_and_source[1]

    @cached_property
    def _models_and_source(self) -> tuple[list[Method], str | None]:
        return self.row.models(self.name if self.named else None, self.seeds, self.settings)

    @cached_property
    def resolved(self) -> dict[str, Any]:
        """The settings that are part of the key."""
        settings = self.models[0].settings() if self.models else {}
        return {name: value for name, value in settings.items() if name not in UNSTORED}

    def key(self, seed: int) -> Key:
        """Return the key of a seed's record: everything that its result depends on."""
        classes = [type(self.models[0])] if self.models else []
        return {
            "what": self.row.method or "raw-features",
            "class": classes[0].__qualname__ if classes else None,
            "graph": {"name": self.name, "fingerprint": self.about["fingerprint"]},
            "settings": self.resolved,
            "seed": seed,
            "code": code_version(*classes, *scored_by()),
        }

    def missing(self, store: Store) -> list[int]:
        """Return the seeds whose stored results are missing, are damaged or lack a protocol."""
        wanted, store = set(self.protocols), holding(store, SEED_RECORD)
        records = ((seed, store.read(self.key(seed))) for seed in range(self.seeds) if seed not in self.known)
        return [seed for seed, record in records if record is None or not wanted <= set(record["protocols"])]

    @property
    def cost(self) -> float:
        """Expected cost of one seed: epochs × size of the graph, each with a constant for its overhead."""
        epochs = self.models[0].epochs if self.models else 0
        return expected_cost(epochs, self.about["nodes"], self.about["edges"])

    def seeds_per_batch(self, seconds: float | None) -> int:
        """Return how many seeds to train before their scores are computed together, which is cheap on a GPU.

        An interruption loses the seeds of a batch, and other processes wait for them. A batch is therefore short.

        Args:
            seconds: the measured time of a seed; None before the first one.
        """
        if not self.models or self.models[0].epochs == 0:
            return self.seeds
        if seconds is None or resolve_device(self.models[0].device).type != "cuda":
            return 1
        return max(1, int(BATCH_SECONDS / max(seconds, 1e-3)))


def expected_cost(epochs: float, nodes: int, edges: int) -> float:
    """Return the expected cost of training a model, in units that are the same for all graphs.

    Examples:
        >>> expected_cost(150, nodes=3000, edges=2000) / expected_cost(50, nodes=3000, edges=2000)
        2.0
    """
    return float((epochs + 50) * (nodes + edges + 5000))


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
    """Return the cells of some rows on one graph. Raise if an argument is wrong, before anything is trained.

    Args:
        data: the graph, with labels.
        name: its name.
        wanted: the rows.
        seeds: number of models of each row.
        protocols: some of strict, paper, public; those without splits are left out.
        settings: take precedence over the recipes'.
        named: whether it is the named graph; see :class:`Cell`.

    Examples:
        >>> from epagcl.data import block_model
        >>> [cell.row.title for cell in cells(block_model(60), "demo", rows(["grace"]))]
        ['raw features', 'untrained encoder', 'propagated', 'GRACE']
    """
    seeds = check_whole(seeds, "seeds", least=1)
    if data.y is None:
        raise InputError(f"{name}: no labels, by which methods are compared; set data.y")
    about = {**describe(data, name), "fingerprint": fingerprint(data)}
    result = []
    for row in wanted:
        row.models(name if named else None, 1, settings or {})  # raises if a setting is wrong
        result.append(Cell(data, about, row, seeds, protocols_of(data, protocols), settings or {}, named))
    return result


def fingerprint(data: Data) -> str:
    """Return a digest of a graph, its labels and its published splits.

    Published splits count because the protocol ``public`` scores on them. A graph without them has no such part.

    Examples:
        >>> from epagcl.data import block_model
        >>> fingerprint(block_model(60)) == fingerprint(block_model(60, seed=1))
        False
    """
    parts = [Graph.from_data(check(data, quiet=True)).fingerprint, label_digest(data.y), split_digest(data)]
    return "-".join(part for part in parts if part is not None)
