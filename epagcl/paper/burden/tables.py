"""Table and figure of the burden artefact: measured costs beside those that the paper reports."""

from typing import TYPE_CHECKING, Any

from epagcl.core.formatting import listed, short_commit
from epagcl.paper import reported_cell
from epagcl.paper.artefact import Result
from epagcl.paper.drawing import COLOURS, GREY, label_rows, new_figure
from epagcl.paper.tables import Table, marked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Column title and number format of each quantity, in the order of the paper's columns.
QUANTITIES = {
    "seconds_before": ("pre-processing, s", "{:.3g}"),
    "flops": ("FLOPs an epoch", "{:.2e}"),
    "seconds_per_epoch": ("s an epoch", "{:.2g}"),
    "gib": ("memory, GiB", "{:.2f}"),
}
FLOOR = 1e-4  # seconds; shorter times are drawn here, since a logarithmic scale has no 0


def reported_costs(graph: str, title: str) -> dict[str, float | str]:
    """Return the paper's four numbers by quantity, "OOM" for out of memory; empty if the paper has none."""
    cell = reported_cell("burden", graph, title)
    if cell is None:
        return {}
    if isinstance(cell, str):
        before = "OOM" if cell == "OOM" else cell.split(" pre-")[0]
        return {name: before if name == "seconds_before" else "OOM" for name in QUANTITIES}
    return dict(zip(QUANTITIES, cell, strict=True))


def is_cpu(hardware: str) -> bool:
    """Return whether the name of a measurement's hardware is that of a CPU."""
    return hardware.endswith(" threads")


def hardware_names(result: Result) -> str:
    """Return the names of all hardware that was measured on."""
    return ", ".join(dict.fromkeys(cell["hardware"] for cell in result["cells"] if cell["hardware"])) or "nothing"


def tables(result: Result) -> list[Table]:
    """Return one table with a row per method and four columns per graph, the paper's numbers in brackets."""
    cells = {(cell["graph"], cell["method"]): cell for cell in result["cells"]}
    methods = list(dict.fromkeys(title for _, title in cells))
    headers, columns = ["method"], []
    for graph in result["graphs"]:
        for name, (header, _) in QUANTITIES.items():
            headers.append(f"{graph}: {header}")
            values = [cells[graph, title].get(name) for title in methods]
            columns.append(marked(values, [_text(cells[graph, title], name) for title in methods], smallest=True))
    rows = [list(line) for line in zip(methods, *columns, strict=True)]
    return [Table("", "Pre-processing, FLOPs and time of an epoch, memory", headers, rows, _note(result))]


def _text(cell: dict[str, Any], name: str) -> str:
    number_format = QUANTITIES[name][1]
    value = cell.get(name)
    missing = "out of memory" if cell.get("out_of_memory") else "–"
    ours = missing if value is None else number_format.format(value)
    theirs = reported_costs(cell["graph"], cell["method"]).get(name)
    if theirs is None:
        return ours
    return f"{ours} ({theirs if isinstance(theirs, str) else number_format.format(theirs)})"


def _note(result: Result) -> str:
    on_cpu = {is_cpu(cell["hardware"]) for cell in result["cells"] if cell["hardware"]}
    memory = {
        False: "peak memory of tensors on the GPU, including graph, network and optimiser",
        True: "resident memory added by training",
    }
    sentences = [
        f"Measured here on {hardware_names(result)} with the settings of the recipes; the paper's numbers (A100, 40 "
        "GB) in brackets. –: not measured on this hardware. FLOPs are counted and do not depend on the hardware.",
        "Pre-processing: computations that the method does once, including structures built in its first epoch, "
        "without reading files or compilation.",
        "FLOPs: multiplications and additions of all matrix products, dense and sparse, forward and backward, as plain "
        "torch computes them (symmetric tiles). The paper does not say what it counts.",
        "Memory: " + ", ".join(memory[kind] for kind in sorted(on_cpu)) + ".",
        *_of_other_versions(result),
        *(f"{name}: {graph['note']}." for name, graph in result["graphs"].items() if graph["note"]),
        *(f"{name}: {reason}." for name, reason in result["absent"].items()),
    ]
    return " ".join(sentences)


