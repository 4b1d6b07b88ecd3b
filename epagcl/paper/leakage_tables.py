"""The scoring rules, and tables, figures and text of what they add."""

from collections.abc import Callable
from functools import partial
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING, Any

from epagcl.core.formatting import counted, counted_span, mean_and_std, mean_of_runs, signed
from epagcl.evaluation.scores import Spread, spread
from epagcl.paper.artefact import Result
from epagcl.paper.drawing import COLOURS, GREY, label_rows, new_figure
from epagcl.paper.paired import differences_table
from epagcl.paper.tables import Table, escape_stars
from epagcl.study.paired_test import BETTER, UNDECIDED, WORSE, PairedTest, paired_tests

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Epochs between the looks of the authors' script.
EVERY = 50
#: A model with fewer than SHORT epochs has LOOKS looks.
SHORT, LOOKS = 100, 10
#: Points between a run's best look and its last epoch that count as a collapse rather than noise.
LATE_LOSS = 5.0

#: The rules from the strictest to the authors', with their labels.
RULES = {
    "strict": "strict: last epoch",
    "paper": "paper: last epoch, best validation step",
    "validation": "epoch chosen on validation, same split",
    "maximum": "maximum test over looks, same split",
    "authors": "authors' script: maximum test over looks, new split each",
}


def rule_scores(run: dict[str, Any]) -> dict[str, float]:
    """Return the accuracy of a run by each rule, in percent."""
    test, validation = run["test"], run["validation"]
    accuracies = {
        "strict": run["strict"],
        "paper": test[-1],
        "validation": test[validation.index(max(validation))],  # the earliest of equal ones
        "maximum": max(test),
        "authors": max(run["new_split"]),
    }
    return {rule: 100 * value for rule, value in accuracies.items()}


def loses_late(run: dict[str, Any]) -> bool:
    """Return whether a run loses at least :data:`LATE_LOSS` points between its best look and its last epoch."""
    return bool(100 * (max(run["test"]) - run["test"][-1]) >= LATE_LOSS)


def by_rule(row: dict[str, Any]) -> dict[str, Spread]:
    """Return mean, standard deviation and runs of a method on a graph by each rule, in percent."""
    runs = [rule_scores(run) for run in row["runs"]]
    return {rule: spread([scores[rule] for scores in runs]) for rule in RULES}


def tables(result: Result) -> list[Table]:
    """Return a table of the accuracy by each rule, and one of the gain of the authors' rule by its tests."""
    lines = []
    for row in result["rows"]:
        accuracies = by_rule(row)
        strict = accuracies["strict"]["mean"]
        cells = [
            mean_of_runs(accuracy) + ("" if rule == "strict" else f" ({_signed(accuracy['mean'] - strict)})")
            for rule, accuracy in accuracies.items()
        ]
        reported = mean_and_std(*row["reported"]) if row["reported"] else "–"
        lines.append([row["graph"], row["method"], *cells, reported])
    runs = counted_span((len(row["runs"]) for row in result["rows"]), "run")
    devices = sorted({run["device"] for row in result["rows"] for run in row["runs"]})
    note = (
        f"Test accuracy in percent, mean ± standard deviation of {runs}; in "
        "brackets the difference from the strict rule in points. Random 10/10/80 splits. All rules score the same "
        f"models, trained here on {', '.join(devices)}. A look scores a model during training: every {EVERY} epochs "
        f"(with fewer than {SHORT} epochs, {LOOKS} times) and at the end. The last column is from the paper."
    )
    columns = ["graph", "method", *RULES.values(), "reported by the paper"]
    tests = rule_tests(result["rows"])
    graphs = list(dict.fromkeys(graph for graph, _ in tests))
    gains = [differences_table("The authors' rule minus the last epoch", tests, graphs)] if tests else []
    return [Table("", "Accuracy by each scoring rule", columns, lines, note), *gains]


