"""Choose the tile shapes of the loss kernels on this GPU by timing, and write them where the package reads them."""

import json
import multiprocessing
from itertools import product

import torch

from epagcl.core.files import write_json
from epagcl.losses.infonce import tiles as tile_choice
from epagcl.losses.infonce.triton_loss import Operands, gather, row_sums

WIDTHS = (32, 64, 128, 256, 512)
SIZES = {"small": 5_400, "medium": 40_000, "large": 160_000}
PRECISIONS = ("fp16", "fp32", "tf32")  # bf16 uses the tiles of fp16


def tune(workers: int = 12) -> dict[str, str]:
    """Return the fastest tiles of every kernel, precision, width and size class.

    Several processes compile the kernels, one process times them.
    """
    jobs = list(product(tile_choice.CANDIDATES, PRECISIONS, WIDTHS))
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        pool.starmap(_compile, jobs, chunksize=1)
    chosen: dict[str, str] = {}
    for kernel, precision, width in jobs:
        for size_class, rows in SIZES.items():
            if precision == "tf32" and size_class == "large":
                rows //= 2  # the ranking is the same, and the full size takes a minute
            launch = _launcher(kernel, precision, width, rows)
            tiles = str(tile_choice.fastest(kernel, precision, launch))
            for same in ("fp16", "bf16") if precision == "fp16" else (precision,):
                chosen[f"{kernel} {same} {width} {size_class}"] = tiles
            print(kernel, precision, width, size_class, tiles, flush=True)
    return dict(sorted(chosen.items()))


def _launcher(kernel: str, precision: str, width: int, rows: int):
    o = Operands(torch.randn(rows, width, device="cuda"), 0.3, 1, precision)
    if kernel == "sums":
        return lambda tiles: row_sums(o, tiles)
    sums = torch.full((rows,), float(rows), device="cuda")
    return lambda tiles: gather(o, sums, tiles)


def _compile(kernel: str, precision: str, width: int) -> None:
    launch = _launcher(kernel, precision, width, 1024)
    for tiles in tile_choice.CANDIDATES[kernel][precision]:
        try:
            launch(tiles)
        except Exception as error:
            if "OutOfResources" not in type(error).__name__:
                raise
    torch.cuda.synchronize()


def write(chosen: dict[str, str]) -> None:
    """Write the tiles of this GPU to the file, and keep those of other GPUs."""
    path = tile_choice.MEASURED
    measured = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    write_json(dict(sorted((measured | {torch.cuda.get_device_name(): chosen}).items())), path)
