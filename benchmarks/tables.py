"""The tables of README and docs, generated from the files under ``results``."""

import json
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import (
    comparison,
    cost,
    drift,
    encoding,
    half,
    ingest,
    large,
    new_nodes,
    plus,
    plus_time,
    propagated,
    retention,
    scale,
    structure,
)
from benchmarks.figures import scaling_figure
from benchmarks.health import summary
from epagcl.cli.rendering import COMPARISON_COLUMNS, comparison_cells
from epagcl.core.formatting import short_commit
from epagcl.paper import accuracy, published
from epagcl.paper.tables import markdown

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
COMPARISON = RESULTS / "comparison.json"
PLUS = RESULTS / "evidence" / "epagcl-plus.json"
PLUS_TIME = RESULTS / "benchmarks" / "plus.json"
RETENTION = RESULTS / "benchmarks" / "retention.json"
NEW_NODES = RESULTS / "benchmarks" / "new_nodes.json"
DRIFT = RESULTS / "benchmarks" / "drift.json"
ENCODING = RESULTS / "benchmarks" / "encoding.json"
HALF = RESULTS / "benchmarks" / "half.json"
STRUCTURE = RESULTS / "benchmarks" / "structure.json"
INGEST = RESULTS / "scale" / "ingest.json"
RANKS = RESULTS / "scale" / "ranks.json"
LARGE = RESULTS / "scale" / "large.json"
COST = RESULTS / "scale" / "cost.json"
#: Points by which a figure may differ from a published one without mention.
DEVIATION = 1.5
GENERATED = ("speed", "methods", "report", "which-method", "own-graphs", "scaling")
PAGES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in GENERATED))


def update_pages() -> None:
    """Insert the tables between their marks in README and docs, and draw the figures."""
    for path in PAGES:
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
    scaling_figure(_result("benchmarks/gpu.json"), ROOT / "docs" / "figures")
    comparison.draw(COMPARISON, ROOT / "docs" / "figures")


def with_tables(text: str) -> str:
    """Return ``text`` with the table of each name between ``<!-- name -->`` and ``<!-- /name -->``."""
    gpu, cpu = (_result(f"benchmarks/{name}.json") for name in ("gpu", "cpu"))
    tables = {
        "accuracy": accuracy_table(),
        "protocols": protocol_tables(),
        "deviations": deviations_table(),
        "methods": methods_table(_result("benchmarks/methods.json")),
        "gpu": gpu_table(gpu),
        "loss": loss_table(gpu),
        "precision": precision_table(gpu),
        "half": _if_measured(HALF, half.table),
        "cpu": cpu_table(cpu),
        "health": health_table(_result("benchmarks/health.json")),
        "epagcl-plus": _if_measured(PLUS, plus.table),
        "epagcl-plus-time": _if_measured(PLUS_TIME, plus_time.tables),
        "retention": _if_measured(RETENTION, retention.agreement_table),
        "new-nodes": _if_measured(NEW_NODES, new_nodes.table),
        "drift": _if_measured(DRIFT, drift.table),
        "encoding": _if_measured(ENCODING, encoding.table),
        "structure": _if_measured(STRUCTURE, structure.table),
        "ingest": _if_measured(INGEST, ingest.table),
        "ranks": _if_measured(RANKS, scale.table),
        "propagated-time": propagated.table(_result("benchmarks/propagated.json")),
        "large": _if_measured(LARGE, large.table),
        "cost": _if_measured(COST, cost.table),
        "predictions": _if_measured(COST, cost.predictions_table),
        **comparison.blocks(COMPARISON),
    }
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if begin not in text:
            continue
        before, rest = text.split(begin)
        text = before + begin + table + end + rest.split(end)[1]
    return text


def health_table(result: dict) -> str:
    """Return the number of models with each verdict, by how they were trained."""
    grades = ("good", "fair", "poor")
    lines = ["| models | " + " | ".join(grades) + " |", "|---|" + "--:|" * len(grades)]
    for kind, worst in summary(result).items():
        lines.append(f"| {kind} | " + " | ".join(str(worst.count(grade)) for grade in grades) + " |")
    graphs = sorted({row["graph"] for row in result["rows"]})
    note = (
        f"The verdict of a model is the worst verdict of its four measures, each a mean over {result['seeds']} seeds. "
        f"Graphs: {', '.join(graphs)}. Measured on {result['hardware']['device']}, {result['date'][:10]}."
    )
    return _with_note(lines, note)


