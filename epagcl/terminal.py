"""What the terminal shows: progress, tables, the summary of a run."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from epagcl.epr import EPRSummary
    from epagcl.methods.base import Method
    from epagcl.training import Row

log = logging.getLogger("epagcl")

LOG_SECONDS = 20  # between lines of progress where there is no terminal
SETTLED_SECONDS = 5  # after the first epoch, before a long run is spoken of
LONG_MINUTES = 5  # a run that will take longer is worth a word on how to shorten it


def console_for(quiet: bool = False) -> "Console":
    """Where progress goes; quiet silences it and the notes, not the warnings."""
    from rich.console import Console

    log.setLevel(logging.WARNING if quiet else logging.INFO)
    return Console(stderr=True, quiet=quiet)


@contextlib.contextmanager
def busy(console: "Console", words: str) -> "Iterator[None]":
    """A spinner while something takes its time: loading libraries, reading a graph."""
    with console.status(words) if console.is_terminal and not console.quiet else contextlib.nullcontext():
        yield


class Line:
    """A progress line on stderr: epochs, loss, time left and memory; after training, what is being done.

    Called with each epoch's history row. Where there is no terminal, a line of the log now and then.
    """

    def __init__(self, console: "Console", method: "Method", logger: str | None = None, folder: Path = Path()):
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self.console, self.method = console, method
        self.title = f"{type(method).title} seed {method.seed}"
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[memory]}"),
        )
        disable = not console.is_terminal
        self._bar = Progress(*columns, console=console, disable=disable)
        self._step = Progress(SpinnerColumn(), TextColumn("{task.description}"), console=console, disable=disable)
        self._spoken, self._advised, self._first = 0.0, False, None
        self._log = logger, folder
        self._logger = None

    def __enter__(self) -> "Line":
        name, folder = self._log
        if name is not None:
            from epagcl.loggers import open_logger

            self._logger = open_logger(name, folder, self.method.settings()).__enter__()
        self._bar.start()
        self._task = self._bar.add_task(self.title, total=self.method.epochs, loss="–", memory="")
        return self

    def stop(self) -> None:
        """Leave the line as it is."""
        self._bar.stop()
        self._step.stop()

    def __exit__(self, *reason: Any) -> None:
        self.stop()
        if self._logger is not None:
            self._logger.__exit__(*reason)

    def __call__(self, row: "Row") -> None:
        """An epoch is done."""
        from epagcl.runs import peak_memory_gib

        method = self.method
        if self._logger is not None:
            self._logger(row)
        memory = peak_memory_gib(method.device)
        shown = "" if memory is None else f"{memory:.1f} GiB"
        self._bar.update(self._task, completed=row["epoch"], loss=f"{row['loss']:.4f}", memory=shown)
        # By the epochs after the first, in which a GPU compiles.
        first = self._first = self._first or row
        since = row["seconds"] - first["seconds"]
        pace = since / (row["epoch"] - first["epoch"]) if row is not first else row["seconds"] / row["epoch"]
        if since > SETTLED_SECONDS and not self._advised and getattr(method, "batch_size", None) == 0:
            self._advised = True
            if (minutes := method.epochs * pace / 60) > LONG_MINUTES:
                log.info("about %.0f minutes; --batch-size 512 is faster (negatives inside batches only)", minutes)
        if not self.console.is_terminal and row["seconds"] - self._spoken > LOG_SECONDS:
            self._spoken = row["seconds"]
            left = (method.epochs - row["epoch"]) * pace / 60
            words = "%s: epoch %d of %d, loss %.4f, %.1f minutes left, %s"
            log.info(words, self.title, row["epoch"], method.epochs, row["loss"], left, shown)

    def say(self, words: str) -> None:
        """What is being done now, after training."""
        if not self.console.is_terminal:
            log.info("%s", words)
            return
        self._bar.stop()
        self._step.start()
        if not self._step.tasks:
            self._step.add_task(words)
        self._step.update(self._step.tasks[0].id, description=words)


class Work:
    """Progress of many runs: how many are done, what is being trained, and how long the rest will take.

    Runs differ in cost, so the time left goes by their expected cost, not by their number. Use it as a context; without
    a console it is silent.
    """

    what = "runs"

    def __init__(self, console: "Console | None" = None):
        self.console = console
        self.runs = self.done = 0
        self.left = self.spent = self.seconds = 0.0
        self._spoken = time.monotonic()

    def __enter__(self) -> "Work":
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        if self.console is not None:
            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
            disable = not self.console.is_terminal
            self._bars = Progress(
                TextColumn("{task.description}"), *columns, console=self.console, disable=disable, transient=True
            )
            self._bars.start()
            self._all = self._bars.add_task(self.what, total=None, note="")
            self._one = self._bars.add_task("", total=None, note="", visible=False)
        return self

    def __exit__(self, *_: object) -> None:
        if self.console is not None:
            self._bars.stop()

    def plan(self, costs: "list[float]") -> None:
        """Runs that are to come, by their expected cost in any unit."""
        self.runs += len(costs)
        self.left += sum(costs)
        self._show()

    def drop(self, costs: "list[float]") -> None:
        """Runs that another process has finished."""
        self.done += len(costs)
        self.left = max(0.0, self.left - sum(costs))
        self._show()

    def finish(self, costs: "list[float]", seconds: float) -> None:
        """Runs that were computed here."""
        self.spent += sum(costs)
        self.seconds += seconds
        self.drop(costs)
        self._speak()

    def say(self, words: str) -> None:
        """What is being done now."""
        if self.console is not None and not self.console.is_terminal:
            log.info("%s", words)
        self._set_one(words, None)

    @contextlib.contextmanager
    def training(self, method: "Method", graph: str) -> "Iterator[Callable[[Row], None]]":
        """The callback of one training."""
        self._set_one(f"{type(method).title} on {graph}, seed {method.seed}", method.epochs)

        def update(row: "Row") -> None:
            if self.console is not None:
                self._bars.update(self._one, completed=row["epoch"], note=f"loss {row['loss']:.4f}")
                self._speak(f"{type(method).title} on {graph}, seed {method.seed}, epoch {row['epoch']}")

        yield update

    def time_left(self) -> str:
        """In words; empty while nothing is known."""
        if not self.spent or not self.left:
            return ""
        minutes = self.left * self.seconds / self.spent / 60
        return f"about {minutes:.0f} min left" if minutes >= 1 else "less than a minute left"

    def _set_one(self, words: str, total: int | None) -> None:
        if self.console is not None:
            self._bars.update(self._one, description=words, total=total, completed=0, note="", visible=True)

    def _show(self) -> None:
        if self.console is not None:
            self._bars.update(self._all, total=self.runs, completed=self.done, note=self.time_left())

    def _speak(self, what: str = "") -> None:
        """A line now and then where there is no terminal."""
        if self.console is None or self.console.is_terminal or time.monotonic() - self._spoken < LOG_SECONDS:
            return
        self._spoken = time.monotonic()
        parts = (f"{self.done} of {self.runs} {self.what}", what, self.time_left())
        log.info("%s", ", ".join(part for part in parts if part))


def table(*columns: str) -> "Table":
    """A plain table; a column whose name begins with > is right-aligned."""
    from rich import box
    from rich.table import Table

    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        right = column.startswith(">")  # numbers, which stay on one line
        result.add_column(column.removeprefix(">"), justify="right" if right else "left", no_wrap=right)
    return result


def show(*items: Any) -> None:
    """Text and tables on stdout."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=160)  # a pipe has no width to fold to
    for item in items:
        console.print(item, highlight=False, markup=False) if isinstance(item, str) else console.print(item)


