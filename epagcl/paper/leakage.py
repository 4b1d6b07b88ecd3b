"""How many points each rule of scoring adds on the same embeddings, from test nodes read once to the best of many.

The authors' script scores the embedding every 50 epochs, on a new random split each time, and keeps the highest *test*
accuracy. Here a model is trained once, looked at as often, and scored by that rule and by stricter ones.
"""

from collections.abc import Callable
from functools import partial
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING, Any

from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.hardware import resolve_device
from epagcl.data import splits
from epagcl.data.splits import random_split
from epagcl.evaluation import linear
from epagcl.evaluation.health import effective_rank
from epagcl.evaluation.linear import linear_evaluation
from epagcl.evaluation.scores import spread
from epagcl.methods import Method
from epagcl.paper import published
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.drawing import COLOURS, GREY, new_figure
from epagcl.paper.tables import Table
from epagcl.runs.provenance import provenance
from epagcl.study.cells import UNSTORED, fingerprint, rows
from epagcl.study.code_version import code_version
from epagcl.study.store import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch_geometric.data import Data

EVERY = 50  # epochs between the looks of the authors' script
SHORT, LOOKS = 100, 10  # a model of fewer epochs than SHORT is looked at LOOKS times
COLLAPSE = 5.0  # points between a run's best look and its last epoch that are no noise

#: Rules from the strictest to the authors', each on the same trained models.
RULES = {
    "strict": "strict: last epoch",
    "paper": "paper: last epoch, best validation step",
    "validation": "epoch chosen on validation, same split",
    "maximum": "maximum test over looks, same split",
    "authors": "authors' script: maximum test over looks, new split each",
}


