"""Fig. 3: t-SNE maps of raw features and of embeddings, and numbers that say what the eye sees in them."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from epagcl.methods import Method
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.drawing import COLOURS, new_figure
from epagcl.paper.tables import Table, marked
from epagcl.runs.provenance import provenance
from epagcl.study.cells import UNSTORED, Row, fingerprint, rows
from epagcl.study.code_version import code_version
from epagcl.study.store import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch_geometric.data import Data

LARGE, SAMPLE = 20_000, 5_000  # of a graph with more nodes than LARGE, SAMPLE are shown
DIMENSIONS = 50  # features are reduced to so many before t-SNE, as its authors do
NEIGHBOURS = 10
OVERLAP = 0.25  # silhouettes below it are usually read as no structure worth the name
SCALE = 100  # coordinates are kept as whole numbers, so many to the unit


def measure(request: Request) -> Result:
    """Maps of the raw features and of each method's embedding of seed 0; ``runs`` and ``protocols`` are not asked."""
    raw, _, *chosen = rows(request.methods)
    plans = [(name, data, [raw, *chosen]) for name, data in request.graphs.items()]
    if request.train:
        request.work.plan([_cost(data) for _, data, rows_of in plans for _ in rows_of])
    graphs = []
    for name, data, rows_of in plans:
        maps = [found for row in rows_of if (found := _kept(request, name, data, row)) is not None]
        if maps:
            nodes = shown_nodes(data.y)
            labels = " ".join(map(str, data.y.cpu()[nodes].tolist()))
            graphs.append({"name": name, "nodes": data.num_nodes, "shown": len(nodes), "labels": labels, "maps": maps})
    request.require(graphs)
    return {"graphs": graphs, "absent": request.absent}


def _kept(request: Request, name: str, data: "Data", row: Row) -> Record | None:
    """A map, from the store or anew."""
    models, source = row.models(name, 1, request.settings)
    model = models[0] if models else None
    steps = (observe, shown_nodes, describe, embed_in_plane, agreement)
    key = {
        "what": "tsne",
        "graph": {"name": name, "fingerprint": fingerprint(data)},
        "method": row.title,
        "settings": {k: v for k, v in model.settings().items() if k not in UNSTORED} if model else {},
        "seed": model.seed if model else None,
        "sizes": [LARGE, SAMPLE, DIMENSIONS, NEIGHBOURS],
        "code": code_version(*([type(model)] if model else []), *steps),
    }
    record = request.keep(key, lambda: observe(request, name, data, model), _cost(data))
    if record is None:
        return None
    kept = ("points", "silhouette", "agreement", "map_agreement", "seconds")
    where = record["hardware"]["device"]
    return {"title": row.title, "source": source, "device": where, **{name: record[name] for name in kept}}


def _cost(data: "Data") -> float:
    return float(min(data.num_nodes, LARGE))


def observe(request: Request, name: str, data: "Data", model: Method | None) -> Record:
    """Train, if there is a model, and describe what came out; else the raw features."""
    if model is None:
        representation = data.x
    else:
        with request.work.training(f"{model.title} on {name}, seed {model.seed}", model.epochs) as callback:
            representation = model.fit_embed(data, callback=callback)
    start = time.perf_counter()
    nodes = shown_nodes(data.y)
    record = describe(_rows(representation, nodes), data.y.cpu()[nodes].numpy(), wide=model is None)
    return {**record, "seconds": round(time.perf_counter() - start, 2), **provenance(request.device)}


def shown_nodes(y: torch.Tensor) -> torch.Tensor:
    """Labelled nodes, all or a random sample that is the same for every representation."""
    labelled = (y.cpu() >= 0).nonzero()[:, 0]
    if labelled.numel() <= LARGE:
        return labelled
    order = torch.randperm(labelled.numel(), generator=torch.Generator().manual_seed(0))
    return labelled[order[:SAMPLE]].sort().values