def show_metrics(metrics: dict[str, Any], folder: Path, title: str) -> None:
    """The closing summary of a run."""
    graph = metrics["graph"]
    rate = graph["epr_per_node"]
    lines = [f"{graph['name']}: {graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['features']:,} features"]
    if rate is not None:
        lines.append(f"EPR: {rate:.3f} per node, {graph['epr_per_edge']:.3f} per edge")
    items: list[Any] = ["\n".join(lines)]
    if "evaluation" in metrics:
        scores_table = table("embedding", ">accuracy", ">macro-F1", ">k-NN", ">NMI")
        rows = {**metrics.get("references", {}), title: metrics["evaluation"]}
        for name, scores in rows.items():
            nearest = f"{100 * scores['knn_accuracy']['mean']:.2f}" if "knn_accuracy" in scores else ""
            nmi = f"{scores['clustering']['nmi']:.3f}" if "clustering" in scores else ""
            accuracy, f1 = scores["accuracy"], scores["macro_f1"]
            spread = f" ± {100 * accuracy['std']:.2f}" if len(accuracy["runs"]) > 1 else ""
            scores_table.add_row(name, f"{100 * accuracy['mean']:.2f}{spread}", f"{100 * f1['mean']:.2f}", nearest, nmi)
        scores = metrics["evaluation"]
        count = len(scores["accuracy"]["runs"])
        runs = f"{count} run{'s' * (count > 1)}"
        seeds = f" (seeds {', '.join(map(str, scores['split_seeds']))})" if scores["split_seeds"] else ""
        items += [
            scores_table,
            f"protocol {scores['protocol']}, {runs}, splits {scores['split']}{seeds}, measured here",
        ]
    items += health_items(metrics.get("health", []))
    page = folder / "report.html"
    items.append(f"run folder: {folder}" + (f"\nreport: {page}" if page.exists() else ""))
    show(*items)


