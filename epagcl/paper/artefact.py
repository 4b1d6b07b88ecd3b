"""What an artefact of the paper is: how it is measured, and how a measurement becomes tables, figures and words."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epagcl.core.errors import InputError
from epagcl.core.files import write_json
from epagcl.core.log import log
from epagcl.core.progress import Progress, SilentProgress
from epagcl.data import load
from epagcl.paper import drawing
from epagcl.paper.tables import Table, comma_separated, latex, markdown
from epagcl.runs.provenance import provenance
from epagcl.study.cells import Cell, Row, cells, protocols_of
from epagcl.study.comparison import collect, fill
from epagcl.study.store import Key, Record, Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch_geometric.data import Data


Result = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """What is asked of an artefact.

    Attributes:
        datasets: names of graphs.
        methods: names of methods, as ``epagcl compare`` takes them.
        runs: seeds 0, 1, ...
        protocols: of strict, paper, public.
        settings: in place of the recipes', such as ``epochs``; ``device`` too.
        root: folder of named graphs.
        store: where single runs are kept.
        work: shows progress and time left.
        train: False: only what the store holds.
    """

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    runs: int
    protocols: tuple[str, ...]
    store: Store
    settings: dict[str, Any] = field(default_factory=dict)
    root: Path | None = None
    work: Progress = field(default_factory=SilentProgress)
    train: bool = True

    @property
    def device(self) -> str:
        """Where to compute."""
        return self.settings.get("device", "auto")

    @cached_property
    def graphs(self) -> "dict[str, Data]":
        """The graphs that are at hand and have splits for some protocol, by their proper names."""
        return {name: data for name, data in self._loaded.items() if name not in self.absent}

    @cached_property
    def absent(self) -> dict[str, str]:
        """Why the others are left out."""
        reasons = {name: data for name, data in self._loaded.items() if isinstance(data, str)}
        for name, data in self._loaded.items():
            if name not in reasons and self.protocols and not protocols_of(data, self.protocols):
                reasons[name] = "there are no published splits"
        return reasons

    def cells(self, wanted: "Callable[[Data], Iterable[Row]]") -> list[Cell]:
        """The rows that are wanted on each graph at hand."""
        options = {"seeds": self.runs, "protocols": self.protocols, "settings": self.settings}
        return [cell for name, data in self.graphs.items() for cell in cells(data, name, wanted(data), **options)]

    def runs_of(self, wanted: list[Cell]) -> Result:
        """Train and score what the store lacks, and give all of it; with the graphs that are absent, and why."""
        if self.train:
            fill(wanted, self.store, self.work)
        found = (collect(cell, self.store) for cell in wanted)
        kept = [result for result in found if result is not None]
        if wanted:
            self.require(kept)
        return {"cells": kept, "absent": self.absent}

    def require(self, found: Any) -> None:
        """Raise if nothing was found where nothing is to be computed: no empty files in place of a result."""
        if not self.train and not found:
            raise InputError(f"{self.store.folder}: holds nothing of what is asked; leave out --stored to compute it")

    def keep(self, key: Key, compute: Callable[[], Record], cost: float) -> Record | None:
        """What the store has under a key, else what is computed; None if nothing is to be computed."""
        record, start = self.store.read(key), time.perf_counter()
        if not self.train:
            return record
        if record is not None:
            self.work.drop([cost])
            return record
        record = self.store.remember(key, compute)
        self.work.finish([cost], time.perf_counter() - start)
        return record

    @cached_property
    def _loaded(self) -> "dict[str, Data | str]":
        return load_all(self.datasets, self.root)


def load_all(names: tuple[str, ...], root: Path | None, features: bool = True) -> "dict[str, Data | str]":
    """Graphs by their proper names; in place of one that cannot be had, the reason."""
    from epagcl.data.catalogue.entries import find

    loaded: dict[str, Data | str] = {}
    for name in names:
        proper = find(name).name  # a name that is no graph's is the user's mistake, not an absent graph
        try:
            loaded[proper] = load(name, root, features=features)
        except InputError as error:
            log.warning("%s: left out (%s)", proper, error)
            loaded[proper] = "features are absent" if "no features" in str(error) else "data are absent"
    return loaded


@dataclass(frozen=True)
class Artefact:
    """One table or figure of the paper.

    ``measure`` gives plain numbers, text, lists and dictionaries; ``tables``, ``figures`` (by slug) and ``reading``
    (paragraphs that say what holds and what does not) are made from those alone, so that a page can be made again from
    a file. ``cells`` are the runs that it needs, so that those of several artefacts can be made together.
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    measure: Callable[[Request], Result]
    tables: Callable[[Result], list[Table]]
    figures: "Callable[[Result], dict[str, Figure]]"
    reading: Callable[[Result], list[str]]
    cells: Callable[[Request], list[Cell]] = field(default=lambda _: [])
    methods: tuple[str, ...] = ()
    runs: int = 5
    protocols: tuple[str, ...] = ("strict", "paper")

    def make(self, request: Request, command: str) -> Result:
        """Measure, and say when, on what and by which command."""
        asked = {
            "datasets": list(request.datasets),
            "methods": list(request.methods),
            "runs": request.runs,
            "seeds": list(range(request.runs)),
            "protocols": list(request.protocols),
            "settings": {key: value for key, value in request.settings.items() if key != "device"},
        }
        measured = self.measure(request)
        made = {"artefact": self.name, "command": command, **provenance(request.device), "asked": asked}
        return json.loads(json.dumps({**made, **measured}))

    def write(self, result: Result, folder: Path) -> list[Path]:
        """All in files: ``<name>.json``, ``.md``, ``.tex``, a CSV for each table, SVG and PNG for each figure."""
        folder.mkdir(parents=True, exist_ok=True)
        tables = self.tables(result)
        write_json(result, folder / f"{self.name}.json")
        texts = {
            f"{self.name}.md": "\n".join(markdown(table) for table in tables),
            f"{self.name}.tex": "\n".join(latex(table) for table in tables),
            **{f"{self.stem(table.slug)}.csv": comma_separated(table) for table in (*tables, *run_tables(result))},
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        return [folder / f"{self.name}.json", *(folder / name for name in texts), *self.draw(result, folder)]

    def draw(self, result: Result, folder: Path) -> list[Path]:
        """The figures alone, each marked with the digest of the result it was drawn from."""
        written = []
        for slug, figure in self.figures(result).items():
            written += drawing.save(figure, folder / self.stem(slug), digest(result))
        return written

    def stem(self, slug: str) -> str:
        """File name of a table or figure, without its suffix."""
        return f"{self.name}-{slug}" if slug else self.name


def run_tables(result: Result) -> list[Table]:
    """For programs: every single run of a result that is made of runs, a line each."""
    lines = [
        [cell["row"], cell["graph"]["name"], protocol, str(seed), f"{accuracy:.6f}"]
        for cell in result.get("cells", [])
        for protocol, scores in cell.get("protocols", {}).items()
        for seed, accuracy in zip(scores["seeds"], scores["accuracy"]["runs"], strict=True)
    ]
    columns = ["row", "graph", "protocol", "seed", "accuracy"]
    return [Table("runs", "Single runs", columns, lines)] if lines else []


def digest(result: Result) -> str:
    """Tells results apart."""
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()[:16]
