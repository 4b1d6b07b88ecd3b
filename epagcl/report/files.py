"""The files of a report: in a run's folder, beside an embedding, or of several runs together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError, MissingExtra
from epagcl.core.files import atomic_path
from epagcl.core.log import log
from epagcl.data.io.column_names import ID_NAMES
from epagcl.methods.base import Method
from epagcl.report.content import (
    FILE,
    OWN,
    PLACES,
    Content,
    Say,
    column_content,
    map_content,
    node_table,
    read_content,
    report,
    run_content,
    silent,
    write_content,
)
from epagcl.report.figures import run_figures
from epagcl.report.page import have_plotly, write_page

PAGE = "report.html"
NODES = "nodes.csv"
FILES = (PAGE, FILE, NODES, "training.png", "embedding.png")


def write_run_report(
    folder: Path,
    data: Data,
    method: Method,
    z: Tensor,
    metrics: dict[str, Any],
    *,
    kind: str = "auto",
    say: Say = silent,
) -> None:
    """Into a run's folder: ``report.html`` and what it is made from, ``nodes.csv`` and the figures."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    say("clusters")
    z = torch.as_tensor(z)
    nodes = node_table(data, z, method.seed)
    content = run_content(folder.resolve().name, data, method, z, metrics, nodes, kind=kind, say=say)
    places = content["map"]
    if places is not None and len(places["x"]) == len(nodes):
        nodes = nodes.assign(**dict(zip(PLACES, (places["x"], places["y"]), strict=True)))
    with atomic_path(folder / NODES) as temporary:
        nodes.to_csv(temporary, index=False)
    write_content(content, folder)
    run_figures(folder, method.history_, content)
    say("report")
    _page(report([content]), folder / PAGE, f"epagcl report {folder}")


def write_embedding_report(
    path: Path,
    data: Data,
    method: Method,
    z: Tensor,
    metrics: dict[str, Any],
    *,
    kind: str = "auto",
    extra: pd.DataFrame | None = None,
    say: Say = silent,
) -> Path | None:
    """Beside the embeddings in ``path``: ``<name>.report.html``; None where plotly is missing.

    ``extra`` has further columns to colour by, with the ids of nodes as its index.
    """
    path, z = Path(path), torch.as_tensor(z)
    page = path.with_name(f"{path.stem}.report.html")
    say("clusters")
    content = run_content(path.stem, data, method, z, metrics, node_table(data, z, method.seed), kind=kind, say=say)
    _add_columns(content, extra)
    say("report")
    return page if _page(report([content]), page, "the command") else None


def write_comparison(
    folders: Sequence[Path],
    out: Path | None = None,
    *,
    kind: str | None = None,
    columns: Path | None = None,
    title: str | None = None,
    say: Say = silent,
) -> Path:
    """One page of one run or several; a folder of several seeds stands for all of them.

    Args:
        folders: finished runs.
        out: the page; else ``report.html`` in the only folder, or in the working folder.
        kind: another map than the run made.
        columns: table with an id column and columns to colour the map by.
        title: of the page.
        say: told what is being done.
    """
    if not have_plotly():
        raise MissingExtra("plotly", "report", "the report page")
    folders = [Path(folder) for folder in folders]
    if not folders:
        raise InputError("no run given; give folders that `epagcl train` wrote")
    found = [single for folder in folders for single in runs_in(folder)]
    contents = [read_content(folder) for folder in found]
    parents = {folder.parent for folder in found}
    if len(parents) > 1:  # seed-0 of which run?
        several = [folder.name.startswith("seed-") for folder in found]
        for content, folder, seed in zip(contents, found, several, strict=True):
            content["name"] = f"{folder.resolve().parent.name}/{folder.name}" if seed else content["name"]
    extra = None if columns is None else read_columns(columns)
    if kind is not None or extra is not None:
        for content, folder in zip(contents, found, strict=True):
            _renew(content, folder, kind, extra, say)
    out = out or (folders[0] / PAGE if len(folders) == 1 else Path(PAGE))
    embeddings = _comparable(found) if len(found) > 1 else []
    if embeddings:
        say("neighbour agreement")
    write_page(report(contents, embeddings, title), out)
    return out


