"""New nodes and earlier embeddings in ``epagcl embed``: ``--only``, ``--previous`` and ``--align``."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer

from epagcl.cli.loaded_graph import LoadedGraph
from epagcl.core.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

    from epagcl.cli.rendering import AlignmentResult, DriftResult, NeighbourhoodResult
    from epagcl.data.disk.graph import OnDiskGraph
    from epagcl.data.io.feature_list import Near
    from epagcl.methods.base import Method
    from epagcl.runs.reading import Rows

Only = Annotated[
    Path | None, typer.Option(help="File of node ids: embed only these from their neighbourhood, with --model.")
]
Hops = Annotated[int | None, typer.Option(min=1, help="Size of the neighbourhood of --only. Default: by the method.")]
Previous = Annotated[
    Path | None, typer.Option(help="Earlier embeddings or run folder: report how far its nodes have moved.")
]
Align = Annotated[Path | None, typer.Option(help="Earlier embeddings or run folder: rotate into its axes.")]


class Earlier(NamedTuple):
    """Earlier embeddings.

    Attributes:
        rows: the embeddings.
        ids: the id of each row.
        align: whether to rotate the new embeddings into their axes.
    """

    rows: "Rows"
    ids: list[Any]
    align: bool


def check_versions(
    model: Path | None, only: Path | None, hops: int | None, previous: Path | None, align: Path | None
) -> None:
    """Raise if the options do not fit together."""
    if only is not None and model is None:
        raise InputError("--only needs a trained model; give --model, which `epagcl embed --save` writes")
    if hops is not None and only is None:
        raise InputError("--hops is the neighbourhood of --only; give --only, or leave it out")
    if only is not None and (previous is not None or align is not None):
        given = "--previous" if previous is not None else "--align"
        raise InputError(f"{given} compares the embeddings of old nodes; leave out --only to embed all nodes")
    if previous is not None and align is not None:
        raise InputError("--align also reports how far nodes have moved; leave out --previous")


def read_earlier(model: "Method", previous: Path | None, align: Path | None) -> Earlier | None:
    """Read earlier embeddings, before training. Raise if their dimension is not that of the model."""
    from epagcl.runs.reading import read_embeddings

    path = previous or align
    if path is None:
        return None
    rows, ids = read_embeddings(path)
    dim = getattr(model, "dim", rows.shape[1])
    if dim != rows.shape[1]:
        flag = "--align" if align is not None else "--previous"
        raise InputError(
            f"{flag} {path}: has {rows.shape[1]} dimensions, the model {dim}; train with --dim {rows.shape[1]}"
        )
    return Earlier(rows, list(ids), align is not None)


def compare_with_earlier(
    model: "Method", graph: LoadedGraph, z: "Tensor", earlier: Earlier, *, new_model: bool
) -> "tuple[Tensor, DriftResult, AlignmentResult | None]":
    """Rotate the embeddings if asked for, and measure how far nodes have moved.

    Args:
        model: the model; it keeps the rotation.
        graph: the graph.
        z: its embeddings.
        earlier: the earlier embeddings.
        new_model: whether the model was trained on this graph, so that there is no need to train again.
    """
    from epagcl.tasks.versions import align, drift

    ids = _ids(graph)
    alignment: AlignmentResult | None = None
    if earlier.align:
        turned = align(z, earlier.rows, ids=ids, previous_ids=earlier.ids)
        z = turned.z.to(z.device)
        rotation = turned.rotation.to(z)
        model.rotation_ = rotation if model.rotation_ is None else model.rotation_.to(z) @ rotation
        alignment = {"residual": turned.residual, "common": turned.common}
    same_axes = earlier.align or not new_model
    moved = drift(z, earlier.rows, ids=ids, previous_ids=earlier.ids, aligned=same_axes, data=graph.data)
    again, words = moved.train_again and not new_model, moved.sentence(advice=not new_model)
    result: DriftResult = {**asdict(moved), "train_again": again, "words": words}  # type: ignore[typeddict-item]
    return z, result, alignment


def needed_part(model: "Method", only: Path, hops: int | None) -> "Near":
    """Return the part of a graph that the embeddings of the nodes of a file need, with their estimated error."""
    from epagcl.data.io.feature_list import Near
    from epagcl.methods.local import used_hops

    wanted = _listed(only)
    return Near(lambda ids: _numbers(wanted, ids, only), used_hops(model, hops).used + 1)


def embed_only(
    model: "Method", graph: "LoadedGraph | OnDiskGraph", only: Path, hops: int | None
) -> "tuple[Tensor, list[Any], NeighbourhoodResult]":
    """Embed the nodes of a file from their neighbourhood. Return the embeddings, their ids and the neighbourhood."""
    from epagcl.methods.local import embed_nodes

    listed = _listed(only)
    data: Data | OnDiskGraph
    if isinstance(graph, LoadedGraph):
        data, nodes = graph.data, _numbers(listed, _ids(graph), only)
    else:
        data, nodes = graph, _numbers_on_disk(listed, graph, only)
    local = embed_nodes(model, data, nodes, hops, estimate=True, checked=True)
    used: NeighbourhoodResult = {
        "hops": local.hops,
        "nodes_used": local.nodes_used,
        "nodes_in_graph": data.num_nodes,
        "exact": local.exact,
        "error": local.error,
    }
    return local.z, listed, used


def _listed(only: Path) -> list[Any]:
    """Return the ids in the file of ``--only``."""
    from epagcl.data.io.readers import read_nodes
    from epagcl.data.io.tables.files import existing_file

    return list(read_nodes(existing_file(only)).values)


def _numbers(wanted: list[Any], ids: Any, only: Path) -> "Tensor":
    import torch

    from epagcl.tasks.inputs import numbers_of

    return torch.from_numpy(numbers_of(wanted, ids, f"--only {only}:"))


def _numbers_on_disk(wanted: list[Any], graph: "OnDiskGraph", only: Path) -> "Tensor":
    """Return the numbers of nodes of a graph on disk, without a list of all its ids."""
    import torch

    numbers = graph.numbers_of(wanted)
    if (numbers < 0).any():
        from epagcl.data.io.ids import examples

        first = graph.ids_of(slice(4))
        known = examples(list(map(str, range(min(4, graph.num_nodes)) if first is None else first)))
        raise InputError(f"--only {only}: {wanted[int((numbers < 0).argmax())]}: no such node; the ids are {known}")
    return torch.from_numpy(numbers)


def _ids(graph: LoadedGraph) -> Any:
    ids = graph.data.get("node_ids")
    return np.arange(graph.data.num_nodes) if ids is None else ids
