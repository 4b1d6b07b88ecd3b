"""The embedding of EPAGCL+ for graphs that are read by chunks of rows: one block at a time, in temporary files.

Everything is computed for the whole graph except three choices: nearest neighbours are searched among fewer random
nodes, the weights of the blocks come from a subgraph, and so do the principal components of the features, by which
``block_weights`` judges it.
"""

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.core.pca import double, rotated
from epagcl.core.randomness import Stream, permutation
from epagcl.core.streamed import CSR, DiskMatrix, StreamedMatrix
from epagcl.data.large import LargeGraph
from epagcl.methods.mixture import TINY, Mixture, largeness
from epagcl.nn.layerwise import encode, propagate
from epagcl.nn.propagation import PropagatedPCA

AMONG = 8192  # random nodes among which nearest neighbours are searched
ROWS = 4096  # rows whose similarities are computed at once


@torch.no_grad()
def fit_large(mixture: Mixture, graph: LargeGraph) -> None:
    """Compute the propagated features and the principal components of all blocks, for a large graph.

    The weights of the mixture must have been chosen, on a subgraph.

    Args:
        mixture: the trained network.
        graph: the graph.
    """
    mixture.largeness.fill_(largeness(graph.num_nodes))
    mixture.features.fit(graph)
    weights = dict(zip(mixture.kinds, mixture.weights.tolist(), strict=True))
    two_hops = mixture.propagated["two_hops"]
    assert isinstance(two_hops, PropagatedPCA)
    two_hops.fit(graph)  # `joined` needs it
    for name, block in mixture.propagated.items():
        assert isinstance(block, PropagatedPCA)
        if weights[name] and name != "two_hops":
            block.fit(_graph_of(mixture, name, graph))
    with _blocks(mixture, graph) as blocks:
        _fit_scales(mixture, blocks)
        total, gram = mixture.mean.new_zeros(mixture.mean.numel(), dtype=torch.float64), None
        for rows in _side_by_side(mixture, blocks):
            part = double(rows)
            total += part.sum(0)
            gram = part.T @ part if gram is None else gram.addmm_(part.T, part)
    assert gram is not None
    mean = total / graph.num_nodes
    gram = gram - graph.num_nodes * torch.outer(mean, mean)
    basis = torch.eye(mean.numel(), device=graph.device)
    components = rotated(basis, gram, graph.num_nodes * mean.square().sum(), mixture.components.shape[1])
    wide = double(components)
    deviation = ((gram @ wide) * wide).sum(0).clamp(min=0).sqrt().to(components)
    shrinkage = (deviation / deviation.max().clamp(min=TINY)) ** (1 - mixture.largeness)
    mixture.mean.copy_(mean)
    mixture.components.copy_(components * shrinkage)


@torch.no_grad()
def embed_large(mixture: Mixture, graph: LargeGraph) -> Iterator[Tensor]:
    """Yield the principal components of all blocks side by side, in chunks of rows.

    Args:
        mixture: the fitted network.
        graph: the graph.
    """
    with _blocks(mixture, graph) as blocks:
        for rows in _side_by_side(mixture, blocks):
            yield rows.sub_(mixture.mean) @ mixture.components


@contextmanager
def _blocks(mixture: Mixture, graph: LargeGraph) -> Iterator[list[DiskMatrix | None]]:
    """Compute all blocks in the order of :meth:`Mixture.blocks`; None for weights of 0."""
    with ExitStack() as files:
        blocks: list[DiskMatrix | None] = []
        for branch in (mixture.residual, mixture.scales):
            blocks += [files.enter_context(encode(branch.encoder, graph, m)) for m in range(mixture.members)]
        infomax, *propagated = mixture.weights[2 * mixture.members :].tolist()
        blocks.append(files.enter_context(encode(mixture.infomax.encoder, graph)) if infomax else None)
        for weight, (name, block) in zip(propagated, mixture.propagated.items(), strict=True):
            assert isinstance(block, PropagatedPCA)
            near = _graph_of(mixture, name, graph) if weight else graph
            blocks.append(files.enter_context(propagate(block, near)) if weight else None)
        yield blocks


def _fit_scales(mixture: Mixture, blocks: list[DiskMatrix | None]) -> None:
    """Compute the centre and the spread of each block in one pass."""
    stop = 0
    for index, (width, block) in enumerate(zip(mixture.widths, blocks, strict=True)):
        columns = slice(stop, stop := stop + width)
        if block is None:
            continue
        total, squares = mixture.centre.new_zeros(width, dtype=torch.float64), 0.0
        for rows in map(double, block.split(block.rows_at_once)):
            total += rows.sum(0)
            squares += float(rows.square().sum())
        mean = total / block.num_rows
        mixture.centre[columns] = mean.to(mixture.centre)
        mixture.spread[index] = max(squares / block.num_rows - float(mean.square().sum()), 0.0) ** 0.5


