"""Computations whose records are stored: several processes share them, each taking those that no other computes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from epagcl.core.log import log
from epagcl.core.progress import Progress
from epagcl.study.shapes import Shape
from epagcl.study.store import Key, Record, Store, holding

POLL_SECONDS = 0.5  # between two checks while other processes compute all remaining jobs


@dataclass(frozen=True, eq=False)
class Job:
    """A computation with a record.

    Attributes:
        title: what a message calls it.
        key: everything that its record depends on.
        compute: returns the record.
        cost: its expected cost, in any unit.
        shape: what its record holds. A stored record of another shape is damaged, and is computed again.
    """

    title: str
    key: Key
    compute: Callable[[], Record]
    cost: float
    shape: Shape = dict

    def record(self, store: Store) -> Record | None:
        """Return the stored record, or None if it is missing or damaged."""
        return holding(store, self.shape).read(self.key)


def fill_jobs(jobs: Sequence[Job], store: Store, work: Progress, left_out: tuple[type[Exception], ...] = ()) -> None:
    """Compute the records that the store lacks. Jobs claimed by another process are skipped and checked again later.

    Args:
        jobs: the jobs, in the order in which they are taken.
        store: the store.
        work: receives the progress.
        left_out: errors of a job that do not stop the others. They are logged, and the job has no record.

    Examples:
        >>> import tempfile
        >>> from epagcl.core.progress import SilentProgress
        >>> key = {"what": "sum", "graph": {"name": "demo"}}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(folder)
        ...     fill_jobs([Job("a sum", key, lambda: {"value": 1 + 2}, cost=1.0)], store, SilentProgress())
        ...     store.read(key)["value"]
        3
    """
    remaining = [job for job in jobs if job.record(store) is None]
    work.plan([job.cost for job in remaining])
    while remaining:
        mine = _compute_one(remaining, store, work, left_out)
        if mine is None:
            time.sleep(POLL_SECONDS)
        done = [job for job in remaining if job is not mine and job.record(store) is not None]
        work.drop([job.cost for job in done])
        # A job that failed is removed too: another call tries it again.
        remaining = [job for job in remaining if job is not mine and job not in done]


def _compute_one(
    remaining: Sequence[Job], store: Store, work: Progress, left_out: tuple[type[Exception], ...]
) -> Job | None:
    """Claim a job, and compute it unless another process just has. Return it; None if others have claimed all."""
    with store.claim([job.key for job in remaining]) as claimed:
        mine = next((job for job in remaining if claimed and job.key == claimed[0]), None)
        if mine is None:
            return None
        if mine.record(store) is not None:
            work.drop([mine.cost])
            return mine
        start = time.monotonic()
        try:
            store.write(mine.key, mine.compute())
            if mine.record(store) is None:
                log.warning("%s: left out (its result has no number where one belongs)", mine.title)
        except left_out as error:
            log.warning("%s: left out (%s)", mine.title, error)
        work.finish([mine.cost], time.monotonic() - start)
        return mine
