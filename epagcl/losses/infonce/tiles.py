"""Which tiles the kernels of the loss take: the fastest of a few, by GPU, kernel, precision, width and size class.

``tiles.json`` holds what ``python -m benchmarks tune`` measured. On a GPU, or for a width, that it does not have, the
candidates are timed at first use (up to a minute, most of it compilation) and remembered in the user's cache: a choice
that changed from one run to the next would change the order of sums, and so the last bits.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.core.log import log

MEASURED = Path(__file__).parent / "tiles.json"


@dataclass(frozen=True)
class Tiles:
    """Shape of a kernel's tiles, warps that share one, and loads in flight."""

    rows: int
    columns: int
    warps: int
    stages: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}/{self.warps}/{self.stages}"

    @classmethod
    def named(cls, name: str) -> "Tiles":
        """From rows x columns / warps / stages."""
        return cls(*map(int, name.replace("x", "/").split("/")))


# From what fits the largest shared memory (Hopper, 227 KiB) to what fits any GPU. For "sums" columns divide rows.
_HALF = {
    "sums": "128x32/4/3 128x64/4/3 128x128/4/2 128x64/8/3 64x64/4/2 64x32/4/2 32x32/4/1",
    "gather": "128x64/8/3 128x64/8/2 64x64/4/3 64x64/4/2 64x64/8/2 64x32/8/2 64x32/4/2 32x32/4/1",
}
_SINGLE = {
    "sums": "128x64/8/1 128x32/4/2 64x64/4/2 64x32/4/3 64x32/4/1 32x32/4/1",
    "gather": "128x32/8/1 128x32/8/2 128x64/8/1 64x32/4/2 64x32/4/1 32x32/4/1",
}


#: kernel → precision → tiles to choose from
CANDIDATES = {
    kernel: {
        precision: [Tiles.named(name) for name in names[kernel].split()]
        for precision, names in {"fp32": _SINGLE, "tf32": _SINGLE, "fp16": _HALF, "bf16": _HALF}.items()
    }
    for kernel in ("sums", "gather")
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
        known[key] = str(fastest(kernel, precision, launch))
        _remember(torch.cuda.get_device_name(device), known)
    return Tiles.named(known[key])


def fastest(kernel: str, precision: str, launch: Callable[[Tiles], Tensor]) -> Tiles:
    """Time the candidates on the problem at hand; those that do not fit the GPU are left out."""
    log.info("choosing tiles for %s in %s, once for this GPU", kernel, precision)
    seconds = {}
    for tiles in CANDIDATES[kernel][precision]:
        try:
            seconds[tiles] = _time(lambda tiles=tiles: launch(tiles), min(seconds.values(), default=float("inf")))
        except Exception as error:
            if "OutOfResources" not in type(error).__name__:
                raise
    if not seconds:
        raise InputError("no tiles of the loss's kernels fit this GPU; use impl='tiled'")
    return min(seconds, key=seconds.get)


def _time(launch: Callable[[], Tensor], best: float, repeats: int = 3) -> float:
    """Least of a few runs after a first one; of one run if that is far from the best so far."""
    launch()
    times: list[float] = []
    while len(times) < repeats and (not times or min(times) < 1.5 * best):
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
def _known(gpu: str) -> dict[str, str]:
    """Choices for this GPU: those that ship, then those remembered."""
    known: dict[str, str] = {}
    for path in (cache_file(), MEASURED):
        known |= _read(path).get(gpu, {})
    return known


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there, or not whole: it is a cache
        return {}


def _remember(gpu: str, known: dict[str, str]) -> None:
    path = cache_file()
    everything = _read(path)
    everything[gpu] = everything.get(gpu, {}) | known  # another process may have added to it
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(everything, indent=1), encoding="utf-8")
    except OSError as error:
        log.warning("%s: cannot be written (%s); tiles will be chosen anew next time", path, error.strerror)
