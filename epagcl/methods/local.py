"""Embeddings of a few nodes from their neighbourhood, without the rest of the graph.

A node's embedding depends on the nodes within as many hops as its encoder has layers, and the embedding from this part
of the graph (:func:`~epagcl.data.neighbourhood.neighbourhood`) is exact. PageRank, which EPAGCL+, propagated features
and some encoders contain, reaches every node, and EPAGCL+ also joins each node to the most similar nodes of the graph.
The embedding from a few hops is then an approximation: walks that would leave the part stay at its border, and similar
nodes are searched in the part. A walk of PageRank leaves h hops with probability (1 − α)^(h + 1) at most, and only what
it then meets elsewhere is an error. ``python -m benchmarks new-nodes`` measures it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.data.graph import Graph
from epagcl.data.large import GraphArrays, LargeGraph
from epagcl.data.neighbourhood import neighbourhood
from epagcl.methods.inputs import arrays_to_embed, tell_weights

if TYPE_CHECKING:
    from epagcl.methods.base import Method

NodesLike = Tensor | np.ndarray[Any, Any] | Sequence[int]
UNBOUNDED_HOPS = 2  # of encoders that every node reaches
SAMPLE, LEAST_SAMPLE = 8, 3  # nodes on which the error is estimated
SMALL = 4096  # nodes of a neighbourhood that takes little time


@dataclass(frozen=True)
class LocalEmbedding:
    """Embeddings of a few nodes.

    Attributes:
        z: the embeddings ``[nodes, dim]``.
        hops: size of the neighbourhood.
        exact: whether the neighbourhood contains everything that the embeddings depend on.
        nodes_used: number of nodes of the neighbourhood.
        error: estimate of the relative error, see :func:`estimate_error`; 0 if exact, None if not estimated.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> model = epagcl.DGI(epochs=1, dim=4, device="cpu").fit(data)
        >>> local = embed_nodes(model, data, [5])
        >>> local.hops, local.exact, torch.allclose(local.z, model.embed(data)[[5]], atol=1e-6)
        (1, True, True)
    """

    z: Tensor
    hops: int
    exact: bool
    nodes_used: int
    error: float | None = None


@torch.no_grad()
def embed_nodes(
    method: "Method",
    data: Data | GraphArrays,
    nodes: NodesLike,
    hops: int | None = None,
    *,
    estimate: bool = False,
    checked: bool = False,
) -> LocalEmbedding:
    """Embed a few nodes of a graph from their neighbourhood.

    A graph in memory is checked as a whole, and its edges are read once per hop. Everything else takes time in
    proportion to the neighbourhood. Of a graph on disk, only the neighbourhood is read.

    Args:
        method: a trained model.
        data: the graph that contains the nodes.
        nodes: node numbers, or a mask of all nodes.
        hops: size of the neighbourhood; None: as many as the encoder has layers, 2 if it contains PageRank.
        estimate: also estimate the error.
        checked: whether the graph is as :func:`epagcl.data.check` returned it, and need not be checked again.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> model = epagcl.Propagated(dim=4, device="cpu").fit(data)
        >>> local = embed_nodes(model, data, [0, 1], hops=3)
        >>> local.z.shape, local.exact
        (torch.Size([2, 4]), False)
    """
    reach, used = used_hops(method, hops)
    network = method.fitted_network.eval()
    graph: Graph | LargeGraph
    if isinstance(data, Data):
        graph = method._checked_graph(data, quiet=True, checked=checked)
    else:
        graph = arrays_to_embed(method, data)
    wanted = node_numbers(nodes, graph.num_nodes).to(graph.device)
    part = neighbourhood(graph, wanted, used)
    represent = partial(method.represent, network)
    z = represent(part.graph)[part.places]
    exact, size = used >= reach or part.graph.num_nodes == graph.num_nodes, part.graph.num_nodes
    error = 0.0 if exact else estimate_error(represent, graph, wanted, z, used, size) if estimate else None
    tell_weights(method, data)
    home = data.edge_index.device if isinstance(data, Data) else "cpu"
    return LocalEmbedding(rotated(z, method.rotation_).to(home), used, exact, size, error)


class Hops(NamedTuple):
    """The number of hops on which an embedding depends, and the size of the neighbourhood that is used."""

    reach: float
    used: int


def used_hops(method: "Method", hops: int | None = None) -> Hops:
    """Return how far the embedding of a node depends on others, and how far the neighbourhood reaches.

    Args:
        method: a trained model.
        hops: size of the neighbourhood; None: as many as the encoder has layers, 2 if it contains PageRank.
    """
    if hops is not None and hops < 0:
        raise InputError(f"hops={hops}: must be at least 0")
    reach = receptive_field(method.fitted_network)
    return Hops(reach, hops if hops is not None else UNBOUNDED_HOPS if reach == math.inf else int(reach))


def receptive_field(network: nn.Module) -> float:
    """Return the number of hops on which an embedding depends: ``hops`` of the encoder; infinity if there is none.

    Examples:
        >>> from epagcl.nn.encoders import build_encoder
        >>> [receptive_field(build_encoder(name, 5, 8, 4)) for name in ("gcn", "scales")]
        [2, inf]
    """
    encoder = getattr(network, "encoder", network)
    return float(hops) if (hops := getattr(encoder, "hops", math.inf)) == math.inf else int(hops)


def estimate_error(
    represent: Callable[[Graph], Tensor], graph: Graph | LargeGraph, nodes: Tensor, z: Tensor, hops: int, most: int
) -> float:
    """Return the median relative change of the embeddings of a few nodes with one more hop.

    The change ‖z' − z‖ is divided by the root mean square distance of the embeddings from their mean. Since one more
    hop reduces the error by a large factor, the change is close to the error.

    Args:
        represent: returns the embedding of a graph.
        graph: the whole graph.
        nodes: the nodes that were embedded.
        z: their embeddings.
        hops: the size of their neighbourhood.
        most: number of nodes in the neighbourhood of the few above which fewer are taken, unless it is small. With the
            number that the embeddings were computed from, the estimate takes about as long.
    """
    for count in (SAMPLE, SAMPLE // 2, LEAST_SAMPLE):
        few = torch.linspace(0, len(nodes) - 1, min(count, len(nodes)), device=nodes.device).long()
        part = neighbourhood(graph, nodes[few], hops + 1)
        if part.graph.num_nodes <= max(most, SMALL):
            break
    every = represent(part.graph)
    spread = (every - every.mean(0)).square().sum(1).mean().sqrt()
    return float(((z[few] - every[part.places]).norm(dim=1) / spread.clamp(min=1e-12)).median())


def rotated(z: Tensor, rotation: Tensor | None) -> Tensor:
    """Return embeddings in the axes of an earlier version, if the model was aligned with one (``rotation_``)."""
    return z if rotation is None else z @ rotation.to(z)


def node_numbers(nodes: NodesLike, num_nodes: int, argument: str = "nodes", *, least: int = 1) -> Tensor:
    """Return node numbers as a tensor. Raise unless they are numbers of nodes.

    Args:
        nodes: node numbers, or a mask of all nodes.
        num_nodes: N.
        argument: the name of the caller's argument, for messages.
        least: how many there must be: 1, or 0 if there may be none.

    Examples:
        >>> node_numbers([2, 0], num_nodes=3), node_numbers(torch.tensor([False, True, True]), num_nodes=3)
        (tensor([2, 0]), tensor([1, 2]))
    """
    numbers = torch.as_tensor(nodes if isinstance(nodes, Tensor | np.ndarray) else list(nodes))
    if numbers.shape == (0,):
        numbers = numbers.long()
    if numbers.dtype == torch.bool and numbers.shape == (num_nodes,):
        numbers = numbers.nonzero().flatten()
    if numbers.dim() != 1 or numbers.dtype == torch.bool or numbers.is_floating_point():
        raise InputError(f"{argument}=: give a list of node numbers, or a mask with one value per node")
    if numbers.numel() < least:
        raise InputError(f"{argument}=: names no node; give at least one")
    if (wrong := (numbers < 0) | (numbers >= num_nodes)).any():
        raise InputError(f"{argument}=: {int(numbers[wrong][0])} is no node; nodes are 0 to {num_nodes - 1:,}")
    return numbers.long()
