"""``epagcl`` with a fault: after an epoch of the first start, one rank is killed or hangs."""

import os
import signal
import time
from pathlib import Path

import epagcl.cli.train as command
from epagcl.cli.app import main

AFTER = 6
_call = command.Observer.__call__


def _call_and_fail(self, row):
    _call(self, row)
    failed = Path("failed")  # not the number of restarts, which each machine counts by itself
    if os.environ["RANK"] == "1" and row["epoch"] == AFTER and not failed.exists():
        failed.touch()
        if os.environ["FAULT"] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)


if __name__ == "__main__":
    command.Observer.__call__ = _call_and_fail  # type: ignore[method-assign]
    main()