def _of_other_versions(result: Result) -> list[str]:
    """Return a sentence on the measurements that were not made at the commit of most others, if there are any."""
    places: dict[str, list[str]] = {}
    for cell in result["cells"]:
        if cell["hardware"] and cell.get("commit"):
            places.setdefault(short_commit(cell["commit"]), []).append(f"{cell['method']} on {cell['graph']}")
    main = max(places, key=lambda commit: len(places[commit]), default="")
    others = [f"{listed(own)} ({commit})" for commit, own in places.items() if commit != main]
    return [f"Measured with another version than the other rows ({main}): {'; '.join(others)}."] if others else []


def figures(result: Result) -> "dict[str, Figure]":
    """Draw a row of panels per graph and a panel per quantity, with measured and reported values."""
    graphs = list(result["graphs"]) or [""]
    methods = list(dict.fromkeys(cell["method"] for cell in result["cells"]))
    height = 0.9 + len(graphs) * (0.75 + 0.22 * max(len(methods), 1))
    figure, panels = new_figure(len(graphs), len(QUANTITIES), 12, height, sharex="col", sharey=True)
    for place, axes in enumerate(panels):
        graph, name = graphs[place // len(QUANTITIES)], list(QUANTITIES)[place % len(QUANTITIES)]
        cells = [cell for cell in result["cells"] if cell["graph"] == graph]
        axes.set_xscale("log")
        axes.set_xlabel(QUANTITIES[name][0], fontsize=9)
        axes.grid(axis="x", alpha=0.3)
        axes.tick_params(labelsize=9, labelbottom=True)
        axes.tick_params(axis="x", which="minor", labelbottom=False)
        axes.tick_params(axis="y", length=0)
        for cell in cells:
            _draw_cell(axes, cell, name, methods.index(cell["method"]))
        if place % len(QUANTITIES) == 0:
            axes.set_ylabel(graph, fontsize=11)
        label_rows(axes, methods)
    _draw_legend(figure, panels[0], result)
    return {"": figure}


def _draw_cell(axes: "Axes", cell: dict[str, Any], name: str, y: int) -> None:
    """Draw one quantity of a method on a graph."""
    ours, theirs = cell.get(name), reported_costs(cell["graph"], cell["method"]).get(name)
    if ours is not None:
        axes.plot(max(ours, FLOOR) if name.startswith("seconds") else ours, y, "o", color=COLOURS[0], markersize=6)
    if isinstance(theirs, str) and theirs.endswith(" h"):
        theirs = 3600 * float(theirs.removesuffix(" h"))
    if isinstance(theirs, float):
        axes.plot(theirs, y, "D", color=COLOURS[1], markersize=5, markerfacecolor="white")
    # Out of memory: a cross at the right edge, in axes coordinates.
    for missing, colour, x in (
        (cell.get("out_of_memory") and ours is None, COLOURS[0], 0.94),
        (theirs == "OOM", COLOURS[1], 0.985),
    ):
        if missing:
            axes.plot(x, y, "x", color=colour, markersize=6, transform=axes.get_yaxis_transform(), clip_on=False)


def _draw_legend(figure: "Figure", axes: "Axes", result: Result) -> None:
    axes.plot([], [], "o", color=COLOURS[0], label=f"measured here ({hardware_names(result)})")
    axes.plot([], [], "D", color=COLOURS[1], markerfacecolor="white", label="the paper (A100, 40 GB)")
    axes.plot([], [], "x", color=GREY, label="out of memory (in its colour)")
    axes.plot([], [], " ", label="no dot: not measured on this hardware")
    figure.legend(loc="outside lower center", ncols=4, fontsize=9, frameon=False)
