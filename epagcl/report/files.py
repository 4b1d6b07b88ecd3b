"""The files of a report: in a run folder, next to an embedding, or of several runs together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.files import reading
from epagcl.core.memory import read_array
from epagcl.core.outputs import PAGE
from epagcl.data.io.ids import ID_NAMES
from epagcl.methods.base import Method
from epagcl.report.content import (
    CONTENT_FILE,
    RunContent,
    read_content,
    report,
    run_content,
    write_content,
)
from epagcl.report.figures import run_figures
from epagcl.report.metrics import RunMetrics
from epagcl.report.nodes import (
    BUILTIN_COLUMNS,
    MAP_COLUMNS,
    MapContent,
    Say,
    column_content,
    map_content,
    node_table,
    silent,
    without_apostrophes,
    write_nodes,
)
from epagcl.report.page import write_page

NODES = "nodes.csv"


def write_run_report(
    folder: Path,
    data: Data,
    method: Method,
    z: Tensor,
    metrics: RunMetrics,
    *,
    kind: str = "auto",
    say: Say = silent,
) -> None:
    """Write ``report.html``, its content, ``nodes.csv`` and the figures to a run folder.

    Args:
        folder: the run folder; created with its parents.
        data: the graph.
        method: the trained model.
        z: its embedding.
        metrics: the content of ``metrics.json``.
        kind: kind of the map, one of :data:`epagcl.report.maps.KINDS`.
        say: called with the name of the step in progress.

    Examples:
        >>> import tempfile
        >>> from epagcl import EPAGCL, load
        >>> from epagcl.runs import trained_metrics
        >>> data = load("demo")
        >>> model = EPAGCL(epochs=0, dim=4, device="cpu").fit(data)
        >>> metrics = trained_metrics(data, model, "demo")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_run_report(folder, data, model, model.embed(data), metrics, kind="none")
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['nodes.csv', 'report.html', 'report.json.gz']
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    say("clusters")
    z = torch.as_tensor(z)
    nodes = node_table(data, z, method.seed)
    content = run_content(folder.resolve().name, data, method, z, metrics, nodes, kind=kind, say=say)
    map_ = content["map"]
    if map_ is not None and len(map_["x"]) == len(nodes):
        nodes = nodes.assign(**dict(zip(MAP_COLUMNS, (map_["x"], map_["y"]), strict=True)))
    write_nodes(nodes, folder / NODES)
    write_content(content, folder)
    run_figures(folder, method.history_, content)
    say("report")
    write_page(report([content], places=[str(folder)]), folder / PAGE)


def write_embedding_report(
    path: Path,
    data: Data,
    method: Method,
    z: Tensor,
    metrics: RunMetrics,
    *,
    kind: str = "auto",
    extra: pd.DataFrame | None = None,
    say: Say = silent,
) -> Path:
    """Write ``<stem>.report.html`` beside an embedding. Return its path.

    Args:
        path: the file of the embedding.
        data: the graph.
        method: the trained model.
        z: the embedding.
        metrics: the metrics of :func:`epagcl.runs.trained_metrics`.
        kind: kind of the map, one of :data:`epagcl.report.maps.KINDS`.
        extra: further columns to colour by, with the node ids as index.
        say: called with the name of the step in progress.

    Examples:
        >>> import tempfile
        >>> from epagcl import EPAGCL, load
        >>> from epagcl.runs import trained_metrics
        >>> data = load("demo")
        >>> model = EPAGCL(epochs=0, dim=4, device="cpu").fit(data)
        >>> metrics = trained_metrics(data, model, "demo")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_embedding_report(Path(folder, "z.npy"), data, model, model.embed(data), metrics, kind="pca").name
        'z.report.html'
    """
    path, z = Path(path), torch.as_tensor(z)
    page = path.with_name(f"{path.stem}.report.html")
    say("clusters")
    content = run_content(path.stem, data, method, z, metrics, node_table(data, z, method.seed), kind=kind, say=say)
    _add_columns(content, extra)
    say("report")
    write_page(report([content], places=[str(path)]), page)
    return page


