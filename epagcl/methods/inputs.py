"""The graph that a method works on: scaled features, on the device of the method, and on its rank."""

from typing import TYPE_CHECKING

import torch
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.data.graph import Graph, row_normalise, shard_over
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
