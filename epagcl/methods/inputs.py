"""The graph that a method works on: scaled features, on the device of the method, and on its rank."""

from itertools import chain
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.data.graph import Graph, row_normalise, shard_over
from epagcl.data.large import GraphArrays, LargeGraph
from epagcl.distributed.group import active_ranks

if TYPE_CHECKING:
    from epagcl.methods.base import Method


def input_graph(model: "Method", data: Data, device: torch.device, *, identified: bool = False) -> Graph:
    """Return the graph on a device; with several ranks, the shard of this rank.

    Args:
        model: a model, whose ``feature_scaling`` is applied.
        data: a checked graph.
        device: the device of the result.
        identified: whether a checkpoint needs the fingerprint of the whole graph.
    """
    if model.feature_scaling != "given":
        data = data.clone().update({"x": row_normalise(data.x, model.feature_scaling.removeprefix("row-"))})
    ranks = active_ranks()
    if ranks is None:
        return Graph.from_data(data, device)
    if not type(model).runs_on_ranks:
        raise InputError(f"{type(model).name} runs on one rank; start it without torchrun, or choose another method")
    return shard_over(Graph.from_data(data), ranks, device, identified=identified)


def arrays_to_embed(model: "Method", arrays: GraphArrays) -> LargeGraph:
    """Return a graph that is read where it lies. Raise unless it has the columns of the training graph.

    Args:
        model: a trained model.
        arrays: a graph on disk, for example.
    """
    if model.relation_names_:
        reason = "the model uses kinds or directions of edges"
        raise InputError(f"graph: a graph on disk, and {reason}; give a graph in memory (graph.to_data())")
    graph = LargeGraph(arrays, device_of(model.fitted_network), model.feature_scaling)
    if hasattr(arrays, "encoding") and arrays.encoding != model.encoding_:
        fix = "ingest its tables with the model (`epagcl ingest --model`)"
        raise InputError(f"graph: its columns were encoded otherwise than those of the training graph; {fix}")
    if graph.num_features != model.num_features_:
        raise InputError(
            f"graph: {graph.num_features:,} feature columns, the model has {model.num_features_:,}; "
            "give the columns of the training graph"
        )
    names, trained = getattr(arrays, "feature_names", None), model.feature_names_
    if names is not None and trained is not None and list(map(str, names)) != trained:
        raise InputError("graph: other feature columns, or in another order; give those of the training graph")
    return graph


def has_weights(data: Data | GraphArrays) -> bool:
    """Return whether the edges of a graph have weights."""
    return (data.get("edge_weight") if isinstance(data, Data) else data.weights) is not None


def tell_weights(model: "Method", data: Data | GraphArrays) -> None:
    """Log that only one of a graph to embed and the training graph of the model has edge weights."""
    if model.weighted_ and not has_weights(data):
        log.warning("the model was trained with edge weights, and the graph has none; give edge_weight (--weight)")
    elif model.weighted_ is False and has_weights(data):
        log.warning("the graph has edge weights, and the model was trained without; leave them out, or train it again")


def device_of(network: nn.Module) -> torch.device:
    """Return the device of a network."""
    return next(chain(network.parameters(), network.buffers())).device
