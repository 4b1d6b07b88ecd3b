"""The nodes of a report: the table of nodes, and the map with the columns to colour it by."""

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.files import atomic_path
from epagcl.core.formatting import spreadsheet_original, spreadsheet_text
from epagcl.core.neighbours import nearest
from epagcl.evaluation.health import sample
from epagcl.report.maps import TITLES, choose_kind, flat_map

MAX_MAP_NODES = 100_000
MAX_LEVELS = 200  # a text column with more values is listed for each node, but the map is not coloured by it
MAX_INTEGER = 2**53  # JavaScript rounds larger integers
MAX_FEATURE_COLUMNS = 20  # with more named features, none becomes a column
MAX_KMEANS_NODES = 20_000  # larger graphs are clustered by mini-batch k-means
BUILTIN_COLUMNS = (
    "label",
    "degree",
    "cluster",
)  # the first columns of every map; the user's columns and then the features follow
MAP_COLUMNS = ("map_x", "map_y")  # the map position in nodes.csv

#: Called with the name of the step in progress.
Say = Callable[[str], None]


class NumberColumn(TypedDict):
    """A numeric column of the map. ``log``: coloured on a log scale."""

    name: str
    kind: Literal["number"]
    log: bool
    values: list[float | None]


class CategoryColumn(TypedDict):
    """A categorical column of the map. Values are positions in ``levels``, -1 if missing."""

    name: str
    kind: Literal["category"]
    levels: list[str]
    values: list[int]
    colour: bool


class MapContent(TypedDict):
    """The map of an embedding; ``nodes`` counts all nodes of the graph.

    ``neighbours`` and ``similarity`` have ``k`` entries per node in one flat list.
    """

    kind: str
    note: str
    nodes: int
    x: list[float]
    y: list[float]
    ids: list[Any]
    columns: list[NumberColumn | CategoryColumn]
    k: int
    neighbours: list[int]
    similarity: list[float]


def silent(words: str) -> None:
    """Ignore the name of the step."""


def node_table(data: Data, z: Tensor, seed: int = 0) -> pd.DataFrame:
    """Return one row per node: id, label (if the graph has labels), degree, cluster, and the features if few are named.

    Args:
        data: the graph.
        z: its embedding, which is clustered.
        seed: seed of the clustering.
    """
    ids = data.get("node_ids")
    columns: dict[str, Any] = {"id": np.arange(data.num_nodes) if ids is None else ids}
    num_clusters = 8
    if data.y is not None:
        names = data.get("label_names")
        y = data.y.cpu().numpy()
        columns["label"] = [None if k < 0 else class_name(names, k) for k in y]
        num_clusters = max(2, len(set(y[y >= 0].tolist())))
    columns["degree"] = torch.bincount(data.edge_index[0].cpu(), minlength=data.num_nodes).numpy()
    columns["cluster"] = _clusters(z, num_clusters, seed)
    names, raw = data.get("feature_names"), data.get("raw_features")
    if raw is not None and raw.frame.shape[1] <= MAX_FEATURE_COLUMNS:  # the user's columns, before their encoding
        columns |= {name: raw.frame[name] for name in raw.frame if name not in {*columns, *MAP_COLUMNS}}
    elif names is not None and len(names) <= MAX_FEATURE_COLUMNS and data.x.layout == torch.strided:
        taken = {*columns, *MAP_COLUMNS}
        columns |= {str(name): data.x[:, k].cpu().numpy() for k, name in enumerate(names) if str(name) not in taken}
    return pd.DataFrame(columns)


def class_name(names: Sequence[str] | None, k: int | str) -> str:
    """Return the name of class k, or its number if it has no name.

    Examples:
        >>> class_name(["theory"], 0), class_name(["theory"], 1)
        ('theory', '1')
    """
    if names is None or isinstance(k, str) or k >= len(names):
        return str(k)
    return str(names[k])


def write_nodes(nodes: pd.DataFrame, path: Path) -> None:
    """Write the table of nodes as CSV. Text that a spreadsheet would run as a formula gets a leading apostrophe."""
    text = nodes.rename(columns=spreadsheet_text)
    for place, name in enumerate(text.columns):
        column = text.iloc[:, place]
        if column.dtype == object or pd.api.types.is_string_dtype(column):
            text = text.assign(**{name: column.map(spreadsheet_text)})
    with atomic_path(path) as temporary:
        text.to_csv(temporary, index=False, errors="backslashreplace")


