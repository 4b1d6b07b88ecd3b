"""An artefact of the paper: how it is measured, and how its tables, figures and text are made from the result."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epagcl.core.errors import InputError, MissingExtra, MissingFeatures
from epagcl.core.files import atomic_path, write_json
from epagcl.core.log import log
from epagcl.core.progress import Progress, SilentProgress
from epagcl.data import load
from epagcl.paper import drawing
from epagcl.paper.tables import Table, comma_separated, latex, markdown
from epagcl.runs.record import provenance
from epagcl.study.comparison import collect, fill
from epagcl.study.design import Cell, Row, cells, protocols_of
from epagcl.study.jobs import Job, fill_jobs
from epagcl.study.store import Record, Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch_geometric.data import Data

#: What an artefact measures, as plain JSON values.
Result = dict[str, Any]
#: The parts of a result that hold what was measured on graphs.
MEASURED = ("cells", "rows", "graphs", "comparisons")


@dataclass(frozen=True)
class Request:
    """The options of a measurement.

    Attributes:
        datasets: names of graphs.
        methods: names of methods; a trailing ``*`` means no feature masks.
        runs: number of runs, with the seeds 0, 1, ...
        protocols: some of strict, paper and public.
        store: the store of single runs.
        settings: settings that replace those of the recipes, such as ``epochs``, and ``device``.
        root: folder of the named graphs; None for the default folder.
        work: receives the progress.
        train: whether missing runs are computed. If False, only stored runs are used.
        loaded: what :func:`load_all` returned for these graphs and perhaps others; None: the graphs are loaded when
            they are needed.
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
    loaded: "Mapping[str, Data | str] | None" = None

    @property
    def device(self) -> str:
        """The device to compute on."""
        return str(self.settings.get("device", "auto"))

    @cached_property
    def graphs(self) -> "dict[str, Data]":
        """The graphs by name, without :attr:`absent` ones."""
        loaded = self._loaded.items()
        return {name: data for name, data in loaded if not isinstance(data, str) and name not in self.absent}

    @cached_property
    def absent(self) -> dict[str, str]:
        """The reason for each requested graph that is missing or has no splits for any of the protocols."""
        reasons = {name: data for name, data in self._loaded.items() if isinstance(data, str)}
        for name, data in self._loaded.items():
            if not isinstance(data, str) and self.protocols and not protocols_of(data, self.protocols):
                reasons[name] = "there are no published splits"
        return reasons

    def cells(
        self, rows_for: "Callable[[str, Data], Iterable[Row]]", most: "Callable[[str], int] | None" = None
    ) -> list[Cell]:
        """Return the cells of each graph.

        Args:
            rows_for: returns the rows for a graph's name and data.
            most: returns the largest number of seeds for a graph's name.
        """
        found = []
        for name, data in self.graphs.items():
            seeds = self.runs if most is None else min(self.runs, most(name))
            options: dict[str, Any] = {"protocols": self.protocols, "settings": self.settings}
            found += cells(data, name, rows_for(name, data), seeds=seeds, **options)
        return found

    def runs_of(self, wanted: list[Cell]) -> Result:
        """Train and score the runs that the store lacks. Return all results, and the reasons for absent graphs."""
        if self.train:
            fill(wanted, self.store, self.work)
        collected = (collect(cell, self.store) for cell in wanted)
        results = [result for result in collected if result is not None]
        if wanted:
            self.require(results)
        return {"cells": results, "absent": self.absent}

    def require(self, results: Collection[Any]) -> None:
        """Raise if only stored results may be used and there are none, so that no empty files are written."""
        if not self.train and not results:
            raise InputError(f"{self.store.folder}: no stored results for this request; compute them first")

    def records_of(self, jobs: Sequence[Job], left_out: tuple[type[Exception], ...] = ()) -> list[Record | None]:
        """Return the stored record of each job, after computing those that the store lacks if ``train`` is set.

        Args:
            jobs: the jobs.
            left_out: errors of a job that do not stop the others; see :func:`~epagcl.study.jobs.fill_jobs`.
        """
        if self.train:
            fill_jobs(jobs, self.store, self.work, left_out)
        return [job.record(self.store) for job in jobs]

    @cached_property
    def _loaded(self) -> "dict[str, Data | str]":
        if self.loaded is None:
            return load_all(self.datasets, self.root)
        return {name: self.loaded[name] for name in map(proper_name, self.datasets)}


def proper_name(name: str) -> str:
    """Return the name of a named graph as the catalogue spells it. Raise if there is none.

    Examples:
        >>> proper_name("amazon-photo")
        'Amazon-Photo'
    """
    from epagcl.data.catalogue.entries import find

    return find(name).name


