"""The README's tables, made from the files under ``results``."""

import json
from pathlib import Path

from epagcl.paper import reported

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"


def update_readme() -> None:
    """Put the tables between their marks in README.md."""
    path = ROOT / "README.md"
    path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")


def with_tables(text: str) -> str:
    """``text`` with what stands between ``<!-- name -->`` and ``<!-- /name -->`` replaced by the table of that name."""
    for name, table in (("accuracy", accuracy_table()), ("cpu", cpu_table())):
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, rest = text.split(begin)
        text = before + begin + table + end + rest.split(end)[1]
    return text


def accuracy_table() -> str:
    """Accuracy by graph, one line a protocol."""
    paper = dict(zip(reported()["accuracy"]["columns"], reported()["accuracy"]["EPAGCL"], strict=True))
    lines = [
        "| graph | protocol | raw features | untrained encoder | EPAGCL | the paper's EPAGCL | epochs | measured |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for path in sorted((RESULTS / "accuracy").glob("*.json"), key=_size):
        result = json.loads(path.read_text(encoding="utf-8"))
        for protocol, rows in result["protocols"].items():
            cells = [_percent(rows[row]["accuracy"]) for row in ("raw features", "untrained encoder", "EPAGCL")]
            name = result["graph"]["name"]
            cells.append("{:.1f} ± {:.1f}".format(*paper[name]) if protocol == "paper" and name in paper else "–")
            runs = len(rows["EPAGCL"]["accuracy"]["runs"])
            where = f"{runs} seeds, {result['hardware']['device']}, {result['date'][:10]}"
            epochs = result["settings"]["epochs"]
            lines.append(f"| {name} | {protocol} | {' | '.join(cells)} | {epochs} | {where} |")
    return "\n".join(lines) + "\n"


def cpu_table() -> str:
    """Epoch times and ratios, memory and pre-processing on a CPU."""
    result = json.loads((RESULTS / "benchmarks" / "cpu.json").read_text(encoding="utf-8"))
    plain = [name for name in result["epoch"][0]["seconds"] if name != "epagcl"]
    lines = [
        "| graph | epagcl | " + " | ".join(f"plain, {name}" for name in plain) + " |",
        "|---|---|" + "---|" * len(plain),
    ]
    for row in result["epoch"]:
        seconds = row["seconds"]
        cells = [f"{1000 * seconds[name]:.0f} ms ({seconds[name] / seconds['epagcl']:.1f}×)" for name in plain]
        lines.append(f"| {row['graph']} | {1000 * seconds['epagcl']:.0f} ms | {' | '.join(cells)} |")
    memory, prepare, hardware = result["memory"], result["algorithm_1"], result["hardware"]
    per_epoch = f"{memory['seconds_per_epoch']:.1f} s an epoch"
    dense = f"one dense 2N×2N block alone would take {memory['one_dense_block_gib']:.1f} GiB"
    machine = f"{hardware['cpu']}, {hardware['threads']} threads, torch {result['versions']['torch']}"
    lines += [
        "",
        f"{memory['graph']}: training adds {memory['added_gib']:.2f} GiB, {per_epoch}; {dense}.",
        f"Algorithm 1 on {prepare['graph']}: {prepare['seconds']:.2f} s. {machine}, {result['date'][:10]}.",
    ]
    return "\n".join(lines) + "\n"


def _size(path: Path) -> int:
    return json.loads(path.read_text(encoding="utf-8"))["graph"]["nodes"]


def _percent(score: dict) -> str:
    return f"{100 * score['mean']:.1f} ± {100 * score['std']:.1f}"
