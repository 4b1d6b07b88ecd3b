"""The part of a graph within some hops of a few nodes."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from epagcl.core.sparse import SparseMatrix
from epagcl.data.graph import Graph
from epagcl.data.large import LargeGraph


class Neighbourhood(NamedTuple):
    """A part of a graph.

    Attributes:
        graph: the part. Nodes keep their degree in the whole graph, see ``Graph.outside``.
        nodes: the numbers of its nodes in the whole graph, sorted.
        places: the numbers, in the part, of the nodes that were asked for.

    Examples:
        >>> path = Graph(torch.eye(4), torch.tensor([[0, 1, 2], [1, 2, 3]]), 4)
        >>> part = neighbourhood(path, torch.tensor([3]), hops=1)
        >>> part.nodes.tolist(), part.graph.pairs.tolist(), part.places.tolist()
        ([2, 3], [[0], [1]], [1])
    """

    graph: Graph
    nodes: Tensor
    places: Tensor


def neighbourhood(graph: Graph | LargeGraph, nodes: Tensor, hops: int) -> Neighbourhood:
    r"""Return the part of a graph that lies within some hops of a few nodes, with the pairs between its nodes.

    Let Â be that of the whole graph, and Â' that of the part. Rows of Â' are rows of Â for all nodes at less than
    ``hops`` hops, because degrees are those of the whole graph. A network that multiplies by Â at most ``hops`` times
    therefore gives the asked nodes the same embedding. Pairs that lead out of the part are self-loops in Â': a random
    walk that would leave stays, so that Â' is symmetric and PageRank loses no mass.

    The time is O(hops · E) for comparisons only, without sorting; the memory of the part is that of its nodes. Of a
    graph whose arrays stay where they are, only the edges and features of the part are read.

    Args:
        graph: the whole graph.
        nodes: node numbers.
        hops: at least 0.

    Examples:
        >>> path = Graph(torch.eye(4), torch.tensor([[0, 1, 2], [1, 2, 3]]), 4)
        >>> part = neighbourhood(path, torch.tensor([0]), hops=1).graph
        >>> part.degree.tolist(), part.outside.tolist()  # node 1 has another neighbour
        ([1.0, 2.0], [0.0, 1.0])
    """
    if isinstance(graph, LargeGraph):
        wanted = nodes.cpu().numpy()
        chosen = graph.within(wanted, hops)
        places = torch.from_numpy(np.searchsorted(chosen, wanted))
        return Neighbourhood(graph.part(chosen), torch.from_numpy(chosen), places.to(graph.device))
    i, j = graph.pairs
    inside = within(graph.pairs, nodes, hops, graph.num_nodes)
    members = inside.nonzero().flatten()
    number = torch.zeros(graph.num_nodes, dtype=torch.int64, device=graph.device)
    number[members] = torch.arange(members.numel(), device=graph.device)
    first, second = inside[i], inside[j]
    both = first & second
    outside = torch.zeros(graph.num_nodes, device=graph.device)
    for end, leaves in ((i, first & ~second), (j, second & ~first)):
        weight = None if graph.weight is None else graph.weight[leaves]
        outside += torch.bincount(end[leaves], weights=weight, minlength=graph.num_nodes).float()
    part = Graph(
        x=_rows(graph.x, members),
        pairs=number[graph.pairs[:, both]],  # still sorted, since the members are
        num_nodes=members.numel(),
        weight=None if graph.weight is None else graph.weight[both],
        relations=None if graph.relations is None else graph.relations[..., both],
        relation_names=graph.relation_names,
        outside=outside[members],
    )
    return Neighbourhood(part, members, number[nodes])


def within(pairs: Tensor, nodes: Tensor, hops: int, num_nodes: int) -> Tensor:
    """Return a mask of the nodes within some hops of a few nodes.

    Args:
        pairs: the edges, ``[2, E]``, in one direction or in both.
        nodes: node numbers.
        hops: at least 0.
        num_nodes: N.

    Examples:
        >>> within(torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([0]), hops=2, num_nodes=4)
        tensor([ True,  True,  True, False])
    """
    i, j = pairs
    inside = torch.zeros(num_nodes, dtype=torch.bool, device=pairs.device)
    inside[nodes] = True
    for _ in range(hops):
        crossing = inside[i] != inside[j]
        if not crossing.any():  # whole components
            break
        inside[i[crossing]] = True
        inside[j[crossing]] = True
    return inside


def _rows(x: Tensor | SparseMatrix, nodes: Tensor) -> Tensor | SparseMatrix:
    """Return some rows of dense or sparse features."""
    if isinstance(x, Tensor):
        return x[nodes]
    counts = x.rowptr.diff()[nodes]
    rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    entries = torch.arange(int(rowptr[-1]), device=x.device)
    entries += torch.repeat_interleave(x.rowptr[:-1][nodes] - rowptr[:-1], counts)
    return SparseMatrix(rowptr, x.col[entries], x.value[entries], (nodes.numel(), x.shape[1]))
