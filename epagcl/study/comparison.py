"""Comparison of methods: fill a store with the runs of many cells, and collect their scores."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from epagcl.core.progress import Progress, SilentProgress
from epagcl.evaluation.scores import Spread, spread
from epagcl.study.design import Cell
from epagcl.study.jobs import POLL_SECONDS
from epagcl.study.scoring import SEED_RECORD, score_seeds
from epagcl.study.store import Record, Store, holding


class ProtocolScores(TypedDict):
    """Scores of the seeds of a cell by one protocol.

    ``validation`` is the accuracy of the chosen classifiers on validation nodes. Results of earlier versions lack it.
    """

    protocol: str
    split: str
    seeds: list[int]
    accuracy: Spread
    macro_f1: Spread
    validation: NotRequired[Spread]


class CellResult(TypedDict):
    """The stored results of all seeds of a cell. ``training`` has lists with one entry per seed; None: untrained."""

    row: str
    graph: dict[str, Any]
    named: bool
    source: str | None
    settings: dict[str, Any]
    seeds: list[int]
    code: str
    hardware: list[str]
    dates: list[str]
    commits: list[str]
    training: dict[str, list[Any]] | None
    protocols: dict[str, ProtocolScores]


def fill(wanted: Sequence[Cell], store: Store, work: Progress | None = None) -> None:
    """Train and score the seeds that the store lacks.

    Seeds are stored as soon as they are scored (on a GPU a batch at a time), so an interrupted comparison continues
    where it stopped. Seeds whose training fails are left out. Several processes may fill the same store. Seeds locked
    by another process are skipped and checked again later.

    Args:
        wanted: the cells.
        store: the store.
        work: receives the progress.

    Examples:
        >>> import tempfile
        >>> from epagcl.data import block_model
        >>> from epagcl.study import cells, rows
        >>> graph = block_model(60, num_classes=2, num_features=10, topic_words=5, words_per_node=3)
        >>> [cell] = cells(graph, "demo", rows()[:1], seeds=1, protocols=["strict"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fill([cell], Store(folder))
        ...     collect(cell, Store(folder))["protocols"]["strict"]["seeds"]
        [0]
    """
    work = work or SilentProgress()
    remaining = [(cell, cell.missing(store)) for cell in wanted]
    work.plan([cell.cost for cell, seeds in remaining for _ in seeds])
    while remaining:
        locked = [(cell, seeds) for cell, seeds in remaining if not _fill_cell(cell, seeds, store, work)]
        if len(locked) == len(remaining):
            time.sleep(POLL_SECONDS)
        remaining = locked


def _fill_cell(cell: Cell, remaining: list[int], store: Store, work: Progress) -> bool:
    """Compute the seeds that no other process has locked. Return whether the cell is done.

    Seeds that are done, here or elsewhere, are removed from ``remaining``.
    """
    seconds = None
    while remaining:
        missing = cell.missing(store)
        work.drop([cell.cost for seed in remaining if seed not in missing])
        remaining[:] = [seed for seed in remaining if seed in missing]
        with store.claim([cell.key(seed) for seed in remaining], most=cell.seeds_per_batch(seconds)) as claimed:
            still_missing = set(cell.missing(store))  # others may have written between the check and the claim
            seeds = [seed for seed in (key["seed"] for key in claimed) if seed in still_missing]
            if not claimed:
                return not remaining
            if seeds:
                start = time.monotonic()
                for seed, record in score_seeds(cell, seeds, holding(store, SEED_RECORD), work).items():
                    store.write(cell.key(seed), record)
                # Seeds that failed are removed too: another call tries them again.
                remaining[:] = [seed for seed in remaining if seed not in seeds]
                elapsed = time.monotonic() - start
                seconds = elapsed / len(seeds)
                work.finish([cell.cost] * len(seeds), elapsed)
    return True


def collect(cell: Cell, store: Store) -> CellResult | None:
    """Return the stored results of all seeds of a cell, or None if there are none.

    Args:
        cell: the cell.
        store: the store.

    Examples:
        >>> import tempfile
        >>> from epagcl.data import block_model
        >>> from epagcl.study import cells, rows
        >>> graph = block_model(60, num_classes=2, num_features=10, topic_words=5, words_per_node=3)
        >>> [cell] = cells(graph, "demo", rows()[:1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     collect(cell, Store(folder)) is None
        True
    """
    store = holding(store, SEED_RECORD)
    stored = ((seed, store.read(cell.key(seed))) for seed in range(cell.seeds))
    records: dict[int, Record] = {seed: record for seed, record in stored if record is not None}
    protocols = {
        protocol: _protocol_scores(records, protocol)
        for protocol in cell.protocols
        if any(protocol in record["protocols"] for record in records.values())
    }
    if not protocols:
        return None
    trainings = [record["training"] for record in records.values() if record["training"] is not None]
    names = dict.fromkeys(name for one in trainings for name in one)  # records of earlier versions lack some
    return {
        "row": cell.row.title,
        "graph": cell.about,
        "named": cell.named,
        "source": cell.source,
        "settings": cell.resolved,
        "seeds": list(records),
        "code": cell.key(0)["code"],
        "hardware": sorted({record["hardware"]["device"] for record in records.values()}),
        "dates": sorted({record["date"][:10] for record in records.values()}),
        "commits": sorted({record["commit"] or "unknown" for record in records.values()}),
        "training": {name: [one.get(name) for one in trainings] for name in names} if trainings else None,
        "protocols": protocols,
    }


def shares_by_seed(scores: Mapping[str, Any], name: str = "accuracy") -> dict[int, float]:
    """Return the scores of a cell by one protocol by seed, between 0 and 1; nothing without scores of this name."""
    return dict(zip(scores["seeds"], scores[name]["runs"], strict=True)) if name in scores else {}


def _protocol_scores(records: dict[int, Record], protocol: str) -> ProtocolScores:
    scores = {
        seed: record["protocols"][protocol] for seed, record in records.items() if protocol in record["protocols"]
    }
    found: ProtocolScores = {
        "protocol": protocol,
        "split": next(iter(scores.values()))["split"],
        "seeds": list(scores),
        "accuracy": spread([score["accuracy"] for score in scores.values()]),
        "macro_f1": spread([score["macro_f1"] for score in scores.values()]),
    }
    if all("validation_accuracy" in score for score in scores.values()):
        found["validation"] = spread([score["validation_accuracy"] for score in scores.values()])
    return found
