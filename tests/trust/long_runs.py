"""Long runs in one process: many epochs and many fits, without growth of memory, file handles or threads."""

import gc
import os
import threading
from pathlib import Path
from typing import NamedTuple

from epagcl import EPAGCL
from epagcl.data import block_model
from epagcl.training import checkpoint
from tests.trust.cases import Tally

DATA = block_model(60, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=3)
SMALL = {"hidden": 8, "dim": 4, "projection": 4, "device": "cpu"}
#: Growth of memory that counts as none: caches of the allocator and of Python. An epoch's tensors are larger, in sum.
SLACK_MIB = 12.0
#: Epochs that one case of ``epochs`` stands for.
EPOCHS_PER_FIT = 10


class Usage(NamedTuple):
    """What a process holds."""

    memory_mib: float
    handles: int
    threads: int


def long_runs(folder: Path, cases: int, seed: int) -> Tally:
    """Fit ``cases`` models with a checkpoint each, then train one model for ten times as many epochs.

    Memory, file handles and threads are measured after the first tenth and at the end.

    Args:
        folder: an empty folder.
        cases: number of fits.
        seed: seed of the first model.
    """
    tally = Tally(seed)
    file, early = folder / "c.safetensors", max(cases // 10, 5)

    def fit(k: int) -> None:
        EPAGCL(epochs=2, seed=seed + k, **SMALL).fit_embed(DATA, checkpoint=file)
        file.unlink(missing_ok=True)

    seconds, checkpoint.CHECKPOINT_SECONDS = checkpoint.CHECKPOINT_SECONDS, 0.0
    try:
        for k in range(early):
            fit(k)
        before = usage()
        for k in range(early, cases):
            fit(k)
        fits = _growth(tally, f"{cases:,} fits", before, usage())
    finally:
        checkpoint.CHECKPOINT_SECONDS = seconds

    epochs, marks = EPOCHS_PER_FIT * cases, []

    def look(done: int, z: object) -> None:
        marks.append(usage())

    EPAGCL(epochs=epochs, seed=seed, **SMALL).fit(DATA, look=(max(epochs // 10, 1), look))
    trained = _growth(tally, f"{epochs:,} epochs", marks[0], marks[-1])
    tally.details = {
        "fits": cases,
        "epochs": epochs,
        "slack_mib": SLACK_MIB,
        "growth": {"fits": fits, "epochs": trained},
    }
    return tally


def usage() -> Usage:
    """Return the memory, the open files and the threads of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    memory = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return Usage(memory, len(os.listdir("/proc/self/fd")), threading.active_count())


def _growth(tally: Tally, what: str, before: Usage, after: Usage) -> dict[str, float]:
    """Add a case for each quantity, and return the growth."""
    grown = {name: round(new - old, 2) for name, old, new in zip(Usage._fields, before, after, strict=True)}
    for name, growth in grown.items():
        limit = SLACK_MIB if name == "memory_mib" else 0
        tally.add(what, f"no growth of {name}", None if growth <= limit else f"{name} grew by {growth}")
    return grown
