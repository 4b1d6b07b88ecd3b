"""Overlapping splits: how far the runs on one graph correlate, and which paired test has the right size."""

from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted, span
from epagcl.data.graph import Graph
from epagcl.data.splits import random_split
from epagcl.nn.propagation import PropagatedPCA
from epagcl.paper import overlap_simulation
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.drawing import COLOURS, GREY, new_figure
from epagcl.paper.overlap_simulation import (
    FURTHER,
    SCENARIOS,
    shared_variance,
    shared_variance_of_nodes,
    simulate,
    size,
    tuned_ridge_is_correct,
)
from epagcl.paper.study_size import GRAPHS
from epagcl.paper.tables import Table
from epagcl.runs.operators import OPERATORS
from epagcl.study.paired_test import OVERLAP
from epagcl.study.statistics import ALPHA

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch_geometric.data import Data

#: Embeddings that are compared on named graphs. They need no training and are the same for every seed.
COMPARED = ("X", "Â²X", "PageRank, α = 0.15")
DIM = 128
#: c of each test.
TESTS = {"plain": 0.0, "ours": OVERLAP, "nadeau_bengio": 8.0}
TITLES = {"plain": "plain t, c = 0", "ours": f"ours, c = {OVERLAP:g}", "nadeau_bengio": "Nadeau–Bengio, c = 8"}
COUNTS = (5, 10, 20)


def measure(request: Request) -> Result:
    """Measure c on each graph that can be loaded, and the size of each test on generated graphs."""
    if request.runs < 2:
        raise InputError(f"{request.runs} run: at least 2 are needed to see how far runs correlate")
    request.work.say("generated graphs")
    simulated = []
    for scenario in SCENARIOS:
        runs, truth, of_nodes = simulate(scenario, overlap_simulation.GRAPHS)
        sizes = {
            str(n): {name: size(runs[:, :n], c) for name, c in TESTS.items()}
            | {"this_graph": size(runs[:, :n], 0.0, truth, 1 / FURTHER)}
            for n in COUNTS
        }
        shared = {"shared_variance": shared_variance(runs), "shared_variance_of_nodes": float(np.mean(of_nodes))}
        simulated.append({**scenario._asdict(), "graphs": len(runs), **shared, "sizes": sizes})
    graphs = {}
    for name, data in request.graphs.items():
        request.work.say(f"overlapping splits of {name}")
        graphs[name] = {"nodes": data.num_nodes, "pairs": graph_correlations(data, request.runs)}
    return {"simulated": simulated, "graphs": graphs, "absent": request.absent}


def graph_correlations(data: "Data", runs: int) -> list[dict[str, object]]:
    """Return c of each pair of embeddings of a graph, from a ridge classifier on random 10/10/80 splits."""
    graph, y = Graph.from_data(data), data.y.numpy()
    embeddings = []
    for name in COMPARED:
        model = PropagatedPCA(graph.num_features, DIM, OPERATORS[name])
        model.fit(graph)
        z = model(graph).numpy().astype(float)
        embeddings.append(np.column_stack([z / np.sqrt((z**2).mean()), np.ones(len(z))]))
    correct = np.full((len(COMPARED), runs, len(y)), np.nan)
    for run in range(runs):
        split = random_split(data.y, seed=run)
        train, val, test = split.train.numpy(), split.val.numpy(), split.test.numpy()
        for place, z in enumerate(embeddings):
            correct[place, run, test] = tuned_ridge_is_correct(z, y, train, val, test)
    labelled = y >= 0
    return [
        {
            "pair": [COMPARED[one], COMPARED[other]],
            "shared_variance": shared_variance_of_nodes((correct[one] - correct[other])[:, labelled]),
        }
        for one in range(len(COMPARED))
        for other in range(one)
    ]


def tables(result: Result) -> list[Table]:
    """Return the sizes of the tests on generated graphs, and c on named graphs."""
    return [_size_table(result), _graph_table(result)]


def _size_table(result: Result) -> Table:
    columns = ["nodes", "noise of a seed", "c", "c from nodes", "runs", *TITLES.values(), "plain t, this graph only"]
    rows = [
        [
            f"{row['nodes']:,}",
            f"{row['seed_noise']:g}",
            f"{row['shared_variance']:.2f}",
            f"{row['shared_variance_of_nodes']:.2f}" if "shared_variance_of_nodes" in row else "–",
            count,
            *(f"{100 * sizes[name]:.1f}" for name in (*TESTS, "this_graph")),
        ]
        for row in result["simulated"]
        for count, sizes in row["sizes"].items()
    ]
    counts = {row["graphs"] for row in result["simulated"]}
    note = (
        f"Share in % of {'/'.join(map(str, sorted(counts)))} generated graphs on which a test at the 5% level finds a "
        "difference between two methods that are equal on graphs of this kind; it should be 5. Each method has its own "
        "features with the same distribution, and a ridge classifier on random 10/10/80 splits. c: the variance that "
        "the runs on a graph share, in units of the variance of their differences. It is measured between graphs, and "
        "from the nodes of single graphs as in the next table, as a mean. The last column asks another question: "
        "whether the interval misses the difference on this very graph, without generalising to others."
    )
    return Table("", "Size of paired tests on overlapping splits", columns, rows, note)


