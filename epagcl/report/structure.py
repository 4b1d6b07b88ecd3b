"""The graph's side of a report: its degrees and EPR, and what a method's views do to them."""

import math
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.epr.rate import error_passing_rate
from epagcl.methods.base import Method
from epagcl.views.sampling import Views, ViewSampler

EPOCHS = 10  # of which views are drawn
BINS = 16  # of degree, equal on a log scale


def structure(data: Data, method: Method) -> dict[str, Any]:
    """Degrees, EPR, drop and add probabilities against degree, and EPR of sampled views; what there is of them."""
    graph = Graph.from_data(check(data, quiet=True))
    y = data.y if data.y is not None and bool((data.y >= 0).all()) and len(data.y.unique()) > 1 else None
    degree = torch.bincount(graph.pairs.flatten(), minlength=graph.num_nodes)
    counts = torch.bincount(degree)
    occurring = counts.nonzero()[:, 0]
    views = method.views(graph)
    return {
        "degree": {"degree": occurring.tolist(), "nodes": counts[occurring].tolist()},
        "epr": None if y is None else _rates(data.edge_index, y),
        "probabilities": None if views is None else _probabilities(views, graph, degree),
        "views": None if views is None else _samples(views, graph, y),
    }


def _rates(edge_index: Tensor, y: Tensor) -> dict[str, Any]:
    forms = {"edges, d": {}, "edges, d + 1 (GCN)": {"self_loops": True}, "2 hops": {"hops": 2}}
    rows = [
        {"name": name}
        | {f"per_{per}": error_passing_rate(edge_index, y, per=per, **options) for per in ("node", "edge")}
        for name, options in forms.items()
    ]
    # Which of neighbours' messages a node would get if edges did not know of classes.
    share = torch.bincount(y).double() / len(y)
    chance = float(1 - share @ share)
    rate = rows[0]["per_node"]
    words = (
        f"{100 * rate:.0f}% of what a node hears comes from other classes; edges drawn by chance: {100 * chance:.0f}%."
    )
    if rate > 0.5:
        words += " Above one half, averaging over neighbours blurs classes; GREET was made for such graphs."
    return {"rows": rows, "words": words}


def _probabilities(views: Views, graph: Graph, degree: Tensor) -> dict[str, Any]:
    """Of the last view, which in EPAGCL is the one that adds too."""
    sampler = views.samplers[-1]
    edges = graph.pairs.shape[1]
    drop, add = 1 - sampler.keep[:edges], sampler.keep[edges:]
    words = f"View {len(views.samplers)} drops {100 * drop.mean():.0f}% of the edges on average"
    words += f" and adds {add.sum():.0f} of {len(add):,} candidate pairs." if len(add) else "; it adds none."
    return {
        "words": words,
        "drop": _against_degree(sampler, slice(0, edges), drop, degree),
        "add": _against_degree(sampler, slice(edges, None), add, degree) if len(add) else None,
    }


def _against_degree(sampler: ViewSampler, part: slice, p: Tensor, degree: Tensor) -> dict[str, list[float]]:
    """Mean and the range from 5% to 95% of a probability, by the geometric mean √(d_i d_j) of the ends' degrees."""
    i, j = sampler.counter[part] // sampler.num_nodes, sampler.counter[part] % sampler.num_nodes
    geometric = (degree[i] * degree[j]).double().sqrt().clamp(min=1)
    low, high = geometric.log().min(), geometric.log().max()
    place = ((geometric.log() - low) / (high - low).clamp(min=1e-9) * BINS).long().clamp(max=BINS - 1)
    found: dict[str, list[float]] = {"degree": [], "mean": [], "low": [], "high": []}
    for bin_ in place.unique().tolist():
        inside = place == bin_
        values = p[inside].double().sort().values
        found["degree"].append(round(float(geometric[inside].log().mean().exp()), 2))
        found["mean"].append(round(float(values.mean()), 5))
        last = len(values) - 1
        found["low"].append(round(float(values[math.floor(0.05 * last)]), 5))
        found["high"].append(round(float(values[math.ceil(0.95 * last)]), 5))
    return found


def _samples(views: Views, graph: Graph, y: Tensor | None) -> dict[str, Any]:
    """EPR per node and number of edges of the views of the first epochs."""
    samples = []
    for number, sampler in enumerate(views, 1):
        drawn = [sampler.pairs(epoch) for epoch in range(EPOCHS)]
        rates = [None] if y is None else [round(error_passing_rate(pairs, y), 5) for pairs in drawn if pairs.numel()]
        samples.append({"view": number, "epr": rates, "edges": [pairs.shape[1] for pairs in drawn]})
    original = None if y is None else error_passing_rate(graph.pairs, y)
    words = f"Views of {EPOCHS} epochs."
    if y is not None:
        words += " Near the line: the views pass on no more errors than the graph itself."
    return {"words": words, "original": original, "samples": samples, "edges": graph.pairs.shape[1]}
