"""The tables and figures of the study of sensitivity."""

from typing import TYPE_CHECKING

from epagcl.core.formatting import mean_of_runs, signed
from epagcl.evaluation.scores import Spread, spread
from epagcl.paper import drawing
from epagcl.paper.artefact import Result
from epagcl.paper.sensitivity.settings import SETTINGS
from epagcl.paper.sensitivity.sweeps import BUDGET, PROTOCOL, Sweep, components, mean_ranges, significant_sweeps, sweeps
from epagcl.paper.tables import BEST, Table, TableCell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIGN = "▲"


def tables(result: Result) -> list[Table]:
    """Return the settings ordered by what they matter, the variance of seeds and splits, and all values."""
    found = sweeps(result)
    return [
        *([_order_table(found)] if found else []),
        *([_variance_table(result)] if components(result) else []),
        *([_value_table(found)] if found else []),
    ]


def _order_table(found: list[Sweep]) -> Table:
    graphs = list(dict.fromkeys(one.graph for one in found))
    by_place = {(one.method, one.label, one.graph): one for one in found}
    matter, means = significant_sweeps(found), mean_ranges(found)
    partial = dict.fromkeys((one.method, one.label) for one in found if (one.method, one.label) not in means)
    lines = []
    for method, label in [*means, *partial]:
        cells = []
        for graph in graphs:
            one = by_place.get((method, label, graph))
            sign = f" {SIGN}" if (graph, method, label) in matter else ""
            error = "" if one is None or one.error is None else f" ({one.error:.1f})"
            cells.append("–" if one is None else f"{one.range:.1f}{error}{sign}")
        mean = f"{means[method, label]:.1f}" if (method, label) in means else "–"
        lines.append([method, label, mean, *cells])
    note = (
        f"Range: highest minus lowest mean accuracy over the values of a sweep, in points (protocol {PROTOCOL}, test "
        f"nodes, {_seeds_text(found)}); in brackets the standard error of one mean, corrected for overlapping splits. "
        f"{SIGN}: such a range would be rare if the setting had no influence (studentised range, 5% level, Holm's "
        "correction for all sweeps). p_drop and masks are means over the views, whose rates are scaled together. Width "
        "is that of the embedding."
    )
    return Table("", "What matters", ["method", "setting", "mean range", *graphs], lines, note)


def _seeds_text(found: list[Sweep]) -> str:
    counts = sorted({len(one.seeds) for one in found})
    return f"{'/'.join(map(str, counts))} {'seed' if counts == [1] else 'seeds'}"


def _variance_table(result: Result) -> Table:
    lines = []
    for (graph, method), parts in components(result).items():
        shares = zip((parts.of_rows, parts.of_columns, parts.rest), parts.shares, strict=True)
        cells = [f"{variance**0.5:.2f} ({100 * share:.0f}%)" for variance, share in shares]
        errors = (parts.standard_error(1, BUDGET), parts.standard_error(BUDGET, 1), (parts.total / BUDGET) ** 0.5)
        size = f"{parts.rows} × {parts.columns}"
        lines.append([graph, method, size, f"{parts.mean:.1f}", *cells, *(f"{error:.2f}" for error in errors)])
    columns = ["graph", "method", "seeds × splits", "mean", "seeds", "splits", "interaction"]
    columns += [f"1 seed, {BUDGET} splits", f"{BUDGET} seeds, 1 split", f"{BUDGET} seeds, {BUDGET} splits, paired"]
    note = (
        f"Every model is scored on every split (protocol {PROTOCOL}, test nodes, default settings). Standard deviation "
        "of the effect of a training seed, of a split and of their interaction in points, and its share of the "
        "variance of a run (two-way random effects, mean squares; an estimate below 0 is 0). Last columns: the "
        "standard error of the mean accuracy that a design has by these numbers, for this graph."
    )
    return Table("variance", "Training seeds against splits", columns, lines, note)