def _graph_table(result: Result) -> Table:
    pairs = [f"{one} and {other}" for one, other in _pairs(result)]
    rows = [
        [name, f"{graph['nodes']:,}", *(f"{pair['shared_variance']:.2f}" for pair in graph["pairs"])]
        for name, graph in result["graphs"].items()
    ]
    runs = counted(result["asked"]["runs"], "run")
    note = (
        f"c of two embeddings on random 10/10/80 splits ({runs}, ridge classifier, penalty "
        "chosen on validation nodes), with the nodes of a graph as a sample: the variance of the mean difference that "
        "comes from the nodes, in units of the variance of the differences between runs. The embeddings do not depend "
        "on the seed; training adds variance that the runs do not share, so that c of trained methods should be "
        "smaller, which was not measured."
    )
    return Table("graphs", "Variance that runs on one graph share", ["graph", "nodes", *pairs], rows, note)


def _pairs(result: Result) -> list[list[str]]:
    return next(([pair["pair"] for pair in graph["pairs"]] for graph in result["graphs"].values()), [])


def size_if(shared: float, runs: int) -> float:
    """Return the share of false decisions at the 5% level if c is another one than the test assumes.

    Examples:
        >>> round(size_if(OVERLAP, 20), 6), round(size_if(1.0, 20), 2)
        (0.05, 0.28)
    """
    from scipy.stats import t

    return float(2 * t.sf(t.isf(ALPHA / 2, runs - 1) * ((1 / runs + OVERLAP) / (1 / runs + shared)) ** 0.5, runs - 1))


def all_shared(result: Result) -> dict[str, float]:
    """Return the largest c of each named graph."""
    return {name: max(pair["shared_variance"] for pair in graph["pairs"]) for name, graph in result["graphs"].items()}


def figures(result: Result) -> "dict[str, Figure]":
    """Return a figure of the sizes over the number of runs, a panel for each kind of generated graph."""
    kinds = result["simulated"]
    columns = min(len(kinds), 3)
    lines = -(-len(kinds) // columns)
    figure, panels = new_figure(lines, columns, 3.0 * columns + 0.5, 2.6 * lines + 0.4, sharey=True)
    for axes in panels[len(kinds) :]:
        axes.set_axis_off()
    for axes, row in zip(panels, kinds, strict=False):
        for colour, (name, title) in zip(COLOURS, TITLES.items(), strict=False):
            counts = [int(count) for count in row["sizes"]]
            axes.plot(counts, [100 * sizes[name] for sizes in row["sizes"].values()], "o-", color=colour, label=title)
        axes.axhline(5, color=GREY, linestyle="--", linewidth=1)
        noise = f", noise {row['seed_noise']:g}" if row["seed_noise"] else ""
        axes.set_title(f"{row['nodes']:,} nodes{noise} (c = {row['shared_variance']:.2f})", fontsize=9)
        axes.set_xlabel("runs", fontsize=9)
        axes.grid(lw=0.3)
    for axes in panels[::columns]:
        axes.set_ylabel("false decisions, %", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    return {"": figure}


def reading(result: Result) -> list[str]:
    """Return which correction has the right size, and what the verdicts mean."""
    by_test = {
        name: [sizes[name] for row in result["simulated"] for sizes in row["sizes"].values()]
        for name in (*TESTS, "this_graph")
    }
    spans = {name: span(values, ".0%") for name, values in by_test.items()}
    worst = max(result["simulated"], key=lambda row: max(sizes["ours"] for sizes in row["sizes"].values()))
    paragraphs = [
        f"**Paired tests on this page are corrected resampled t tests with c = {OVERLAP:g}**: the variance of the mean "
        "of n paired differences with standard deviation s is (1/n + c) s². Those of the tuned track also allow for "
        "shared test sets ([Runs in groups](paper.md#how-claims-are-decided)), and those on Geom-GCN's splits have c = "
        f"20/48. On generated graphs of {span([row['nodes'] for row in result['simulated']], ',')} nodes where two "
        f"methods are equal, it decides wrongly in {spans['ours']} of cases at the 5% level, most often with "
        f"{worst['nodes']:,} nodes and {'some' if worst['seed_noise'] else 'no'} noise of the seeds. The plain paired "
        "t test "
        f"(c = 0) does so in {spans['plain']}, more often with more runs. Nadeau and Bengio's formula, test nodes over "
        f"training nodes, is c = 8 on 10/10/80 splits and decides wrongly in {spans['nadeau_bengio']}: it hardly "
        "decides anything. It was made for large training sets and small test sets.",
        "A verdict is thus meant for graphs of the same kind, not only for the nodes at hand. Given the graph, "
        "differences of runs on random splits are independent, and the plain t test has the right size "
        f"({spans['this_graph']}).",
    ]
    shared = all_shared(result)
    if shared:
        above = [name for name, c in shared.items() if c > OVERLAP]
        values = [pair["shared_variance"] for graph in result["graphs"].values() for pair in graph["pairs"]]
        exceeding = f" It is larger on {', '.join(above)} for some pair." if above else ""
        paragraphs.append(
            f"On {len(shared)} named graphs, c of pairs of untrained embeddings is between {min(values):.2f} and "
            f"{max(values):.2f}, with a median of {median(values):.2f}; "
            f"{sum(value <= OVERLAP for value in values)} of {len(values)} pairs are at most {OVERLAP:g}.{exceeding} "
            f"The value {OVERLAP:g} was chosen after looking at these measurements; it is not derived. If c is "
            f"{max(values):.2f}, the test of {COUNTS[-1]} runs decides wrongly in "
            f"{size_if(max(values), COUNTS[-1]):.0%} of cases."
        )
    return paragraphs


ARTEFACT = Artefact(
    name="overlap",
    title="How the verdicts are decided",
    datasets=GRAPHS,
    measure=measure,
    tables=tables,
    figures=figures,
    reading=reading,
    runs=20,
    protocols=("strict",),
)
