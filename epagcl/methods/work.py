"""The work of an epoch, counted from the sizes of the graph and the settings of the method, for the model of cost."""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch_geometric.data import Data

from epagcl.core.cost import Work
from epagcl.core.errors import InputError
from epagcl.core.memory import FRESH_BYTES, KEPT_FREE_BYTES
from epagcl.data.graph import sparse_entries
from epagcl.diffusion import ppr_products
from epagcl.losses.infonce.tiled_bf16 import TILE
from epagcl.nn.encoders import PRODUCTS, SCALES

if TYPE_CHECKING:
    from epagcl.methods.base import Method

FLOAT = 4  # bytes
SAMPLED = 1024  # rows of features on disk from which their density is estimated
ENTRY = 16  # bytes of an entry of a view: its column, its value, its pair
LIST = 32  # bytes of a pair in the list of each rank, twice 16 while it is sorted
SINGLES, HALVES = 5, 2  # blocks in float32 and in bf16 that a layer writes, forward and backward
LAST_BLOCKS = 3  # of the first layer at the end of the backward pass: its input, its gradient, and that before it
ROW_BLOCKS = (4, 1)  # in float32 and in bf16, of the loss's rows in its backward pass
EMBEDDED = 1.5  # blocks that an embedding holds, for each activation
COMPONENTS = 256  # of a propagated block of EPAGCL+
BLOCKS = 5  # propagated blocks of EPAGCL+
#: The methods whose cost is modelled, by name.
MODELLED = ("epagcl", "grace", "gca", "epagcl+", "propagated")


class Sizes(NamedTuple):
    """The sizes of a graph.

    Attributes:
        nodes: N.
        edges: E, undirected pairs.
        features: F.
        entries: stored entries of features that training keeps sparse; None: it keeps them dense.

    Examples:
        >>> Sizes(10, 20, 5).average_degree
        4.0
    """

    nodes: int
    edges: int
    features: int
    entries: int | None = None

    @property
    def average_degree(self) -> float:
        """2E/N."""
        return 2 * self.edges / max(self.nodes, 1)


