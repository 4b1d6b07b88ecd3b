"""The model of cost: measure epochs of many sizes, fit a few parameters, and check them on sizes they have not seen.

Measurements of the H200 are those of ``results/benchmarks/gpu.json``. On a CPU, time is the processor time per thread,
so that other processes do not count. Fitted parameters go to ``epagcl/core/costs.toml``.
"""

import ctypes
import gc
import json
import multiprocessing
import os
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls

import epagcl
from epagcl.core import cost as core_cost
from epagcl.core.cost import FITTED, Work, clock, full_rate_seconds, held_bytes, loss_products, machine
from epagcl.core.formatting import duration
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.methods.work import Sizes, sizes_of, work_of
from epagcl.runs.record import provenance
from epagcl.training.epoch import EpochRunner
from epagcl.training.loop import adam

#: Nodes, average degree, features and settings of the runs that are fitted, with those drawn by ``EARLIER_SEEDS``.
FITTED_RUNS: list[tuple[int, float, int, dict[str, Any]]] = [
    (2_000, 4, 128, {}),
    (4_000, 10, 256, {}),
    (6_000, 20, 64, {"hidden": 256, "dim": 128, "projection": 128}),
    (20_000, 10, 128, {"batch_size": 256}),
    (30_000, 40, 128, {"batch_size": 256, "hidden": 256, "dim": 128, "projection": 128}),
    (10_000, 10, 1024, {"batch_size": 256}),
    (8_000, 6, 128, {"hidden": 128, "dim": 64, "projection": 64}),
    (12_000, 80, 256, {"batch_size": 256, "hidden": 128, "dim": 128, "projection": 128}),
    (9_000, 16, 100, {"batch_size": 128, "hidden": 384, "dim": 192, "projection": 192}),
    (3_500, 50, 64, {"hidden": 512, "dim": 128, "projection": 256}),
    (15_000, 30, 400, {"batch_size": 256}),
    (50_000, 6, 32, {"batch_size": 256, "hidden": 128, "dim": 64, "projection": 64}),
    (6_500, 10, 200, {"hidden": 192, "dim": 192, "projection": 192}),
    (200, 6, 64, {}),
    (1_000, 12, 200, {}),
    (3_000, 8, 512, {}),
    (5_000, 30, 128, {"hidden": 256, "dim": 256, "projection": 128}),
    (25_000, 20, 200, {"batch_size": 512}),
    (40_000, 10, 64, {"batch_size": 256, "hidden": 256, "dim": 128, "projection": 128}),
    (7_000, 12, 300, {"hidden": 256, "dim": 128, "projection": 256}),
    (11_000, 14, 160, {"batch_size": 384, "hidden": 320, "dim": 160, "projection": 160}),
    (4_500, 24, 96, {"hidden": 384, "dim": 192, "projection": 192}),
    (18_000, 20, 320, {"batch_size": 192}),
    (35_000, 8, 48, {"batch_size": 256, "hidden": 192, "dim": 96, "projection": 96}),
    (5_500, 16, 144, {"hidden": 320, "dim": 128, "projection": 160}),
]
EARLIER_SEEDS = (17, 18)  # of the checks of earlier forms of the model
CHECK_SEED, CHECKS = 19, 10  # of the runs that check the model and never enter a fit
#: The graphs of the predictions, and the numbers of devices.
LARGEST = {
    "ogbn-papers100M": Sizes(111_059_956, 1_615_685_872, 128),
    "10⁹ nodes, 10¹⁰ edges": Sizes(10**9, 10**10, 128),
}
RANKS = (1, 8, 64, 512)
RESULTS = Path(__file__).parent.parent / "results"
PROTOCOL = (
    "EPAGCL; epochs on generated graphs, three processes each; the fastest of three epochs after one; on a CPU "
    "processor time per thread, and the median of the peaks of allocated memory, which differ by a quarter as glibc "
    "fragments it. Non-negative least squares of relative errors. H200: graphs of gpu.json, each predicted by a fit to "
    "the other eight"
)
PROCESSES = 3
EPOCHS = 3  # of which the fastest counts
RATES = ("loss", "dense", "moved")  # of the machine
LOSS_BYTES = 2  # of a similarity: the CPU of the measurements has bf16 instructions
SHARES = ("loss", "dense", "moved", "gathered")
#: Stored entries of sparse features of the graphs in gpu.json, per node; the others are dense.
ENTRIES = {"Cora": 18.2, "CiteSeer": 31.6, "PubMed": 50.1, "Coauthor-Physics": 33.0, "generated, size of WikiCS": 18.0}


