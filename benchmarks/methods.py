"""GPU benchmarks: time and memory of one epoch of every method with its recipe, relative to EPAGCL."""

import torch
from torch_geometric.data import Data

import epagcl
from benchmarks.cpu import graph
from benchmarks.gpu import ARXIV, DEVICE, GRAPHS, large, reset_memory, timed_epochs
from epagcl.core.errors import InputError
from epagcl.data import check
from epagcl.data.checking import both_directions
from epagcl.methods import method
from epagcl.methods.inputs import input_graph
from epagcl.methods.recipes import recipe
from epagcl.runs.record import provenance
from epagcl.study.design import rows

NAMES = ("Cora", "Amazon-Photo", "PubMed", "Coauthor-Physics")


def methods(largest: int = 10**9) -> dict:
    """Measure every method on every graph of up to ``largest`` nodes. Peak memory includes the preparation."""
    if not torch.cuda.is_available():
        raise InputError("benchmarks methods: no CUDA device here; run it on a machine with an NVIDIA GPU")
    result = {
        **provenance("cuda"),
        "command": "python -m benchmarks methods" + (f" --largest {largest}" if largest < 10**9 else ""),
        "seed": 0,
        "protocol": "settings of the recipes; medians over blocks of epochs; peak memory of tensors on the device, "
        "including graph, preparation and optimiser",
        "rows": [],
    }
    for name in NAMES:
        nodes, degree, features, *_ = GRAPHS[name]
        if nodes <= largest:
            result["rows"] += _rows(check(graph(name, nodes, degree, features)), name)
    if ARXIV[0] <= largest:
        inputs, _ = large("ogbn-arxiv", *ARXIV)
        data = Data(
            x=inputs.x.cpu(),
            edge_index=both_directions(inputs.pairs.cpu(), inputs.num_nodes),
            y=torch.arange(inputs.num_nodes) % 40,
            num_nodes=inputs.num_nodes,
        )
        del inputs
        result["rows"] += _rows(data, "ogbn-arxiv")
    return result


def _rows(data: Data, name: str) -> list[dict]:
    measured = []
    for row in rows():
        if row.reference or row.settings:  # skip references, and starred rows, which cost as much as their method
            continue
        try:
            measured.append(_row(data, name, str(row.method)))
        except torch.OutOfMemoryError:
            measured.append({"graph": name, "method": row.title, "ms": None, "gib": None})
        print(measured[-1], flush=True)
    ours = next(row["ms"] for row in measured if row["method"] == epagcl.EPAGCL.title)
    return [row | {"times_epagcl": row["ms"] and row["ms"] / ours} for row in measured]


def _row(data: Data, name: str, key: str) -> dict:
    reset_memory()
    settings = {k: v for k, v in recipe(name, key).items() if k != "source"}
    model = method(key)(**settings, device="cuda")
    epochs = model.epochs
    model.set_params(epochs=0).fit(data)  # builds the network for these features and classes
    model.set_params(epochs=epochs)
    inputs = input_graph(model, check(data), DEVICE)
    row = timed_epochs(model, model.network_, inputs, name)
    keys = ("graph", "nodes", "pairs", "features", "ms", "gib", "captured", "first_epoch_seconds")
    return {"method": model.title, **{k: row[k] for k in keys}}