def _side_by_side(mixture: Mixture, blocks: list[DiskMatrix | None]) -> Iterator[Tensor]:
    """Yield the rows of :meth:`Mixture.side_by_side` in chunks."""
    present = next(block for block in blocks if block is not None)
    rows_at_once = max(1, (1 << 26) // (4 * mixture.centre.numel()))
    for start in range(0, present.num_rows, rows_at_once):
        span = start, min(start + rows_at_once, present.num_rows)
        matrix = mixture.centre.new_zeros(span[1] - span[0], mixture.centre.numel())
        stop = 0
        for index, (width, block) in enumerate(zip(mixture.widths, blocks, strict=True)):
            columns = slice(stop, stop := stop + width)
            if block is not None:
                centred = block.chunk(*span) - mixture.centre[columns]
                matrix[:, columns] = mixture.weighted(index, centred, centred.norm(dim=1, keepdim=True))
        yield matrix


def _graph_of(mixture: Mixture, name: str, graph: LargeGraph) -> LargeGraph:
    """Return the graph on which a propagated block diffuses the features, as :meth:`Mixture.joined` and ``alike``."""
    if name not in ("joined", "own") or not mixture.k:
        return graph if name != "own" else with_nearest(graph, None, 0, keep=False)
    joined = name == "joined"
    scores = mixture.propagated["two_hops"] if joined else mixture.features
    assert isinstance(scores, PropagatedPCA)
    with propagate(scores, graph) as z:
        return with_nearest(graph, z, mixture.k if joined else (mixture.k + 1) // 2, keep=joined)


def with_nearest(graph: LargeGraph, z: DiskMatrix | None, k: int, *, keep: bool) -> LargeGraph:
    """Return the graph in which each node is joined to its k nearest of 8,192 random nodes by cosine.

    Args:
        graph: the graph.
        z: representations of all nodes; None: nodes are joined to none.
        k: number of neighbours.
        keep: whether nodes keep their edges.

    Examples:
        >>> from epagcl.data import block_model
        >>> from epagcl.data.large import Arrays
        >>> graph = LargeGraph(Arrays.from_data(block_model(60, num_features=8, topic_words=4)))
        >>> with DiskMatrix(60) as z:
        ...     z.append(torch.randn(60, 4))
        ...     bool((with_nearest(graph, z, 3, keep=False).degree >= 3).all())
        True
    """
    n = graph.num_nodes
    key = torch.empty(0, dtype=torch.int64)
    if z is not None and n > 1:
        key = _nearest_pairs(z, k)
        if keep:
            key = _absent(key, (pairs[0] * n + pairs[1] for pairs, _ in graph.pair_chunks()))
    i, j = key // n, key % n
    both = torch.cat([key, j * n + i]).sort().values
    counts = torch.bincount(both // n, minlength=n)
    near = CSR(np.concatenate([[0], counts.cumsum(0).numpy()]), (both % n).numpy())
    joined = copy.copy(graph)
    joined.__dict__.pop("neighbours", None)
    joined.__dict__["degree"] = (graph.degree if keep else 0) + counts
    scale = (joined.degree.float() + 1).rsqrt().to(graph.device)
    joined.__dict__["adjacency"] = StreamedMatrix([graph.csr, near] if keep else [near], scale, loop=1.0)
    return joined


def _absent(key: Tensor, chunks: Iterator[Tensor]) -> Tensor:
    """Return the keys that are in none of the chunks. Keys ascend; each entry of a chunk is looked up once."""
    absent = torch.ones(len(key), dtype=torch.bool)
    for chunk in chunks if len(key) else ():
        place = torch.searchsorted(key, chunk).clamp_(max=len(key) - 1)
        absent[place[key[place] == chunk]] = False
    return key[absent]


def _nearest_pairs(z: DiskMatrix, k: int) -> Tensor:
    """Return the pairs i·N + j, i < j, of each node and its nearest among some random nodes, ascending."""
    n = z.num_rows
    among = permutation(n, 0, Stream.CANDIDATES, 2)[:AMONG].sort().values
    others = torch.empty(len(among), z.shape[1], device=z.device)
    for start, rows in zip(range(0, n, z.rows_at_once), z.split(z.rows_at_once), strict=True):
        here = (among >= start) & (among < start + len(rows))
        others[here.to(z.device)] = rows[(among[here] - start).to(z.device)]
    others = F.normalize(others, dim=1)
    keys = []
    for start, rows in zip(range(0, n, ROWS), z.split(ROWS), strict=True):
        nodes = torch.arange(start, start + len(rows))
        cosine = F.normalize(rows, dim=1) @ others.T
        cosine.masked_fill_((nodes[:, None] == among).to(z.device), -2.0)
        found = among[cosine.topk(min(k, len(among) - 1)).indices.cpu()]
        i = nodes[:, None].expand_as(found)
        keys.append((torch.minimum(i, found) * n + torch.maximum(i, found)).flatten())
    return torch.unique(torch.cat(keys))
