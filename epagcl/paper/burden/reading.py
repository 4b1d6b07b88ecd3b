"""What the burden artefact shows, in sentences."""

from typing import Any

from epagcl.paper.artefact import Result
from epagcl.paper.burden.tables import QUANTITIES, hardware_names, reported_costs

Cells = dict[tuple[str, str], dict[str, Any]]

#: Name and unit of each quantity in a sentence.
NAMES = {
    "seconds_per_epoch": ("time of an epoch", " s"),
    "gib": ("memory", " GiB"),
    "flops": ("FLOPs of an epoch", ""),
    "seconds_before": ("pre-processing", " s"),
}
COMPARABLE = 1.5  # largest ratio at which two costs count as comparable


def encoder_pass(graph: dict[str, Any], hidden: int, dim: int) -> int:
    """Return the FLOPs of Â(Â X W₁)W₂: 2(|X|h + (2E + N)h + N h d + (2E + N)d), where |X| counts the entries of X."""
    n, links = graph["nodes"], 2 * graph["pairs"] + graph["nodes"]
    return 2 * (graph["feature_entries"] * hidden + links * hidden + n * hidden * dim + links * dim)


def reading(result: Result) -> list[str]:
    """Return paragraphs on pre-processing, EPAGCL against GCA, memory, and the meaning of the paper's FLOPs."""
    cells = {(cell["graph"], cell["method"]): cell for cell in result["cells"]}
    paragraphs = [
        f"Times here are measured on {hardware_names(result)}, those of the paper on an A100 with 40 GB. The code and "
        "the settings of the baselines differ as well, so that the times cannot be compared directly."
    ]
    for graph in result["graphs"]:
        by_method = {title: cell for (name, title), cell in cells.items() if name == graph}
        paragraphs += [_longest_preprocessing(graph, by_method), _against_gca(graph, by_method)]
    paragraphs += [_out_of_memory(cells), _on_flops(result, cells)]
    return [paragraph for paragraph in paragraphs if paragraph]


def _longest_preprocessing(graph: str, by_method: dict[str, dict[str, Any]]) -> str:
    times = {title: cell["seconds_before"] for title, cell in by_method.items() if "seconds_before" in cell}
    if len(times) < 2:
        return ""
    first, second = sorted(times, key=times.__getitem__, reverse=True)[:2]
    ours = f"; EPAGCL takes {times['EPAGCL']:.3g} s" if "EPAGCL" in times and "EPAGCL" not in (first, second) else ""
    longest = f"{first} has the longest pre-processing ({times[first]:.3g} s), then {second} ({times[second]:.3g} s)"
    return f"{graph}: {longest}{ours}."


def _against_gca(graph: str, by_method: dict[str, dict[str, Any]]) -> str:
    """Return the ratios, and which quantities are comparable; no verdict for networks of different widths."""
    if not all("gib" in by_method.get(title, {}) for title in ("EPAGCL", "GCA")):
        return ""
    ours, gca = by_method["EPAGCL"], by_method["GCA"]
    theirs = [reported_costs(graph, title) for title in ("EPAGCL", "GCA")]
    ratios, parts = {}, []
    for key, (name, unit) in NAMES.items():
        if ours[key] and gca[key]:
            ratios[name] = ours[key] / gca[key]
            pair = " against ".join(QUANTITIES[key][1].format(cell[key]) + unit for cell in (ours, gca))
            numbers = [value for cell in theirs if isinstance(value := cell.get(key), float)]
            paper = f"; the paper: {numbers[0] / numbers[1]:.2f}" if len(numbers) == 2 else ""
            parts.append(f"{ratios[name]:.2f} times the {name} ({pair}{paper})")
    widths = [_widths(cell) for cell in (ours, gca)]
    comparable = [name for name, ratio in ratios.items() if ratio <= COMPARABLE]
    higher = [name for name in ratios if name not in comparable]
    verdict = "; ".join(
        f"{bound} {COMPARABLE:g} times as much: {', '.join(names)}"
        for bound, names in (("at most", comparable), ("more than", higher))
        if names
    )
    if widths[0] != widths[1]:
        first, second = ("/".join(map(str, pair)) for pair in widths)
        verdict = f"no verdict, as the recipes' widths differ: {first} against {second}"
    return f"{graph}: compared with GCA, EPAGCL has {', '.join(parts)}. {verdict[:1].upper()}{verdict[1:]}."


