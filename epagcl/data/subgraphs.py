"""Which nodes a step of training sees: samples of neighbourhoods or cells of a partition, drawn from the seed."""

import importlib.util
from functools import cached_property
from typing import Any

import numpy as np
import torch

from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, permutation, uniform64
from epagcl.core.seeding import seeded
from epagcl.data.large import LargeGraph, Nodes, Subgraph

KINDS = ("neighbours", "partitions", "pyg")
FANOUTS = (10, 5)  # neighbours that are drawn for each root, and for each of those
CELLS = 8  # cells of a partition that are joined to one subgraph
ROOTS, DRAWS, CENTRES, DROPPED = range(4)  # purposes of the random draws
MULTIPLE = 64  # of the number of nodes of a subgraph


class Subgraphs:
    """The subgraphs of a training, one for each step. A step's subgraph depends on (seed, step) alone.

    - ``"neighbours"``: random roots, up to 10 random neighbours of each, and up to 5 of each of those. Every node is a
      root once before any is a root again.
    - ``"partitions"``: 8 random cells of a partition (:func:`partition`), which is computed once.
    - ``"pyg"``: as neighbours, drawn by ``NeighborLoader`` of PyTorch Geometric, which needs pyg-lib or torch-sparse.

    All edges between the nodes of a subgraph belong to it.

    Args:
        graph: the whole graph.
        kind: see above.
        num_nodes: the most nodes of a subgraph.
        seed: random seed.

    Examples:
        >>> from epagcl.data import block_model
        >>> from epagcl.data.large import Arrays
        >>> graph = LargeGraph(Arrays.from_data(block_model(300, seed=0)))
        >>> subgraphs = Subgraphs(graph, "neighbours", num_nodes=100, seed=0)
        >>> subgraphs.at(0).num_nodes <= 100
        True
    """

    def __init__(self, graph: LargeGraph, kind: str, num_nodes: int, seed: int):
        if kind not in KINDS:
            raise InputError(f"subgraphs={kind!r}: choose one of {', '.join(KINDS)}")
        self.graph, self.kind, self.seed = graph, kind, seed
        self.num_nodes = min(num_nodes, graph.num_nodes)
        self.survey: Any = None
        self._round: tuple[int, Nodes] = -1, np.empty(0, dtype=np.int64)

    def at(self, step: int) -> Subgraph:
        """Return the subgraph of a step."""
        return self.graph.subgraph(self.nodes(step), self.survey)

    def nodes(self, step: int) -> Nodes:
        """Return the nodes of a step's subgraph, ascending."""
        if self.num_nodes == self.graph.num_nodes:
            return np.arange(self.num_nodes)
        if self.kind == "partitions":
            order, bounds = self._cells
            cells = self._turn(len(bounds) - 1, CELLS, step)
            found = np.concatenate([order[bounds[cell] : bounds[cell + 1]] for cell in cells])
        else:
            roots = self._turn(self.graph.num_nodes, self.roots, step)
            stream = (self.seed, Stream.SUBGRAPHS, DRAWS, step)
            found = (
                self._pyg(roots, step) if self.kind == "pyg" else neighbour_sample(self.graph, roots, FANOUTS, stream)
            )
        return np.sort(self._of_few_sizes(found, step))

    def _of_few_sizes(self, nodes: Nodes, step: int) -> Nodes:
        """Return the nodes without a few random ones, so that their number is a multiple of 64.

        Libraries keep a compiled product for each size of matrix: a new size in every step takes time and memory.
        """
        if len(nodes) < 4 * MULTIPLE:
            return nodes
        order = np.argsort(uniform64(torch.from_numpy(nodes), self.seed, Stream.SUBGRAPHS, DROPPED, step).numpy())
        return nodes[order[: len(nodes) // MULTIPLE * MULTIPLE]]

    @property
    def roots(self) -> int:
        """The number of roots of a neighbour sample: as many as cannot exceed the nodes of a subgraph."""
        per_root = 1 + FANOUTS[0] + FANOUTS[0] * FANOUTS[1]
        return max(1, self.num_nodes // per_root)

    def _turn(self, count: int, size: int, step: int) -> Nodes:
        """Return at most ``size`` of 0..count−1: all come up once, in a random order, before any comes up again.

        If ``size`` does not divide ``count``, all turns have nearly the same number: a last small one would be a step
        with few negatives.
        """
        per_round = -(-count // size)
        turn = step // per_round
        if self._round[0] != turn:
            self._round = turn, permutation(count, self.seed, Stream.SUBGRAPHS, ROOTS, turn).numpy()
        place = step % per_round
        return self._round[1][place * count // per_round : (place + 1) * count // per_round]

    @cached_property
    def _cells(self) -> tuple[Nodes, Nodes]:
        parts = max(CELLS, -(-self.graph.num_nodes * CELLS // self.num_nodes))
        return partition(self.graph, parts, self.seed)

    def _pyg(self, roots: Nodes, step: int) -> Nodes:
        with seeded((self.seed << 32) + step):
            return np.unique(self._loader.collate_fn(roots.tolist()).n_id.numpy())

    @cached_property
    def _loader(self) -> Any:
        return pyg_loader(self.graph)


def neighbour_sample(graph: LargeGraph, roots: Nodes, fanouts: tuple[int, ...], stream: tuple[int, ...]) -> Nodes:
    """Return the roots and random neighbours of them, hop by hop, ascending.

    A node with at most as many neighbours as the fan-out brings all of them, another as many random draws.

    Args:
        graph: the graph.
        roots: numbers of nodes.
        fanouts: the number of neighbours of each node, for each hop.
        stream: the integers that identify the random draws.

    Examples:
        >>> from epagcl.data import block_model
        >>> from epagcl.data.large import Arrays
        >>> graph = LargeGraph(Arrays.from_data(block_model(50, seed=0)))
        >>> sample = neighbour_sample(graph, np.array([3]), (2,), (0,))
        >>> 3 in sample, len(sample) <= 3
        (True, True)
    """
    found = frontier = np.unique(roots)
    for hop, fanout in enumerate(fanouts):
        first, degree = graph.csr.indptr[frontier], graph.csr.indptr[frontier + 1] - graph.csr.indptr[frontier]
        few = degree <= fanout
        _, every = graph.neighbour_lists(frontier[few])
        many = frontier[~few]
        counter = torch.from_numpy(many[:, None] * fanout + np.arange(fanout))
        place = (uniform64(counter, *stream, hop).numpy() * degree[~few, None]).astype(np.int64)
        entries = np.concatenate([every, (first[~few, None] + place).ravel()])
        # Sorted, so that a mapped file is read from front to back.
        reached = np.unique(np.asarray(graph.csr.indices[np.sort(entries)], dtype=np.int64))
        frontier = np.setdiff1d(reached, found, assume_unique=True)
        found = np.union1d(found, frontier)
    return found


def partition(graph: LargeGraph, parts: int, seed: int) -> tuple[Nodes, Nodes]:
    """Return an order of the nodes and the bounds of ``parts`` cells of equal size in it.

    Cells grow from random centres by breadth-first search, all at once; a node belongs to the first that reaches it,
    and to the smallest of several. The nodes in the order of their cells are then cut into parts of equal size. This
    takes O(N + E) time and O(N) memory, and cuts more edges than METIS would.

    Args:
        graph: the graph.
        parts: number of cells.
        seed: random seed.

    Examples:
        >>> from epagcl.data import block_model
        >>> from epagcl.data.large import Arrays
        >>> graph = LargeGraph(Arrays.from_data(block_model(50, seed=0)))
        >>> order, bounds = partition(graph, 4, seed=0)
        >>> sorted(order.tolist()) == list(range(50)), np.diff(bounds).tolist()
        (True, [12, 13, 12, 13])
    """
    n = graph.num_nodes
    cell = np.full(n, -1, dtype=np.int64)
    centres = permutation(n, seed, Stream.SUBGRAPHS, CENTRES)[: min(parts, n)].numpy()
    cell[centres] = np.arange(len(centres))
    frontier = np.sort(centres)
    while len(frontier):
        reached = []
        for piece in np.array_split(frontier, 1 + len(frontier) // (1 << 18)):
            owner, entry = graph.neighbour_lists(piece)
            target = np.asarray(graph.csr.indices[entry], dtype=np.int64)
            new = cell[target] < 0
            target, claim = target[new], cell[piece[owner[new]]]
            order = np.lexsort((claim, target))
            target, where = np.unique(target[order], return_index=True)
            cell[target] = claim[order][where]
            reached.append(target)
        frontier = np.sort(np.concatenate(reached))
    # Components without a centre come last.
    order = np.argsort(np.where(cell < 0, parts, cell), kind="stable")
    return order, np.arange(parts + 1) * n // parts


def pyg_loader(graph: LargeGraph) -> Any:
    """Return PyTorch Geometric's ``NeighborLoader`` of a graph. Raise if its compiled part is not installed."""
    if importlib.util.find_spec("pyg_lib") is None and importlib.util.find_spec("torch_sparse") is None:
        raise InputError(
            "subgraphs='pyg': neither pyg-lib nor torch-sparse is installed; install one, or set subgraphs='neighbours'"
        )
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    owner, entry = graph.neighbour_lists(np.arange(graph.num_nodes))
    edge_index = torch.from_numpy(np.stack([np.asarray(graph.csr.indices[entry], dtype=np.int64), owner]))
    data = Data(edge_index=edge_index, num_nodes=graph.num_nodes)
    return NeighborLoader(data, num_neighbors=list(FANOUTS), batch_size=1)
