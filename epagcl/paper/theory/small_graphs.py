"""Theorem 3.3 and its repaired form on all small graphs with all classes, by the definition of EPR."""

import itertools
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from epagcl.epr.change import theorem_3_3_repaired
from epagcl.paper.theory.theorems import ROUNDING

if TYPE_CHECKING:
    from epagcl.study.store import Record

NODES = (3, 4, 5, 6)
CLASSES = 3  # exceptions between classes are more frequent with a third class
TOLERANCE = 100 * ROUNDING  # the difference of two rates that are computed separately


def small_graphs() -> "Record":
    """Count exceptions to Theorem 3.3 over all graphs of each size, all classes and both readings of Â."""
    return {"rows": [count_exceptions(n, self_loops) for n in NODES for self_loops in (False, True)]}


def count_exceptions(num_nodes: int, self_loops: bool) -> "Record":
    """Count additions of one edge and exceptions to Theorem 3.3, over all graphs that have an edge.

    The added pair is (0, 1) and node 0 is in class 0. All other cases differ from these by the names of the nodes and
    classes only.

    Returns:
        The number of additions ("all"), and those that meet the conditions of the paper ("paper"), the condition of the
        repaired theorem ("repaired"), and its form for degrees ("degrees"). Each has the number of additions and
        the number of exceptions.
    """
    before = adjacency_of_all(num_nodes)
    after = before.clone()
    after[:, [0, 1], [1, 0]] = 1
    y = torch.tensor([(0, *rest) for rest in itertools.product(range(CLASSES), repeat=num_nodes - 1)])
    change = _rates(after, y, self_loops) - _rates(before, y, self_loops)
    exceptions = torch.where(y[:, 0] != y[:, 1], change < -TOLERANCE, change > TOLERANCE).sum(dim=1)
    conditions = {"all": torch.ones(len(before), dtype=torch.bool)} | _conditions(before, self_loops)
    counts = {name: [int(met.sum()) * len(y), int(exceptions[met].sum())] for name, met in conditions.items()}
    return {"nodes": num_nodes, "form": "d1" if self_loops else "d", **counts}


def adjacency_of_all(num_nodes: int) -> Tensor:
    """Return the adjacency matrices of all graphs that have an edge, but not the edge (0, 1)."""
    free = [pair for pair in itertools.combinations(range(num_nodes), 2) if pair != (0, 1)]
    number = torch.arange(1, 2 ** len(free))
    adjacency = torch.zeros(len(number), num_nodes, num_nodes, dtype=torch.float64)
    for place, (i, j) in enumerate(free):
        adjacency[:, i, j] = adjacency[:, j, i] = (number >> place & 1).double()
    return adjacency


def _rates(adjacency: Tensor, y: Tensor, self_loops: bool) -> Tensor:
    """Return EPR per edge of each graph (rows) with each assignment of classes (columns)."""
    root = (adjacency.sum(dim=2) + self_loops).clamp(min=1).sqrt()
    a_hat = (adjacency / root[:, :, None] / root[:, None, :]).flatten(1)
    differs = (y[:, :, None] != y[:, None, :]).double().flatten(1)
    return a_hat @ differs.T / a_hat.sum(dim=1, keepdim=True)


def _conditions(adjacency: Tensor, self_loops: bool) -> dict[str, Tensor]:
    """Return which graphs meet each condition for the pair (0, 1)."""
    degree = adjacency.sum(dim=2)
    low, high = degree.amin(dim=1), degree.amax(dim=1)
    neighbour = (adjacency[:, 0] + adjacency[:, 1]) > 0
    lowest_neighbour = degree.masked_fill(~neighbour, torch.inf).amin(dim=1)
    # One disjoint union of all graphs: a pair changes the messages of its own graph only.
    count, num_nodes = degree.shape
    graph, i, j = adjacency.triu().nonzero().T
    start = num_nodes * torch.arange(count)
    union = torch.stack([i, j]) + start[graph]
    repaired = theorem_3_3_repaired(union, count * num_nodes, torch.stack([start, start + 1]), self_loops=self_loops)
    return {
        "paper": (low >= 1) & (high <= 4 * low - 1),
        "repaired": repaired,
        "degrees": degree[:, :2].amax(dim=1) <= lowest_neighbour + (1 if self_loops else -1),
    }
