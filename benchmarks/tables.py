"""The README's tables, made from the files under ``results``."""

import json
from dataclasses import replace
from pathlib import Path

from benchmarks.figures import scaling_figure
from benchmarks.health import summary
from epagcl.cli.rendering import COMPARISON_COLUMNS, comparison_cells
from epagcl.paper import accuracy
from epagcl.paper.tables import markdown
from epagcl.study.cells import Row

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"


PAGES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("speed", "methods", "report")))


def update_pages() -> None:
    """Put the tables between their marks in README and docs, and draw the figures."""
    for path in PAGES:
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
    scaling_figure(_result("benchmarks/gpu.json"), ROOT / "docs" / "figures")


def with_tables(text: str) -> str:
    """``text`` with what stands between ``<!-- name -->`` and ``<!-- /name -->`` replaced by the table of that name."""
    gpu, cpu = (_result(f"benchmarks/{name}.json") for name in ("gpu", "cpu"))
    made = {
        "accuracy": accuracy_table(),
        "comparison": comparison_table(),
        "evidence": evidence_table(),
        "methods": methods_table(_result("benchmarks/methods.json")),
        "gpu": gpu_table(gpu),
        "loss": loss_table(gpu),
        "precision": precision_table(gpu),
        "cpu": cpu_table(cpu),
        "health": health_table(_result("benchmarks/health.json")),
    }
    for name, table in made.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if begin not in text:
            continue
        before, rest = text.split(begin)
        text = before + begin + table + end + rest.split(end)[1]
    return text


def health_table(result: dict) -> str:
    """How many models got which verdict, by what was done to them."""
    grades = ("good", "fair", "poor")
    lines = ["| models | " + " | ".join(grades) + " |", "|---|" + "--:|" * len(grades)]
    for kind, worst in summary(result).items():
        lines.append(f"| {kind} | " + " | ".join(str(worst.count(grade)) for grade in grades) + " |")
    graphs = sorted({row["graph"] for row in result["rows"]})
    lines += [
        "",
        f"Worst verdict of the four measures, means of {result['seeds']} seeds; {', '.join(graphs)}. "
        f"{result['hardware']['device']}, {result['date'][:10]}.",
    ]
    return "\n".join(lines) + "\n"


