"""Views only: augmentations that differ in their edges, with one encoder, one loss, one width and one budget."""

from statistics import fmean
from typing import TYPE_CHECKING

from epagcl.core.formatting import counted, counted_span, paragraph, span
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.cell_scores import (
    PAPERS,
    columns_by_graph,
    measured_graphs,
    ranking_over_graphs,
    runs_by_seed,
    scores,
)
from epagcl.paper.paired import (
    SIGNS,
    VERDICT_COLUMNS,
    by_row,
    differences_table,
    gains_figure,
    verdict_cells,
    verdict_note,
)
from epagcl.paper.study_size import GRAPHS, MANY, seeds_of
from epagcl.paper.tables import Table, TableCell, marked
from epagcl.paper.variants.views import (
    ADD_ONLY,
    COMMON,
    DROP_ONLY,
    MASKS,
    NEIGHBOURS,
    NONE,
    TEXT_DROP,
    UNIFORM,
    view_rows,
)
from epagcl.runs.evaluation import PROPAGATED, RAW, REFERENCES, UNTRAINED
from epagcl.study.design import Cell, cells, rows
from epagcl.study.diagram import BARS, diagram
from epagcl.study.paired_test import BETTER, UNDECIDED, WORSE, PairedTest, paired_tests
from epagcl.study.ranking import Ranking

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROTOCOL = "strict"
#: Comparisons of two variants of which neither is uniform dropping, which the tables compare with every variant.
QUESTIONS = ((MASKS, NONE), (PAPERS, DROP_ONLY), (ADD_ONLY, MASKS), (NEIGHBOURS, PAPERS), (DROP_ONLY, ADD_ONLY))


def measure(request: Request) -> Result:
    """Measure every variant on every graph."""
    return request.runs_of(cells_of(request))


def cells_of(request: Request) -> list[Cell]:
    """Return the cells of the references and of the variants, graph by graph, with the seeds of the study."""
    own = {name: value for name, value in request.settings.items() if name != "device"}
    wanted = [row for row in rows(["epagcl"]) if row.title in (RAW, PROPAGATED)] + view_rows(own)
    device = {"device": request.device}
    return [
        cell
        for name, data in request.graphs.items()
        for cell in cells(
            data,
            name,
            wanted,
            seeds=min(request.runs, seeds_of(name)),
            protocols=request.protocols,
            settings=device,
        )
    ]


def against(result: Result, base: str = UNIFORM) -> dict[tuple[str, str], PairedTest]:
    """Test each variant against a base on each graph, with Holm's correction for all tests of the table."""
    by_graph = {graph: runs_by_seed(result, PROTOCOL, graph) for graph in measured_graphs(result)}
    return paired_tests(
        {
            (graph, title): (runs[title], runs[base])
            for title in titles_of(result)
            for graph, runs in by_graph.items()
            if title not in (base, *REFERENCES) and title in runs and base in runs
        }
    )


def compared(result: Result, title: str, base: str) -> dict[str, PairedTest]:
    """Test a variant against another one on each graph. The graphs of one such question are a family of tests."""
    by_graph = {graph: runs_by_seed(result, PROTOCOL, graph) for graph in measured_graphs(result)}
    return paired_tests(
        {graph: (runs[title], runs[base]) for graph, runs in by_graph.items() if title in runs and base in runs}
    )


def drop_over_add(result: Result) -> list[PairedTest]:
    """Return the tests of only dropping against only adding, both by EPR, one for each graph."""
    return list(compared(result, DROP_ONLY, ADD_ONLY).values())


def titles_of(result: Result) -> list[str]:
    """Return the measured rows: the references, then the variants."""
    measured = {cell["row"] for cell in result["cells"]}
    order = [RAW, PROPAGATED, *(row.title for row in view_rows())]
    return [title for title in order if title in measured]


def ranking_of(result: Result) -> Ranking | None:
    """Rank the variants, without the references, over the graphs."""
    return ranking_over_graphs(result, PROTOCOL, [title for title in titles_of(result) if title not in REFERENCES])


def tables(result: Result) -> list[Table]:
    """Return the summary of each variant over the graphs, the accuracies by graph, and the differences by graph."""
    if not result["cells"]:
        return []
    graphs = measured_graphs(result)
    questions = {
        (graph, f"{title} minus {base}"): test
        for title, base in QUESTIONS
        for graph, test in compared(result, title, base).items()
    }
    return [
        _summary(result),
        _by_graph(result),
        differences_table(f"Views minus {UNIFORM}", against(result), graphs),
        differences_table("Other comparisons", questions, graphs, slug="questions", family="the tests of a row"),
    ]


def _summary(result: Result) -> Table:
    tests, ranking = against(result), ranking_of(result)
    by_graph = {graph: scores(result, PROTOCOL, graph) for graph in measured_graphs(result)}
    titles = titles_of(result)
    means = [_mean_over(by_graph, title) for title in titles]
    ranks = [ranking.mean_ranks.get(title) if ranking else None for title in titles]
    own = by_row(tests)
    lines = [verdict_cells(own.get(title, [])) for title in titles]
    mean_cells = marked(
        [mean if title not in REFERENCES else None for title, mean in zip(titles, means, strict=True)],
        [f"{mean:.2f}" if mean is not None else "–" for mean in means],
    )
    rank_cells = marked(ranks, [f"{one:.2f}" if one is not None else "–" for one in ranks], smallest=True)
    table_rows: list[list[TableCell | str]] = [
        [title, mean, place, *line]
        for title, mean, place, line in zip(titles, mean_cells, rank_cells, lines, strict=True)
    ]
    columns = ["views", "mean", "rank", f"minus {UNIFORM}", *VERDICT_COLUMNS]
    note = paragraph(
        f"Protocol {PROTOCOL}, {counted(len(by_graph), 'graph')}; accuracy in percent. "
        "All rows but the first two have the same "
        f"GCN ({COMMON['hidden']} and {COMMON['dim']} numbers), projection head, InfoNCE (τ = {COMMON['temperature']}, "
        f"negatives within random batches of {COMMON['batch_size']:,} nodes), {_epochs(result)} epochs, learning rate "
        f"and rates of dropping and masking ({COMMON['p_drop_1']}). Ranks are among trained variants.",
        ranking.same_nodes_note if ranking else "",
        verdict_note(f"a row against {UNIFORM}", len(tests)),
    )
    return Table("", "Views with everything else equal", columns, table_rows, note)