def without_apostrophes(nodes: pd.DataFrame) -> pd.DataFrame:
    """Return a table that :func:`write_nodes` wrote as it was before.

    Examples:
        >>> without_apostrophes(pd.DataFrame({"id": ["'=1", "a"]}))["id"].tolist()
        ['=1', 'a']
    """
    nodes = nodes.rename(columns=spreadsheet_original)
    text = nodes.select_dtypes(exclude=["number", "bool"])
    return nodes.assign(**{str(name): text[name].map(spreadsheet_original) for name in text.columns})


def map_content(z: Tensor, nodes: pd.DataFrame, kind: str, seed: int, say: Say = silent) -> MapContent | None:
    """Return the map: position, id, columns and nearest neighbours of each node; None if ``kind`` is none.

    Of a graph with more than 100,000 nodes, a fixed sample is shown.

    Args:
        z: the embedding.
        nodes: the table of :func:`node_table`.
        kind: one of :data:`epagcl.report.maps.KINDS`.
        seed: seed of the map.
        say: called with the name of the step in progress.
    """
    kind = choose_kind(kind, min(len(z), MAX_MAP_NODES))
    if kind == "none":
        return None
    drawn = sample(len(z), MAX_MAP_NODES)
    say(f"map: {TITLES[kind]} of {len(drawn):,} nodes")
    positions = flat_map(z[drawn.to(z.device)], kind, seed)
    say("nearest neighbours")
    near, cosine = nearest(z[drawn.to(z.device)])
    nodes = nodes.iloc[drawn.numpy()]
    sampled = "" if len(drawn) == len(z) else f" (a sample of {len(z):,})"
    positions = positions - positions.mean(0)
    positions = positions / max(float(np.abs(positions).max()), 1e-12)
    return {
        "kind": TITLES[kind],
        "note": f"{TITLES[kind]} of {len(drawn):,} nodes{sampled}. Nearby nodes have similar embeddings (by cosine). "
        "Distances between groups mean little.",
        "nodes": len(z),
        "x": np.round(positions[:, 0].astype(float), 4).tolist(),
        "y": np.round(positions[:, 1].astype(float), 4).tolist(),
        "ids": nodes["id"].tolist(),
        "columns": [column_content(nodes[name]) for name in nodes.columns if name != "id"],
        "k": near.shape[1],
        "neighbours": near.flatten().tolist(),
        "similarity": [round(value, 3) for value in cosine.flatten().tolist()],
    }


def column_content(column: "pd.Series[Any]") -> NumberColumn | CategoryColumn:
    """Return a column to colour by: numeric or categorical. Labels and clusters are always categorical.

    Args:
        column: one value per node of the map.
    """
    name = str(column.name)
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    exact = not pd.api.types.is_integer_dtype(column) or not (column.abs() > MAX_INTEGER).any()
    if numeric and exact and name not in ("label", "cluster"):
        values = [None if pd.isna(value) or not math.isfinite(value) else value for value in column.tolist()]
        present = [value for value in values if value is not None]
        wide = bool(present) and min(present) >= 0 and max(present) > 50 * max(float(np.median(present)), 1)
        return {"name": name, "kind": "number", "log": name == "degree" or wide, "values": values}
    codes, levels = pd.factorize(column, sort=numeric)
    texts = [str(level) for level in levels]
    # Labels that are numbers are ordered as such: 10 after 9, not after 1.
    if name == "label" and texts and all(text.isdecimal() and len(text) < 19 for text in texts):
        order = sorted(range(len(texts)), key=lambda k: int(texts[k]))
        codes = np.where(codes < 0, -1, np.argsort(order)[codes])
        texts = [texts[k] for k in order]
    colourable = len(texts) <= MAX_LEVELS or name in BUILTIN_COLUMNS
    return {"name": name, "kind": "category", "levels": texts, "values": codes.tolist(), "colour": colourable}


def _clusters(z: Tensor, count: int, seed: int) -> np.ndarray[Any, Any]:
    """Return the k-means cluster of each unit row, numbered from 1 in the order of size, the largest first."""
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    rows = torch.nn.functional.normalize(z.detach().float().cpu(), dim=1).numpy()
    algorithm = KMeans if len(rows) <= MAX_KMEANS_NODES else MiniBatchKMeans
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # identical rows form fewer clusters
        assigned = algorithm(min(count, len(rows)), n_init=3, random_state=seed % 2**32).fit_predict(rows)
    by_size = np.argsort(np.argsort(-np.bincount(assigned, minlength=count), kind="stable"), kind="stable")
    return by_size[assigned] + 1