def _rows(x: torch.Tensor, nodes: torch.Tensor) -> ArrayLike:
    """Rows of a tensor, dense or sparse as it is, for scikit-learn."""
    x, nodes = x.detach().cpu(), nodes.numpy()
    if x.layout == torch.strided:
        return x.float().numpy()[nodes]
    from scipy.sparse import csr_matrix

    x = x.to_sparse_csr()
    parts = (x.values().float().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
    return csr_matrix(parts, shape=tuple(x.shape))[nodes]


def describe(x: ArrayLike, y: np.ndarray, wide: bool) -> Record:
    """The map of the rows of ``x``, and how well it and they tell the classes ``y`` apart.

    Silhouette: the mean over nodes of (b − a) / max(a, b), with a the mean cosine distance to the node's own class and
    b that to the nearest other class; from −1 to 1. Agreement: the mean share of a node's 10 nearest others that are of
    its class, by cosine in full space and by Euclidean distance in the map. ``wide`` rows are reduced before t-SNE.
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


def embed_in_plane(x: ArrayLike, wide: bool) -> np.ndarray:
    """t-SNE of the rows of ``x``, starting from their two principal components; wide ones are reduced to 50 first."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.manifold import TSNE

    if wide and x.shape[1] > DIMENSIONS:
        x = TruncatedSVD(DIMENSIONS, random_state=0).fit_transform(x)
    x = x if isinstance(x, np.ndarray) else x.toarray()
    perplexity = min(30.0, max(1.0, (len(x) - 1) / 3))
    return TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(x)


def agreement(x: ArrayLike, y: np.ndarray, metric: str) -> float:
    """Mean share of a node's nearest others that are of its class."""
    from sklearn.neighbors import NearestNeighbors

    count = min(NEIGHBOURS, len(y) - 1)
    nearest = NearestNeighbors(n_neighbors=count, metric=metric).fit(x).kneighbors(return_distance=False)
    return float((y[nearest] == y[:, None]).mean())


def points_of(text: str) -> np.ndarray:
    """Coordinates ``[N, 2]`` as they are kept."""
    return np.array(text.split(), dtype=float).reshape(-1, 2) / SCALE


def tables(result: Result) -> list[Table]:
    """Silhouette and agreement of each representation."""
    lines = []
    for graph in result["graphs"]:
        columns = [
            marked([found[key] for found in graph["maps"]], [form.format(found[key]) for found in graph["maps"]])
            for key, form in (("silhouette", "{:.3f}"), ("agreement", "{:.1%}"), ("map_agreement", "{:.1%}"))
        ]
        for place, found in enumerate(graph["maps"]):
            lines.append([graph["name"], found["title"], *(column[place] for column in columns)])
    devices = sorted({found["device"] for graph in result["graphs"] for found in graph["maps"]})
    note = (
        "Measured here, one model each (seed 0), all labelled nodes"
        + "".join(
            f", of {g['name']} {g['shown']:,} of {g['nodes']:,}" for g in result["graphs"] if g["shown"] < g["nodes"]
        )
        + f". Silhouette by class, cosine distance; agreement: share of the {NEIGHBOURS} nearest nodes that are of the "
        f"same class. Trained on {', '.join(devices)}. The paper shows pictures only."
    )
    heads = ["graph", "representation", "silhouette", "agreement, full space", "agreement, map"]
    return [Table("", "How well classes are told apart", heads, lines, note)]


def figures(result: Result) -> "dict[str, Figure]":
    """A row of maps for each graph, coloured by class."""
    if not result["graphs"]:
        return {}
    columns = max(len(graph["maps"]) for graph in result["graphs"])
    lines = len(result["graphs"])
    figure, panels = new_figure(lines, columns, 3.5 * columns + 0.9, 3.6 * lines)
    for line, graph in enumerate(result["graphs"]):
        axes_of = panels[line * columns : (line + 1) * columns]
        for axes, found in zip(axes_of, graph["maps"], strict=False):
            _draw_map(axes, graph, found)
        for axes in axes_of[len(graph["maps"]) :]:
            axes.set_axis_off()
        _legend(axes_of[len(graph["maps"]) - 1], graph)
    return {"": figure}


def _draw_map(axes: "Axes", graph: dict[str, Any], found: dict[str, Any]) -> None:
    points, labels = points_of(found["points"]), _labels(graph)
    order = np.random.default_rng(0).permutation(len(points))  # so that no class covers another
    colours = np.array(_colours(labels))[labels[order]]
    axes.scatter(*points[order].T, s=np.clip(12_000 / len(points), 1.0, 20.0), c=colours, lw=0, rasterized=True)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color("#cccccc")
    numbers = f"silhouette {found['silhouette']:.2f}, agreement {found['map_agreement']:.0%}"
    axes.set_title(f"{graph['name']}: {found['title']}\n{numbers}".replace("-0.", "−0."), fontsize=9)


def _legend(axes: "Axes", graph: dict[str, Any]) -> None:
    """One for each graph, beside its last map."""
    labels = _labels(graph)
    colours = _colours(labels)
    for label in np.unique(labels):
        axes.scatter([], [], s=20, color=colours[label], label=str(label))
    columns = -(-len(np.unique(labels)) // 20)
    place = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
    axes.legend(**place, title="class", title_fontsize=8, fontsize=8, frameon=False, ncols=columns, handletextpad=0.1)


def _labels(graph: dict[str, Any]) -> np.ndarray:
    return np.array(graph["labels"].split(), dtype=int)


def _colours(labels: np.ndarray) -> list[Any]:
    """A colour for each class number."""
    count = int(labels.max()) + 1
    if count <= len(COLOURS):
        return [*COLOURS[:6], *COLOURS[7:], COLOURS[6]][:count]  # yellow, which is faint in small points, last
    from matplotlib import colormaps

    return [colormaps["turbo"](place / (count - 1)) for place in range(count)]


def reading(result: Result) -> list[str]:
    """Whether embeddings tell classes apart better than the raw features do."""
    words = []
    for graph in result["graphs"]:
        raw, *others = graph["maps"]
        for found in others:
            title = found["title"].replace("*", r"\*")
            better = [found[key] > raw[key] for key in ("silhouette", "agreement", "map_agreement")]
            verdict = (
                "tells classes apart better than the raw features by every number"
                if all(better)
                else "tells classes apart no better than the raw features by any number"
                if not any(better)
                else "and the raw features: the numbers disagree"
            )
            words.append(
                f"**{title} on {graph['name']} {verdict}**: silhouette {_change(raw, found, 'silhouette', '.2f')}"
                f"{' of at most 1, so classes still overlap' * (found['silhouette'] < OVERLAP)}; of a node's "
                f"{NEIGHBOURS} nearest, {_change(raw, found, 'agreement', '.0%')} are of its class, in the map "
                f"{_change(raw, found, 'map_agreement', '.0%')}."
            )
    if result["absent"]:
        reasons = ", ".join(f"{graph} ({reason} here)" for graph, reason in result["absent"].items())
        words.append(f"Not measured: {reasons}.")
    return words or ["Nothing is measured yet."]


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
