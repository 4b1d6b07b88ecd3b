"""Which tiles the kernels of the loss take: the fastest of a few, by GPU, kernel, precision, width and size class.

``tiles.json`` holds what ``python -m benchmarks tune`` measured. On a GPU, or for a width, that it does not have, the
candidates are timed at first use (some seconds, most of them compilation) and remembered in the user's cache: a choice
that changed from one run to the next would change the order of sums, and so the last bits.
"""

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from epagcl.files import atomic_path

log = logging.getLogger("epagcl")

MEASURED = Path(__file__).parent / "tiles.json"


@dataclass(frozen=True)
class Tiles:
    """Shape of a kernel's tiles, warps that share one, and loads in flight."""

    rows: int
    columns: int
    warps: int
    stages: int


# From what fits the largest shared memory (Hopper, 227 KiB) to what fits any GPU. Columns divide rows.
_HALF = [
    (128, 64, 8, 3),
    (128, 64, 4, 3),
    (128, 128, 8, 2),
    (64, 64, 4, 3),
    (64, 64, 4, 2),
    (64, 32, 4, 2),
    (32, 32, 4, 1),
]
_DOUBLE = [(128, 64, 8, 1), (128, 32, 8, 2), (64, 64, 4, 2), (64, 32, 4, 2), (64, 32, 4, 1), (32, 32, 4, 1)]
CANDIDATES = {
    "fp16": [Tiles(*c) for c in _HALF],
    "bf16": [Tiles(*c) for c in _HALF],
    "fp32": [Tiles(*c) for c in _DOUBLE],
    "tf32": [Tiles(*c) for c in _DOUBLE],
}
INTERPRETED = Tiles(32, 16, 4, 1)

#: rows of a group up to which a size class goes
SIZES = {"small": 8_192, "medium": 65_536, "large": 2**62}


def tiles_for(
    kernel: str, precision: str, width: int, size: int, device: torch.device, launch: Callable[[Tiles], Tensor]
) -> Tiles:
    """The tiles of ``kernel`` for groups of ``size`` rows of padded ``width``; ``launch`` runs it with given ones."""
    if device.type != "cuda":
        return INTERPRETED  # Triton's interpreter, which tests use
    size_class = next(name for name, most in SIZES.items() if size <= most)
    key = f"{kernel} {precision} {width} {size_class}"
    known = _known(torch.cuda.get_device_name(device))
    if key not in known:
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("the loss must run once before it is captured, to choose its tiles")
        known[key] = list(vars(fastest(kernel, precision, launch)).values())
        _remember(torch.cuda.get_device_name(device), known)
    return Tiles(*known[key])


def fastest(kernel: str, precision: str, launch: Callable[[Tiles], Tensor]) -> Tiles:
    """Time the candidates on the problem at hand; those that do not fit the GPU are left out."""
    log.info("choosing tiles for %s in %s, once for this GPU", kernel, precision)
    seconds = {}
    for tiles in CANDIDATES[precision]:
        try:
            seconds[tiles] = _time(lambda tiles=tiles: launch(tiles))
        except Exception as error:
            if "OutOfResources" not in type(error).__name__:
                raise
    return min(seconds, key=seconds.get)


def _time(launch: Callable[[], Tensor], repeats: int = 3) -> float:
    """Least of a few runs."""
    launch()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        launch()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def cache_file() -> Path:
    """Where choices are remembered that do not ship."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "epagcl" / "tiles.json"


@cache
def _known(gpu: str) -> dict[str, list[int]]:
    """Choices for this GPU: those that ship, then those remembered."""
    known: dict[str, list[int]] = {}
    for path in (cache_file(), MEASURED):
        if path.is_file():
            known |= json.loads(path.read_text(encoding="utf-8")).get(gpu, {})
    return known


def _remember(gpu: str, known: dict[str, list[int]]) -> None:
    path = cache_file()
    try:
        everything = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(everything | {gpu: known}, indent=1), encoding="utf-8")
    except OSError as error:
        log.warning("%s: cannot be written (%s); tiles will be chosen anew next time", path, error.strerror)