def _epochs(result: Result) -> str:
    """Return the number of epochs of the trained variants."""
    return span([cell["settings"]["epochs"] for cell in result["cells"] if cell["settings"].get("epochs")], ",")


def _mean_over(by_graph: dict[str, dict[str, float]], title: str) -> float | None:
    """Return the mean over graphs, or None if the row lacks one."""
    values = [found[title] for found in by_graph.values() if title in found]
    return fmean(values) if values and len(values) == len(by_graph) else None


def _by_graph(result: Result) -> Table:
    tests, graphs, titles = against(result), measured_graphs(result), titles_of(result)
    verdicts = {cell: SIGNS[test.verdict] for cell, test in tests.items()}
    columns = columns_by_graph(result, PROTOCOL, titles, verdicts, unmarked=REFERENCES)
    table_rows = [list(line) for line in zip(titles, *columns, strict=True)]
    runs = (own for graph in graphs for own in runs_by_seed(result, PROTOCOL, graph).values())
    seeds = counted_span(map(len, runs), "seed")
    note = f"Mean of {seeds}. ▲ better and ▼ worse than {UNIFORM}; other differences are undecided."
    return Table("graphs", "Views by graph", ["views", *graphs], table_rows, note, folded=True)


def figures(result: Result) -> "dict[str, Figure]":
    """Return the difference of each variant to uniform dropping on each graph, and the diagram of mean ranks."""
    tests = against(result)
    if not tests:
        return {}
    figure = gains_figure(by_row(tests), f"accuracy minus {UNIFORM}")
    ranking = ranking_of(result)
    return {"": figure} | ({"ranks": diagram(ranking)} if ranking else {})


def reading(result: Result) -> list[str]:
    """Return paragraphs on what the edges of the views contribute."""
    tests = against(result)
    if not tests:
        return []

    def sentence(title: str, base: str = UNIFORM) -> str:
        if base == UNIFORM:
            own = [test for (_, row), test in tests.items() if row == title]
        else:
            own = list(compared(result, title, base).values())
        if not own:
            return "not measured"
        words = [test.verdict for test in own]
        mean = fmean(test.mean for test in own)
        return (
            f"{mean:+.2f} points on average, better on {words.count(BETTER)} of {counted(len(words), 'graph')}, worse "
            f"on {words.count(WORSE)}, undecided on {words.count(UNDECIDED)}"
        )

    return [
        *_training_paragraph(result),
        f"**What edges contribute.** {MASKS} (the same masks, no edge changed) minus {UNIFORM}: {sentence(MASKS)}. "
        f"{MASKS} minus {NONE}: {sentence(MASKS, NONE)}.",
        f"**What guidance by EPR contributes.** {DROP_ONLY} minus {UNIFORM}: {sentence(DROP_ONLY)}. The text's "
        f"direction minus {UNIFORM}: {sentence(TEXT_DROP)}.",
        f"**What adding contributes.** {PAPERS} minus {DROP_ONLY}: {sentence(PAPERS, DROP_ONLY)}. {ADD_ONLY} minus "
        f"{MASKS}: {sentence(ADD_ONLY, MASKS)}. {NEIGHBOURS} minus {PAPERS}: {sentence(NEIGHBOURS, PAPERS)}.",
        f"**The paper's title** asks why dropping outperforms adding. {DROP_ONLY} minus {ADD_ONLY}: "
        f"{sentence(DROP_ONLY, ADD_ONLY)}.",
    ]


def _training_paragraph(result: Result) -> list[str]:
    """Return a paragraph on the trained variants against the references, if all were measured."""
    by_graph = {graph: scores(result, PROTOCOL, graph) for graph in measured_graphs(result)}
    means = {title: mean for title in titles_of(result) if (mean := _mean_over(by_graph, title)) is not None}
    trained = [mean for title, mean in means.items() if title not in REFERENCES]
    if not trained or any(title not in means for title in REFERENCES):
        return []
    counts = []
    for base, name in ((UNTRAINED, "the untrained encoder"), (PROPAGATED, "propagated features")):
        words = [test.verdict for test in against(result, base).values()]
        better, worse = words.count(BETTER), words.count(WORSE)
        counts.append(f"{better} of {len(words)} find it better than {name}, and {worse} worse")
    return [
        f"**What training contributes.** Over the graphs, the trained variants have means of {min(trained):.1f} to "
        f"{max(trained):.1f}, their encoder with its initial weights has {means[UNTRAINED]:.1f}, propagated features "
        f"have {means[PROPAGATED]:.1f}, and raw features have {means[RAW]:.1f}. By tests of a variant on a graph, "
        f"{'; '.join(counts)}."
    ]


ARTEFACT = Artefact(
    name="views",
    title="Views only",
    datasets=GRAPHS,
    methods=("epagcl",),
    runs=MANY,
    protocols=(PROTOCOL,),
    measure=measure,
    cells=cells_of,
    tables=tables,
    figures=figures,
    reading=reading,
    captions={"": f"Each kind of views minus {UNIFORM}", "ranks": f"Mean ranks of the views; {BARS}"},
)