def load_all(names: Sequence[str], root: Path | None, features: bool = True) -> "dict[str, Data | str]":
    """Load graphs, by their proper names. The value of a graph that cannot be loaded is the reason."""
    loaded: dict[str, Data | str] = {}
    for name in names:
        proper = proper_name(name)  # an unknown name is an error, not an absent graph
        try:
            loaded[proper] = load(name, root, features=features)
        except (InputError, MissingExtra) as error:
            log.warning("%s: skipped (%s)", proper, error)
            loaded[proper] = "features are absent" if isinstance(error, MissingFeatures) else "data are absent"
    return loaded


@dataclass(frozen=True)
class Artefact:
    """An experiment: how it is measured, and the tables, figures and text made from its result.

    Tables, figures and text depend only on the result of ``measure``, so that its JSON file is enough to make them.

    Attributes:
        name: the name in :data:`epagcl.paper.ARTEFACTS`.
        title: the heading of its section on the page.
        datasets: graphs that are measured by default.
        measure: returns the result as plain JSON values.
        tables: returns the tables of a result.
        figures: returns the figures of a result by slug.
        reading: returns paragraphs that say which claims hold.
        cells: returns the runs that are needed, so that the runs of several artefacts can be computed together.
        methods: methods that are measured by default; empty for all.
        runs: number of runs by default.
        protocols: protocols by default.
        captions: what the figures show, by slug.
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
    captions: Mapping[str, str] = field(default_factory=dict)

    def make(self, request: Request, command: str) -> Result:
        """Measure, and add the options, the command, the date, the hardware and the versions.

        Raise if there is nothing to measure, so that no empty result replaces an earlier one.
        """
        asked = {
            "datasets": list(request.datasets),
            "methods": list(request.methods),
            "runs": request.runs,
            "seeds": list(range(request.runs)),
            "protocols": list(request.protocols),
            "settings": {key: value for key, value in request.settings.items() if key != "device"},
        }
        measured = self.measure(request)
        parts = [measured[part] for part in MEASURED if part in measured]
        if parts and not any(parts):
            absent = "; ".join(f"{name}: {reason}" for name, reason in measured.get("absent", {}).items())
            wanted = absent or f"this experiment has nothing on {', '.join(request.datasets)}"
            raise InputError(
                f"nothing was measured ({wanted}); choose other graphs, or set root= to the folder of their files"
            )
        about = {"artefact": self.name, "command": command, **provenance(request.device), "asked": asked}
        result: Result = json.loads(json.dumps({**about, **measured}))
        return result

    def write(self, result: Result, folder: Path) -> list[Path]:
        """Write ``<name>.json``, ``.md``, ``.tex``, a CSV per table, an SVG and a PNG per figure. Return the paths."""
        folder.mkdir(parents=True, exist_ok=True)
        tables = self.tables(result)
        write_json(result, folder / f"{self.name}.json")
        texts = {
            f"{self.name}.md": "\n".join(markdown(table) for table in tables),
            f"{self.name}.tex": "\n".join(latex(table) for table in tables),
            **{f"{self.stem(table.slug)}.csv": comma_separated(table) for table in (*tables, *run_tables(result))},
        }
        for name, text in texts.items():
            with atomic_path(folder / name) as temporary:
                temporary.write_text(text, encoding="utf-8")
        return [folder / f"{self.name}.json", *(folder / name for name in texts), *self.draw(result, folder)]

    def draw(self, result: Result, folder: Path) -> list[Path]:
        """Write the figures, each with the digest of its result in the metadata, and return the paths."""
        written = []
        for slug, figure in self.figures(result).items():
            written += drawing.save(figure, folder / self.stem(slug), digest(result))
        return written

    def stem(self, slug: str) -> str:
        """Return the file name of a table or figure without its suffix."""
        return f"{self.name}-{slug}" if slug else self.name


def run_tables(result: Result) -> list[Table]:
    """Return a table with one line per run, for CSV; empty for a result that is not made of runs."""
    lines = [
        [cell["row"], cell["graph"]["name"], protocol, str(seed), f"{accuracy:.6f}"]
        for cell in result.get("cells", [])
        for protocol, scores in cell.get("protocols", {}).items()
        for seed, accuracy in zip(scores["seeds"], scores["accuracy"]["runs"], strict=True)
    ]
    columns = ["row", "graph", "protocol", "seed", "accuracy"]
    return [Table("runs", "Single runs", columns, lines)] if lines else []


def digest(result: Result) -> str:
    """Return a short SHA-256 of a result."""
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()[:16]
