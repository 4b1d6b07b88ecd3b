"""A case: one attempt to break something, and its outcome."""

import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from epagcl.core.errors import InputError, MissingExtra, TrainingError

#: Longest time of a case, of the processor and by the clock; other programs may share the machine.
SECONDS, LONGEST = 30, 300


@dataclass
class Tally:
    """The number of cases by kind and outcome, and a description of each failure."""

    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    start: float = field(default_factory=time.monotonic)

    def add(self, kind: str, outcome: str, failure: str | None = None) -> None:
        """Count a case. A failure is described by its text."""
        self.outcomes[f"{kind}: {outcome if failure is None else 'failed'}"] += 1
        if failure is not None:
            self.failures.append({"kind": kind, "case": sum(self.outcomes.values()), "what": failure})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "seed": self.seed,
            "cases": sum(self.outcomes.values()),
            "failed": len(self.failures),
            "seconds": round(time.monotonic() - self.start, 1),
            "outcomes": dict(sorted(self.outcomes.items())),
            "failures": self.failures[:50],
            **self.details,
        }


def attempt(tally: Tally, kind: str, action: Callable[[], object], about: Callable[[], str] = str) -> None:
    """Count an action that may succeed or end in one line for the user. Anything else is a failure.

    Args:
        tally: where it is counted.
        kind: the kind of the case.
        action: what is done.
        about: function that describes the case, for a failure.
    """
    try:
        with time_limit():
            action()
    except (InputError, MissingExtra, TrainingError) as error:
        one_line = "\n" not in str(error) and len(str(error)) < 2000
        tally.add(kind, "refused in one line", None if one_line else f"not one line: {str(error)[:300]}")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        tally.add(kind, "", about() + "".join(traceback.format_exception(error, limit=-3))[-1500:])
    else:
        tally.add(kind, "accepted")


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise if the block takes longer than :data:`SECONDS` of the processor, or :data:`LONGEST` by the clock."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"took more than {SECONDS} s")

    before = [signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), before, strict=True):
            signal.signal(number, handler)