def every(epochs: int) -> int:
    """Epochs between two looks at a model that is trained for so many."""
    return EVERY if epochs >= SHORT else max(1, epochs // LOOKS)


def measure(request: Request) -> Result:
    """Every method on every graph, seed by seed; ``protocols`` is not asked, the rules are what is compared."""
    plans = []
    for name, data in request.graphs.items():
        graph = {"name": name, "fingerprint": fingerprint(data)}
        for row in rows(request.methods)[2:]:
            models, source = row.models(name, request.runs, request.settings)
            if models and models[0].supervised:
                raise InputError(f"leakage scores embeddings, and {models[0].name} is a classifier; leave it out")
            plans.append((graph, data, row, models, source))
    if request.train:
        request.work.plan([_cost(model, data) for _, data, _, models, _ in plans for model in models])
    found = []
    for graph, data, row, models, source in plans:
        runs = [run for model in models if (run := _kept(request, graph, data, row.title, model)) is not None]
        if runs:
            about = {"graph": graph["name"], "method": row.title, "source": source}
            found.append({**about, "reported": published(graph["name"], row.title).get("paper"), "runs": runs})
    request.require(found)
    return {"rows": found, "absent": request.absent}


def _kept(request: Request, graph: dict[str, str], data: "Data", title: str, model: Method) -> Record | None:
    """A run, from the store or anew."""
    key = {
        "what": "leakage",
        "graph": graph,
        "method": title,
        "settings": {k: v for k, v in model.settings().items() if k not in UNSTORED},
        "every": every(model.epochs),
        "seed": model.seed,
        "code": code_version(type(model), linear, splits, observe, score),
    }
    record = request.keep(key, lambda: observe(request, graph["name"], data, model), _cost(model, data))
    kept = ("epochs", "test", "validation", "new_split", "effective_rank", "strict", "seconds")
    return record and {"seed": model.seed, "device": record["hardware"]["device"], **{k: record[k] for k in kept}}


def _cost(model: Method, data: "Data") -> float:
    return float(model.epochs) * data.num_nodes**2


def observe(request: Request, name: str, data: "Data", model: Method) -> Record:
    """Train a model, looking at its embedding on the way, and score what was seen."""
    seen: dict[int, Tensor] = {}
    with request.work.training(f"{model.title} on {name}, seed {model.seed}", model.epochs) as callback:
        model.fit(data, callback=callback, look=(every(model.epochs), seen.__setitem__))
    where = resolve_device(request.device)
    # The model as it is used: with patience, its best weights in place of the last epoch's.
    seen[len(model.history_)] = model.embed(data)
    looks = {epoch: z.to(where) for epoch, z in seen.items()}
    seconds = model.history_[-1]["seconds"] if model.history_ else 0.0
    return {**score(looks, data.y, model.seed), "seconds": seconds, **provenance(request.device)}


def score(looks: dict[int, Tensor], y: Tensor, seed: int) -> Record:
    """Of the embedding at each look, by epoch, what the rules choose from.

    ``test`` and ``validation`` are the paper's accuracies on the split of the seed, ``new_split`` is its test accuracy
    on split 1000 (seed + 1) + k of look k, and ``strict`` is the last embedding's.
    """
    embeddings = list(looks.values())
    # Latest first: the last epoch's classifier then starts from the weights that it has in every other table.
    split = random_split(y, seed=seed)
    own = linear_evaluation(embeddings[::-1], y, "paper", seed=seed, splits=[split] * len(embeddings))
    new = linear_evaluation(embeddings, y, "paper", seed=1000 * (seed + 1))
    return {
        "epochs": list(looks),
        "test": own.runs[::-1],
        "validation": [chosen["validation_accuracy"] for chosen in own.chosen[::-1]],
        "new_split": new.runs,
        "effective_rank": [effective_rank(z) for z in embeddings],
        "strict": linear_evaluation(embeddings[-1:], y, "strict", seed=seed).runs[0],
    }


def picks(run: dict[str, Any]) -> dict[str, float]:
    """What each rule reports for a run, in percent."""
    test, validation = run["test"], run["validation"]
    reports = {
        "strict": run["strict"],
        "paper": test[-1],
        "validation": test[validation.index(max(validation))],  # ties: the earliest
        "maximum": max(test),
        "authors": max(run["new_split"]),
    }
    return {rule: 100 * value for rule, value in reports.items()}


def fallen(run: dict[str, Any]) -> bool:
    """Whether a run has lost so much from its best look to its last epoch that it has collapsed."""
    return 100 * (max(run["test"]) - run["test"][-1]) >= COLLAPSE


def by_rule(row: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Of a method on a graph, each rule's mean, standard deviation and runs."""
    reports = [picks(run) for run in row["runs"]]
    return {rule: spread([report[rule] for report in reports]) for rule in RULES}


def tables(result: Result) -> list[Table]:
    """Every rule's figure, and what it adds to the strict one."""
    lines = []
    for row in result["rows"]:
        found = by_rule(row)
        strict = found["strict"]["mean"]
        cells = [
            f"{value['mean']:.1f} ± {value['std']:.1f}"
            + ("" if rule == "strict" else f" ({_signed(value['mean'] - strict)})")
            for rule, value in found.items()
        ]
        told = " ± ".join(f"{value:.1f}" for value in row["reported"]) if row["reported"] else "–"
        lines.append([row["graph"], row["method"], *cells, told])
    counts = sorted({len(row["runs"]) for row in result["rows"]})
    devices = sorted({run["device"] for row in result["rows"] for run in row["runs"]})
    note = (
        f"Test accuracy in percent, mean ± standard deviation of {_count(*counts[:1], *counts[1:][-1:])}, and in "
        "brackets "
        "points over the strict figure; random 10/10/80 splits. All rules score the same trained models, "
        f"measured here on {', '.join(devices)}, looked at every {EVERY} epochs (of fewer than {SHORT}: {LOOKS} times) "
        "and at the end. The last column is the paper's."
    )
    columns = ["graph", "method", *RULES.values(), "reported by the paper"]
    return [Table("", "What each rule of scoring reports", columns, lines, note)]


def figures(result: Result) -> "dict[str, Figure]":
    """Main figure: rules by accuracy, a panel for each graph. ``epochs``: test accuracy at every look."""
    if not result["rows"]:
        return {}
    graphs = list(dict.fromkeys(row["graph"] for row in result["rows"]))
    methods = list(dict.fromkeys(row["method"] for row in result["rows"]))
    colours = {title: COLOURS[place % len(COLOURS)] for place, title in enumerate(methods)}
    return {
        "": _panels(result, graphs, colours, _draw_rules, height=1.2 + 0.35 * len(RULES) + 0.4 * len(methods)),
        "epochs": _panels(result, graphs, colours, _draw_epochs, height=2.6),
    }


def _panels(
    result: Result, graphs: list[str], colours: dict[str, str], draw: Callable[..., None], height: float
) -> "Figure":
    """A panel for each graph, in which ``draw`` puts each method."""
    columns = min(3, len(graphs))
    lines = -(-len(graphs) // columns)
    rules = draw is _draw_rules
    size = (2.9 * columns + (2.0 if rules else 0.3), lines * height + 0.5)
    figure, panels = new_figure(lines, columns, *size, sharey=rules)
    for axes, graph in zip(panels, graphs, strict=False):
        shown = [row for row in result["rows"] if row["graph"] == graph]
        for row in shown:
            place = list(colours).index(row["method"]) - (len(colours) - 1) / 2
            draw(axes, row, colours[row["method"]], 0.7 * place / len(colours))
        lost = sum(fallen(run) for row in shown for run in row["runs"]) if rules else 0
        axes.set_title(graph + (f"\nwithout {_count(lost)} that collapsed" if lost else ""), fontsize=9)
        axes.grid(lw=0.3, axis="x" if rules else "both")
        axes.tick_params(labelsize=8)
    for axes in panels[len(graphs) :]:
        axes.set_axis_off()
    _legend(figure, panels, colours, rules)
    return figure


def _draw_rules(axes: "Axes", row: dict[str, Any], colour: str, shift: float) -> None:
    # A collapsed run would stretch the axis until nothing else can be told apart; the other figure shows it.
    held = [run for run in row["runs"] if not fallen(run)]
    found = by_rule({**row, "runs": held}) if held else {}
    places = [place + shift for place in range(len(found))]
    means = [value["mean"] for value in found.values()]
    axes.plot(means, places, color=colour, lw=0.8, alpha=0.5)
    deviations = [value["std"] for value in found.values()]
    axes.errorbar(means, places, xerr=deviations, fmt="o", markersize=4, elinewidth=0.9, color=colour)
    if row["reported"]:
        axes.plot(row["reported"][0], len(RULES) + shift, "x", color=colour, markersize=6)
    names = [fill(name.replace("same split", "same\N{NO-BREAK SPACE}split"), 30) for name in RULES.values()]
    axes.set_yticks(range(len(RULES) + 1), [*names, "reported by the paper"])
    axes.set_ylim(len(RULES) + 0.5, -0.5)
    axes.set_xlabel("test accuracy, %", fontsize=9)


def _draw_epochs(axes: "Axes", row: dict[str, Any], colour: str, _: float) -> None:
    for run in row["runs"]:
        best = run["test"].index(max(run["test"]))
        axes.plot(run["epochs"], [100 * value for value in run["test"]], color=colour, lw=0.9, alpha=0.6)
        axes.plot(run["epochs"][best], 100 * run["test"][best], "^", color=colour, markersize=5, mec="black", mew=0.5)
    axes.set_xlabel("epoch", fontsize=9)
    axes.set_ylabel("test accuracy, %", fontsize=9)


def _legend(figure: "Figure", panels: "list[Axes]", colours: dict[str, str], rules: bool) -> None:
    line = partial(panels[0].plot, [], [])
    handles = [line("o-" if rules else "-", color=colour, label=title)[0] for title, colour in colours.items()]
    if not rules:
        handles += line("^", color=GREY, mec="black", mew=0.5, label="highest test accuracy of a run, same split")
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=8, frameon=False)


def reading(result: Result) -> list[str]:
    """What the rules add, what of the gap to the paper they explain, and what they hide."""
    if not result["rows"]:
        return ["Nothing is measured yet."]
    runs = [(row, run) for row in result["rows"] for run in row["runs"]]
    hidden = [(row, run) for row, run in runs if fallen(run)]
    words = [_gains(result["rows"])] if len(hidden) < len(runs) else []
    words += [_gap(row, by_rule(row)) for row in result["rows"] if row["method"] == "EPAGCL" and row["reported"]]
    if hidden:
        told = "; ".join(
            f"{row['method']} on {row['graph']}, seed {run['seed']}: {100 * max(run['test']):.1f} at its best look, "
            f"{100 * run['test'][-1]:.1f} at the end (effective rank {run['effective_rank'][-1]:.1f})"
            for row, run in hidden
        ).replace("*", r"\*")
        words.append(
            f"**The maximum over looks hides a fall of {COLLAPSE:g} points or more by the last epoch in "
            f"{len(hidden)} of {_count(len(runs))}**: {told}."
        )
    else:
        words.append(f"No run loses {COLLAPSE:g} points or more between its best look and its last epoch.")
    if result["absent"]:
        reasons = ", ".join(f"{graph} ({reason} here)" for graph, reason in result["absent"].items())
        words.append(f"Not measured: {reasons}.")
    return words


def _gains(rows: list[dict[str, Any]]) -> str:
    """What the authors' rule adds to the paper's own protocol, method by method: by stopping in time, and by "
    "leaking."""
    parts = []
    for title in dict.fromkeys(row["method"] for row in rows):
        held = [picks(run) for row in rows if row["method"] == title for run in row["runs"] if not fallen(run)]
        if held:
            stop, leak = (
                fmean(report[rule] - report[over] for report in held)
                for rule, over in (("validation", "paper"), ("authors", "validation"))
            )
            parts.append(f"{title} {_signed(stop + leak)} ({_signed(stop)} and {_signed(leak)})".replace("*", r"\*"))
    return (
        "**What the authors' rule adds** to the last epoch by the same classifier, in points, and of that what "
        "choosing the "
        "epoch on validation nodes gives too, and what only test nodes and new splits give: " + ", ".join(parts) + "."
    )


def _gap(row: dict[str, Any], rules: dict[str, dict[str, Any]]) -> str:
    """How far the authors' rule goes from the last epoch to the reported figure."""
    told = row["reported"][0]
    last, stopped, authors = (rules[rule]["mean"] for rule in ("paper", "validation", "authors"))
    start = f"EPAGCL on {row['graph']}: reported {told:.1f}, the last epoch by the paper's classifier {last:.1f}"
    if told <= last:
        return f"{start}: not below the reported one."
    return (
        f"{start}, {_signed(stopped - last)} by choosing the epoch on validation nodes, {_signed(authors - stopped)} "
        "more by "
        f"the authors' rule: {authors:.1f}, and {told - authors:.1f} points are left."
    )


def _count(*runs: int) -> str:
    return f"{' to '.join(map(str, runs)) or 'no'} {'run' if runs == (1,) else 'runs'}"


def _signed(points: float) -> str:
    return f"{points:+.1f}".replace("-", "−")


ARTEFACT = Artefact(
    name="leakage",
    title="What the rule of scoring adds",
    datasets=("cora", "citeseer", "amazon-photo"),
    measure=measure,
    tables=tables,
    figures=figures,
    reading=reading,
    methods=("epagcl", "grace", "gca"),
)
