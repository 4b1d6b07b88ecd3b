"""The plan of the study: which runs are missing, and what they decide."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from epagcl.core.config import current_settings
from epagcl.core.errors import InputError
from epagcl.core.formatting import suggestion
from epagcl.data.catalogue.entries import find
from epagcl.paper import find_artefact
from epagcl.paper.artefact import Request, Result, load_all, proper_name
from epagcl.paper.leakage import LookedAt, missing_models
from epagcl.paper.page.verdicts import Claim, judged
from epagcl.paper.planning.run_times import estimate
from epagcl.paper.planning.unmeasured import BURDEN, unmeasured
from epagcl.paper.sensitivity import crossed
from epagcl.paper.sensitivity.settings import SEEDS as SWEEP_SEEDS
from epagcl.paper.study_size import GRAPHS, seeds_of
from epagcl.paper.tuned.budget import EPOCHS, FEWEST_OUTER, METHODS, SEEDS, TRIALS, TUNED, outer_sets
from epagcl.paper.tuned.cells import missing_searches, stored_cells
from epagcl.runs.record import describe
from epagcl.study.comparison import CellResult
from epagcl.study.design import Cell, expected_cost, rows
from epagcl.study.paired_test import UNDECIDED
from epagcl.study.store import Store
from epagcl.study.summary import Comparison

COMPARISON = "comparison"
LEAKAGE = "leakage"
SENSITIVITY, CHOICES = "sensitivity", "choices"
#: What runs are for that decide neither a rank nor a claim.
NARROWER = "narrower intervals"
#: The parts of the study that rank methods.
RANKED = {"accuracy", "heterophily", TUNED, COMPARISON}
#: The artefacts that consist of runs.
RUN_ARTEFACTS = ("accuracy", "heterophily", "ablation", "add-vs-drop", "views", SENSITIVITY, CHOICES)
#: The parts of the study.
PARTS = (*RUN_ARTEFACTS, LEAKAGE, TUNED, COMPARISON)


@dataclass(frozen=True)
class MissingRuns:
    """The missing runs of a row on a graph.

    Attributes:
        parts: the parts of the study that need them: names of artefacts, or ``comparison``.
        graph: name of the graph.
        row: title of the row.
        seeds: the missing seeds.
        wanted: number of seeds that the study needs.
        seconds: estimated time of one seed; None if no run like it is stored.
        basis: the runs that the estimate comes from.
        decides: what the runs decide.
        cell: the missing runs, ready to be computed.

    Examples:
        >>> runs = MissingRuns(("accuracy",), "Cora", "GRACE", [3, 4], 5, 2.5, "the same cell", "its rank", None)
        >>> runs.total
        5.0
    """

    parts: tuple[str, ...]
    graph: str
    row: str
    seeds: list[int]
    wanted: int
    seconds: float | None
    basis: str
    decides: str
    cell: Cell | None

    @property
    def total(self) -> float:
        """Estimated time of all missing seeds in seconds; 0 if it is unknown."""
        return (self.seconds or 0.0) * len(self.seeds)


@dataclass(frozen=True)
class Plan:
    """The missing runs, in the order in which they should be computed, and the graphs that cannot be loaded.

    Attributes:
        runs: the missing runs.
        absent: the reason for each graph that cannot be loaded.
        cells: all cells of each part of the study, whether their runs are missing or not.
        unmeasured: what the artefacts lack that do not consist of runs; for a plan of some parts, or of all runs, only
            what is named among the parts.

    Examples:
        >>> Plan([], {}, {}).seconds
        0.0
    """

    runs: list[MissingRuns]
    absent: dict[str, str]
    cells: dict[str, list[Cell]]
    unmeasured: dict[str, list[str]] = field(default_factory=dict)

    @property
    def rows(self) -> dict[str, list[str]]:
        """The titles of the rows of each part of the study, in their order."""
        return {part: list(dict.fromkeys(cell.title for cell in own)) for part, own in self.cells.items()}

    @property
    def seconds(self) -> float:
        """Estimated time of all missing runs, added up over the processes."""
        return sum((runs.total for runs in self.runs), 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        names = [one.name for one in fields(MissingRuns) if one.name != "cell"]
        runs = [{**{name: getattr(one, name) for name in names}, "total": one.total} for one in self.runs]
        return {"seconds": self.seconds, "runs": runs, "absent": self.absent, "unmeasured": self.unmeasured}


class _Wanted(NamedTuple):
    cell: Cell
    parts: list[str]
    protocols: set[str]


def plan(
    results: Mapping[str, Result],
    comparison: Comparison | None,
    root: Path | None = None,
    parts: Sequence[str] = PARTS,
    graphs: Collection[str] = (),
    fresh: bool = False,
    processes: int = 1,
) -> Plan:
    """Return the runs of the study that the results lack. Nothing is trained.

    A stored run counts if its settings are those of today's recipe. Its code may be older.

    Args:
        results: results of the artefacts by name.
        comparison: the comparison over all graphs, if there is one.
        root: folder of the named graphs; None for the default folder.
        parts: some of :data:`PARTS`, and :data:`~epagcl.paper.planning.unmeasured.BURDEN`, which has no runs.
        graphs: names of graphs, as in :func:`epagcl.data.load`; empty for all.
        fresh: list all runs, as if there were none. The stored ones then only tell how long they take.
        processes: number of processes that will share a GPU, which makes each of them slower.
    """
    if unknown := [part for part in parts if part not in (*PARTS, BURDEN)]:
        raise InputError(f"no part {unknown[0]!r} of the study; {suggestion(unknown[0], PARTS)}")
    whole = {*parts} >= {*PARTS} and not fresh
    lacking = unmeasured(results, graphs) if whole or BURDEN in parts else {}
    lacking = lacking if whole else {name: places for name, places in lacking.items() if name == BURDEN}
    parts = [part for part in parts if part != BURDEN]
    names = [proper_name(name) for name in graphs]
    requests = {part: _request(part, root, results.get(part), names) for part in parts}
    # Parts share their graphs, which take a second or more to load.
    wanted_graphs = dict.fromkeys(proper_name(name) for request in requests.values() for name in request.datasets)
    loaded = load_all(list(wanted_graphs), root)
    requests = {part: replace(request, loaded=loaded) for part, request in requests.items()}
    stored: list[CellResult] = [cell for name in RUN_ARTEFACTS for cell in results.get(name, {}).get("cells", [])]
    stored += [cell for row in comparison["results"].values() for cell in row] if comparison else []
    by_place: dict[tuple[str, str], list[CellResult]] = {}
    for cell in stored:
        by_place.setdefault((cell["graph"]["name"], cell["row"]), []).append(cell)
    cells = {part: _cells(part, request) for part, request in requests.items()}
    undecided = undecided_claims(results)
    missing = [
        runs
        for wanted in _wanted(cells).values()
        if (runs := _missing(wanted, by_place, stored, undecided, fresh, processes)) is not None
    ]
    if TUNED in parts:
        missing += _untuned(requests[TUNED], results.get(TUNED), fresh, processes)
    if LEAKAGE in parts:
        missing += _unscored(requests[LEAKAGE], results.get(LEAKAGE), fresh)
    if SENSITIVITY in parts:
        missing += _uncrossed(requests[SENSITIVITY], None if fresh else results.get(SENSITIVITY), stored, processes)
    texts = [claim.text for claims in undecided.values() for claim in claims]
    missing.sort(key=lambda runs: (_urgency(runs, texts), runs.total))
    absent = {name: reason for request in requests.values() for name, reason in request.absent.items()}
    if absent and not any(request.graphs for request in requests.values()):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in absent.items())
        raise InputError(f"none of the graphs is here ({reasons}); name the folder that has their files")
    return Plan(missing, absent, cells, lacking)


def undecided_claims(results: Mapping[str, Result]) -> dict[str, list[Claim]]:
    """Return the claims of each artefact that its results leave undecided."""
    claims: dict[str, list[Claim]] = {}
    for claim, verdict in judged(results):
        if verdict.word == UNDECIDED:
            claims.setdefault(claim.artefact, []).append(claim)
    return claims


def _request(part: str, root: Path | None, result: Result | None, graphs: Collection[str]) -> Request:
    """Return the request for all runs of a part of the study, with the protocols that its result has."""
    store = Store("unused")  # nothing is read from it or written to it
    datasets, methods, protocols = (GRAPHS, METHODS, ("strict",)) if part == COMPARISON else _asked(part, result)
    datasets = tuple(name for name in datasets if not graphs or proper_name(name) in graphs)
    runs = find_artefact(part).runs if part == LEAKAGE else 1
    return Request(datasets, methods, runs, protocols, store, root=root)


def _asked(part: str, result: Result | None) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    artefact = find_artefact(part)
    protocols = tuple(result["asked"]["protocols"]) if result else artefact.protocols
    return artefact.datasets, artefact.methods, protocols


def _untuned(request: Request, result: Result | None, fresh: bool, processes: int) -> list[MissingRuns]:
    """Return the methods that lack searches. Their time is scaled from the searches of the method on other graphs."""
    missing = []
    for graph, data in request.graphs.items():
        about = describe(data, graph)
        size = expected_cost(EPOCHS, about["nodes"], about["edges"])
        for title, outer in missing_searches(None if fresh else result, graph).items():
            alike = [cell for cell in stored_cells(result) if cell["row"] == title]
            own = [cell for cell in alike if cell["graph"]["name"] == graph]
            rates = [
                sum(trial["seconds"] or 0.0 for trial in search["trials"])
                * min(1, processes / search.get("processes", processes))
                * (TRIALS + SEEDS)
                / TRIALS
                / SEEDS
                / expected_cost(EPOCHS, cell["graph"]["nodes"], cell["graph"]["edges"])
                for cell in own or alike
                for search in cell["searches"]
            ]
            seeds = [SEEDS * one + k for one in outer for k in range(SEEDS)]
            where = "its searches here" if own else "its searches on other graphs"
            seconds, basis = (fmean(rates) * size, where) if rates else (None, "no stored run")
            every = len(outer_sets(graph))
            began = {search["outer"] for cell in own for search in cell["searches"]}
            decides = NARROWER if every - len(outer) >= FEWEST_OUTER else f"the rank of {title}"
            if not fresh and began & set(outer):  # these searches had another start
                decides = f"the rank of {title}, searched from its recipe"
            wanted = SEEDS * every
            missing.append(MissingRuns((TUNED,), graph, title, seeds, wanted, seconds, basis, decides, None))
    return missing


def _unscored(request: Request, result: Result | None, fresh: bool) -> list[MissingRuns]:
    """Return the methods that lack models scored during training. Their time is scaled from other graphs."""
    found: dict[tuple[str, str], list[LookedAt]] = {}
    for one in missing_models(None if fresh else result, request):
        found.setdefault((one.graph, one.title), []).append(one)
    missing = []
    for (graph, title), models in found.items():
        rates = [
            run["seconds"] / (run["epochs"][-1] * find(row["graph"]).nodes ** 2)
            for row in (result or {"rows": []})["rows"]
            if row["method"] == title
            for run in row["runs"]
        ]
        size = models[0].model.epochs * find(graph).nodes ** 2
        seconds, basis = (fmean(rates) * size, "its runs on other graphs") if rates else (None, "no stored run")
        seeds, decides = [one.model.seed for one in models], "what the scoring rule adds"
        missing.append(MissingRuns((LEAKAGE,), graph, title, seeds, request.runs, seconds, basis, decides, None))
    return missing


def _uncrossed(
    request: Request, result: Result | None, stored: Sequence[CellResult], processes: int
) -> list[MissingRuns]:
    """Return the methods that lack seeds in the crossed design of seeds and splits."""
    tables = {(one["graph"]["name"], one["row"]): one for one in (result or {"crossed": []})["crossed"]}
    lacking: dict[tuple[str, str], list[crossed.CrossedRun]] = {}
    for run in crossed.crossed_runs(request):
        table = tables.get((run.cell.name, run.cell.title))
        if table is None or not same_settings(run.cell, table) or run.seed not in table["seeds"]:
            lacking.setdefault((run.cell.name, run.cell.title), []).append(run)
    missing = []
    for (graph, title), runs in lacking.items():
        seconds, basis = estimate(runs[0].cell, [], stored, processes)
        seeds, decides = [run.seed for run in runs], "whether seeds or splits vary more"
        row = f"{title}, each seed on {crossed.SPLITS} splits"
        missing.append(MissingRuns((SENSITIVITY,), graph, row, seeds, crossed.SEEDS, seconds, basis, decides, None))
    return missing


def _cells(part: str, request: Request) -> list[Cell]:
    if part == COMPARISON:
        return request.cells(lambda *_: rows(request.methods, untrained=True))
    return find_artefact(part).cells(request)


def _wanted(cells: Mapping[str, Sequence[Cell]]) -> dict[tuple[str, str, str], _Wanted]:
    """Return the runs that the parts of the study need. Parts share a run if row, graph and settings are the same."""
    wanted: dict[tuple[str, str, str], _Wanted] = {}
    for part, own in cells.items():
        for cell in own:
            key = (cell.name, cell.title, repr(sorted(cell.resolved.items())))
            entry = wanted.setdefault(key, _Wanted(cell, [], set()))
            entry.parts.append(part)
            entry.protocols.update(cell.protocols)
    return wanted


def _missing(
    wanted: _Wanted,
    by_place: Mapping[tuple[str, str], Sequence[CellResult]],
    stored: Sequence[CellResult],
    undecided: Mapping[str, list[Claim]],
    fresh: bool,
    processes: int,
) -> MissingRuns | None:
    cell = wanted.cell
    alike = [one for one in by_place.get((cell.name, cell.title), []) if same_settings(cell, one)]
    done = {
        protocol: {
            seed
            for one in alike
            if protocol in one["protocols"] and not fresh
            for seed in one["protocols"][protocol]["seeds"]
        }
        for protocol in wanted.protocols
    }
    count = max(SWEEP_SEEDS if part == SENSITIVITY else seeds_of(cell.name) for part in wanted.parts)
    seeds = [seed for seed in range(count) if any(seed not in by_protocol for by_protocol in done.values())]
    if not seeds:
        return None
    seconds, basis = estimate(cell, alike, stored, processes)
    decides = _decides(cell, len(seeds) == count, wanted.parts, undecided)
    todo = replace(
        cell, seeds=count, protocols=sorted(wanted.protocols), known=frozenset(range(count)).difference(seeds)
    )
    return MissingRuns(tuple(wanted.parts), cell.name, cell.title, seeds, count, seconds, basis, decides, todo)


def same_settings(cell: Cell, result: Mapping[str, Any]) -> bool:
    """Return whether a result has the settings of a cell. Settings that are newer than it must have their defaults."""
    stored = current_settings(result["settings"])
    defaults = type(cell.models[0])().settings() if cell.models else {}
    return all(value == stored.get(name, defaults.get(name)) for name, value in cell.resolved.items())


def _decides(cell: Cell, empty: bool, parts: Sequence[str], undecided: Mapping[str, list[Claim]]) -> str:
    """Return what missing runs decide: whether a row can be ranked, undecided claims, or only narrower intervals."""
    ranked = not cell.row.reference and bool(cell.models) and not cell.models[0].supervised
    if empty and ranked and set(parts) & RANKED:
        return f"the rank of {cell.title}"
    if empty and {SENSITIVITY, CHOICES} & set(parts):
        return "which settings matter"
    claims = [
        claim for part in parts for claim in undecided.get(part, []) if not claim.rows or cell.title in claim.rows
    ]
    return "; ".join(claim.text for claim in claims) or NARROWER


def _urgency(runs: MissingRuns, claims: Sequence[str]) -> int:
    """Return 0 for runs that let a row be ranked, 1 for those that may decide a claim, and 2 for others."""
    if runs.decides.startswith("the rank of"):
        return 0
    return 1 if any(claim in runs.decides for claim in claims) else 2