def write_comparison(
    folders: Sequence[Path],
    out: Path | None = None,
    *,
    kind: str | None = None,
    columns: Path | None = None,
    title: str | None = None,
    say: Say = silent,
) -> Path:
    """Write one page of one or several runs, without their graphs. Return its path.

    Args:
        folders: folders of finished runs. A folder with several seeds counts as one run per seed.
        out: the page; by default ``report.html``, in the only folder or in the working folder.
        kind: kind of the new map. None keeps the map of the run.
        columns: table with an id column and columns to colour the map by.
        title: title of the page.
        say: called with the name of the step in progress.

    Examples:
        >>> import tempfile
        >>> from epagcl import EPAGCL
        >>> from epagcl.data import block_model
        >>> from epagcl.runs import run
        >>> data = block_model(60, num_classes=3, num_features=40, topic_words=10)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     runs = [Path(folder, name) for name in ("one", "two")]
        ...     for path in runs:
        ...         metrics = run(data, EPAGCL(epochs=1, dim=4, device="cpu"), path, map_kind="none")
        ...     write_comparison(runs, Path(folder, "both.html")).name
        'both.html'
    """
    folders = [Path(folder) for folder in folders]
    if not folders:
        raise InputError("no run to report; give folders of finished runs")
    out = out or (folders[0] / PAGE if len(folders) == 1 else Path(PAGE))
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{out}: cannot write {out.suffix or 'a page without suffix'}; use .html")
    runs = [single for folder in folders for single in runs_in(folder)]
    contents = [read_content(folder) for folder in runs]
    _name_seeds(contents, runs)
    extra = None if columns is None else read_columns(columns)
    for content, folder in zip(contents, runs, strict=True):
        if kind is not None:
            content["map"] = _new_map(content, folder, kind, say)
        if extra is not None and content["map"] is not None:
            check_columns(extra, content["map"]["ids"], str(folder), str(columns))
        _add_columns(content, extra)
    embeddings = _comparable_embeddings(runs) if len(runs) > 1 else []
    if embeddings:
        say("neighbour agreement")
    write_page(report(contents, embeddings, title, [str(folder) for folder in runs]), out)
    return out


