"""Choices: a method with its recipe against the same method with one choice made otherwise, on paired runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from epagcl.core.formatting import counted, listed
from epagcl.methods import method
from epagcl.methods.base import Method
from epagcl.paper import drawing
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.cell_scores import measured_graphs, runs_by_seed
from epagcl.paper.collapses import collapsed_reading, low_rank_reading
from epagcl.paper.paired import COLOURS, DETECTABLE, all_tests
from epagcl.paper.study_size import MANY, seeds_of
from epagcl.paper.tables import Table
from epagcl.paper.variants import directions
from epagcl.study.design import UNMASKED, Cell, Row
from epagcl.study.paired_test import BETTER, UNDECIDED, WORSE, PairedTest, paired_tests

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROTOCOL = "strict"
CITATIONS = ("Cora", "CiteSeer")
GIVEN, SCALED = "features as given", "feature rows of sum 1"
SEPARATE, TOGETHER = "the directions of an edge drawn separately", "the directions of an edge drawn together"
RATE = "learning rate 0.1 as published"
#: The groups of choices that the text summarises, with what the recipes do.
GROUPS = {
    (GIVEN, SCALED): "Feature scaling. The published code of most methods divides feature rows by their sum",
    (SEPARATE, TOGETHER): (
        "Directions. Views here keep or drop both directions of an edge together, where the released code draws them "
        "separately; only GREET draws them separately here too"
    ),
}


@dataclass(frozen=True, eq=False)
class Choice:
    """A choice that differs from the recipe of a method on some graphs.

    Attributes:
        method: name of the method; a trailing ``*`` means no feature masks.
        words: what is chosen.
        graphs: names of the graphs on which it is measured.
        settings: settings that differ from the recipe.
        kind: class that makes the choice, if it is not a setting.
    """

    method: str
    words: str
    graphs: Sequence[str] = CITATIONS
    settings: dict[str, Any] = field(default_factory=dict)
    kind: type[Method] | None = None

    @property
    def base(self) -> str:
        """Title of the row with the recipe."""
        return method(self.method.removesuffix("*")).title + "*" * self.method.endswith("*")

    @property
    def title(self) -> str:
        """Title of the row with the choice."""
        return f"{self.base}: {self.words}"

    def rows(self) -> list[Row]:
        """Return the row with the recipe, and the row with the choice."""
        name, settings = self.method.removesuffix("*"), UNMASKED if self.method.endswith("*") else {}
        return [
            Row(self.base, name, settings),
            Row(self.title, name, {**settings, **self.settings}, self.kind, recipe=self.base),
        ]


CHOICES = (
    *(Choice(name, GIVEN, settings={"feature_scaling": "given"}) for name in ("gcn", "gat", "dgi", "grace", "cca-ssg")),
    Choice("gmi", GIVEN, ("CiteSeer",), {"feature_scaling": "given"}),
    Choice("mvgrl", GIVEN, ("Cora",), {"feature_scaling": "given"}),
    Choice("gca", SCALED, settings={"feature_scaling": "row-sum"}),
    Choice("epagcl", SCALED, ("Amazon-Photo", "Coauthor-Physics"), {"feature_scaling": "row-sum"}),
    Choice("grace", SEPARATE, kind=directions.DirectedGRACE),
    Choice("gca", SEPARATE, kind=directions.DirectedGCA),
    Choice("bgrl", SEPARATE, kind=directions.DirectedBGRL),
    Choice("cca-ssg", SEPARATE, kind=directions.DirectedCCASSG),
    Choice("greet", TOGETHER, ("Cora",), kind=directions.SymmetricGREET),
    Choice("epagcl", "temperature 0.5, 200 epochs", settings={"temperature": 0.5, "epochs": 200}),
    Choice("grace", RATE, ("Amazon-Photo",), {"lr": 0.1}),
    Choice("gca*", f"{RATE} for GCA", ("Amazon-Photo",), {"lr": 0.1}),
)


def measure(request: Request) -> Result:
    """Measure every choice and its recipe on the graphs of the choice."""
    return request.runs_of(cells_of(request))


def cells_of(request: Request) -> list[Cell]:
    """Return the cells of the recipes and of the choices, graph by graph, with the seeds of the study."""
    return request.cells(lambda name, _: _rows(name), seeds_of)


def _rows(graph: str) -> Iterable[Row]:
    """Return the rows of a graph. Choices of the same method share the row of its recipe."""
    return {row.title: row for choice in CHOICES if graph in choice.graphs for row in choice.rows()}.values()


def against_recipes(result: Result) -> dict[tuple[str, str], PairedTest]:
    """Test each choice against the recipe on its graphs, with Holm's correction for all tests.

    Returns:
        the tests by graph and title of the row with the choice.
    """
    by_graph = {graph: runs_by_seed(result, PROTOCOL, graph) for graph in measured_graphs(result)}
    return paired_tests(
        {
            (graph, choice.title): (runs[choice.title], runs[choice.base])
            for choice in CHOICES
            for graph, runs in by_graph.items()
            if choice.title in runs and choice.base in runs
        }
    )


def tables(result: Result) -> list[Table]:
    """Return the accuracies with the recipe and with the choice, and their difference."""
    tests, lines = against_recipes(result), []
    for choice in CHOICES:
        for graph in measured_graphs(result):
            if test := tests.get((graph, choice.title)):
                runs = runs_by_seed(result, PROTOCOL, graph)
                seeds = set(runs[choice.title]) & set(runs[choice.base])
                means = [fmean(runs[title][seed] for seed in seeds) for title in (choice.base, choice.title)]
                numbers = [*(f"{mean:.1f}" for mean in means), str(test), test.verdict]
                detectable = "–" if test.detectable is None else f"{test.detectable:.1f}"
                lines.append([choice.base, graph, choice.words, *numbers, detectable, str(test.n)])
    devices = sorted({device for cell in result["cells"] for device in cell["hardware"]})
    columns = ["method", "graph", "choice", "recipe", "with the choice", "difference", "verdict", "detectable", "seeds"]
    note = (
        f"Protocol {PROTOCOL}; accuracy in percent over the seeds that both have, which share splits and training "
        f"seeds. The verdict is that of the choice against the recipe, by tests of paired runs with Holm's correction "
        f"for {all_tests(len(tests))} of the table. Detectable: {DETECTABLE}, in points. Measured on "
        f"{' and '.join(devices)}; runs of a pair may be from different devices or versions, whose rounding differs."
        f"{_of_several_days(result)}"
    )
    return [Table("", "Choices that differ from the recipes", columns, lines, note)] if lines else []


def _of_several_days(result: Result) -> str:
    """Return a sentence on the choices whose seeds were computed on several days; empty if there are none."""
    titles = {choice.title for choice in CHOICES}
    rows: dict[str, list[str]] = {}
    for cell in result["cells"]:
        if cell["row"] in titles and len(cell["dates"]) > 1:
            rows.setdefault(listed(cell["dates"]), []).append(f"{cell['row']} ({cell['graph']['name']})")
    return "".join(
        f" Some seeds were computed on an earlier day, by an earlier version ({dates}): {'; '.join(found)}."
        for dates, found in rows.items()
    )


def figures(result: Result) -> "dict[str, Figure]":
    """Return the difference of each choice with its interval."""
    tests = against_recipes(result)
    if not tests:
        return {}
    figure, (axes,) = drawing.new_figure(1, 1, 8.0, 0.3 * len(tests) + 1.4)
    for word, colour in COLOURS.items():
        places = [place for place, test in enumerate(tests.values()) if test.verdict == word]
        shown = [list(tests.values())[place] for place in places]
        if shown:
            axes.scatter([test.mean for test in shown], places, s=26, color=colour, label=word, zorder=3)
        for place, test in zip(places, shown, strict=True):
            if test.interval is not None:
                axes.plot(test.interval, [place, place], color=colour, lw=1.5)
    axes.axvline(0, color="black", lw=0.8)
    widest = 1 + 1.5 * max(abs(test.mean) for test in tests.values())  # collapsed runs have intervals of 100 points
    axes.set_xscale("symlog", linthresh=5)  # linear up to 5 points
    axes.set_xlim(-widest, widest)
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50) if tick <= widest]
    ticks = [-tick for tick in reversed(ticks)] + [0, *ticks]
    axes.set_xticks(ticks, [f"{tick:+d}" if tick else "0" for tick in ticks], fontsize=8)
    axes.minorticks_off()
    drawing.label_rows(axes, [f"{title}, {graph}" for graph, title in tests], fontsize=8)
    axes.set_xlabel("choice minus recipe in points, corrected 95% intervals\n(logarithmic beyond 5)", fontsize=9)
    axes.grid(axis="x", lw=0.3)
    drawing.legend(figure, axes, columns=3)
    return {"": figure}


def reading(result: Result) -> list[str]:
    """Return a paragraph on each group of choices, one on collapsed runs, and one on embeddings of low rank."""
    tests = against_recipes(result)
    paragraphs = []
    for words, subject in GROUPS.items():
        own = {
            (graph, choice): tests[graph, choice.title]
            for choice in CHOICES
            for graph in choice.graphs
            if choice.words in words and (graph, choice.title) in tests
        }
        if own:
            paragraphs.append(f"**{subject.split('.')[0]}.**{subject.split('.', 1)[1]}. {_decided(own)}")
    return paragraphs + collapsed_reading(result, PROTOCOL) + low_rank_reading(result["cells"])


def _decided(tests: dict[tuple[str, Choice], PairedTest]) -> str:
    """Return sentences on the tests that find the choice better or worse than the recipe."""
    parts = []
    for word in (BETTER, WORSE):
        found = [
            f"{choice.base} on {graph} ({test.mean:+.1f} points)"
            for (graph, choice), test in tests.items()
            if test.verdict == word
        ]
        parts += [f"{word} for {listed(found)}"] if found else []
    words = [test.verdict for test in tests.values()]
    undecided = words.count(UNDECIDED)
    if not parts:
        return f"The other way is neither better nor worse in any of {counted(len(words), 'test')}."
    rest = f"; {undecided} of {counted(len(words), 'test')} are undecided" if undecided else ""
    return f"The other way is {listed(parts)}{rest}."


ARTEFACT = Artefact(
    name="choices",
    title="Choices that differ from the recipes",
    datasets=("cora", "citeseer", "amazon-photo", "coauthor-physics"),
    methods=("epagcl",),
    runs=MANY,
    protocols=(PROTOCOL,),
    measure=measure,
    cells=cells_of,
    tables=tables,
    figures=figures,
    reading=reading,
    captions={"": "Accuracy with the choice minus accuracy with the recipe"},
)