def sizes_of(graph: Any) -> Sizes:
    """Return the sizes of a graph: ``Data``, or a graph on disk.

    Examples:
        >>> from epagcl.data import block_model
        >>> sizes_of(block_model(60, num_features=40, topic_words=10)).nodes
        60
    """
    if isinstance(graph, Data):
        x = graph.x
        columns, entries = (0, None) if x is None else (x.shape[1], sparse_entries(x))
        return Sizes(graph.num_nodes, graph.num_edges // 2, columns, entries)
    nodes, features = len(graph.indptr) - 1, graph.features
    columns, entries = (0, None) if features is None else (features.shape[1], _entries_of_array(features, nodes))
    return Sizes(nodes, len(graph.indices) // 2, columns, entries)


def _entries_of_array(features: Any, nodes: int) -> int | None:
    """Return the entries of an array of features, as :func:`sparse_entries` does, by some evenly spread rows."""
    step = max(1, nodes // SAMPLED)
    rows = features[np.arange(0, nodes, step)]
    part = torch.from_numpy(rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows))
    entries = sparse_entries(part)
    return None if entries is None else round(entries * nodes / max(1, len(part)))


class Block(NamedTuple):
    """Some blocks of memory of one size in bytes."""

    size: float
    number: int


def peak_of_blocks(*phases: list[Block]) -> float:
    """Return the bytes that a CPU holds at most, if each phase has these blocks.

    The C library keeps what small blocks have taken for later ones. Large blocks go back to the system. So the peak is
    that of the small blocks, plus that of the large ones, which may be in another phase. Between small blocks, up to
    64 MiB are free.

    Examples:
        >>> peak_of_blocks([Block(2**20, 3)], [Block(2**20, 1), Block(2**26, 2)]) / 2**20
        134.0
    """

    def most(large: bool) -> float:
        return max(sum(size * number for size, number in phase if (size > FRESH_BYTES) == large) for phase in phases)

    small = most(large=False)
    return small + min(small, KEPT_FREE_BYTES) + most(large=True)


class _Tally:
    """Adds up the work of the layers of a network on V views."""

    def __init__(self, sizes: Sizes, views: int, entries: float):
        self.sizes, self.views, self.entries = sizes, views, entries
        self.dense = self.single = self.moved = self.gathered = self.held = self.parameters = self.rows = 0.0
        self.fresh = 0.0
        self.alive: list[Block] = []  # while the loss computes its gradient
        self.last: list[Block] = []  # while the first layer does

    def add(self, other: "_Tally") -> None:
        """Add the work of another network."""
        self.alive, self.last = self.alive + other.alive, self.last + other.last
        for name in ("dense", "single", "moved", "gathered", "held", "parameters", "rows", "fresh"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def product(self, width_in: int, width_out: int, *, first: bool = False, models: int = 1) -> None:
        """Count X W with its gradients; ``first``: X are the features, which need none."""
        n, entries = self.sizes.nodes, self.sizes.entries
        self.parameters += models * width_in * width_out
        if first and entries is not None:
            self.gathered += 2 * FLOAT * self.views * entries * width_out
        elif first:
            self.single += 4 * self.views * n * width_in * width_out
        else:
            self.dense += 6 * self.views * n * width_in * width_out

    def aggregate(self, width: int, *, gradient: bool = True, times: int = 1) -> None:
        """Count ``times`` products Â H, with the gradient if there is one."""
        passes = (2 if gradient else 1) * times
        self.gathered += FLOAT * self.views * passes * width * (self.entries + self.sizes.nodes)
        self.rows += FLOAT * self.views * passes * width * self.sizes.nodes
        self._write(width, singles=passes)

    def activation(self, width: int, *, first: bool = False) -> None:
        """Count an activation, which is held for the gradient: in float32, and in bf16 for the next product."""
        size = FLOAT * self.views * self.sizes.nodes * width
        self.held += size
        self.alive += [Block(size, 1), Block(size / 2, 1)]
        self.last += [Block(size, LAST_BLOCKS)] if first else []
        self._write(width, SINGLES, HALVES)

    def _write(self, width: int, singles: int, halves: int = 0) -> None:
        """Count blocks of some columns that are written in float32, and in bf16."""
        size = FLOAT * self.views * self.sizes.nodes * width
        for block, count in ((size, singles), (size / 2, halves)):
            self.moved += count * block
            self.fresh += count * block if block > FRESH_BYTES else 0.0

    def layer(self, width_in: int, width_out: int, *, first: bool, root: bool = False, models: int = 1) -> None:
        """Count a GCN layer, which multiplies by Â where that costs less."""
        aggregates_first = width_in < (2 if first else 1) * width_out and not (first and self.sizes.entries is not None)
        self.aggregate(width_in if aggregates_first else width_out, gradient=not (aggregates_first and first))
        for _ in range(2 if root else 1):
            self.product(width_in, width_out, first=first, models=models)
        self.activation(width_out, first=first)
        if aggregates_first and first:
            self.last.append(Block(FLOAT * self.views * self.sizes.nodes * width_in, 1))

    def scales(self, width: int, name: str, models: int = 1) -> None:
        """Count the layer over several scales."""
        self.product(self.sizes.features, width, first=True, models=models)
        share = width // len(SCALES[name])
        hops = sum(int(scale) for scale in SCALES[name] if scale < PRODUCTS)
        self.aggregate(share, times=PRODUCTS + hops)
        self.activation(width, first=True)

    def head(self, width: int, hidden: int, out: int, models: int = 1) -> None:
        """Count a projection head."""
        self.product(width, hidden, models=models)
        self.product(hidden, out, models=models)
        self.activation(hidden)
        self.activation(out)


def work_of(model: "Method", sizes: Sizes, *, training: bool = True) -> Work:
    """Count the work of an epoch of a method on a whole graph, or of its embedding.

    Args:
        model: the method with its settings.
        sizes: of the graph.
        training: False counts the embedding: one view, no gradient, no loss.

    Raises:
        InputError: if the cost of the method is not modelled.

    Examples:
        >>> from epagcl import EPAGCL
        >>> work = work_of(EPAGCL(dim=256), Sizes(1000, 5000, 100))
        >>> work.loss == 3 * 2 * 2000**2 * 256  # three products of 2M²d
        True
    """
    name = type(model).name
    if name not in MODELLED:
        raise InputError(
            f"{name}: trains on the whole graph, and its cost is not modelled; see `epagcl methods {name}`"
        )
    settings: dict[str, Any] = model.get_params()
    if name == "propagated":
        return _propagated(sizes, settings["dim"], 1, ppr_products(settings["alpha"], 1e-3))
    return (_plus if name == "epagcl+" else _contrast)(sizes, settings, training)


def _contrast(sizes: Sizes, settings: dict[str, Any], training: bool) -> Work:
    views = 2 if training else 1
    added = 2 * sizes.edges if settings.get("p_add") else 0  # candidates of Algorithm 1
    sampled = settings["p_add"] * added if added and training else 0.0  # 2 entries each, in one of the two views
    tally = _Tally(sizes, views, _entries(sizes, settings, training) + sampled)
    width, hidden, dim = settings["projection"], settings["hidden"], settings["dim"]
    if settings["encoder"] in SCALES:
        tally.scales(dim, settings["encoder"])
    else:
        root = settings["encoder"] == "residual"
        tally.layer(sizes.features, hidden, first=True, root=root)
        tally.layer(hidden, dim, first=False, root=root)
    if training:
        tally.head(dim, width, dim)
    batch = settings["batch_size"] or sizes.nodes
    rows = 2 * sizes.nodes
    ring = 3 * FLOAT * rows * dim if training and not settings["batch_size"] else 0
    entries = views * (2 * sizes.edges + sizes.nodes) + (2 * added if training else 0)
    kept = _features(sizes) + ENTRY * entries
    if not training:
        return _embedding(tally, kept)
    return _training(tally, kept, rows, 2 * min(batch, sizes.nodes), dim)._replace(
        ring=ring, lists=LIST * (sizes.edges + added), drawn=entries
    )


def _plus(sizes: Sizes, settings: dict[str, Any], training: bool) -> Work:
    members, hidden, width = settings["members"], settings["hidden"], settings["projection"]
    views = 2 * members if training else members
    near = settings["k"] * sizes.nodes  # candidates for adding: nearest neighbours
    added = 2 * settings["p_add"] * near if training else 0.0
    tally = _Tally(sizes, views, _entries(sizes, settings, training) + added)
    tally.layer(sizes.features, hidden, first=True, root=True, models=members)
    tally.layer(hidden, hidden // 2, first=False, root=True, models=members)
    tally.scales(hidden, "scales", models=members)
    if training:
        tally.head(hidden // 2, width, width, models=members)
        tally.head(hidden, width, width, models=members)
    one = _Tally(sizes, 2 if training else 1, 2 * sizes.edges)  # the global model: features as they are, and shuffled
    one.scales(hidden, "pagerank")
    tally.add(one)
    batch = min(settings["batch_size"] or sizes.nodes, sizes.nodes)
    entries = (views if training else 1) * (2 * sizes.edges + sizes.nodes + 2 * near)
    kept = _features(sizes) + ENTRY * entries
    if training:
        rows = 2 * members * 2 * sizes.nodes
        return _training(tally, kept, rows, 2 * batch, width)._replace(lists=LIST * (sizes.edges + near), drawn=entries)
    work = _embedding(tally, kept)
    blocks = _propagated(sizes, COMPONENTS, BLOCKS, 13)
    side_by_side = FLOAT * sizes.nodes * (members * (hidden + hidden // 2) + hidden + BLOCKS * COMPONENTS)
    return work._replace(
        single=work.single + blocks.single + side_by_side / FLOAT * 2 * settings["dim"],
        moved=work.moved + blocks.moved + 4 * side_by_side,
        gathered=work.gathered + blocks.gathered,
        held=side_by_side,
        blocks=EMBEDDED * side_by_side,
    )


def _propagated(sizes: Sizes, dim: int, blocks: int, products: int) -> Work:
    """Count principal components of diffused features: a few hundred columns forth and back, and the scores."""
    columns = blocks * (4 * dim if sizes.features > 2 * dim else sizes.features + dim)
    gathered = FLOAT * products * columns * (2 * sizes.edges + sizes.nodes)
    moved = 3 * FLOAT * products * columns * sizes.nodes
    single = 2 * columns * (sizes.entries or sizes.nodes * sizes.features)
    held = FLOAT * sizes.nodes * 3 * dim
    kept = _features(sizes) + ENTRY * (2 * sizes.edges + sizes.nodes)
    return Work(0.0, 0.0, moved, gathered, held, kept, 0.0, single=single, blocks=EMBEDDED * held)


def _tiles(rows: int, size: int) -> float:
    """Return the number of similarities in the tiles of the loss, for groups of ``size`` of all rows."""
    tile = math.ceil(size / max(1, round(size / TILE)))
    return rows * (size + tile) / 2


def _entries(sizes: Sizes, settings: dict[str, Any], training: bool) -> float:
    """Return the entries of a view that stem from edges, on average over both views; an embedding has all."""
    dropped = (settings["p_drop_1"] + settings["p_drop_2"]) / 2 if training else 0.0
    return 2 * sizes.edges * (1 - dropped)


def _features(sizes: Sizes) -> float:
    return FLOAT * sizes.nodes * sizes.features if sizes.entries is None else 3 * FLOAT * sizes.entries


def _training(tally: _Tally, kept: float, rows: int, size: int, width: int) -> Work:
    """Return the work of an epoch whose loss compares rows of a width in groups of ``size`` rows."""
    projected = FLOAT * rows * width
    of_loss = [Block(projected, ROW_BLOCKS[0]), Block(projected / 2, ROW_BLOCKS[1])]
    return Work(
        loss=6.0 * rows * size * width,
        single=tally.single,
        dense=tally.dense,
        moved=tally.moved,
        gathered=tally.gathered,
        held=tally.held,
        kept=kept,
        parameters=tally.parameters,
        rows=tally.rows,
        similarities=rows * size,
        tiles=_tiles(rows, size),
        fresh=tally.fresh,
        projected=projected,
        blocks=peak_of_blocks([*tally.alive, *of_loss], tally.last),
    )


def _embedding(tally: _Tally, kept: float) -> Work:
    """Return the work of an embedding: a third or half of that of an epoch's layers, and no gradients."""
    return Work(
        loss=0.0,
        dense=0.0,
        single=tally.single / 2 + tally.dense / 3,
        moved=tally.moved / 2,
        gathered=tally.gathered / 2,
        held=tally.held,
        kept=kept,
        parameters=tally.parameters / 4,
        fresh=tally.fresh / 2,
        blocks=EMBEDDED * tally.held,
    )