def cost(device: str = "cpu", before: dict | None = None, *, later: bool = False) -> dict:
    """Measure, fit and check. Write the parameters to ``costs.toml``.

    Args:
        device: where epochs are measured.
        before: an earlier result, whose measurements are fitted again in place of new ones.
        later: measure the runs of :func:`drawn_runs` too; otherwise those of ``before`` are judged again.
    """
    gpu = _gpu()
    if before is None:
        on, record = machine(device), dict(provenance(device))
        rates = [on.loss_flops, on.dense_flops, on.bandwidth]
        rows = [_apart(run, device) for run in _fitted_runs()]
    else:
        record = {key: before[key] for key in ("date", "hardware", "versions", "commit")}
        rates = list(before["cpu"]["rates"].values())
        rows = [row | {"work": _counted(row)} for row in before["cpu"]["rows"]]
    rows = [row | {"held_out": False} for row in rows]
    earlier = None if before is None or later else before["cpu"].get("later")
    measures = later or before is None
    checks = [_apart(run, device) for run in drawn_runs()] if measures else (earlier or {}).get("rows", [])
    checks = [row | {"work": _counted(row), "held_out": True} for row in checks]
    left_out = _left_out(rows, rates)
    cpu = _fit([*rows, *checks], rates, "cpu") | {"rates": dict(zip(RATES, rates, strict=True))}
    error, judged = cpu.pop("held_out_error"), [row for row in cpu["rows"] if row["held_out"]]
    cpu["rows"] = [row for row in cpu["rows"] if not row["held_out"]]
    cpu["left_out_error"] = left_out
    cpu["earlier_checks"] = [] if before is None else before["cpu"].get("earlier_checks", [])
    if checks:
        when = earlier or {**_when(device), "load": os.getloadavg()[0], "seed": CHECK_SEED, "protocol": PROTOCOL}
        cpu["later"] = {**when, "rows": judged, "error": error}
    _write({"cpu": cpu["parameters"], "cuda": gpu["parameters"]}, gpu["rates"])
    core_cost._fitted.cache_clear()  # predictions are those of the new parameters
    return {
        **record,
        "command": "python -m benchmarks cost",
        "seed": 0,
        "protocol": PROTOCOL if before is None else before["protocol"],
        "cpu": cpu,
        "h200": gpu,
        "predictions": predictions(),
    }


def _when(device: str) -> dict:
    return {key: value for key, value in provenance(device).items() if key in ("date", "commit")}


def drawn_runs(seed: int = CHECK_SEED, count: int = CHECKS) -> list[tuple[int, float, int, dict[str, Any]]]:
    """Draw runs that nobody has chosen, alternately with batches and without."""
    random = np.random.default_rng(seed)

    def between(low: float, high: float) -> int:
        return round(float(np.exp(random.uniform(np.log(low), np.log(high)))))

    runs = []
    for number in range(count):
        widths = {name: 32 * between(2, most) for name, most in (("hidden", 16), ("dim", 8), ("projection", 8))}
        batch = {} if number % 2 else {"batch_size": 64 * between(2, 8)}
        nodes = between(2_500, 8_000) if number % 2 else between(8_000, 45_000)
        runs.append((nodes, float(between(4, 60)), between(32, 800), {**batch, **widths}))
    return runs