def runs_in(folder: Path) -> list[Path]:
    """The finished runs of a folder: itself, or its seeds."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such run folder; give one that `epagcl train` wrote")
    seeds = sorted(folder.glob(f"seed-*/{FILE}"), key=lambda path: int(path.parent.name.removeprefix("seed-")))
    return [path.parent for path in seeds] or [folder]


def read_columns(path: Path) -> pd.DataFrame:
    """A table of columns to colour by, its ids (column id, node, name, ... or else the first) as text in the index."""
    try:
        if path.suffix == ".parquet":
            frame = pd.read_parquet(path)
            ids = _id_column(frame)
        else:
            sep = "\t" if path.suffix == ".tsv" else ","
            ids = _id_column(pd.read_csv(path, sep=sep, nrows=0, encoding="utf-8-sig"))
            frame = _read_csv(path, [ids], sep)
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as a table ({error}); give .csv, .tsv or .parquet") from None
    if len(frame.columns) < 2:
        raise InputError(f"{path}: only one column; give an id column and at least one more")
    if frame.empty:
        raise InputError(f"{path}: no rows; give one per node")
    frame.index = frame.pop(ids).astype(str)
    if not frame.index.is_unique:
        raise InputError(f"{path}: id {frame.index[frame.index.duplicated()][0]} stands twice; give one row per node")
    return frame


def check_columns(extra: pd.DataFrame, ids: Sequence[Any], where: str) -> None:
    """That the table speaks of these nodes."""
    if not extra.index.isin([str(node) for node in ids]).any():
        first, node = extra.index[0], ids[0]
        raise InputError(f"--columns: none of its ids (such as {first}) is a node of {where} (such as {node})")


def _id_column(frame: pd.DataFrame) -> Any:
    return next((name for name in frame.columns if str(name).lower() in ID_NAMES), frame.columns[0])


def _read_csv(path: Path, texts: Sequence[Any], sep: str = ",") -> pd.DataFrame:
    """A table of which some columns are text as it stands: 007 is no number, NA no gap."""
    options = {"sep": sep, "encoding": "utf-8-sig"}
    literal = pd.read_csv(path, usecols=lambda name: name in texts, dtype=str, keep_default_na=False, **options)
    return pd.read_csv(path, **options).assign(**{name: literal[name] for name in literal.columns})


def _renew(content: Content, folder: Path, kind: str | None, extra: pd.DataFrame | None, say: Say) -> None:
    """Another map, further columns."""
    if kind is not None:
        nodes = _read_csv(folder / NODES, ["id", "label"]).drop(columns=list(PLACES), errors="ignore")
        nodes = nodes.replace({"label": {"": None}}) if "label" in nodes else nodes
        seed = next(int(setting["value"]) for setting in content["settings"] if setting["name"] == "seed")
        content["map"] = map_content(_embedding(folder), nodes, kind, seed, say)
    if extra is not None and content["map"] is not None:
        check_columns(extra, content["map"]["ids"], str(folder))
    _add_columns(content, extra)


def _add_columns(content: Content, extra: pd.DataFrame | None) -> None:
    """Of a user's table, after those of every map and before the features."""
    if extra is None or content["map"] is None:
        return
    columns = content["map"]["columns"]
    rows = extra.reindex([str(node) for node in content["map"]["ids"]])
    known = {column["name"] for column in columns}
    own = sum(column["name"] in OWN for column in columns)
    columns[own:own] = [
        column_content(rows[name].rename(f"{name} (table)" if name in known else name)) for name in rows.columns
    ]


def _comparable(folders: Sequence[Path]) -> list[Tensor]:
    """The embeddings of runs on the same nodes in the same order, else none."""
    files = [folder / "embeddings.ids.txt" for folder in folders]
    if not all(file.is_file() for file in files):
        return []
    ids = {file.read_text(encoding="utf-8") for file in files}
    return [_embedding(folder) for folder in folders] if len(ids) == 1 else []


def _embedding(folder: Path) -> Tensor:
    return torch.from_numpy(np.load(folder / "embeddings.npy"))


def _page(content: Content, path: Path, again: str) -> bool:
    """The page, or a line on what it needs; training is not to fail for want of a picture."""
    if not have_plotly():
        log.warning("no %s: it needs plotly (pip install plotly); then run %s again", path.name, again)
        return False
    write_page(content, path)
    return True
