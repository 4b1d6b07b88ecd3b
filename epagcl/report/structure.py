"""The graph in a report: its degrees, its EPR, and the effect of a method's views on them."""

import math
from typing import Any, TypedDict

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.epr.operators import chance_epr
from epagcl.epr.rate import error_passing_rate
from epagcl.methods.base import Method
from epagcl.views.sampling import Views, ViewSampler

EPOCHS = 10  # number of epochs whose views are sampled
BINS = 16  # number of degree bins, equally wide on a log scale


class StructureContent(TypedDict):
    """The graph in a report. Parts that are unavailable are None."""

    degree: dict[str, list[int]]
    epr: dict[str, Any] | None
    probabilities: dict[str, Any] | None
    views: dict[str, Any] | None


def structure(data: Data, method: Method) -> StructureContent:
    """Return degrees, EPR, drop and add probabilities by degree, and sampled views; each None if unavailable.

    EPR needs a label on every node. Probabilities and views need a method that samples edges.

    Args:
        data: the graph.
        method: the method whose views are sampled.
    """
    graph = Graph.from_data(check(data, quiet=True))
    y = data.y if data.y is not None and bool((data.y >= 0).all()) and len(data.y.unique()) > 1 else None
    if y is not None:
        y = y.unique(return_inverse=True)[1]  # rates count by class, and class numbers may be huge
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
    """Return the EPR in all its forms, and how it compares with edges between random nodes."""
    forms: dict[str, dict[str, Any]] = {
        "edges, d": {},
        "edges, d + 1 (GCN)": {"self_loops": True},
        "2 hops": {"hops": 2},
    }
    rows: list[dict[str, Any]] = [
        {"name": name}
        | {f"per_{per}": error_passing_rate(edge_index, y, per=per, **options) for per in ("node", "edge")}
        for name, options in forms.items()
    ]
    rate = rows[0]["per_node"]
    words = (
        f"{100 * rate:.0f}% of the messages that a node receives come from other classes; "
        f"with random edges it would be {100 * chance_epr(y):.0f}%."
    )
    if rate > 0.5:
        words += " Above 50%, averaging over neighbours blurs the classes; GREET is designed for such graphs."
    return {"rows": rows, "words": words}


def _probabilities(views: Views, graph: Graph, degree: Tensor) -> dict[str, Any]:
    """Return the drop and add probabilities of the last view; in EPAGCL that is the view that also adds edges."""
    sampler = views.samplers[-1]
    edges = graph.pairs.shape[1]
    drop, add = 1 - sampler.keep[:edges], sampler.keep[edges:]
    words = f"View {len(views.samplers)} drops {100 * drop.mean():.0f}% of the edges on average"
    words += f" and adds {add.sum():,.0f} of {len(add):,} candidate pairs." if len(add) else " and adds none."
    return {
        "words": words,
        "drop": _by_degree(sampler, slice(0, edges), drop, degree),
        "add": _by_degree(sampler, slice(edges, None), add, degree) if len(add) else None,
    }


def _by_degree(sampler: ViewSampler, part: slice, p: Tensor, degree: Tensor) -> dict[str, list[float]]:
    """Return the mean and the 5% to 95% range of a probability, by the geometric mean √(d_i d_j) of both degrees."""
    i, j = sampler.counter[part] // sampler.num_nodes, sampler.counter[part] % sampler.num_nodes
    geometric = (degree[i] * degree[j]).double().sqrt().clamp(min=1)
    low, high = geometric.log().min(), geometric.log().max()
    bins = ((geometric.log() - low) / (high - low).clamp(min=1e-9) * BINS).long().clamp(max=BINS - 1)
    curve: dict[str, list[float]] = {"degree": [], "mean": [], "low": [], "high": []}
    for bin_ in bins.unique().tolist():
        inside = bins == bin_
        values = p[inside].double().sort().values
        curve["degree"].append(round(float(geometric[inside].log().mean().exp()), 2))
        curve["mean"].append(round(float(values.mean()), 5))
        last = len(values) - 1
        curve["low"].append(round(float(values[math.floor(0.05 * last)]), 5))
        curve["high"].append(round(float(values[math.ceil(0.95 * last)]), 5))
    return curve


def _samples(views: Views, graph: Graph, y: Tensor | None) -> dict[str, Any]:
    """Return the EPR per node and the number of edges of the views in the first epochs."""
    samples = []
    for number, sampler in enumerate(views, 1):
        sampled = [sampler.pairs(epoch) for epoch in range(EPOCHS)]
        rates = [None] if y is None else [round(error_passing_rate(pairs, y), 5) for pairs in sampled if pairs.numel()]
        samples.append({"view": number, "epr": rates, "edges": [pairs.shape[1] for pairs in sampled]})
    original = None if y is None else error_passing_rate(graph.pairs, y)
    words = f"Views of {EPOCHS} epochs."
    if y is not None:
        words += " The distance to the dashed line is the change of EPR by augmentation."
    return {"words": words, "original": original, "samples": samples, "edges": graph.pairs.shape[1]}