def figures(result: Result) -> "dict[str, Figure]":
    """Return the main figure (accuracy by rule, a panel per graph) and ``epochs`` (test accuracy at every look)."""
    if not result["rows"]:
        return {}
    graphs = list(dict.fromkeys(row["graph"] for row in result["rows"]))
    methods = list(dict.fromkeys(row["method"] for row in result["rows"]))
    colours = {title: COLOURS[place % len(COLOURS)] for place, title in enumerate(methods)}
    return {
        "": _draw_panels(result, graphs, colours, _draw_rules, height=1.2 + 0.35 * len(RULES) + 0.4 * len(methods)),
        "epochs": _draw_panels(result, graphs, colours, _draw_epochs, height=2.6),
    }


def _draw_panels(
    result: Result, graphs: list[str], colours: dict[str, str], draw: Callable[..., None], height: float
) -> "Figure":
    """Return a figure with a panel for each graph, in which ``draw`` draws each method."""
    columns = min(3, len(graphs)) if len(graphs) != 4 else 2
    lines = -(-len(graphs) // columns)
    rules = draw is _draw_rules
    size = (2.9 * columns + (2.0 if rules else 0.3), lines * height + 0.5)
    figure, panels = new_figure(lines, columns, *size, sharey=rules)
    for axes, graph in zip(panels, graphs, strict=False):
        graph_rows = [row for row in result["rows"] if row["graph"] == graph]
        for row in graph_rows:
            place = list(colours).index(row["method"]) - (len(colours) - 1) / 2
            draw(axes, row, colours[row["method"]], 0.7 * place / len(colours))
        lost = sum(loses_late(run) for row in graph_rows for run in row["runs"]) if rules else 0
        axes.set_title(graph + (f"\nwithout {counted(lost, 'run')} that collapsed" if lost else ""), fontsize=9)
        axes.grid(lw=0.3, axis="x" if rules else "both")
        axes.tick_params(labelsize=8)
    for axes in panels[len(graphs) :]:
        axes.set_axis_off()
    _draw_legend(figure, panels, colours, rules)
    return figure


def _draw_rules(axes: "Axes", row: dict[str, Any], colour: str, shift: float) -> None:
    # A collapsed run would stretch the axis until the rules are indistinguishable. The other figure shows it.
    stable = [run for run in row["runs"] if not loses_late(run)]
    accuracies = by_rule({**row, "runs": stable}) if stable else {}
    places = [place + shift for place in range(len(accuracies))]
    means = [accuracy["mean"] for accuracy in accuracies.values()]
    axes.plot(means, places, color=colour, lw=0.8, alpha=0.5)
    deviations = [accuracy["std"] for accuracy in accuracies.values()]
    axes.errorbar(means, places, xerr=deviations, fmt="o", markersize=4, elinewidth=0.9, color=colour)
    if row["reported"]:
        axes.plot(row["reported"][0], len(RULES) + shift, "x", color=colour, markersize=6)
    names = [fill(name.replace("same split", "same\N{NO-BREAK SPACE}split"), 30) for name in RULES.values()]
    label_rows(axes, [*names, "reported by the paper"])
    axes.set_xlabel("test accuracy, %", fontsize=9)


def _draw_epochs(axes: "Axes", row: dict[str, Any], colour: str, _: float) -> None:
    for run in row["runs"]:
        best = run["test"].index(max(run["test"]))
        axes.plot(run["epochs"], [100 * value for value in run["test"]], color=colour, lw=0.9, alpha=0.6)
        axes.plot(run["epochs"][best], 100 * run["test"][best], "^", color=colour, markersize=5, mec="black", mew=0.5)
    axes.set_xlabel("epoch", fontsize=9)
    axes.set_ylabel("test accuracy, %", fontsize=9)


def _draw_legend(figure: "Figure", panels: "list[Axes]", colours: dict[str, str], rules: bool) -> None:
    line = partial(panels[0].plot, [], [])
    handles = [line("o-" if rules else "-", color=colour, label=title)[0] for title, colour in colours.items()]
    if not rules:
        handles += line("^", color=GREY, mec="black", mew=0.5, label="highest test accuracy of a run, same split")
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=8, frameon=False)