def protocol_tables() -> str:
    """Return a table for each graph: all methods under all protocols, beside published results."""
    parts = []
    for name, results in _comparison().items():
        protocols = [p for p in ("strict", "paper", "public") if p in results[0]["protocols"]]
        heads = [*protocols, "reported: the paper", "reported: random", "reported: public", *COMPARISON_COLUMNS[3:]]
        lines = [f"| {name} | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
        lines += ["| " + " | ".join(comparison_cells(name, result, protocols)) + " |" for result in results]
        dates, commits, hardware = (
            sorted({value for result in results for value in result[key]}) for key in ("dates", "commits", "hardware")
        )
        seeds = max(len(result["seeds"]) for result in results)
        command = f"`epagcl compare {name.lower()} --seeds {seeds} --protocols {','.join(protocols)}`"
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        origin = f"Measured on {' and '.join(hardware)}, {when}, {_commits(commits)}."
        parts.append(_with_note(lines, f"{origin} Command: {command}."))
    return "\n".join(parts)


def deviations_table() -> str:
    """Return the figures that differ from published ones by more than :data:`DEVIATION` points."""
    lines = [
        "<details><summary>All figures that differ</summary>",
        "",
        "| method | graph | published by | protocol here | published | here | difference |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, results in _comparison().items():
        for result in results:
            for source, (reported, *_) in published(name, result["row"]).items():
                protocol = "public" if source == "public" else "strict"
                if protocol not in result["protocols"]:
                    continue
                ours = 100 * result["protocols"][protocol]["accuracy"]["mean"]
                if abs(ours - reported) > DEVIATION:
                    publisher = "the paper" if source == "paper" else "others"
                    cells = [result["row"], name, publisher, protocol, f"{reported:.1f}", f"{ours:.1f}"]
                    lines.append(f"| {' | '.join(cells)} | {ours - reported:+.1f} |")
    return "\n".join([*lines, "", "</details>"]) + "\n"


def accuracy_table() -> str:
    """Return the strict table of the paper's available graphs, with the paper's figures in brackets."""
    result = _result("paper/accuracy.json")
    full = accuracy.protocol_table(result, "strict", reported_ranks=False)
    chosen = [k for k, head in enumerate(full.columns) if head not in result["absent"]]
    columns = [full.columns[k] for k in chosen]
    return markdown(replace(full, columns=columns, rows=[[row[k] for k in chosen] for row in full.rows]))


def _comparison() -> dict[str, list[dict]]:
    """Return the graphs of the paper's tables, each with its rows in the order of the comparison."""
    result: dict[str, list[dict]] = {}
    for name in ("accuracy", "heterophily"):
        for cell in _result(f"paper/{name}.json")["cells"]:
            result.setdefault(cell["graph"]["name"], []).append(cell)
    return result


def gpu_table(result: dict) -> str:
    """Return epoch times and memory on a GPU, with further measurements in a note."""
    lines = [
        "| graph | nodes | epoch | target | memory | target | fastest plain dense implementation |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["epoch"]:
        plain = row["plain"]
        cell = "–"
        if plain is not None:
            cell = f"{_time(plain['ms'])}, {plain['gib']:.1f} GiB ({plain['ms'] / row['ms']:.0f}×)"
        elif "batches" not in row["graph"]:
            cell = f"one 2N×2N block alone: {4 * (2 * row['nodes']) ** 2 / 2**30:,.0f} GiB"
        lines.append(
            f"| {row['graph']} | {row['nodes']:,} | {_time(row['ms'])} | ≤ {_time(row['target_ms'])} "
            f"| {row['gib']:.2f} GiB | ≤ {row['target_gib']:g} GiB | {cell} |"
        )
    captured, prepare, evaluation = result["capture"], result["algorithm_1"], result["evaluation"]
    sentences = [
        f"The row sums of the loss at {row['nodes']:,} nodes take {row['forward_symmetric_ms']:.0f} ms with symmetry "
        f"and {row['forward_all_tiles_ms']:.0f} ms without."
        for row in result["loss"][-1:]
    ]
    sentences += [
        f"An epoch on {captured['graph']} takes {_time(captured['captured_ms'])} with the CUDA graph and "
        f"{_time(captured['not_captured_ms'])} without; "
        f"the losses are {'bit-identical' if captured['same_losses'] else 'different'}.",
        f"Algorithm 1 on {prepare['graph']} takes {1000 * prepare['weights_seconds']:.0f} ms.",
        f"The strict evaluation of {evaluation['nodes']:,} embeddings on {evaluation['splits']} splits takes "
        f"{evaluation['seconds']:.1f} s.",
        f"Measured on {result['hardware']['device']}, torch {result['versions']['torch']}, {result['date'][:10]}.",
    ]
    return _with_note(lines, " ".join(sentences))


def methods_table(result: dict) -> str:
    """Return time and memory of an epoch of every method, and the ratio of its time to that of EPAGCL."""
    graphs = list(dict.fromkeys(row["graph"] for row in result["rows"]))
    lines = ["| method | " + " | ".join(graphs) + " |", "|---|" + "---|" * len(graphs)]
    cells: dict[str, dict[str, str]] = {}
    for row in result["rows"]:
        cell = "out of memory"
        if row["ms"] is not None:
            cell = f"{_time(row['ms'])} ({row['times_epagcl']:.1f}×), {row['gib']:.1f} GiB"
        cells.setdefault(row["method"], {})[row["graph"]] = cell
    lines += [f"| {name} | " + " | ".join(row.get(g, "–") for g in graphs) + " |" for name, row in cells.items()]
    commits = sorted({row.get("commit", result["commit"]) for row in result["rows"]})
    note = (
        f"Measured on {result['hardware']['device']}, torch {result['versions']['torch']}, {result['date'][:10]}, "
        f"{_commits(commits)}."
    )
    return _with_note(lines, note)


def loss_table(result: dict) -> str:
    """Return time and rate of the loss, forward and backward, counted as 3 products of 2M²d flops."""
    lines = ["| nodes | precision | time | rate | share of a matrix product's rate |", "|---|---|---|---|---|"]
    for row in result["loss"]:
        for precision in ("fp16", "bf16", "tf32", "fp32"):
            if precision in row:
                cell = row[precision]
                lines.append(
                    f"| {row['nodes']:,} | {precision} | {_time(cell['ms'])} | {cell['tflops']:.0f} Tflop/s "
                    f"| {100 * cell['share_of_product']:.0f}% of {result['rates'][precision]:.0f} |"
                )
    return "\n".join(lines) + "\n"


def precision_table(result: dict) -> str:
    """Return the errors against float64: of the loss, absolute; of the gradient, relative."""
    names = ["torch fp32", "fp32", "torch tf32", "tf32", "fp16", "bf16"]
    lines = ["| nodes | rows | τ | " + " | ".join(names) + " |", "|---|---|---|" + "---|" * len(names)]
    for row in result["precision"]:
        for temperature, measured in row["temperatures"].items():
            errors = {name.removesuffix(", tiles"): error for name, error in measured.items()}
            cells = [
                f"{errors[name]['loss']:.0e}, {errors[name]['gradient']:.0e}" if name in errors else "–"
                for name in names
            ]
            lines.append(f"| {row['nodes']:,} | {row['rows']} | {temperature} | {' | '.join(cells)} |")
    note = f"Measured on {result['hardware']['device']}, {result['date'][:10]}, {_commits([result['commit']])}."
    return _with_note(lines, note)


def _time(milliseconds: float) -> str:
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.2f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"


def cpu_table(result: dict) -> str:
    """Return epoch times and their ratios on a CPU, with memory and pre-processing in a note."""
    plain = [name for name in result["epoch"][0]["seconds"] if name != "epagcl"]
    lines = [
        "| graph | epagcl | " + " | ".join(f"plain, {name}" for name in plain) + " |",
        "|---|---|" + "---|" * len(plain),
    ]
    for row in result["epoch"]:
        seconds = row["seconds"]
        cells = [f"{1000 * seconds[name]:.0f} ms ({seconds[name] / seconds['epagcl']:.1f}×)" for name in plain]
        lines.append(f"| {row['graph']} | {1000 * seconds['epagcl']:.0f} ms | {' | '.join(cells)} |")
    physics, memory, prepare, hardware = (result[key] for key in ("physics", "memory", "algorithm_1", "hardware"))
    ours, plain_seconds = physics["seconds"].values()
    machine = f"{hardware['cpu']}, {hardware['threads']} threads, torch {result['versions']['torch']}"
    note = (
        f"{physics['graph']} has sparse features. With negatives inside batches of {physics['batch_size']} nodes, an "
        f"epoch takes {ours:.1f} s, and {plain_seconds:.1f} s with the plain implementation "
        f"({plain_seconds / ours:.1f}×). With all pairs as negatives, it takes "
        f"{physics['all_pairs_seconds']:.0f} s; a plain implementation would need "
        f"{physics['one_dense_block_gib']:.0f} GiB for one 2N×2N block. Training on {memory['graph']} adds "
        f"{memory['added_gib']:.2f} GiB and takes {memory['seconds_per_epoch']:.1f} s per epoch; one dense 2N×2N block "
        f"would take {memory['one_dense_block_gib']:.1f} GiB. Algorithm 1 on {prepare['graph']} takes "
        f"{prepare['seconds']:.2f} s. Measured on {machine}, {result['date'][:10]}."
    )
    return _with_note(lines, note)


def _result(name: str) -> dict:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def _if_measured(path: Path, table: Callable[[Any], str]) -> str:
    """Return the table of a file, or nothing if the file does not exist."""
    return table(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else ""


def _commits(commits: list[str]) -> str:
    short = list(dict.fromkeys(map(short_commit, commits)))  # some records have the long form
    return f"commit{'s' * (len(short) > 1)} {', '.join(short)}"


def _with_note(lines: list[str], note: str) -> str:
    """Return a table with a note below it, in lines of at most 120 characters."""
    return "\n".join([*lines, "", textwrap.fill(note, 120, break_long_words=False, break_on_hyphens=False), ""])
