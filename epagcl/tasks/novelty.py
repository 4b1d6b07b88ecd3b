"""How much of a grown graph is unlike the part that was there before, without labels."""

from functools import partial

import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, uniform64
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.diffusion import ALPHA, ppr
from epagcl.methods.local import NodesLike, node_numbers
from epagcl.nn.propagation import PropagatedPCA

COMPONENTS = 32
RIDGE = 3e-4  # of the regression, relative to the number of nodes
FEWEST = 10  # old and new nodes; with fewer, nothing can be told
TOLERANCE = 1e-3


@torch.no_grad()
def novelty(data: Data, new: NodesLike) -> float:
    """Return the share of the nodes of a graph that are new and unlike the old ones, between 0 and 1.

    A linear regression tells new from old nodes by their propagated features (32 principal components, unit rows); one
    half of the nodes fits it, the other is scored. With the probability A that a new node scores higher than an old one
    (AUC), the novelty is (2A − 1) times the share of new nodes. It is 0 if new nodes are like the old ones, however
    many they are, and grows with their number otherwise. In a graph with several kinds of nodes (``node_type``), nodes
    are compared with those of their kind, and those of a new kind are novel.

    Args:
        data: the grown graph, with features.
        new: numbers of the new nodes, or a mask. There may be none.

    Examples:
        >>> from epagcl.data import block_model
        >>> data = block_model(300, num_classes=2, num_features=40, topic_words=10, words_per_node=8)
        >>> novelty(data, data.y == 1) > 0.3, novelty(data, range(150, 300)) < 0.1
        (True, True)
    """
    graph = Graph.from_data(check(data, quiet=True, labels=False))
    is_new = torch.zeros(graph.num_nodes, dtype=torch.bool)
    is_new[node_numbers(new, graph.num_nodes, "new", least=0)] = True
    count = int(is_new.sum())
    if min(count, graph.num_nodes - count) < FEWEST:
        return 0.0
    block = PropagatedPCA(graph.num_features, COMPONENTS, partial(ppr, alpha=ALPHA, tolerance=TOLERANCE))
    block.fit(graph)
    z = F.pad(F.normalize(block(graph), dim=1).double(), (0, 1), value=1.0)  # the last column is the intercept
    half = uniform64(torch.arange(graph.num_nodes), 0, Stream.HEALTH, 6) < 0.5
    kinds = torch.zeros(graph.num_nodes, dtype=torch.int64) if graph.kinds is None else graph.kinds
    return sum(_novel_nodes(z[of], is_new[of], half[of]) for of in map(kinds.eq, kinds.unique())) / graph.num_nodes


def _novel_nodes(z: Tensor, is_new: Tensor, half: Tensor) -> float:
    """Return (2A − 1) times the number of new nodes, for nodes of one kind; all of them if there are no old ones.

    Args:
        z: what the nodes are told by, ``[n, d]``.
        is_new: a mask of the new ones.
        half: a mask of one half of the nodes.
    """
    if is_new.all():
        return len(is_new)
    areas = []
    for fit in (half, ~half):
        target = is_new[fit].double()
        penalty = RIDGE * int(fit.sum()) * torch.eye(z.shape[1], dtype=z.dtype)
        weights = torch.linalg.solve(z[fit].T @ z[fit] + penalty, z[fit].T @ (target - target.mean()))
        scored = is_new[~fit]
        if 0 < int(scored.sum()) < scored.numel():
            areas.append(float(roc_auc_score(scored, (z @ weights)[~fit])))
    area = sum(areas) / len(areas) if areas else 0.5
    return max(0.0, 2 * area - 1) * int(is_new.sum())


def check_same_nodes(data: Data, rows: int) -> None:
    """Raise unless a graph has as many nodes as an embedding has rows."""
    if data.num_nodes != rows:
        raise InputError(
            f"data= has {data.num_nodes:,} nodes for {rows:,} embeddings; give the graph that was embedded"
        )