def _fitted_runs() -> list[tuple[int, float, int, dict[str, Any]]]:
    drawn = [run for seed in EARLIER_SEEDS for run in drawn_runs(seed)]
    return [*FITTED_RUNS, *drawn]


def _counted(row: dict) -> dict:
    """Return the work of a measured run, counted again."""
    sizes = Sizes(row["nodes"], row["edges"], row["features"], row["entries"])
    return work_of(epagcl.EPAGCL(**row["settings"]), sizes)._asdict()


def predictions() -> list[dict]:
    """Return what the model predicts for graphs that were never trained here, on H200s."""
    rows = []
    for name, sizes in LARGEST.items():
        for settings in ({}, {"batch_size": 256}):
            for ranks in RANKS:
                model = epagcl.EPAGCL(**settings)
                predicted = epagcl.plan(
                    nodes=sizes.nodes,
                    edges=sizes.edges,
                    features=sizes.features,
                    method=model,
                    gpus=ranks,
                    device="h200",
                )
                mode = next(m for m in predicted.modes if m.ranks == ranks and m.name != "subgraphs")
                rows.append(
                    {
                        "graph": name,
                        "ranks": ranks,
                        **settings,
                        "seconds": mode.epoch.seconds,
                        "gib": mode.epoch.bytes / 2**30,
                        "sent_gib": mode.epoch.sent / 2**30,
                        "fits": mode.fits,
                    }
                )
        one = epagcl.plan(nodes=sizes.nodes, edges=sizes.edges, features=sizes.features, method="epagcl", device="h200")
        part, embedding = one.modes[-1], one.embedding
        rows.append(
            {
                "graph": name,
                "ranks": 1,
                "subgraphs": True,
                "seconds": part.epoch.seconds,
                "gib": part.epoch.bytes / 2**30,
                "sent_gib": 0.0,
                "fits": part.fits,
                "embedding_seconds": embedding.seconds,
            }
        )
    return rows


