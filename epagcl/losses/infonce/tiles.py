"""Tile sizes of the loss kernels: the fastest candidate for each GPU, kernel, precision, width and size class.

``tiles.json`` has the choices that ``python -m benchmarks tune`` has measured. For any other GPU or width the
candidates are timed on first use (up to a minute, mostly compilation) and the choice is saved in the user's cache. The
choice determines the order of sums and so the last bits of the results. It is saved to make runs reproducible.
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

from epagcl.core.determinism import is_deterministic
from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.core.log import log

MEASURED = Path(__file__).parent / "tiles.json"


@dataclass(frozen=True)
class Tiles:
    """The tile size and the launch options of a kernel.

    Attributes:
        rows: the number of rows of a tile.
        columns: the number of columns of a tile.
        warps: the number of warps per program.
        stages: the number of pipeline stages of the loads.

    Examples:
        >>> str(Tiles(128, 64, warps=8, stages=3))
        '128x64/8/3'
    """

    rows: int
    columns: int
    warps: int
    stages: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}/{self.warps}/{self.stages}"

    @classmethod
    def parse(cls, text: str) -> "Tiles":
        """Return the tiles written as ``rows x columns / warps / stages``.

        Examples:
            >>> Tiles.parse("128x64/8/3")
            Tiles(rows=128, columns=64, warps=8, stages=3)
        """
        return cls(*map(int, text.replace("x", "/").split("/")))


# Candidates, from tiles for large shared memory (Hopper, 227 KiB) to tiles for any GPU. In "sums", columns divide rows.
_HALF = {
    "sums": "128x32/4/3 128x64/4/3 128x128/4/2 128x64/8/3 64x64/4/2 64x32/4/2 32x32/4/1",
    "gather": "128x64/8/3 128x64/8/2 64x64/4/3 64x64/4/2 64x64/8/2 64x32/8/2 64x32/4/2 32x32/4/1",
}
_SINGLE = {
    "sums": "128x64/8/1 128x32/4/2 64x64/4/2 64x32/4/3 64x32/4/1 32x32/4/1",
    "gather": "128x32/8/1 128x32/8/2 128x64/8/1 64x32/4/2 64x32/4/1 32x32/4/1",
}

#: The candidates of each kernel and precision.
CANDIDATES = {
    kernel: {
        precision: [Tiles.parse(text) for text in texts[kernel].split()]
        for precision, texts in {"fp32": _SINGLE, "tf32": _SINGLE, "fp16": _HALF, "bf16": _HALF}.items()
    }
    for kernel in ("sums", "gather")
}
INTERPRETED = Tiles(32, 16, 4, 1)
#: Tiles for any GPU, where they must not depend on a measurement of time.
SAFE = "32x32/4/1"

#: The largest number of rows of a group in each size class.
SIZES = {"small": 8_192, "medium": 65_536, "large": 2**62}


def tiles_for(
    kernel: str, precision: str, width: int, size: int, device: torch.device, launch: Callable[[Tiles], Tensor]
) -> Tiles:
    """Return the tiles of a kernel.

    Args:
        kernel: ``"sums"`` or ``"gather"``.
        precision: the precision of the operands.
        width: the padded width of the rows.
        size: the number of rows of a group.
        device: the device of the rows.
        launch: function that launches the kernel with given tiles. It is timed.
    """
    if device.type != "cuda":
        return INTERPRETED  # the tests run the kernels in Triton's interpreter
    size_class = next(name for name, limit in SIZES.items() if size <= limit)
    key = f"{kernel} {precision} {width} {size_class}"
    gpu = torch.cuda.get_device_name(device)
    choices = _choices(gpu)
    if is_deterministic():  # other tiles add in another order
        return Tiles.parse(_read(MEASURED).get(gpu, {}).get(key) or SAFE)
    if key not in choices:
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("the loss must run once before it is captured, to choose its tiles")
        choices[key] = str(fastest(kernel, precision, launch))
        _save_choices(gpu, choices)
    return Tiles.parse(choices[key])


def fastest(kernel: str, precision: str, launch: Callable[[Tiles], Tensor]) -> Tiles:
    """Return the fastest candidate for a launch. Candidates that do not fit on the GPU are skipped."""
    log.info("choosing the tile sizes of kernel %s in %s; this happens once per GPU", kernel, precision)
    seconds: dict[Tiles, float] = {}
    for tiles in CANDIDATES[kernel][precision]:
        try:
            seconds[tiles] = _time(launch, tiles, min(seconds.values(), default=float("inf")))
        except Exception as error:
            if "OutOfResources" not in type(error).__name__:
                raise
    if not seconds:
        raise InputError("no tiles of the loss's kernels fit this GPU; use impl='tiled'")
    return min(seconds, key=lambda tiles: seconds[tiles])


def _time(launch: Callable[[Tiles], Tensor], tiles: Tiles, best: float, repeats: int = 3) -> float:
    """Return the shortest time of a few launches, after a warm-up. Stop early if it is far from ``best``."""
    launch(tiles)
    times: list[float] = []
    while len(times) < repeats and (not times or min(times) < 1.5 * best):
        torch.cuda.synchronize()
        start = time.perf_counter()
        launch(tiles)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def cache_file() -> Path:
    """Return the path of the user's cache of choices."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "epagcl" / "tiles.json"


@cache
def _choices(gpu: str) -> dict[str, str]:
    """Return the choices for a GPU. Choices in the package take precedence over the user's cache."""
    choices: dict[str, str] = {}
    for path in (cache_file(), MEASURED):
        choices |= _read(path).get(gpu, {})
    return choices


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # a missing or damaged cache is treated as empty
        return {}


def _save_choices(gpu: str, choices: dict[str, str]) -> None:
    path = cache_file()
    saved = _read(path)
    saved[gpu] = saved.get(gpu, {}) | choices  # another process may have saved more
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(saved, indent=1), encoding="utf-8")
    except OSError as error:
        log.warning("%s: cannot be written (%s); tiles will be chosen again next time", path, error.strerror)
