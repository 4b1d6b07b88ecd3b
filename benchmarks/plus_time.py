"""Time of EPAGCL+ and of an epoch of EPAGCL with each encoder, on a GPU or a CPU, against the targets."""

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import TypedDict

import torch
from torch_geometric.data import Data

import epagcl
from benchmarks.propagated import median_seconds
from epagcl.core.errors import InputError
from epagcl.core.formatting import short_commit
from epagcl.core.hardware import resolve_device
from epagcl.methods.epagcl_plus import EPAGCLPlus
from epagcl.methods.inputs import input_graph
from epagcl.nn.encoders import ENCODERS
from epagcl.paper.tables import Table, markdown
from epagcl.report.metrics import Provenance
from epagcl.runs.record import provenance
from epagcl.training.epoch import EpochRunner
from epagcl.training.loop import adam

#: Target of the whole fit in seconds, by the type of the device: one H200, two CPU cores.
TARGETS: dict[str, dict[str, float]] = {
    "Cora": {"cuda": 2, "cpu": 90},
    "Amazon-Photo": {"cuda": 3},
    "Coauthor-Physics": {"cuda": 15},
}
REPEATS = 3
BLOCKS = 5  # timed blocks of epochs of each encoder
BLOCK_SECONDS = 0.2
TARGET_RATIO = {"residual": 1.5}  # time of an epoch relative to the encoder gcn


class Row(TypedDict):
    """Times on one graph: of the whole fit of EPAGCL+, and of an epoch of EPAGCL by encoder."""

    graph: str
    nodes: int
    fit_seconds: float
    target_seconds: float | None
    epoch_seconds: dict[str, float]


class Times(Provenance):
    """The measurements of one device."""

    command: str
    protocol: str
    rows: list[Row]
    absent: list[str]


def plus_time(largest: int = 10**9, device: str = "auto") -> Times:
    """Time every available graph.

    Args:
        largest: skip graphs with more nodes.
        device: auto, cpu or cuda.
    """
    result = Times(
        **provenance(device),
        command="python -m benchmarks plus-time" + (f" --largest {largest}" if largest < 10**9 else ""),
        protocol=f"default settings; whole fit: median of {REPEATS} after a first one; epoch: median of {BLOCKS} "
        "blocks of epochs, the encoders in turn",
        rows=[],
        absent=[],
    )
    for name in TARGETS:
        try:
            data = epagcl.load(name)
        except InputError as error:
            result["absent"].append(f"{name}: {error}")
            continue
        if data.num_nodes <= largest:
            result["rows"].append(timed(data, device))
            print(result["rows"][-1], flush=True)
    return result


def timed(data: Data, device: str = "auto", repeats: int = REPEATS) -> Row:
    """Return the times on one graph.

    Args:
        data: the graph.
        device: auto, cpu or cuda.
        repeats: number of fits after the first.
    """
    place = resolve_device(device)
    fit, _ = median_seconds(lambda: EPAGCLPlus(device=device).fit(data), place, repeats)
    return {
        "graph": data.name,
        "nodes": data.num_nodes,
        "fit_seconds": fit,
        "target_seconds": TARGETS.get(data.name, {}).get(place.type),
        "epoch_seconds": epoch_seconds(data, device),
    }


def epoch_seconds(data: Data, device: str = "auto", blocks: int = BLOCKS) -> dict[str, float]:
    """Return the median time of an epoch of EPAGCL with each encoder.

    The encoders take turns, so that the load of other processes affects all of them alike.

    Args:
        data: the graph.
        device: auto, cpu or cuda.
        blocks: number of timed blocks of epochs.
    """
    place = resolve_device(device)
    runs = {encoder: _epochs(data, encoder, place) for encoder in ENCODERS}
    for run in runs.values():
        run(5 if place.type == "cuda" else 1)  # on a GPU, one of the first epochs is captured
    once = max(run(1) for run in runs.values())
    count = max(1, min(200, int(BLOCK_SECONDS / once)))
    times: dict[str, list[float]] = {encoder: [] for encoder in runs}
    for _ in range(blocks):
        for encoder, run in runs.items():
            times[encoder].append(run(count) / count)
    return {encoder: median(values) for encoder, values in times.items()}


def _epochs(data: Data, encoder: str, place: torch.device) -> Callable[[int], float]:
    """Return a function that runs the next epochs as training does and returns their time in seconds."""
    model = epagcl.EPAGCL(encoder=encoder, epochs=0, device=place.type).fit(data)
    runner = EpochRunner(model, model.network_, input_graph(model, data, place), adam(model, model.network_, place))
    done = 0

    def run(count: int) -> float:
        nonlocal done
        start = time.perf_counter()
        runner.run(done, done + count)  # waits for the device, since it returns the losses
        done += count
        return time.perf_counter() - start

    return run


def tables(devices: dict[str, Times]) -> str:
    """Return the times of the whole fit and of an epoch, each beside its target.

    Args:
        devices: the measurements by the type of the device, see ``results/benchmarks/plus.json``.
    """
    rows = [(_device(times), row) for times in devices.values() for row in times["rows"]]
    fits = [
        [row["graph"], device, _seconds(row["fit_seconds"]), _target(row["target_seconds"])] for device, row in rows
    ]
    heads = [name if name not in TARGET_RATIO else f"{name} (target ≤ {TARGET_RATIO[name]}×)" for name in ENCODERS]
    epochs = [[row["graph"], device, *_epoch_cells(row["epoch_seconds"])] for device, row in rows]
    whole = Table("", "Whole fit of EPAGCL+", ["graph", "device", "time", "target"], fits)
    epoch = Table("", "One epoch of EPAGCL, by encoder", ["graph", "device", *heads], epochs, " ".join(_notes(devices)))
    return markdown(whole) + "\n" + markdown(epoch)


def _epoch_cells(seconds: dict[str, float]) -> list[str]:
    return [f"{1000 * seconds[name]:.3g} ms ({seconds[name] / seconds['gcn']:.2f}×)" for name in ENCODERS]


def _notes(devices: dict[str, Times]) -> Iterator[str]:
    yield "Default settings, all pairs as negatives of EPAGCL. Factors are relative to the encoder `gcn`."
    for times in devices.values():
        where = f"{_device(times)}, torch {times['versions']['torch']}"
        yield f"Measured on {where}, {times['date'][:10]}, commit {short_commit(times['commit'])}."


def _device(times: Times) -> str:
    hardware = times["hardware"]
    return f"{hardware['cpu']}, {hardware['threads']} threads" if hardware["device"] == "cpu" else hardware["device"]


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s"


def _target(seconds: float | None) -> str:
    return "–" if seconds is None else f"≤ {seconds:g} s"