def comparison_table() -> str:
    """A table for each graph: every row by every protocol beside what was published, and how it was made."""
    parts = []
    for name, results in _comparison().items():
        protocols = [p for p in ("strict", "paper", "public") if p in results[0]["protocols"]]
        heads = [*protocols, "reported: the paper", "reported: random", "reported: public", *COMPARISON_COLUMNS[3:]]
        lines = [f"| {name} | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
        lines += ["| " + " | ".join(comparison_cells(name, result, protocols)) + " |" for result in results]
        dates, commits, hardware = (
            sorted({one for result in results for one in result[key]}) for key in ("dates", "commits", "hardware")
        )
        lines += [
            "",
            f"{' and '.join(hardware)}, {' and '.join(dates)}, commits {', '.join(commit[:7] for commit in commits)}; "
            f"`epagcl compare {name.lower()} --seeds {max(len(result['seeds']) for result in results)} "
            f"--protocols {','.join(protocols)}`.",
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def evidence_table() -> str:
    """What other choices would have given: ``results/evidence/<row>--<graph>--<choice>.json`` beside the comparison."""
    compared = _comparison().items()
    ours = {(Row(cell["row"]).key, name.lower()): cell for name, cells in compared for cell in cells}
    lines = ["| row | graph | choice | strict | with the recipe |", "|---|---|---|---|---|"]
    for path in sorted((RESULTS / "evidence").glob("*.json")):
        row, graph, choice = path.stem.split("--")
        other, cell = json.loads(path.read_text(encoding="utf-8")), ours[row, graph]
        cells = [_percent(result["protocols"]["strict"]["accuracy"]) for result in (other, cell)]
        lines.append(f"| {cell['row']} | {cell['graph']['name']} | {choice.replace('-', ' ')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def accuracy_table() -> str:
    """The strict table of the paper's graphs that are at hand, and in brackets what the paper reports."""
    result = _result("paper/accuracy.json")
    full = accuracy.tables(result)[0]
    kept = [place for place, head in enumerate(full.columns) if head not in (*result["absent"], "reported rank")]
    columns = [full.columns[place] for place in kept]
    return markdown(replace(full, columns=columns, rows=[[row[place] for place in kept] for row in full.rows]))


def _comparison() -> dict[str, list[dict]]:
    """Graphs of the paper's tables, each with its rows in the comparison's order."""
    result: dict[str, list[dict]] = {}
    for name in ("accuracy", "heterophily"):
        for cell in _result(f"paper/{name}.json")["cells"]:
            result.setdefault(cell["graph"]["name"], []).append(cell)
    return result


def gpu_table(result: dict) -> str:
    """Epoch times and memory on a GPU, and the rest in words."""
    lines = [
        "| graph | nodes | epoch | target | memory | target | fastest plain dense one |",
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
    symmetry = [
        f"Row sums at {row['nodes']:,} nodes: {row['forward_symmetric_ms']:.0f} ms with symmetry, "
        f"{row['forward_all_tiles_ms']:.0f} ms without. "
        for row in result["loss"][-1:]
    ]
    lines += [
        "",
        "".join(symmetry) + f"{captured['graph']} without the CUDA graph: "
        f"{_time(captured['not_captured_ms'])} an epoch instead of {_time(captured['captured_ms'])}, "
        f"{'the same' if captured['same_losses'] else 'other'} losses. "
        f"Algorithm 1 on {prepare['graph']}: {1000 * prepare['weights_seconds']:.0f} ms. "
        f"Strict evaluation of {evaluation['nodes']:,} embeddings, {evaluation['splits']} splits: "
        f"{evaluation['seconds']:.1f} s.",
        f"{result['hardware']['device']}, torch {result['versions']['torch']}, {result['date'][:10]}.",
    ]
    return "\n".join(lines) + "\n"


def methods_table(result: dict) -> str:
    """Time and memory of an epoch of every method, and its ratio to EPAGCL's."""
    graphs = list(dict.fromkeys(row["graph"] for row in result["rows"]))
    lines = ["| method | " + " | ".join(graphs) + " |", "|---|" + "---|" * len(graphs)]
    cells: dict[str, dict[str, str]] = {}
    for row in result["rows"]:
        words = "out of memory"
        if row["ms"] is not None:
            words = f"{_time(row['ms'])} ({row['times_epagcl']:.1f}×), {row['gib']:.1f} GiB"
        cells.setdefault(row["method"], {})[row["graph"]] = words
    lines += [f"| {name} | " + " | ".join(found.get(g, "–") for g in graphs) + " |" for name, found in cells.items()]
    commits = sorted({row.get("commit", result["commit"])[:7] for row in result["rows"]})
    lines += [
        "",
        f"{result['hardware']['device']}, torch {result['versions']['torch']}, {result['date'][:10]}, "
        f"commits {' and '.join(commits)}.",
    ]
    return "\n".join(lines) + "\n"


def loss_table(result: dict) -> str:
    """The loss alone, forward and backward, counted as 3 products of 2M²d flops."""
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
    """Errors against float64: of the loss, absolute; of the gradient, relative."""
    names = ["torch fp32", "fp32", "torch tf32", "tf32", "fp16", "bf16"]
    lines = ["| nodes | rows | τ | " + " | ".join(names) + " |", "|---|---|---|" + "---|" * len(names)]
    for row in result["precision"]:
        for temperature, found in row["temperatures"].items():
            found = {name.removesuffix(", tiles"): errors for name, errors in found.items()}
            cells = [
                f"{found[name]['loss']:.0e}, {found[name]['gradient']:.0e}" if name in found else "–" for name in names
            ]
            lines.append(f"| {row['nodes']:,} | {row['rows']} | {temperature} | {' | '.join(cells)} |")
    lines += ["", f"{result['hardware']['device']}, {result['date'][:10]}, commit {result['commit'][:7]}."]
    return "\n".join(lines) + "\n"


def _time(milliseconds: float) -> str:
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.2f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"


def cpu_table(result: dict) -> str:
    """Epoch times and ratios, memory and pre-processing on a CPU."""
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
    per_epoch = f"{memory['seconds_per_epoch']:.1f} s an epoch"
    dense = f"one dense 2N×2N block alone would take {memory['one_dense_block_gib']:.1f} GiB"
    machine = f"{hardware['cpu']}, {hardware['threads']} threads, torch {result['versions']['torch']}"
    lines += [
        "",
        f"{physics['graph']}, sparse features, negatives inside batches of {physics['batch_size']} nodes: "
        f"{ours:.1f} s, plain {plain_seconds:.1f} s ({plain_seconds / ours:.1f}×). With all pairs ours takes "
        f"{physics['all_pairs_seconds']:.0f} s, and a plain one would need {physics['one_dense_block_gib']:.0f} GiB "
        "for one 2N×2N block.",
        f"{memory['graph']}: training adds {memory['added_gib']:.2f} GiB, {per_epoch}; {dense}.",
        f"Algorithm 1 on {prepare['graph']}: {prepare['seconds']:.2f} s. {machine}, {result['date'][:10]}.",
    ]
    return "\n".join(lines) + "\n"


def _result(name: str) -> dict:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def _percent(score: dict) -> str:
    return f"{100 * score['mean']:.1f} ± {100 * score['std']:.1f}"