def runs_in(folder: Path) -> list[Path]:
    """Return the finished runs of a folder: its seeds, or else the folder itself."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such run folder; give the folder of a finished run")
    seeds = [path.parent for path in folder.glob(f"seed-*/{CONTENT_FILE}") if path.parent.name[5:].isdecimal()]
    return sorted(seeds, key=lambda path: int(path.name[5:])) or [folder]


def read_columns(path: Path) -> pd.DataFrame:
    """Return a table of columns to colour by, with the node ids as text in the index.

    The ids are in a column with a usual name (id, node, name, ...), or else in the first one.
    """
    try:
        if path.suffix == ".parquet":
            frame = pd.read_parquet(path)
            id_column = _id_column(frame)
        else:
            sep = "\t" if path.suffix == ".tsv" else ","
            id_column = _id_column(pd.read_csv(path, sep=sep, nrows=0, encoding="utf-8-sig"))
            frame = _read_csv(path, [id_column], sep)
    except (OSError, ValueError, KeyError, IndexError, MemoryError, OverflowError) as error:
        raise InputError(f"{path}: cannot be read as a table ({error}); give .csv, .tsv or .parquet") from None
    if len(frame.columns) < 2:
        raise InputError(f"{path}: only one column; give an id column and at least one more")
    if frame.empty:
        raise InputError(f"{path}: no rows; give one per node")
    frame.index = pd.Index(frame.pop(id_column).astype(str).tolist())
    if not frame.index.is_unique:
        repeated = frame.index[frame.index.duplicated()][0]
        raise InputError(f"{path}: id {repeated} occurs twice; give one row per node")
    return frame


def check_columns(extra: pd.DataFrame, ids: Sequence[Any], graph: str, source: str = "extra") -> None:
    """Raise unless some ids of a table of columns are ids of nodes.

    Args:
        extra: the table, with the ids as text in the index.
        ids: the ids of the nodes.
        graph: name of the graph in the message.
        source: name of the table in the message.
    """
    if not extra.index.isin([str(node) for node in ids]).any():
        first, node = extra.index[0], ids[0]
        raise InputError(f"{source}: none of its ids (such as {first}) is a node of {graph} (such as {node})")


def _id_column(frame: pd.DataFrame) -> str:
    return next((name for name in frame.columns if str(name).lower() in ID_NAMES), frame.columns[0])


def _read_csv(path: Path, text_columns: Sequence[str], sep: str = ",") -> pd.DataFrame:
    """Return a table in which some columns are literal text: 007 is not a number, and NA is not a missing value."""
    frame = pd.read_csv(path, sep=sep, encoding="utf-8-sig")
    literal = pd.read_csv(
        path,
        sep=sep,
        encoding="utf-8-sig",
        usecols=lambda name: name in text_columns,
        dtype=str,
        keep_default_na=False,
    )
    return frame.assign(**{name: literal[name] for name in literal.columns})


def _name_seeds(contents: Sequence[RunContent], runs: Sequence[Path]) -> None:
    """Prefix the name of each seed with its run if the seeds belong to different runs."""
    if len({folder.parent for folder in runs}) == 1:
        return
    for content, folder in zip(contents, runs, strict=True):
        if folder.name.startswith("seed-"):
            content["name"] = f"{folder.resolve().parent.name}/{folder.name}"


def _new_map(content: RunContent, folder: Path, kind: str, say: Say) -> MapContent | None:
    """Return another map of a run, from its embedding and its table of nodes."""
    with reading(folder / NODES, "train the run again"):
        nodes = without_apostrophes(_read_csv(folder / NODES, ["id", "label"]))
        nodes = nodes.drop(columns=list(MAP_COLUMNS), errors="ignore")
        if "label" in nodes:
            nodes["label"] = [label or None for label in nodes["label"]]
        seed = next(int(setting["value"]) for setting in content["settings"] if setting["name"] == "seed")
        z = _read_embedding(folder)
        if "id" not in nodes or len(nodes) != len(z):
            raise ValueError(f"{len(nodes):,} rows with ids for {len(z):,} embeddings")
    return map_content(z, nodes, kind, seed, say)


def _add_columns(content: RunContent, extra: pd.DataFrame | None) -> None:
    """Add the columns of a user's table to the map, after the built-in columns and before the features."""
    if extra is None or content["map"] is None:
        return
    columns = content["map"]["columns"]
    rows = extra.reindex([str(node) for node in content["map"]["ids"]])
    taken = {column["name"] for column in columns}
    place = sum(column["name"] in BUILTIN_COLUMNS for column in columns)
    columns[place:place] = [
        column_content(rows[name].rename(f"{name} (table)" if name in taken else name)) for name in rows.columns
    ]


def _comparable_embeddings(folders: Sequence[Path]) -> list[Tensor]:
    """Return the embeddings of the runs if they have the same nodes in the same order, otherwise none."""
    files = [folder / "embeddings.ids.txt" for folder in folders]
    if not all(file.is_file() for file in files):
        return []
    ids = {file.read_bytes() for file in files}
    return [_read_embedding(folder) for folder in folders] if len(ids) == 1 else []


def _read_embedding(folder: Path) -> Tensor:
    path = folder / "embeddings.npy"
    with reading(path, "train the run again"):
        z = torch.from_numpy(read_array(path, "train the run again")).float()
        if z.dim() != 2 or not bool(z.isfinite().all()):
            raise ValueError(f"not a matrix of finite numbers, but {tuple(z.shape)}")
    return z