def reading(result: Result) -> list[str]:
    """Return paragraphs on the gain of the authors' rule, on the gap to the paper, and on hidden collapses."""
    if not result["rows"]:
        return ["Nothing is measured yet."]
    runs = [(row, run) for row in result["rows"] for run in row["runs"]]
    hidden = [(row, run) for row, run in runs if loses_late(run)]
    paragraphs = [_gain_sentences(result["rows"])] if len(hidden) < len(runs) else []
    paragraphs += [_gap_sentences(row) for row in result["rows"] if row["method"] == "EPAGCL" and row["reported"]]
    if hidden:
        listed = "; ".join(
            f"{row['method']} on {row['graph']}, seed {run['seed']}: {100 * max(run['test']):.1f} at its best look, "
            f"{100 * run['test'][-1]:.1f} at the end (effective rank {run['effective_rank'][-1]:.1f})"
            for row, run in hidden
        )
        paragraphs.append(
            f"**The maximum over looks hides a loss of {LATE_LOSS:g} points or more by the last epoch in "
            f"{len(hidden)} of {counted(len(runs), 'run')}**: {escape_stars(listed)}."
        )
    else:
        paragraphs.append(f"No run loses {LATE_LOSS:g} points or more between its best look and its last epoch.")
    if result["absent"]:
        reasons = ", ".join(f"{graph} ({reason} here)" for graph, reason in result["absent"].items())
        paragraphs.append(f"Not measured: {reasons}.")
    return paragraphs


def _gain_sentences(rows: list[dict[str, Any]]) -> str:
    """Split the gain of the authors' rule over the paper's protocol into early stopping and leakage, by method."""
    parts = []
    for title in dict.fromkeys(row["method"] for row in rows):
        runs = [run for row in rows if row["method"] == title for run in row["runs"] if not loses_late(run)]
        if runs:
            scores = [rule_scores(run) for run in runs]
            stopping = fmean(score["validation"] - score["paper"] for score in scores)
            leaking = fmean(score["authors"] - score["validation"] for score in scores)
            gains = f"{_signed(stopping + leaking)} ({_signed(stopping)} and {_signed(leaking)})"
            parts.append(f"{escape_stars(title)} {gains}")
    tests = rule_tests(rows)
    words = [test.verdict for test in tests.values()]
    each = counted_span((test.n for test in tests.values()), "run")
    decided = (
        f" Of {counted(len(words), 'paired test')} of a method on a graph, {words.count(BETTER)} find the rule higher, "
        f"{words.count(WORSE)} lower, and {words.count(UNDECIDED)} are undecided ({each} each)."
    )
    return (
        "**Gain of the authors' rule** over the last epoch with the same classifier, in points: "
        f"{', '.join(parts)}. In brackets: the part from choosing the epoch, which validation nodes would allow too, "
        f"and the part from choosing by test accuracy on new splits.{decided}"
    )


def rule_tests(rows: list[dict[str, Any]]) -> dict[tuple[str, str], PairedTest]:
    """Test the authors' rule against the last epoch by graph and method, with Holm's correction for all tests.

    Collapsed runs are left out, as everywhere in these sentences.
    """
    pairs = {}
    for row in rows:
        scores = {run["seed"]: rule_scores(run) for run in row["runs"] if not loses_late(run)}
        authors, last = ({seed: one[rule] for seed, one in scores.items()} for rule in ("authors", "paper"))
        pairs[row["graph"], row["method"]] = authors, last
    return paired_tests(pairs)


def _gap_sentences(row: dict[str, Any]) -> str:
    """Say how much of the distance between the last epoch and the reported accuracy the rules explain."""
    reported, accuracies = row["reported"][0], by_rule(row)
    last, stopped, authors = (accuracies[rule]["mean"] for rule in ("paper", "validation", "authors"))
    start = (
        f"EPAGCL on {row['graph']}: the paper reports {reported:.1f}. With its classifier, the last epoch reaches "
        f"{last:.1f}"
    )
    if reported <= last:
        return f"{start}, which is not below the paper."
    return (
        f"{start}. Choosing the epoch on validation nodes changes this by {_signed(stopped - last)}, the authors' rule "
        f"by another {_signed(authors - stopped)}, to {authors:.1f}. This leaves {reported - authors:.1f} points."
    )


def _signed(points: float) -> str:
    return signed(points).replace("-", "−")
