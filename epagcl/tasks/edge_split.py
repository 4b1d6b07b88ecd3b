"""Edges split into training, validation and test before anything is learned, and pairs that are no edges."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.checks import check_seed
from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.data.checking import undirected_pairs
from epagcl.data.io.columns.date import AmbiguousDate, NotADate, date_format_of, to_dates
from epagcl.data.io.edge_list import EdgeList
from epagcl.data.io.roles import Roles
from epagcl.data.io.tables.base import is_code
from epagcl.data.io.tables.files import existing_file, open_table
from epagcl.epr.rate import check_edge_index
from epagcl.tasks.inputs import Doubles, Integers

VALIDATION, TEST = 0.05, 0.10
LEAST = 20  # edges of a graph that can be split


class EdgeSplit(NamedTuple):
    """Undirected pairs ``[2, ·]`` with i < j of each part, and how they were drawn.

    Attributes:
        train: the edges that a model may see.
        val: edges to choose and to fit scores on.
        test: edges that are scored once.
        kind: "random", or "by time".
    """

    train: Integers
    val: Integers
    test: Integers
    kind: str


def split_edges(data: Data, times: Tensor | None = None, seed: int = 0) -> EdgeSplit:
    """Split the edges of a graph: 85% training, 5% validation, 10% test.

    Args:
        data: the graph.
        times: time of each column of ``data.edge_index``. The last edges are then the test edges, and those before them
            the validation edges; edges of the same time stay together. A pair that occurs several times counts from
            its first time. None: the split is random.
        seed: seed of a random split.

    Examples:
        >>> edges = torch.stack([torch.arange(40), torch.arange(1, 41)])
        >>> split = split_edges(Data(edge_index=edges, num_nodes=41), times=torch.arange(40))
        >>> split.train.shape[1], split.val.T.tolist(), split.test.shape[1]
        (34, [[34, 35], [35, 36]], 4)
    """
    seed = check_seed(seed)
    pairs = undirected_pairs(check_edge_index(data.edge_index, data.num_nodes), data.num_nodes).cpu().numpy()
    count = pairs.shape[1]
    if count < LEAST:
        raise InputError(f"{counted(count, 'edge')}: link prediction needs at least {LEAST} to hold some out")
    held_out, tested = max(round((VALIDATION + TEST) * count), 2), max(round(TEST * count), 1)
    if times is None:
        order = np.random.default_rng(seed).permutation(count)
        cuts, kind = (count - held_out, count - tested), "random"
    else:
        first = _first_times(data, pairs, times)
        order = np.argsort(first, kind="stable")
        cuts, kind = _cuts(first[order], count - held_out, count - tested), "by time"
    train, val, test = (pairs[:, np.sort(part)] for part in np.split(order, cuts))
    return EdgeSplit(train, val, test, kind)


def edge_times(path: Path, column: str, data: Data, roles: Roles = Roles()) -> Tensor:  # noqa: B008 (frozen)
    """Return the time of each column of ``data.edge_index``, from the edge list that the graph was read from.

    Args:
        path: the edge list.
        column: its column of times: numbers, or dates.
        data: the graph, with ``node_ids``.
        roles: the columns that the user names.

    Examples:
        >>> import tempfile
        >>> from epagcl import read_graph
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "e.csv")
        ...     _ = path.write_text("source,target,year\\na,b,2024\\nb,c,2023\\nb,a,2022\\n")
        ...     data = read_graph(edges=path, need_features=False)
        ...     times = edge_times(path, "year", data)
        >>> data.edge_index.tolist(), times.tolist()
        ([[0, 1, 1, 2], [1, 0, 2, 1]], [2022.0, 2022.0, 2023.0, 2023.0])
    """
    edges = EdgeList(open_table(existing_file(path)), roles).without_header(data.node_ids)
    values = edges.table.values(None)[roles.column(edges.table, column, "time")]
    numbers = _times(values, column, edges)
    listed = _keys(edges.edge_index(data.node_ids, path.name), data.num_nodes)
    wanted = _keys(data.edge_index.cpu().numpy(), data.num_nodes)
    first = pd.Series(numbers).groupby(listed).min()
    return torch.from_numpy(first.reindex(wanted).to_numpy(dtype=np.float64).copy())


def _times(values: pd.Series, column: str, edges: EdgeList) -> Doubles:
    """Return a column of numbers or dates as numbers. Raise if a value is missing, or neither."""
    values = pd.to_numeric(values) if is_code(values) else values  # 0930 is a time, and text in a table
    fix, wrong = "fill it or drop the row", values.isna().to_numpy()
    if not wrong.any() and not pd.api.types.is_numeric_dtype(values):
        try:
            date_format = None if pd.api.types.is_datetime64_any_dtype(values) else date_format_of(values)
            return to_dates(values, date_format).to_numpy(dtype="datetime64[us]").astype(np.float64)
        except AmbiguousDate as error:
            what = f"day and month of {error.value!r} cannot be told apart"
            raise InputError(f"{edges.name}: column {column}: {what}; write 2024-01-31") from None
        except NotADate as error:
            wrong, fix = np.arange(len(values)) == error.row, "write all dates alike, as 2024-01-31"
    if wrong.any():
        place = f"{edges.name}: {edges.table.place(int(wrong.argmax()))}"
        raise InputError(f"{place}: column {column} has no number and no date; {fix}")
    return values.to_numpy(dtype=np.float64)


def training_graph(data: Data, split: EdgeSplit) -> Data:
    """Return a checked graph with the training edges only, their weights, and all nodes and features."""
    keep = np.isin(_keys(data.edge_index.numpy(), data.num_nodes), _keys(split.train, data.num_nodes))
    graph = data.clone()
    graph.edge_index = data.edge_index[:, torch.from_numpy(keep)]
    for key in ("edge_weight", "edge_relation"):
        if data.get(key) is not None:
            graph[key] = data[key][torch.from_numpy(keep)]
    return graph


class NodeDraw:
    """Random nodes, in a graph with several kinds of nodes of a given kind.

    Users have no edges to users in a graph of users and items. A score would tell such pairs from edges by their kinds
    alone, so pairs without an edge have the kinds of edges.

    Args:
        num_nodes: N.
        kinds: the number of the kind of each node; None if all are of one kind.
        generator: source of randomness.

    Examples:
        >>> draw = NodeDraw(4, np.array([0, 1, 1, 0]), np.random.default_rng(0))
        >>> set(draw(np.array([1] * 20)).tolist()), set(draw(np.array([3] * 20)).tolist())
        ({1, 2}, {0, 3})
    """

    def __init__(self, num_nodes: int, kinds: Integers | None, generator: np.random.Generator):
        self.num_nodes, self.kinds, self.generator = num_nodes, kinds, generator
        if kinds is not None:
            self._order = np.argsort(kinds, kind="stable")
            self._counts = np.bincount(kinds)
            self._starts = np.cumsum(self._counts) - self._counts

    def __call__(self, like: Integers) -> Integers:
        """Return a random node for each of some nodes, of the kind of that node."""
        if self.kinds is None:
            return self.generator.integers(self.num_nodes, size=like.shape)
        kinds = self.kinds[like]
        return np.asarray(self._order[self._starts[kinds] + self.generator.integers(self._counts[kinds])])


def sample_non_edges(sources: Integers, like: Integers, pairs: Integers, draw: NodeDraw) -> Integers:
    """Return a random node for each source that it has no edge to, other than itself.

    Args:
        sources: node numbers, of any shape.
        like: a node for each source, of the kind to draw.
        pairs: all edges of the graph with i < j.
        draw: draws nodes.
    """
    num_nodes = draw.num_nodes
    known = np.sort(pairs[0] * num_nodes + pairs[1])
    targets = draw(like)
    for _ in range(100):
        low, high = np.minimum(sources, targets), np.maximum(sources, targets)
        key = low * num_nodes + high
        taken = known[np.minimum(np.searchsorted(known, key), len(known) - 1)] == key
        if not (wrong := taken | (low == high)).any():
            return targets
        targets[wrong] = draw(like[wrong])
    raise InputError("a node has edges to nearly all others; links of so dense a graph cannot be sampled")


def random_non_edges(count: int, pairs: Integers, draw: NodeDraw) -> Integers:
    """Return ``count`` random pairs ``[2, count]`` without an edge, of the kinds of nodes that random edges have."""
    like = np.zeros((2, count), dtype=np.int64)
    if draw.kinds is not None:
        like = pairs[:, draw.generator.integers(pairs.shape[1], size=count)]
    sources = draw(like[0])
    return np.stack([sources, sample_non_edges(sources, like[1], pairs, draw)])


def _keys(edges: Integers, num_nodes: int) -> Integers:
    """Return a number for each edge, the same for both directions."""
    return np.minimum(*edges) * num_nodes + np.maximum(*edges)


def _first_times(data: Data, pairs: Integers, times: Tensor) -> Doubles:
    """Return the first time of each pair."""
    values = torch.as_tensor(times).detach().cpu().double().numpy().ravel()
    edges = data.edge_index.cpu().numpy()
    if len(values) != edges.shape[1]:
        count = counted(edges.shape[1], "edge")
        raise InputError(f"times: {len(values):,} for {count}; give one per column of edge_index")
    if not np.isfinite(values).all():
        raise InputError("times: some are missing or infinite; fill them, or drop these edges")
    first = pd.Series(values).groupby(_keys(edges, data.num_nodes)).min()
    return first.reindex(_keys(pairs, data.num_nodes)).to_numpy()


def _cuts(times: Doubles, first: int, second: int) -> tuple[int, int]:
    """Return the two places nearest to the given ones at which the sorted times change."""
    changes = np.flatnonzero(np.diff(times)) + 1
    if len(changes) < 2:
        raise InputError("times: fewer than three different ones; a split by time needs more, leave out times=")
    last = int(changes[np.abs(changes[1:] - second).argmin() + 1])
    before = changes[changes < last]
    return int(before[np.abs(before - first).argmin()]), last