def _widths(cell: dict[str, Any]) -> tuple[int, int]:
    return cell["settings"]["hidden"], cell["settings"]["dim"]


def epoch_ratios(result: Result) -> dict[str, float | None]:
    """Return the time of an epoch of EPAGCL divided by that of GCA; None where the recipes' widths differ."""
    cells = {(cell["graph"], cell["method"]): cell for cell in result["cells"] if "seconds_per_epoch" in cell}
    ratios: dict[str, float | None] = {}
    for graph in result["graphs"]:
        if (graph, "EPAGCL") in cells and (graph, "GCA") in cells:
            ours, gca = cells[graph, "EPAGCL"], cells[graph, "GCA"]
            same = _widths(ours) == _widths(gca)
            ratios[graph] = ours["seconds_per_epoch"] / gca["seconds_per_epoch"] if same else None
    return ratios


def _out_of_memory(cells: Cells) -> str:
    runs_here, in_both, only_here = [], [], []
    for (graph, title), cell in cells.items():
        theirs, ours = reported_costs(graph, title).get("gib") == "OOM", bool(cell.get("out_of_memory"))
        if theirs and ours:
            in_both.append(f"{title} runs out of memory on {graph} here too.")
        elif ours:
            only_here.append(f"{title} runs out of memory on {graph} here.")
        elif theirs and cell.get("gib") is not None:
            runs_here.append(
                f"{title} runs on {graph}, where the paper ran out of memory: {cell['gib']:.1f} GiB, "
                f"{cell['seconds_per_epoch']:.2g} s per epoch after {cell['seconds_before']:.3g} s of pre-processing."
            )
    return " ".join([*runs_here, *in_both, *only_here])


def _on_flops(result: Result, cells: Cells) -> str:
    """Compare the paper's FLOPs with the operations of those modules that a profiler counts."""
    sentences, equals_head, equals_activations = [], [], []
    for name, graph in result["graphs"].items():
        theirs, cell = reported_costs(name, "EPAGCL").get("flops"), cells.get((name, "EPAGCL"))
        if not isinstance(theirs, float) or cell is None:
            continue
        widths = cell["settings"]["hidden"], cell["settings"]["dim"]
        sparse = encoder_pass(graph, *widths)
        dense = encoder_pass(graph | {"feature_entries": graph["nodes"] * graph["features"]}, *widths)
        sentences.append(
            f"{name}: the paper reports {theirs:.2e} FLOPs per epoch; one pass of the encoder over the graph, without "
            f"gradient or loss, takes {sparse:.2e}{'' if dense == sparse else f' ({dense:.2e} with dense features)'}."
        )
        equals_head.append(_nearly_equal(theirs, graph["nodes"] * (2 * 256 * 256 + 3 * 256)))
        mvgrl = reported_costs(name, "MVGRL").get("flops")
        if isinstance(mvgrl, float):
            equals_activations.append(_nearly_equal(mvgrl, graph["nodes"] * 4 * 512))
    if sentences and all(equals_head):
        sentences.append(
            "The paper's number is N·(2·256² + 3·256): the multiply-adds of the projection head's two layers on one "
            "view, and one operation for each output of an activation. A profiler of torch.nn modules would count "
            "this. The GCN layers, the loss, the other view and the gradient are not included."
        )
    if equals_activations and all(equals_activations):
        sentences.append("Its number for MVGRL is N·4·512: activations only, no matrix product.")
    return " ".join(sentences)


def _nearly_equal(a: float, b: float) -> bool:
    return abs(a / b - 1) < 0.005