def show_embedding(result: dict[str, Any]) -> None:
    """The closing summary of an embedding without a run folder."""
    items = [f"{result['nodes']:,} nodes × {result['dim']} dimensions", *health_items(result["health"])]
    items.append("written: " + ", ".join(result["files"]))
    items += [f"{what}: {result[what]}" for what in ("model", "report") if result[what] is not None]
    show(*items)


def health_items(findings: list[dict[str, Any]]) -> list[Any]:
    """Label-free health: the table, a line on the whole, and advice where something is not good."""
    from epagcl.health import Finding, overall

    if not findings:
        return []
    shown = table("health, no labels", ">value", "verdict")
    for finding in findings:
        shown.add_row(finding["name"], finding["shown"], finding["verdict"])
    advice = [f"{finding['name']}: {finding['words']}" for finding in findings if finding["verdict"] != "good"]
    return [shown, overall([Finding(**finding) for finding in findings]), *advice]


def comparison_cells(name: str, result: dict[str, Any], protocols: list[str]) -> list[str]:
    """A row of the comparison: measured by each protocol, then what was published, then how it was made."""
    from epagcl.comparison import settings_source
    from epagcl.paper import published

    title = result["row"]
    figures = published(name, "untrained" if title == "untrained encoder" else title) if result["named"] else {}
    cells = [title]
    for protocol in protocols:
        accuracy = result["protocols"].get(protocol, {}).get("accuracy")
        spread = f" ± {100 * accuracy['std']:.1f}" if accuracy is not None and len(accuracy["runs"]) > 1 else ""
        cells.append("–" if accuracy is None else f"{100 * accuracy['mean']:.1f}{spread}")
    for kind in ("paper", "random", "public"):
        cells.append(" ± ".join(f"{value:.1f}" for value in figures[kind]) if kind in figures else "–")
    training = result["training"]
    cells.append(str(len(result["seeds"])))
    if training is None or not any(training["epochs"]):
        return [*cells, "", "", ""]
    epochs = sum(training["epochs"]) / len(training["epochs"])
    seconds = sum(training["seconds"]) / len(training["seconds"])
    return [*cells, f"{epochs:.0f}", f"{seconds:.1f}", settings_source(result)]


COMPARISON_COLUMNS = ("the paper", "elsewhere, random", "elsewhere, public", "seeds", "epochs", "s a model", "settings")


def show_comparison(name: str, results: list[dict[str, Any]], protocols: list[str]) -> None:
    """Test accuracy of every row on a graph, measured here and published."""
    columns = ["accuracy", *(f">{column}" for column in (*protocols, *COMPARISON_COLUMNS[:-1])), COMPARISON_COLUMNS[-1]]
    cells = [comparison_cells(name, result, protocols) for result in results]
    used = [k for k in range(len(columns)) if any(row[k] not in ("–", "") for row in cells)]
    shown = table(*(columns[k] for k in used))
    for row in cells:
        shown.add_row(*(row[k] for k in used))
    hardware = ", ".join(sorted({device for result in results for device in result["hardware"]}))
    show(
        f"{name}: test accuracy in %, split k for seed k (strict, paper: random 10/10/80); measured on "
        f"{hardware}; then the paper's table and figures published elsewhere, by split",
        shown,
    )


def show_epr(name: str, summary: "EPRSummary", ids: list) -> None:
    """EPR in all its forms, the shape of the graph, and the edges that do the most harm."""
    rates = table("EPR", ">per node", ">per edge")
    for words, rate in (
        ("edges, d", summary.epr),
        ("edges, d + 1 (GCN)", summary.epr_self_loops),
        ("2 hops", summary.epr_2_hops),
    ):
        rates.add_row(words, f"{rate.per_node:.4f}", f"{rate.per_edge:.4f}")
    theorem = summary.theorem_3_3
    shape = (
        f"{name}: {summary.num_nodes:,} nodes, {summary.num_edges:,} edges, {summary.num_classes} classes, "
        f"{summary.isolated_nodes:,} isolated\n"
        f"degree: {summary.degree_min} to {summary.degree_max}, mean {summary.degree_mean:.2f}, "
        f"median {summary.degree_median:g}; homophily: {summary.edge_homophily:.4f} of edges, "
        f"{summary.node_homophily:.4f} per node\n"
        f"Theorem 3.3 asks d_max ≤ 4·d_min − 1: {'met' if theorem.holds else 'not met'}"
    )
    harm = table("edge", ">EPR change if removed", ">by Theorem 3.5")
    for edge in summary.most_harmful:
        harm.add_row(f"{ids[edge.i]} – {ids[edge.j]}", f"{edge.change:+.3e}", f"{edge.predicted:+.3e}")
    show(shape, rates, "Edges whose removal lowers EPR most (per edge, Prop. 3.2):", harm)
