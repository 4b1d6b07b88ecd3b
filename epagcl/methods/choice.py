"""The choice of a method for a graph without labels, by what was measured on other graphs."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch_geometric.data import Data

from epagcl.core.formatting import duration
from epagcl.core.hardware import resolve_device
from epagcl.core.sparse import SparseMatrix
from epagcl.data.checking import check
from epagcl.epr.own_features import own_advantage
from epagcl.methods.epagcl_plus import EPAGCLPlus
from epagcl.methods.mixture import ADVANTAGE, NO_ADVANTAGE
from epagcl.methods.propagated import Propagated

LONGEST = 3600.0  # seconds of training above which a method without training is chosen


class Evidence(NamedTuple):
    """The standing of a method in ``results/comparison.json``.

    Attributes:
        graphs: number of graphs.
        rows: number of ranked rows.
        rank: mean rank.
    """

    graphs: int
    rows: int
    rank: float


#: What the choice rests on. Tests compare it with ``results``, which an installed package does not have.
EVIDENCE = {EPAGCLPlus.name: Evidence(15, 22, 1.36), Propagated.name: Evidence(15, 22, 6.07)}
#: Seconds of a training of EPAGCL+ for each node, from ``results/benchmarks/plus.json``.
SECONDS_PER_NODE = {"cpu": 0.032, "cuda": 2.3e-4}


@dataclass(frozen=True)
class Recommendation:
    """A method for a graph.

    Attributes:
        method: its name.
        reason: why, in two sentences.

    Examples:
        >>> Recommendation("propagated", "It is fast. It needs no training.").method
        'propagated'
    """

    method: str
    reason: str


def recommend(data: Data, *, device: str = "auto", seconds: float = LONGEST) -> Recommendation:
    """Choose a method for a graph, without labels, and say why.

    EPAGCL+ has the best mean rank over 15 graphs, and adapts to a graph by the weights of its blocks. It is the choice
    unless its training would take too long; then it is ``propagated``, which needs none.

    Args:
        data: the graph, with features.
        device: where to train.
        seconds: how long the training may take.

    Examples:
        >>> from epagcl.data import block_model
        >>> data = block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> recommend(data, device="cpu").method, recommend(data, device="cpu", seconds=1).method
        ('epagcl+', 'propagated')
    """
    data = check(data, quiet=True, labels=False)
    where = resolve_device(device).type
    expected = SECONDS_PER_NODE.get(where, SECONDS_PER_NODE["cpu"]) * data.num_nodes
    plus, propagated = EVIDENCE[EPAGCLPlus.name], EVIDENCE[Propagated.name]
    if expected > seconds:
        return Recommendation(
            Propagated.name,
            f"propagated needs no training, and has mean rank {propagated.rank:.1f} of {propagated.rows} rows over "
            f"{propagated.graphs} graphs. {EPAGCLPlus.title}, with mean rank {plus.rank:.1f}, "
            f"would train for about {duration(expected)} on {data.num_nodes:,} nodes with this {where.upper()}.",
        )
    return Recommendation(
        EPAGCLPlus.name,
        f"{EPAGCLPlus.title} has the best mean rank, {plus.rank:.1f} of {plus.rows} rows over {plus.graphs} graphs. "
        f"{_about(data)}",
    )


def _about(data: Data) -> str:
    """Return a sentence on what the mixture of EPAGCL+ will rely on."""
    x = data.x if data.x.layout == torch.strided else SparseMatrix.from_torch(data.x)
    advantage = own_advantage(data.edge_index, data.num_nodes, x)
    shown = f"{advantage:.2f}".replace("-", "−")
    if advantage >= ADVANTAGE:
        return f"Here a node's own features say more about it than its neighbours do ({shown}), so it keeps them."
    if advantage <= NO_ADVANTAGE:
        return f"Here neighbours say as much about a node as its own features do ({shown}), so it propagates features."
    return f"Here own features say somewhat more about a node than its neighbours do ({shown}), so it mixes both."
