"""Figure 3: t-SNE maps of raw features and of embeddings, with measures of class separation."""

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from epagcl.methods import Method
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.drawing import COLOURS, new_figure
from epagcl.paper.tables import Table, TableCell, escape_stars, marked
from epagcl.runs.record import provenance
from epagcl.study.code_version import code_version
from epagcl.study.design import UNSTORED, Row, fingerprint, rows
from epagcl.study.jobs import Job
from epagcl.study.shapes import ORIGIN, Shape
from epagcl.study.store import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch_geometric.data import Data

#: Graphs with more than LARGE labelled nodes are shown by a sample of SAMPLE nodes.
LARGE, SAMPLE = 20_000, 5_000
#: Features are reduced to this many dimensions before t-SNE, as its authors do.
DIMENSIONS = 50
NEIGHBOURS = 10
#: Silhouettes below this are usually read as no substantial structure.
CLEAR_SILHOUETTE = 0.25
#: Coordinates are stored as integers, in this many steps per unit.
SCALE = 100
#: The shape of the record of a map.
RECORD: Shape = {
    **ORIGIN,
    "points": str,
    **dict.fromkeys(("silhouette", "agreement", "map_agreement", "seconds"), float),
}

Array = npt.NDArray[Any]
#: An array or a scipy sparse matrix. scikit-learn takes both.
Matrix = Any


def measure(request: Request) -> Result:
    """Map the raw features and each method's embedding of seed 0; ``runs`` and ``protocols`` have no influence."""
    raw, *others = rows(request.methods)
    methods = [row for row in others if not row.reference]
    wanted = [(name, row) for name in request.graphs for row in (raw, *methods)]
    found: dict[str, list[Record]] = {}
    records = request.records_of([_job(request, name, row) for name, row in wanted])
    for (name, row), record in zip(wanted, records, strict=True):
        if record is not None:
            found.setdefault(name, []).append(_map(row.title, row.models(name, 1, request.settings)[1], record))
    graphs = []
    for name, data in request.graphs.items():
        if maps := found.get(name):
            nodes = shown_nodes(data.y)
            labels = " ".join(map(str, data.y.cpu()[nodes].tolist()))
            graphs.append({"name": name, "nodes": data.num_nodes, "shown": len(nodes), "labels": labels, "maps": maps})
    request.require(graphs)
    return {"graphs": graphs, "absent": request.absent}


def _job(request: Request, name: str, row: Row) -> Job:
    """Return the computation of the map of a row on a graph."""
    data, (models, _) = request.graphs[name], row.models(name, 1, request.settings)
    model = models[0] if models else None
    steps = (observe, shown_nodes, map_and_separation, embed_in_plane, agreement)
    key = {
        "what": "tsne",
        "graph": {"name": name, "fingerprint": fingerprint(data)},
        "method": row.title,
        "settings": {k: v for k, v in model.settings().items() if k not in UNSTORED} if model else {},
        "seed": model.seed if model else None,
        "sizes": [LARGE, SAMPLE, DIMENSIONS, NEIGHBOURS],
        "code": code_version(*([type(model)] if model else []), *steps),
    }
    cost = float(min(data.num_nodes, LARGE))
    return Job(f"{row.title} on {name}", key, partial(observe, request, name, data, model), cost, RECORD)


def _map(title: str, source: str | None, record: Record) -> Record:
    names = ("points", "silhouette", "agreement", "map_agreement", "seconds")
    where = record["hardware"]["device"]
    return {"title": title, "source": source, "device": where, **{name: record[name] for name in names}}


def observe(request: Request, name: str, data: "Data", model: Method | None) -> Record:
    """Train the model and describe its embedding; without a model, describe the raw features."""
    if model is None:
        representation = data.x
    else:
        with request.work.training(f"{model.title} on {name}, seed {model.seed}", model.epochs) as callback:
            representation = model.fit_embed(data, callback=callback)
    start = time.perf_counter()
    nodes = shown_nodes(data.y)
    record = map_and_separation(_rows(representation, nodes), data.y.cpu()[nodes].numpy(), wide=model is None)
    return {**record, "seconds": round(time.perf_counter() - start, 2), **provenance(request.device)}


