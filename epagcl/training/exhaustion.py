"""Out of memory in training: one line that says what to lower, with the checkpoint kept."""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epagcl.core.errors import OutOfMemory
from epagcl.core.formatting import one_line
from epagcl.core.memory import is_out_of_memory

#: Settings that memory grows with, in the order in which lowering them costs least.
GROWING = ("members", "negatives", "hidden", "predictor", "projection", "dim", "layers")
#: Settings for which 0 means all nodes, and any number less.
SAMPLED = ("batch_size", "edge_pairs")


@contextmanager
def memory_advice(settings: Mapping[str, Any], checkpoint: str | Path | None = None) -> Iterator[None]:
    """Turn an error of a full memory into :class:`~epagcl.core.errors.OutOfMemory`, which says what to lower.

    Args:
        settings: of the method.
        checkpoint: the file of the last checkpoint, if it is written.

    Examples:
        >>> with memory_advice({"name": "epagcl", "batch_size": 0, "hidden": 512}):
        ...     raise MemoryError
        Traceback (most recent call last):
        ...
        epagcl.core.errors.OutOfMemory: out of memory; set batch_size=1024 (now 0, all nodes), or lower hidden (now 512)
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        reason = one_line(error, 120)
        traceback.clear_frames(error.__traceback__)  # they hold the tensors that fill the memory
        raise OutOfMemory(_message(reason, settings, checkpoint)) from None


def _message(reason: str, settings: Mapping[str, Any], checkpoint: str | Path | None) -> str:
    all_nodes = [f"set {name}=1024 (now 0, all nodes)" for name in SAMPLED if settings.get(name) == 0]
    lower = [f"{name} (now {settings[name]})" for name in SAMPLED if settings.get(name)]
    lower += [f"{name} (now {settings[name]})" for name in GROWING if settings.get(name, 0) > 1]
    advice = all_nodes + ([f"lower {' or '.join(lower)}"] if lower else [])
    message = f"out of memory{f' ({reason})' if reason else ''}; {', or '.join(advice) or 'use a larger machine'}"
    if checkpoint is not None and Path(checkpoint).exists():
        message += f"; or free memory and resume: {checkpoint} is kept"
    return message
