"""Exact embedding of a large graph in bounded memory: layer by layer, a few columns of all nodes at a time.

A layer of a whole-graph encoder is σ(Â H W + H R + b). Products with Â need all rows of their columns, and nothing
else: a block of columns is projected, multiplied by Â and written to a temporary file before the next one is read.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.core.norms import inverse_norms
from epagcl.core.streamed import DiskMatrix, StreamedRows, column_blocks, columns_at_once
from epagcl.data.large import LargeGraph
from epagcl.diffusion import ALPHA, Diffusion, truncated_ppr
from epagcl.nn.encoders import GCN, PAGERANK, PRODUCTS, ScalesEncoder
from epagcl.nn.layers import GCNLayer
from epagcl.nn.propagation import PropagatedPCA


@torch.no_grad()
def encode(encoder: GCN | ScalesEncoder, graph: LargeGraph, member: int = 0) -> DiskMatrix:
    """Return the output of an encoder for all nodes of a large graph, equal to that of the whole graph in memory.

    Args:
        encoder: the encoder.
        graph: the graph.
        member: which of several models that are computed together.

    Returns:
        The matrix ``[N, dim]`` in temporary files. Close it after use.

    Examples:
        >>> from epagcl.data import block_model
        >>> from epagcl.data.graph import Graph
        >>> from epagcl.data.large import Arrays
        >>> data, encoder = block_model(60, num_features=8, topic_words=4), GCN([8, 6, 4]).eval()
        >>> graph = Graph.from_data(data)
        >>> with encode(encoder, LargeGraph(Arrays.from_data(data))) as z:
        ...     torch.allclose(z.chunk(0, 60), encoder(graph.x, graph.adjacency), atol=1e-5)
        True
    """
    slope = float(encoder.activation.weight[member])
    if isinstance(encoder, ScalesEncoder):
        return _scales(encoder, graph, member, slope)
    layers = cast("Sequence[GCNLayer]", encoder.layers)
    rows: StreamedRows = graph.x
    for index, layer in enumerate(layers):
        last = index == len(layers) - 1
        out = _layer(layer, rows, graph, member, None if last and not encoder.last else slope)
        if isinstance(rows, DiskMatrix):
            rows.close()
        rows = out
    assert isinstance(rows, DiskMatrix)
    return rows


def columns_on_disk(encoder: GCN | ScalesEncoder) -> int:
    """Return the most columns that :func:`encode` has in temporary files at the same time, for dense features.

    Examples:
        >>> columns_on_disk(GCN([128, 512, 256]))  # Â X and the first layer; then both layers
        768
    """
    if isinstance(encoder, ScalesEncoder):
        return sum(encoder.widths)
    most, held = 0, 0
    for layer in cast("Sequence[GCNLayer]", encoder.layers):
        width_in, width_out = layer.weight.shape[-2:]
        most = max(most, held + width_out + (width_in if width_in < width_out else 0))
        held = width_out
    return most


def _member(parameter: Tensor | None, member: int, dims: int) -> Tensor:
    """Return the parameter of one member, detached; ``dims`` is the number of dimensions without members."""
    assert parameter is not None
    return (parameter if parameter.dim() == dims else parameter[member]).detach()


def _layer(layer: GCNLayer, rows: StreamedRows, graph: LargeGraph, member: int, slope: float | None) -> DiskMatrix:
    """Return σ(Â H W + H R + b) of all nodes."""
    weight, bias = _member(layer.weight, member, 2), _member(layer.bias, member, 1)
    root = None if layer.root is None else _member(layer.root, member, 2)
    at_once = columns_at_once(graph.num_nodes, graph.device)
    if rows.shape[1] < weight.shape[1] and not getattr(rows, "sparse", False):
        # Â H has fewer columns than Â (H W).
        identity = torch.eye(rows.shape[1], device=graph.device)
        blocks = (identity[:, block] for block in column_blocks(rows.shape[1], at_once))
        with _propagated(rows, blocks, graph.adjacency.multiply, graph) as neighbours:
            return _from_rows(neighbours, rows, weight, root, bias, slope, graph)
    out = DiskMatrix(graph.num_nodes, graph.device)
    for block in column_blocks(weight.shape[1], at_once):
        y = graph.adjacency.multiply(rows @ weight[:, block])
        if root is not None:
            y += rows @ root[:, block]
        out.append(_activate(y.add_(bias[block]), slope))
    return out


def _from_rows(
    neighbours: DiskMatrix,
    rows: StreamedRows,
    weight: Tensor,
    root: Tensor | None,
    bias: Tensor,
    slope: float | None,
    graph: LargeGraph,
) -> DiskMatrix:
    """Return σ((Â H) W + H R + b), row by row."""

    def chunks() -> Iterator[Tensor]:
        for start, stop in rows.spans():
            y = neighbours.chunk(start, stop) @ weight
            if root is not None:
                y += rows.chunk(start, stop) @ root
            yield _activate(y.add_(bias), slope)

    out = DiskMatrix(graph.num_nodes, graph.device)
    out.append_rows(chunks(), weight.shape[1])
    return out


def _activate(y: Tensor, slope: float | None) -> Tensor:
    return y if slope is None else F.leaky_relu(y, slope, inplace=True)


def _propagated(
    rows: StreamedRows, weights: Iterator[Tensor], diffuse: Callable[[Tensor], Tensor], graph: LargeGraph
) -> DiskMatrix:
    """Return S H W for some blocks of columns of W."""
    out = DiskMatrix(graph.num_nodes, graph.device)
    for weight in weights:
        out.append(diffuse(rows @ weight))
    return out


def _scales(encoder: ScalesEncoder, graph: LargeGraph, member: int, slope: float) -> DiskMatrix:
    """Return σ([Â^k₁ X W₁ | Â^k₂ X W₂ | ...] + b) of all nodes."""
    weight, bias = _member(encoder.weight, member, 2), _member(encoder.bias, member, 1)
    out, start = DiskMatrix(graph.num_nodes, graph.device), 0
    for scale, width in zip(encoder.scales, encoder.widths, strict=True):
        for block in column_blocks(width, columns_at_once(graph.num_nodes, graph.device)):
            columns = slice(start + block.start, start + block.stop)
            y = graph.x @ weight[:, columns]
            if scale == PAGERANK:
                y = truncated_ppr(graph.adjacency, y, ALPHA, PRODUCTS)
            for _ in range(0 if scale == PAGERANK else int(scale)):
                y = graph.adjacency.multiply(y)
            out.append(_activate(y.add_(bias[columns]), slope))
        start += width
    return out


@torch.no_grad()
def propagate(propagated: PropagatedPCA, graph: LargeGraph) -> DiskMatrix:
    """Return the scores ``[N, dim]`` of the nodes of a large graph, as :class:`PropagatedPCA` does in memory.

    Args:
        propagated: fitted principal components.
        graph: the graph.

    Examples:
        >>> from epagcl.data import block_model
        >>> from epagcl.data.graph import Graph
        >>> from epagcl.data.large import Arrays
        >>> from epagcl.diffusion import power
        >>> data = block_model(60, num_features=8, topic_words=4)
        >>> pca = PropagatedPCA(8, 3, lambda graph: power(graph, 2))
        >>> pca.fit(Graph.from_data(data))
        >>> with propagate(pca, LargeGraph(Arrays.from_data(data))) as z:
        ...     torch.allclose(z.chunk(0, 60), pca(Graph.from_data(data)), atol=1e-5)
        True
    """
    diffuse: Diffusion = propagated.diffuse(graph)
    scale = inverse_norms(graph.x)
    out = DiskMatrix(graph.num_nodes, graph.device)
    for block in column_blocks(propagated.mean.numel(), columns_at_once(graph.num_nodes, graph.device)):
        projected = (graph.x @ propagated.components[:, block]).mul_(scale)
        out.append(diffuse(projected) - propagated.mean[block])
    return out