def shown_nodes(y: torch.Tensor) -> torch.Tensor:
    """Return the labelled nodes: all of them, or a random sample that is the same for every representation."""
    labelled = (y.cpu() >= 0).nonzero()[:, 0]
    if labelled.numel() <= LARGE:
        return labelled
    order = torch.randperm(labelled.numel(), generator=torch.Generator().manual_seed(0))
    return labelled[order[:SAMPLE]].sort().values


def _rows(x: torch.Tensor, nodes: torch.Tensor) -> Matrix:
    """Return rows of a dense or sparse tensor in the same layout, for scikit-learn."""
    x, indices = x.detach().cpu(), nodes.numpy()
    if x.layout == torch.strided:
        return x.float().numpy()[indices]
    from scipy.sparse import csr_matrix

    x = x.to_sparse_csr()
    parts = (x.values().float().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
    return csr_matrix(parts, shape=tuple(x.shape))[indices]


def map_and_separation(x: Matrix, y: Array, wide: bool) -> Record:
    """Map the rows of ``x``, and measure how well the rows and the map separate the classes ``y``.

    The silhouette is the mean over nodes of (b − a) / max(a, b), where a is the mean cosine distance to the node's own
    class and b that to the nearest other class. It lies between −1 and 1. The agreement is the mean share of a node's
    10 nearest neighbours that have its class, by cosine in the full space and by Euclidean distance in the map.

    Args:
        x: one row per node.
        y: the class of each node.
        wide: whether the rows are reduced to 50 dimensions before t-SNE.
    """
    from sklearn.metrics import silhouette_score

    points = embed_in_plane(x, wide)
    size = SAMPLE if len(y) > SAMPLE else None
    return {
        "points": " ".join(map(str, np.rint(SCALE * points).astype(int).flatten())),
        "silhouette": float(silhouette_score(x, y, metric="cosine", sample_size=size, random_state=0)),
        "agreement": agreement(x, y, "cosine"),
        "map_agreement": agreement(points, y, "euclidean"),
    }


def embed_in_plane(x: Matrix, wide: bool) -> Array:
    """Return t-SNE coordinates of the rows, started from their first two principal components."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.manifold import TSNE

    if wide and x.shape[1] > DIMENSIONS:
        x = TruncatedSVD(DIMENSIONS, random_state=0).fit_transform(x)
    x = x if isinstance(x, np.ndarray) else x.toarray()
    perplexity = min(30.0, max(1.0, (len(x) - 1) / 3))
    points: Array = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(x)
    return points


def agreement(x: Matrix, y: Array, metric: str) -> float:
    """Return the mean share of a node's nearest neighbours that have its class."""
    from sklearn.neighbors import NearestNeighbors

    count = min(NEIGHBOURS, len(y) - 1)
    nearest = NearestNeighbors(n_neighbors=count, metric=metric).fit(x).kneighbors(return_distance=False)
    return float((y[nearest] == y[:, None]).mean())


def points_of(text: str) -> Array:
    """Return the coordinates ``[N, 2]`` from their stored form."""
    return np.array(text.split(), dtype=float).reshape(-1, 2) / SCALE


def tables(result: Result) -> list[Table]:
    """Return a table with the silhouette and the agreement of each representation."""
    lines: list[list[TableCell | str]] = []
    formats = {"silhouette": ".3f", "agreement": ".1%", "map_agreement": ".1%"}
    for graph in result["graphs"]:
        columns = [
            marked([one[key] for one in graph["maps"]], [f"{one[key]:{form}}" for one in graph["maps"]])
            for key, form in formats.items()
        ]
        for place, one in enumerate(graph["maps"]):
            lines.append([graph["name"], one["title"], *(column[place] for column in columns)])
    devices = sorted({one["device"] for graph in result["graphs"] for one in graph["maps"]})
    sampled = "".join(
        f", of {graph['name']} {graph['shown']:,} of {graph['nodes']:,}"
        for graph in result["graphs"]
        if graph["shown"] < graph["nodes"]
    )
    note = (
        f"Measured here with one model each (seed 0) on all labelled nodes{sampled}. The silhouette is by class, with "
        f"cosine distance. The agreement is the share of the {NEIGHBOURS} nearest nodes with the same class. Trained "
        f"on {', '.join(devices)}. The paper shows pictures only."
    )
    columns_row = ["graph", "representation", "silhouette", "agreement, full space", "agreement, map"]
    return [Table("", "Separation of the classes", columns_row, lines, note)]


def figures(result: Result) -> "dict[str, Figure]":
    """Return a figure with a row of maps for each graph, coloured by class."""
    if not result["graphs"]:
        return {}
    columns = max(len(graph["maps"]) for graph in result["graphs"])
    lines = len(result["graphs"])
    figure, panels = new_figure(lines, columns, 3.5 * columns + 0.9, 3.6 * lines)
    for line, graph in enumerate(result["graphs"]):
        row = panels[line * columns : (line + 1) * columns]
        for axes, one in zip(row, graph["maps"], strict=False):
            _draw_map(axes, graph, one)
        for axes in row[len(graph["maps"]) :]:
            axes.set_axis_off()
        _draw_legend(row[len(graph["maps"]) - 1], graph)
    return {"": figure}


def _draw_map(axes: "Axes", graph: dict[str, Any], one: dict[str, Any]) -> None:
    points, labels = points_of(one["points"]), _labels(graph)
    order = np.random.default_rng(0).permutation(len(points))  # so that no class covers another
    colours = np.array(_colours(labels))[labels[order]]
    x, y = points[order].T
    axes.scatter(x, y, s=np.clip(12_000 / len(points), 1.0, 20.0), c=colours, lw=0, rasterized=True)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color("#cccccc")
    numbers = f"silhouette {one['silhouette']:.2f}, agreement {one['map_agreement']:.0%}"
    axes.set_title(f"{graph['name']}: {one['title']}\n{numbers}".replace("-0.", "−0."), fontsize=9)


def _draw_legend(axes: "Axes", graph: dict[str, Any]) -> None:
    """Draw the legend of a graph beside its last map."""
    labels = _labels(graph)
    colours = _colours(labels)
    for label in np.unique(labels):
        axes.scatter([], [], s=20, color=colours[label], label=str(label))
    axes.legend(
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        title="class",
        title_fontsize=8,
        fontsize=8,
        frameon=False,
        ncols=-(-len(np.unique(labels)) // 20),
        handletextpad=0.1,
    )


def _labels(graph: dict[str, Any]) -> Array:
    return np.array(graph["labels"].split(), dtype=int)


def _colours(labels: Array) -> list[Any]:
    """Return a colour for each class number."""
    count = int(labels.max()) + 1
    if count <= len(COLOURS):
        return [*COLOURS[:6], *COLOURS[7:], COLOURS[6]][:count]  # yellow last: small yellow points are faint
    from matplotlib import colormaps

    return [colormaps["turbo"](place / (count - 1)) for place in range(count)]


def reading(result: Result) -> list[str]:
    """Return a paragraph on each embedding: whether it separates the classes better than the raw features."""
    paragraphs = []
    for graph in result["graphs"]:
        raw, *embeddings = graph["maps"]
        for one in embeddings:
            better = [one[key] > raw[key] for key in ("silhouette", "agreement", "map_agreement")]
            verdict = (
                "separates the classes better than the raw features by every measure"
                if all(better)
                else "separates the classes no better than the raw features by any measure"
                if not any(better)
                else "separates the classes better than the raw features by some measures, not by all"
            )
            overlap = " (of at most 1, so classes still overlap)" if one["silhouette"] < CLEAR_SILHOUETTE else ""
            paragraphs.append(
                f"**{escape_stars(one['title'])} on {graph['name']} {verdict}**: silhouette "
                f"{_change(raw, one, 'silhouette', '.2f')}{overlap}; {_change(raw, one, 'agreement', '.0%')} of a "
                f"node's {NEIGHBOURS} nearest neighbours have its class, in the map "
                f"{_change(raw, one, 'map_agreement', '.0%')}."
            )
    if result["absent"]:
        reasons = ", ".join(f"{graph} ({reason} here)" for graph, reason in result["absent"].items())
        paragraphs.append(f"Not measured: {reasons}.")
    return paragraphs or ["Nothing is measured yet."]


def _change(before: dict[str, Any], after: dict[str, Any], key: str, form: str) -> str:
    return f"{before[key]:{form}} → {after[key]:{form}}".replace("-", "−")


ARTEFACT = Artefact(
    name="tsne",
    title="Maps of the embeddings",
    datasets=("cora", "citeseer"),
    measure=measure,
    tables=tables,
    figures=figures,
    reading=reading,
    methods=("epagcl",),
    runs=1,
)