def _value_table(found: list[Sweep]) -> Table:
    most = max(len(one.test) for one in found)
    lines: list[list[TableCell | str]] = []
    for one in found:
        cells: list[TableCell | str] = [
            TableCell(f"{value:g}: {_spread_text(one, value)}", BEST if value == one.default else "")
            for value in one.test
        ]
        chosen = ["–", "–"] if one.chosen is None else [f"{one.chosen:g}", signed(one.gain or 0.0)]
        lines.append([one.graph, one.method, one.label, *cells, *[""] * (most - len(cells)), *chosen])
    columns = ["graph", "method", "setting", "lowest value", *(str(place) for place in range(2, most + 1))]
    columns += ["validation chooses", "test gain"]
    note = (
        f"Value: mean ± standard deviation of the test accuracy in percent (protocol {PROTOCOL}, {_seeds_text(found)}, "
        "seed k on split k). The default is in bold. Validation chooses: the value with the highest mean accuracy on "
        "validation nodes; test gain: its test accuracy minus that of the default, in points."
    )
    return Table("values", "All values", columns, lines, note, folded=True)


def _spread_text(one: Sweep, value: float) -> str:
    return mean_of_runs(_spread(one, value))


def _spread(one: Sweep, value: float) -> Spread:
    return spread([one.test[value][seed] for seed in one.seeds])


def figures(result: Result) -> "dict[str, Figure]":
    """Return the sweeps (a row for each graph, a column for each setting), and the components of the variance."""
    found, drawn = sweeps(result), {}
    if found:
        drawn[""] = _sweep_figure(found)
    if components(result):
        drawn["variance"] = _variance_figure(result)
    return drawn


def _sweep_figure(found: list[Sweep]) -> "Figure":
    graphs = list(dict.fromkeys(one.graph for one in found))
    labels = [label for label in SETTINGS if any(one.label == label for one in found)]
    methods = list(dict.fromkeys(one.method for one in found))
    size = (1.85 * len(labels) + 0.6, 1.75 * len(graphs) + 0.7)
    figure, panels = drawing.new_figure(len(graphs), len(labels), *size, sharey="row", sharex="col")
    for place, axes in enumerate(panels):
        graph, label = graphs[place // len(labels)], labels[place % len(labels)]
        for colour, method in zip(drawing.COLOURS, methods, strict=False):
            for one in found:
                if (one.graph, one.method, one.label) == (graph, method, label):
                    _draw_sweep(axes, one, colour)
        axes.grid(lw=0.3)
        axes.tick_params(labelsize=7)
        if label == labels[0]:
            axes.set_ylabel(f"{graph}\naccuracy, %", fontsize=8)
        if graph == graphs[-1]:
            axes.set_xlabel(label, fontsize=9)
        _scale(axes, label, found)
    panels[0].plot([], [], "D", ms=6, mfc="none", mec=drawing.GREY, mew=1.3, label="default")
    drawing.legend(figure, panels[0], len(methods) + 1)
    return figure


def _draw_sweep(axes: "Axes", one: Sweep, colour: str) -> None:
    values, means = list(one.means), list(one.means.values())
    deviations = [_spread(one, value)["std"] for value in values]
    low, high = ([m + sign * d for m, d in zip(means, deviations, strict=True)] for sign in (-1, 1))
    axes.fill_between(values, low, high, color=colour, alpha=0.2, lw=0)
    axes.plot(values, means, "o-", ms=2.5, lw=1.2, color=colour, label=one.method)
    axes.plot(one.default, one.means[one.default], "D", ms=6, mfc="none", mec=colour, mew=1.3)


def _scale(axes: "Axes", label: str, found: list[Sweep]) -> None:
    """Set the scale of the axis of a setting. Logarithmic axes have a tick at each power of two or default value."""
    from matplotlib.ticker import NullLocator

    if SETTINGS[label].scale == "log":
        values = sorted({value for one in found if one.label == label for value in one.test})
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        shown = values if len(values) <= 5 else values[:: -(-len(values) // 4)]
        axes.set_xticks(shown, [f"{value:g}" for value in shown])


def _variance_figure(result: Result) -> "Figure":
    found = components(result)
    figure, (axes,) = drawing.new_figure(1, 1, 7.0, 1.0 + 0.3 * len(found))
    starts = [0.0] * len(found)
    names = ("training seeds", "splits", "interaction")
    for place, (name, colour) in enumerate(zip(names, (*drawing.COLOURS[2:4], drawing.GREY), strict=True)):
        widths = [100 * parts.shares[place] for parts in found.values()]
        axes.barh(range(len(found)), widths, left=starts, color=colour, label=name, height=0.7)
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    names_of = [f"{graph}, {method} (s.d. {parts.total**0.5:.1f})" for (graph, method), parts in found.items()]
    drawing.label_rows(axes, names_of, fontsize=8)
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the variance of a run, %; s.d. of a run in points", fontsize=8)
    drawing.legend(figure, axes, 3)
    return figure
