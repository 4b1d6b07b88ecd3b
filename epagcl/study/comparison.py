"""Methods side by side: the same graph, splits, seeds and classifier, so that rows differ in the method alone."""

import time
from collections.abc import Sequence
from typing import Any

from epagcl.core.progress import Progress, SilentProgress
from epagcl.evaluation.scores import spread
from epagcl.study.cells import Cell, Result
from epagcl.study.scoring import score_seeds
from epagcl.study.store import Record, Store


def fill(wanted: Sequence[Cell], store: Store, work: Progress | None = None) -> None:
    """Train and score what the store lacks of these cells.

    Seeds are kept as soon as they are scored, on a GPU some at a time, so that an interrupted table goes on where it
    stopped; a training that fails is left out. Other processes may fill the same store, and what one of them is at is
    passed over until it is done.
    """
    work = work or SilentProgress()
    left = [(cell, cell.missing(store)) for cell in wanted]
    work.plan([cell.cost for cell, seeds in left for _ in seeds])
    while left:
        busy = [(cell, seeds) for cell, seeds in left if not _fill(cell, seeds, store, work)]
        if len(busy) == len(left):
            time.sleep(0.5)  # others are at all that is left
        left = busy


def _fill(cell: Cell, left: list[int], store: Store, work: Progress) -> bool:
    """Compute what no other process is computing; whether the cell is complete. ``left`` loses what is done."""
    while left:
        still = cell.missing(store)
        work.drop([cell.cost for seed in left if seed not in still])
        left[:] = [seed for seed in left if seed in still]  # one that has failed here does not come back
        with store.claim([cell.key(seed) for seed in left], most=cell.seeds_per_batch) as mine:
            unmade = set(cell.missing(store))  # it may have been written between the look and the claim
            seeds = [seed for seed in (key["seed"] for key in mine) if seed in unmade]
            if not mine:
                return not left
            if seeds:
                start = time.monotonic()
                for seed, record in score_seeds(cell, seeds, store, work).items():
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
