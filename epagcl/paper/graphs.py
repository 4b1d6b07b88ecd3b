"""The graphs themselves: repeated nodes, and which edges EPAGCL and GCA drop. Nothing is trained or random."""

from collections import Counter
from collections.abc import Hashable
from math import lgamma
from typing import TYPE_CHECKING, Any

import torch
from scipy.stats import spearmanr
from torch import Tensor

from epagcl.core.sparse import SparseMatrix
from epagcl.data.checking import undirected_pairs
from epagcl.data.graph import Graph
from epagcl.methods.gca import CENTRALITIES, GCA
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.drawing import COLOURS, GREY, label_rows, new_figure
from epagcl.paper.study_size import GRAPHS
from epagcl.paper.tables import Table
from epagcl.views.probabilities import edge_weights, normalise_from_max

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch_geometric.data import Data

P_DROP = 0.3
#: The share of edges that EPAGCL drops most often, which are looked up in GCA.
MOST_DROPPED = 0.1
#: Nodes with fewer neighbours share them with others by chance: many leaves hang on the same node.
FEWEST_NEIGHBOURS = 2
TRAIN = 0.1


def measure(request: Request) -> Result:
    """Count repeated nodes and compare drop probabilities on each graph that can be loaded."""
    graphs = {}
    for name, data in request.graphs.items():
        request.work.say(f"nodes and edges of {name}")
        pairs = undirected_pairs(data.edge_index, data.num_nodes)
        graphs[name] = {
            "nodes": data.num_nodes,
            "edges": pairs.shape[1],
            "repeated": repeated_nodes(pairs, data.y),
            "drops": compare_drops(data),
        }
    return {"graphs": graphs, "absent": request.absent}


def repeated_nodes(pairs: Tensor, y: Tensor) -> dict[str, Any]:
    """Count the nodes that repeat another node: the same neighbours, at least two, and the same class.

    Returns:
        ``nodes``: how many could be removed, so that none repeats another. ``in_groups``: how many have such a twin.
        ``twin_in_training``: the probability that a test node of a random 10/10/80 split has a twin among the training
        nodes, as a mean over all nodes.
    """
    neighbours: list[list[int]] = [[] for _ in range(y.numel())]
    for i, j in pairs.t().tolist():
        neighbours[i].append(j)
        neighbours[j].append(i)
    keys: list[Hashable] = [
        (tuple(sorted(own)), label)
        for own, label in zip(neighbours, y.tolist(), strict=True)
        if len(own) >= FEWEST_NEIGHBOURS
    ]
    groups = [count for count in Counter(keys).values() if count > 1]
    nodes, train = y.numel(), int(TRAIN * y.numel())
    expected = sum(count * (1 - _none_drawn(nodes - 1, count - 1, train)) for count in groups)
    return {"nodes": sum(groups) - len(groups), "in_groups": sum(groups), "twin_in_training": expected / nodes}


def _none_drawn(population: int, marked: int, draws: int) -> float:
    """Return the probability that none of the marked items is among those drawn without replacement."""
    if marked + draws > population:
        return 0.0
    logarithm = sum(
        sign * lgamma(count + 1)
        for sign, count in (
            (1, population - marked),
            (1, population - draws),
            (-1, population),
            (-1, population - marked - draws),
        )
    )
    return float(torch.tensor(logarithm, dtype=torch.float64).exp())


def compare_drops(data: "Data") -> dict[str, dict[str, float]]:
    """Compare the drop probabilities of EPAGCL by Eq. (9) with those of GCA, for each of its centralities.

    Returns:
        By centrality ``spearman``, the rank correlation over edges, and ``ratio``: the mean probability that GCA drops
        one of the edges that EPAGCL drops most often, divided by the mean over all edges.
    """
    ours = edge_weights(data.edge_index, data.num_nodes).probabilities(p_drop=P_DROP, p_add=0.0)
    edges = Graph.from_data(data).edges
    matrix = SparseMatrix(edges.rowptr, edges.col, edges.value.double(), edges.shape, symmetric=True)
    most = ours.drop.argsort(descending=True, stable=True)[: max(1, int(MOST_DROPPED * ours.drop.numel()))]
    compared = {}
    for name, centrality in CENTRALITIES.items():
        score = (centrality(matrix)[ours.pairs].sum(0) / 2).log()
        theirs = (normalise_from_max(score) * P_DROP).clamp(max=GCA().cutoff)
        compared[name] = {
            "spearman": float(spearmanr(ours.drop.numpy(), theirs.numpy()).statistic),
            "ratio": float(theirs[most].mean() / theirs.mean()),
        }
    return compared


def tables(result: Result) -> list[Table]:
    """Return the repeated nodes, and the comparison of drop probabilities."""
    return [_repeated_table(result), _drop_table(result)]


