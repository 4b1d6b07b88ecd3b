"""The work of an epoch, counted from the sizes of the graph and the settings of the method, for the model of cost."""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch_geometric.data import Data

from epagcl.core.cost import Work
from epagcl.core.errors import InputError
from epagcl.core.memory import FRESH_BYTES
from epagcl.diffusion import ppr_products
from epagcl.losses.infonce.tiled_bf16 import TILE
from epagcl.nn.encoders import PRODUCTS, SCALES

if TYPE_CHECKING:
    from epagcl.methods.base import Method

FLOAT = 4  # bytes
ENTRY = 16  # bytes of an entry of a view: its column, its value, its pair
LIST = 32  # bytes of a pair in the list of each rank, twice 16 while it is sorted
EXPONENTIAL = 64  # columns of a product that take as long as the exponential of each similarity
PASSES = 6  # reads and writes of an activation, forward and backward
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
        entries: stored entries of sparse features; None: they are dense.

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
        sparse = x is not None and x.layout == torch.sparse_csr
        columns = 0 if x is None else x.shape[1]
        return Sizes(graph.num_nodes, graph.num_edges // 2, columns, int(x.values().numel()) if sparse else None)
    features = graph.features
    entries = getattr(features, "nnz", None)
    return Sizes(len(graph.indptr) - 1, len(graph.indices) // 2, 0 if features is None else features.shape[1], entries)


class _Tally:
    """Adds up the work of the layers of a network on V views."""

    def __init__(self, sizes: Sizes, views: int, entries: float):
        self.sizes, self.views, self.entries = sizes, views, entries
        self.dense = self.moved = self.gathered = self.held = self.parameters = self.rows = self.fresh = 0.0

    def product(self, width_in: int, width_out: int, *, first: bool = False, models: int = 1) -> None:
        """Count X W with its gradients; ``first``: X are the features, which need none."""
        n, entries = self.sizes.nodes, self.sizes.entries
        self.parameters += models * width_in * width_out
        if first and entries is not None:
            self.gathered += 2 * FLOAT * self.views * entries * width_out
        else:
            self.dense += (4 if first else 6) * self.views * n * width_in * width_out

    def aggregate(self, width: int, *, gradient: bool = True, times: int = 1) -> None:
        """Count ``times`` products Â H, with the gradient if there is one."""
        passes = (2 if gradient else 1) * times
        self.gathered += FLOAT * self.views * passes * width * (self.entries + self.sizes.nodes)
        self.rows += FLOAT * self.views * passes * width * self.sizes.nodes

    def activation(self, width: int) -> None:
        """Count an activation, which is held for the gradient."""
        size = FLOAT * self.views * self.sizes.nodes * width
        self.held += size
        self.moved += PASSES * size
        self.fresh += PASSES * size if size > FRESH_BYTES else 0.0

    def layer(self, width_in: int, width_out: int, *, first: bool, root: bool = False, models: int = 1) -> None:
        """Count a GCN layer, which multiplies by Â where that costs less."""
        aggregates_first = width_in < (2 if first else 1) * width_out and not (first and self.sizes.entries is not None)
        self.aggregate(width_in if aggregates_first else width_out, gradient=not (aggregates_first and first))
        for _ in range(2 if root else 1):
            self.product(width_in, width_out, first=first, models=models)
        self.activation(width_out)

    def scales(self, width: int, name: str, models: int = 1) -> None:
        """Count the layer over several scales."""
        self.product(self.sizes.features, width, first=True, models=models)
        share = width // len(SCALES[name])
        hops = sum(int(scale) for scale in SCALES[name] if scale < PRODUCTS)
        self.aggregate(share, times=PRODUCTS + hops)
        self.activation(width)

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
        >>> work.loss == 3 * 2 * 2000**2 * (256 + 64)  # three products of 2M²d, and the exponentials
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
    tally = _Tally(sizes, views, _entries(sizes, settings, training))
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
    loss = 6 * rows * 2 * min(batch, sizes.nodes) * (dim + EXPONENTIAL) if training else 0
    ring = 3 * FLOAT * rows * dim if training and not settings["batch_size"] else 0
    kept = _features(sizes) + ENTRY * (views * (2 * sizes.edges + sizes.nodes) + (2 * added if training else 0))
    work = _work(tally, loss, kept, ring, training)
    if not training:
        return work
    return work._replace(
        lists=LIST * (sizes.edges + added),
        tiles=_tiles(rows, 2 * min(batch, sizes.nodes)),
        projected=FLOAT * rows * dim,
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
    for name in ("dense", "moved", "gathered", "held", "parameters", "rows", "fresh"):
        setattr(tally, name, getattr(tally, name) + getattr(one, name))
    batch = min(settings["batch_size"] or sizes.nodes, sizes.nodes)
    loss = 2 * members * 6 * 2 * sizes.nodes * 2 * batch * (width + EXPONENTIAL) if training else 0
    kept = _features(sizes) + ENTRY * (views if training else 1) * (2 * sizes.edges + sizes.nodes + 2 * near)
    work = _work(tally, loss, kept, 0.0, training)
    if training:
        rows = 2 * members * 2 * sizes.nodes
        return work._replace(
            lists=LIST * (sizes.edges + near), tiles=_tiles(rows, 2 * batch), projected=FLOAT * rows * width
        )
    blocks = _propagated(sizes, COMPONENTS, BLOCKS, 13)
    side_by_side = FLOAT * sizes.nodes * (members * (hidden + hidden // 2) + hidden + BLOCKS * COMPONENTS)
    return work._replace(
        dense=work.dense + blocks.dense + side_by_side / FLOAT * 2 * settings["dim"],
        moved=work.moved + blocks.moved + 4 * side_by_side,
        gathered=work.gathered + blocks.gathered,
        held=side_by_side,
    )


def _propagated(sizes: Sizes, dim: int, blocks: int, products: int) -> Work:
    """Count principal components of diffused features: a few hundred columns forth and back, and the scores."""
    columns = blocks * (4 * dim if sizes.features > 2 * dim else sizes.features + dim)
    gathered = FLOAT * products * columns * (2 * sizes.edges + sizes.nodes)
    moved = 3 * FLOAT * products * columns * sizes.nodes
    dense = 2 * columns * (sizes.entries or sizes.nodes * sizes.features)
    held = FLOAT * sizes.nodes * 3 * dim
    kept = _features(sizes) + ENTRY * (2 * sizes.edges + sizes.nodes)
    return Work(0.0, dense, moved, gathered, held, kept, 0.0)


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


def _work(tally: _Tally, loss: float, kept: float, ring: float, training: bool) -> Work:
    """Return the work; without training there is a third of the products, and two layers are held."""
    if training:
        return Work(
            loss, tally.dense, tally.moved, tally.gathered, tally.held, kept, tally.parameters, ring, tally.rows
        )._replace(fresh=tally.fresh)
    work = Work(0.0, tally.dense / 3, tally.moved / 2, tally.gathered / 2, tally.held, kept, tally.parameters / 4)
    return work._replace(fresh=tally.fresh / 2)
