"""GPU: an epoch of every method with its recipe's settings, time and memory, beside EPAGCL's on the same graph."""

import torch
from torch_geometric.data import Data

import epagcl
from benchmarks.cpu import graph
from benchmarks.gpu import ARXIV, DEVICE, GRAPHS, clear, large, timed_epochs
from epagcl.core.errors import InputError
from epagcl.data import check
from epagcl.data.checking import both_directions
from epagcl.methods import method
from epagcl.methods.recipes import recipe
from epagcl.runs.provenance import provenance
from epagcl.study.cells import rows

NAMES = ("Cora", "Amazon-Photo", "PubMed", "Coauthor-Physics")


def methods(largest: int = 10**9) -> dict:
    """Every method on every graph of up to ``largest`` nodes; the most memory includes what is prepared once."""
    if not torch.cuda.is_available():
        raise InputError("benchmarks methods: no CUDA device here")
    result = {
        **provenance("cuda"),
        "command": "python -m benchmarks methods" + (f" --largest {largest}" if largest < 10**9 else ""),
        "seed": 0,
        "protocol": "settings of the recipes; medians over blocks of epochs; memory: most that tensors held "
        "on the device from the start, graph, preparation and optimiser included",
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
    found = []
    for row in rows():
        if row.method is None or row.settings:  # references; starred rows cost what their method does
            continue
        try:
            found.append(_row(data, name, row.method))
        except torch.OutOfMemoryError:
            found.append({"graph": name, "method": row.title, "ms": None, "gib": None})
        print(found[-1], flush=True)
    ours = next(row["ms"] for row in found if row["method"] == epagcl.EPAGCL.title)
    return [row | {"times_epagcl": row["ms"] and row["ms"] / ours} for row in found]


def _row(data: Data, name: str, key: str) -> dict:
    clear()
    settings = {k: v for k, v in recipe(name, key).items() if k != "source"}
    model = method(key)(**settings, device="cuda")
    epochs = model.epochs
    model.set_params(epochs=0).fit(data)  # the network, its classes, its features
    model.set_params(epochs=epochs)
    inputs = model._graph(check(data), DEVICE)
    row = timed_epochs(model, model.network_, inputs, name)
    kept = ("graph", "nodes", "pairs", "features", "ms", "gib", "captured", "first_epoch_seconds")
    return {"method": model.title, **{k: row[k] for k in kept}}