def _repeated_table(result: Result) -> Table:
    rows = [
        [
            name,
            f"{graph['nodes']:,}",
            f"{graph['repeated']['nodes']:,}",
            f"{graph['repeated']['nodes'] / graph['nodes']:.1%}",
            f"{graph['repeated']['twin_in_training']:.1%}",
        ]
        for name, graph in result["graphs"].items()
    ]
    note = (
        "Repeated: nodes that have the same neighbours (at least two) and the same class as another node, and could be "
        "removed. Twin in training: probability that a test node of a random 10/10/80 split has such a twin among the "
        "training nodes. Counted exactly on the undirected graphs used here."
    )
    columns = ["graph", "nodes", "repeated nodes", "share", "twin in training"]
    return Table("", "Repeated nodes", columns, rows, note)


def _drop_table(result: Result) -> Table:
    names = list(CENTRALITIES)
    rows = [
        [
            name,
            f"{graph['edges']:,}",
            *(f"{graph['drops'][centrality]['spearman']:+.2f}" for centrality in names),
            *(f"{graph['drops'][centrality]['ratio']:.2f}" for centrality in names),
        ]
        for name, graph in result["graphs"].items()
    ]
    columns = ["graph", "edges", *(f"ρ, {name}" for name in names), *(f"ratio, {name}" for name in names)]
    note = (
        "ρ: Spearman's correlation over edges of the probability that EPAGCL drops an edge, by Eq. (9), with the "
        "probability that GCA drops it, for each centrality of GCA. Ratio: how often GCA drops the "
        f"{MOST_DROPPED:.0%} of edges that EPAGCL drops most often, compared with all edges. Both with a mean "
        f"probability of {P_DROP:g}. Computed exactly; nothing is trained."
    )
    return Table("drops", "Edges that EPAGCL and GCA drop", columns, rows, note)


def figures(result: Result) -> "dict[str, Figure]":
    """Return the share of repeated nodes and the rank correlation of drop probabilities, by graph."""
    graphs = result["graphs"]
    figure, (left, right) = new_figure(1, 2, 8.2, 1.2 + 0.24 * len(graphs), sharey=True)
    places = range(len(graphs))
    left.barh(places, [100 * graph["repeated"]["nodes"] / graph["nodes"] for graph in graphs.values()], color=GREY)
    left.set_xlabel("repeated nodes, %", fontsize=9)
    label_rows(left, list(graphs), fontsize=9)
    for colour, marker, name in zip(COLOURS, "oDs", CENTRALITIES, strict=False):
        values = [graph["drops"][name]["spearman"] for graph in graphs.values()]
        right.plot(values, places, marker, color=colour, markersize=5, label=f"GCA by {name}")
    right.axvline(0, color=GREY, lw=0.8)
    right.set_xlim(-1.05, 1.05)
    right.set_xlabel("rank correlation of drop probabilities", fontsize=9)
    for axes in (left, right):
        axes.grid(axis="x", lw=0.3)
    figure.legend(loc="outside upper center", ncols=3, fontsize=9, frameon=False)
    return {"": figure}


def reading(result: Result) -> list[str]:
    """Return which graphs repeat many nodes, and whether GCA preserves the edges that EPAGCL drops."""
    graphs = result["graphs"]
    if not graphs:
        return []
    many = [name for name, graph in graphs.items() if graph["repeated"]["nodes"] / graph["nodes"] > 0.1]
    counts = [
        f"{name} {graphs[name]['repeated']['nodes']:,} of {graphs[name]['nodes']:,} nodes (a test node has a twin in "
        f"training with probability {graphs[name]['repeated']['twin_in_training']:.0%})"
        for name in many
    ]
    rest = [graph["repeated"]["nodes"] / graph["nodes"] for name, graph in graphs.items() if name not in many]
    repeated = (
        f"**Repeated nodes**: {'; '.join(counts)}. A method that recognises the twin scores well there without having "
        "learned a class, so accuracies on these graphs say little about heterophily."
        if many
        else "No graph repeats more than a tenth of its nodes."
    )
    if many and rest:
        repeated += f" On the other graphs, at most {max(rest):.1%} of the nodes are repeated."
    correlations = drop_correlations(result)
    positive = sum(value > 0 for value in correlations.values())
    return [
        repeated,
        "**“Edges that EPAGCL tends to drop are likely to be preserved in GCA”** would be a negative correlation of "
        "the drop probabilities. With GCA's default centrality, the degree, it is positive on "
        f"{positive} of {len(correlations)} graphs, between {min(correlations.values()):+.2f} and "
        f"{max(correlations.values()):+.2f}. In the direction of the paper's text, which drops edges of small α, the "
        "order of EPAGCL's probabilities is reversed, and so is the sign.",
    ]


def drop_correlations(result: Result) -> dict[str, float]:
    """Return the rank correlation of EPAGCL's and GCA's drop probabilities by degree on each graph."""
    return {name: graph["drops"]["degree"]["spearman"] for name, graph in result["graphs"].items()}


ARTEFACT = Artefact(
    name="graphs",
    title="The graphs",
    datasets=GRAPHS,
    measure=measure,
    tables=tables,
    figures=figures,
    reading=reading,
    runs=1,
    protocols=("strict",),
)
