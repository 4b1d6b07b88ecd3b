"""``epagcl plan``: how long a training takes, how much memory it needs, and which mode to choose."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epagcl.cli.loaded_graph import graph_of
from epagcl.cli.options import AsJson, Graph, Root, make_method, options_of
from epagcl.core.errors import InputError
from epagcl.core.formatting import duration

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from epagcl.data.disk.graph import OnDiskGraph
    from epagcl.methods.plan import Plan

WORDS = {
    "whole": "train on the whole graph",
    "ranks": "train on all devices: torchrun --nproc-per-node {ranks} -m epagcl train ...",
    "subgraphs": "train on subgraphs: --subgraphs neighbours",
}


def plan(
    context: typer.Context,
    graph: Graph = None,
    nodes: Annotated[int | None, typer.Option(help="Number of nodes, in place of a graph.")] = None,
    edges: Annotated[int | None, typer.Option(help="Number of undirected edges.")] = None,
    features: Annotated[int | None, typer.Option(help="Number of feature columns.")] = None,
    method: Annotated[str, typer.Option("--method", "-m", help="The method; see `epagcl methods`.")] = "epagcl+",
    gpus: Annotated[int, typer.Option(help="Number of devices, one process each.")] = 1,
    memory: Annotated[float | None, typer.Option(help="GiB of each device. Default: what is available here.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or a known machine such as h200.")] = "auto",
    data: Root = None,
    as_json: AsJson = False,
) -> None:
    """Predict time, memory and traffic of a training by a model of cost, and say which mode to choose.

    Example: epagcl plan --nodes 1000000 --edges 10000000 --features 128 --device h200
    """
    from epagcl.methods.plan import plan as predict

    model = make_method(method, options_of(context, method))
    sizes = {"nodes": nodes, "edges": edges, "features": features}
    missing = [f"--{name}" for name, value in sizes.items() if value is None]
    if graph is not None and len(missing) < len(sizes):
        raise InputError(f"{graph}: the graph has its own sizes; leave out --nodes, --edges and --features")
    if graph is None and missing:
        raise InputError(f"{missing[0]} is missing; give a graph, or --nodes, --edges and --features")
    opened = None if graph is None else _opened(graph, data)
    predicted = predict(opened, **sizes, method=model, gpus=gpus, memory=memory, device=device)
    if as_json:
        print(json.dumps(predicted.to_dict(), indent=2))
    else:
        show(predicted)


def _opened(graph: str, root: Path | None) -> "Data | OnDiskGraph":
    """Return the graph; one on disk is not read into memory."""
    from epagcl.data.disk.graph import OnDiskGraph
    from epagcl.data.disk.layout import is_graph_folder

    return OnDiskGraph.open(graph) if is_graph_folder(graph) else graph_of(graph, root).data


def show(predicted: "Plan") -> None:
    """Print a plan as a table, and the mode to choose as a sentence."""
    from rich.console import Console
    from rich.table import Table

    from epagcl.methods.plan import GIB

    sizes, device = predicted.sizes, predicted.machine
    memory = f"{device.memory / GIB:,.0f} GiB"
    title = f"{predicted.method} on {sizes.nodes:,} nodes, {sizes.edges:,} edges, {sizes.features:,} features"
    table = Table(title=f"{title} ({device.name}, {memory})", title_justify="left")
    for column in ("mode", "per epoch", f"{predicted.epochs:,} epochs", "memory", "sent per epoch", "fits"):
        table.add_column(column, justify="left" if column in ("mode", "fits") else "right")
    for mode in predicted.modes:
        epoch = mode.epoch
        table.add_row(
            mode.name if mode.ranks == 1 else f"{mode.ranks} {mode.name}",
            duration(epoch.seconds),
            duration(predicted.epochs * epoch.seconds),
            f"{epoch.bytes / GIB:,.1f} GiB",
            "" if mode.ranks == 1 else f"{epoch.sent / GIB:,.2f} GiB",
            "yes" if mode.fits else "no",
        )
    console = Console()
    console.print(table)
    choice = predicted.choice
    words = WORDS[choice.name].format(ranks=choice.ranks)
    lack = "" if choice.fits else " (no mode fits; use a smaller --hidden, --dim or --subgraph-nodes)"
    console.print(f"Choose: {words}{lack}. The embedding takes about {duration(predicted.embedding.seconds)}.")
    console.print("Times of training are predictions of a fitted model; a loaded machine is slower.")