def table(result: dict) -> str:
    """Return the table of the model's errors."""
    lines = ["| device | runs | parameters | worst error of time | worst error of memory |"]
    lines.append("|---|--:|--:|--:|--:|")
    cpu, gpu = result["cpu"], result["h200"]
    for name, part, errors in (("CPU", cpu, cpu["left_out_error"]), ("H200", gpu, gpu["left_out_error"])):
        cells = [name, f"{len(part['rows'])}, each left out once", str(len(part["parameters"]))]
        for key in ("seconds", "bytes"):
            cells.append(f"{100 * errors[key]['worst']:.0f}% (mean {100 * errors[key]['mean']:.0f}%)")
        lines.append("| " + " | ".join(cells) + " |")
    if later := cpu.get("later"):
        cells = [
            "CPU",
            f"{len(later['rows'])} that no fit has seen, at a load of {later['load']:.0f}",
            str(len(cpu["parameters"])),
        ]
        for key in ("seconds", "bytes"):
            errors = [abs(row[f"error_{key}"]) for row in later["rows"]]
            cells.append(f"{100 * max(errors):.0f}% (mean {100 * sum(errors) / len(errors):.0f}%)")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def predictions_table(result: dict) -> str:
    """Return the predictions for graphs that were never trained here."""
    lines = ["| graph | training | H200s | per epoch | memory of each | sent by each per epoch | fits |"]
    lines.append("|---|---|--:|--:|--:|--:|---|")
    for row in result["predictions"]:
        kind = (
            "subgraphs of 8,192" if row.get("subgraphs") else "batches of 256" if "batch_size" in row else "all pairs"
        )
        cells = [row["graph"], kind, str(row["ranks"]), duration(row["seconds"]), f"{row['gib']:,.1f} GiB"]
        cells += [f"{row['sent_gib']:,.1f} GiB" if row["sent_gib"] else "", "yes" if row["fits"] else "no"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _apart(run: tuple, device: str) -> dict:
    rows = []
    for _ in range(PROCESSES):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            rows.append(pool.submit(_measure, run, device).result())
    seconds, peaks = min(row["seconds"] for row in rows), sorted(row["bytes"] for row in rows)
    row = {**rows[0], "seconds": seconds, "bytes": peaks[len(peaks) // 2], "peaks": peaks}
    print(json.dumps(row), flush=True)
    return row


def _measure(run: tuple[int, float, int, dict[str, Any]], device: str) -> dict:
    """Return the time and memory of epochs on a generated graph of dense features."""
    nodes, degree, features, settings = run
    data = check(block_model(nodes, average_degree=degree, num_features=features, topic_words=features // 2))
    data.x = data.x.to_dense()
    where = torch.device(device)
    method = epagcl.EPAGCL(epochs=0, device=device, subgraphs="off", **settings)
    gc.collect()
    before = _start_peak()
    method.num_features_ = features
    network = method.initial_network().to(where)
    graph = Graph.from_data(data, where)
    runner = EpochRunner(method, network, graph, adam(method, network, where))
    times = []
    for epoch in range(1 + EPOCHS):
        start = clock(where)
        runner.run(epoch, epoch + 1)
        times.append(clock(where) - start)
    peak = _peak() - before if where.type == "cpu" else torch.cuda.max_memory_allocated(where)
    sizes = sizes_of(data)
    return {
        **sizes._asdict(),
        "settings": settings,
        "seconds": min(times[1:]),
        "bytes": peak,
        "work": work_of(method, sizes)._asdict(),
    }


def _start_peak() -> int:
    """Forget the peak of resident memory, and return the allocated part of what is resident now.

    The kernel keeps the peak; samples of a thread would miss it on a busy machine. Memory that was freed before is
    given back, so that it does not serve the epochs.
    """
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _resident("RssAnon")


def _peak() -> int:
    """Return the peak of allocated memory, without pages of libraries, which come and go with the load."""
    return _resident("VmHWM") - _resident("RssFile") - _resident("RssShmem")


def _resident(name: str) -> int:
    """Return a size of Linux' status of this process in bytes."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(rf"(?m)^{name}:\s*(\d+) kB$", text)[1]) * 1024  # type: ignore[index]


def _fit(rows: list[dict], rates: list[float], kind: str) -> dict:
    """Fit time and memory to the rows that are not held out. Add predictions and errors to all."""
    used = [row for row in rows if not row["held_out"]]
    time, memory = _solve(used, rates, kind)
    for row in rows:
        work = Work(**row["work"])
        seconds = float(_time_terms(work, rates, kind) @ time)
        peak = float(_memory_terms(work, kind) @ memory) + _known_bytes(work, kind)
        row |= {"predicted_seconds": seconds, "error_seconds": seconds / row["seconds"] - 1}
        row |= {"predicted_bytes": peak, "error_bytes": peak / row["bytes"] - 1}
    return {
        "parameters": _parameters(time, memory),
        "rows": rows,
        "held_out_error": {
            key: max((abs(row[f"error_{key}"]) for row in rows if row["held_out"]), default=0.0)
            for key in ("seconds", "bytes")
        },
    }


def _left_out(rows: list[dict], rates: list[float], kind: str = "cpu") -> dict:
    """Return the errors of each run, predicted by a fit to all others: their mean and the worst."""
    errors = []
    for row in rows:
        others = [{**other, "held_out": other is row} for other in rows]
        errors.append(_fit(others, rates, kind)["held_out_error"])
    return {
        key: {"mean": float(np.mean([error[key] for error in errors])), "worst": max(error[key] for error in errors)}
        for key in ("seconds", "bytes")
    }


def _solve(rows: list[dict], rates: list[float], kind: str) -> tuple[np.ndarray, np.ndarray]:
    works = [Work(**row["work"]) for row in rows]
    seconds, peak = (np.array([row[key] for row in rows]) for key in ("seconds", "bytes"))
    known = np.array([_known_bytes(work, kind) for work in works])
    ones = np.ones(len(rows))
    time, _ = nnls(np.array([_time_terms(work, rates, kind) for work in works]) / seconds[:, None], ones)
    memory, _ = nnls(np.array([_memory_terms(work, kind) for work in works]) / (peak - known)[:, None], ones)
    return time, memory


def _time_terms(work: Work, rates: list[float], kind: str) -> np.ndarray:
    loss, dense, bandwidth = rates
    on = replace(machine("h200"), kind=kind, loss_flops=loss, dense_flops=dense, bandwidth=bandwidth)
    *shares, last = [*full_rate_seconds(work, replace(on, loss_bytes=LOSS_BYTES)).values(), 1.0]
    return np.array([*shares[:4], last, *shares[4:]])  # overhead before what only a CPU has


def _memory_terms(work: Work, kind: str) -> np.ndarray:
    return np.array([held_bytes(work, kind), work.kept, 1.0])


def _known_bytes(work: Work, kind: str) -> float:
    """Return what is not fitted: the tiles of the loss; weights, gradients and the state of Adam."""
    return loss_products(work, kind, LOSS_BYTES)[1] + 16 * work.parameters


def _parameters(time: np.ndarray, memory: np.ndarray) -> dict[str, float]:
    # A term that the fit leaves out costs nothing: its efficiency is unlimited.
    shares = {name: 1 / max(value, 1e-3) for name, value in zip(SHARES, time, strict=False)}
    found = {**shares, "overhead": float(time[4]), "held": memory[0], "kept": memory[1], "base": memory[2]}
    return found if len(time) == 5 else {**found, "fresh": 1 / max(time[5], 1e-3)}


def _gpu() -> dict:
    """Fit the measurements of the H200, and predict each graph by a fit to the others."""
    measured = json.loads((RESULTS / "benchmarks" / "gpu.json").read_text(encoding="utf-8"))
    found = measured["rates"]
    rates = [1e12 * found["fp16"], 1e12 * found["tf32"], 1e12 * found["copy_tb_per_s"]]
    rows = []
    for row in measured["epoch"]:
        entries = ENTRIES.get(row["graph"])
        sizes = Sizes(
            row["nodes"], row["pairs"], row["features"], None if entries is None else round(entries * row["nodes"])
        )
        settings = {"batch_size": 256} if "batches" in row["graph"] else {}
        rows.append(
            {
                **sizes._asdict(),
                "graph": row["graph"],
                "settings": settings,
                "seconds": row["ms"] / 1e3,
                "bytes": row["gib"] * 2**30,
                "work": work_of(epagcl.EPAGCL(**settings), sizes)._asdict(),
            }
        )
    rows = [{**row, "held_out": False} for row in rows]
    left_out = _left_out(rows, rates, "cuda")
    result = _fit(rows, rates, "cuda")
    return {
        "date": measured["date"],
        "parameters": result["parameters"],
        "rates": dict(zip(RATES, rates, strict=True)),
        "rows": result["rows"],
        "left_out_error": left_out,
    }


def _write(parameters: dict[str, dict[str, float]], h200: dict[str, float]) -> None:
    """Write the parameters, and keep the links and the sizes of the known machines."""
    before = FITTED.read_text(encoding="utf-8")
    lines = ["# Written by `python -m benchmarks cost`. Links and the memory of machines are from data sheets.", ""]
    for kind, values in parameters.items():
        lines += [f"[efficiency.{kind}]", *(f"{name} = {value:.4g}" for name, value in values.items()), ""]
    head, machines = before[before.index("[links.") :].split("[machines.h200]")
    for name, key in (("loss_flops", "loss"), ("dense_flops", "dense"), ("bandwidth", "moved")):
        machines = re.sub(rf"(?m)^{name} = .*$", f"{name} = {h200[key]:.4g}", machines, count=1)
    FITTED.write_text("\n".join(lines) + head + "[machines.h200]" + machines, encoding="utf-8")
