"""The graphs that have a name. Adding a dataset = one entry in ``CATALOGUE``.

A named graph is taken from ``<root>/<Name>.npz`` if that file is there (:mod:`epagcl.data.npz`), else from
PyTorch Geometric or OGB, which download it into ``<root>/pyg`` or ``<root>/ogb``. Both ways give the same ``Data``.
"""

import contextlib
import difflib
import io
import logging
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.data.check import check
from epagcl.data.npz import PARTS, compact, read_npz
from epagcl.errors import InputError, MissingExtra
from epagcl.sparse import SparseMatrix

log = logging.getLogger("epagcl")

Fetch = Callable[[Path], Data]


@dataclass(frozen=True)
class Entry:
    """A named graph: its published size, where it comes from, and what is done to its features.

    Attributes:
        name: as the literature writes it; ``<name>.npz`` is its file.
        nodes: N.
        edges: undirected pairs without self-loops.
        features: columns of ``x``.
        classes: number of classes.
        home: in words, who offers the download.
        folder: where ``fetch`` keeps the graph, relative to its argument; None if it keeps nothing.
        fetch: gives the raw graph, downloading it into a root folder if it is not yet there.
        split: the published splits: one or more of the dataset's own, or the ten of Geom-GCN.
        binarise: replace counts by x > 0.
        row_normalise: divide each row of x by its sum.
        edges_known: whether ``edges`` can be held against a file.
        aliases: other names, in lower case.
    """

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    home: str
    folder: str | None
    fetch: Fetch
    split: Literal["public", "geom"] | None = None
    binarise: bool = False
    row_normalise: bool = True
    edges_known: bool = True
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Listing:
    """A line of the table of named graphs; ``source`` says where ``load`` would take the graph from."""

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    source: str


def load(name: str, root: Path | str | None = None, *, features: bool = True) -> Data:
    """A named graph: undirected, coalesced, no self-loops, features prepared as its literature does.

    The result has ``x``, ``edge_index``, ``y``, ``num_nodes``, ``name``, and the published splits where there are any:
    ``train_mask``, ``val_mask``, ``test_mask``, or Geom-GCN's ``geom_train_mask``, ... with one column per split.

    Args:
        name: any name that :func:`datasets` lists; case does not matter.
        root: data root, see :func:`data_root`.
        features: False leaves ``x`` out, for what needs only edges and labels; a file need not have them then.
    """
    entry = find(name)
    root = data_root(root)
    file = root / f"{entry.name}.npz"
    source = str(file) if file.exists() else entry.name
    raw = read_npz(file) if file.exists() else _fetch(entry, root)

    if not features:
        x = torch.zeros(raw.num_nodes, 1)  # stands in for the features that the check asks for
    elif raw.x is not None:
        x = _prepare(raw.x, entry)
    else:
        raise InputError(
            f"{source}: no features; add them to the file as x ({entry.nodes:,} × {entry.features:,}), or move the file "
            f"away to download {entry.name} with features ({entry.home}), or load with features=False"
        )
    masks = [f"{'geom_' * (entry.split == 'geom')}{part}_mask" for part in PARTS] if entry.split else []
    data = Data(x=x, edge_index=raw.edge_index, y=raw.y, num_nodes=raw.num_nodes, name=entry.name)
    data = check(data.update({key: raw[key] for key in masks if key in raw}), source, quiet=True)
    if not features:
        del data.x
    verify(entry, data, source)
    return data


def datasets(root: Path | str | None = None) -> list[Listing]:
    """All named graphs, with their published sizes and where each would come from."""
    root = data_root(root)
    return [
        Listing(entry.name, entry.nodes, entry.edges, entry.features, entry.classes, _source(entry, root))
        for entry in CATALOGUE.values()
    ]


def data_root(root: Path | str | None = None) -> Path:
    """The folder of named graphs: ``root``, else ``EPAGCL_DATA``, else ``epagcl`` in the user's cache folder."""
    if root is None:
        root = os.environ.get("EPAGCL_DATA") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "epagcl"
    return Path(root).expanduser()


def find(name: str) -> Entry:
    """The entry of that name: in any case, with ``_`` or a space for ``-``, or by an alias."""
    names = {alias: entry for key, entry in CATALOGUE.items() for alias in (key, *entry.aliases)}
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    if wanted in names:
        return names[wanted]
    close = difflib.get_close_matches(wanted, names, n=1)
    hint = f"did you mean {names[close[0]].name}? " if close else ""
    raise InputError(f"no graph is named {name!r}; {hint}`epagcl datasets` lists the names")


def verify(entry: Entry, data: Data, source: str) -> None:
    """Raise unless a checked graph has the published size: a figure belongs to one graph, not to any of its name."""
    found = {"nodes": data.num_nodes}
    if entry.edges_known:
        found["edges"] = data.edge_index.shape[1] // 2
    if data.x is not None:
        found["features"] = data.x.shape[1]
    if data.y is not None:
        found["classes"] = int(data.y.max()) + 1
    for what, count in found.items():
        if count != getattr(entry, what):
            raise InputError(
                f"{source}: {count:,} {what}, expected {getattr(entry, what):,}; this is not the published {entry.name}, "
                "give the file another name"
            )


def row_normalise(x: Tensor) -> Tensor:
    """x_ij / Σ_j x_ij, in the layout of x; a row that sums to zero stays as it is.

    Not PyG's ``NormalizeFeatures``, which first subtracts the minimum of the whole matrix and never divides by less than 1.
    """
    if x.layout == torch.strided:
        total = x.sum(dim=1, keepdim=True, dtype=torch.float64)
        return (x / total.where(total != 0, 1.0)).to(x.dtype)
    matrix = SparseMatrix.from_torch(x)
    total = torch.zeros(x.shape[0], dtype=torch.float64).index_add_(0, matrix.row, matrix.value.double())
    value = matrix.value / total.where(total != 0, 1.0)[matrix.row]
    return SparseMatrix(matrix.rowptr, matrix.col, value.to(x.dtype), matrix.shape).csr


def _prepare(x: Tensor, entry: Entry) -> Tensor:
    x = compact(x.float())
    if entry.binarise and x.layout == torch.strided:
        x = (x > 0).float()
    elif entry.binarise:
        matrix = SparseMatrix.from_torch(x)
        x = SparseMatrix(matrix.rowptr, matrix.col, (matrix.value > 0).float(), matrix.shape).csr
    return row_normalise(x) if entry.row_normalise else x


def _source(entry: Entry, root: Path) -> str:
    file = root / f"{entry.name}.npz"
    if file.exists():
        return f"file {file}"
    if entry.folder is None:
        return entry.home
    if (root / entry.folder).exists():
        return f"{entry.folder.split('/')[0]} cache"
    return f"download ({entry.home})"


def _fetch(entry: Entry, root: Path) -> Data:
    """The raw graph from its own loader; a download appears under ``root`` whole or not at all."""
    if entry.folder is None:
        return entry.fetch(root)
    folder = root / entry.folder
    if folder.exists():
        try:
            return _quietly(entry.fetch, root)
        except Exception as error:
            fix = f"remove that folder to download {entry.name} again"
            raise InputError(f"{folder}: cannot be read ({_reason(error)}); {fix}") from error
    log.info("downloading %s (%s) to %s", entry.name, entry.home, folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=root) as unfinished:
            data = _quietly(entry.fetch, Path(unfinished))
            folder.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.rename(Path(unfinished) / entry.folder, folder)
            except OSError:
                if not folder.exists():  # else another process finished the same download first
                    raise
    except MissingExtra:
        raise
    except Exception as error:  # what a broken connection raises, through two libraries, has no common type
        raise InputError(
            f"{entry.name}: download ({entry.home}) to {root} failed ({_reason(error)}); set --data or EPAGCL_DATA to a "
            f"folder with {entry.name}.npz, or connect to the internet"
        ) from error
    return data


def _quietly(fetch: Fetch, root: Path) -> Data:
    """Without the loaders' chatter: OGB's goes to stdout, where a program may be reading JSON."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return fetch(root)


def _reason(error: Exception) -> str:
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


def _pyg(dataset: str, folder: str = "", geom: bool = False, **settings: str | bool) -> tuple[str, str, Fetch]:
    """Home, folder and fetch of a graph that a dataset class of PyG offers."""

    def fetch(root: Path) -> Data:
        import torch_geometric.datasets

        data = getattr(torch_geometric.datasets, dataset)(str(root / "pyg" / dataset), **settings)[0]
        for part in PARTS if geom else ():  # PyG gives Geom-GCN's splits the name of a public split
            data[f"geom_{part}_mask"] = data[f"{part}_mask"]
        return data

    return f"PyG {dataset}", f"pyg/{dataset}/{folder}".rstrip("/"), fetch


def _ogb(name: str) -> tuple[str, str, Fetch]:
    """Home, folder and fetch of a node-classification graph of the Open Graph Benchmark."""
    folder = f"ogb/{name.replace('-', '_')}"

    def fetch(root: Path) -> Data:
        try:
            from ogb.nodeproppred import PygNodePropPredDataset
        except ModuleNotFoundError as error:
            raise MissingExtra("ogb", "ogb", name) from error
        from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
        from torch_geometric.data.storage import GlobalStorage

        # OGB asks on the terminal what to do with a folder that lacks its mark.
        if (root / folder).exists() and not list((root / folder).glob("RELEASE_v*.txt")):
            raise FileNotFoundError("RELEASE_v1.txt is missing")
        # OGB (1.3.6) reads its cache by torch.load, which since torch 2.6 admits only listed classes: these make up a Data.
        with torch.serialization.safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            dataset = PygNodePropPredDataset(name, root=str(root / "ogb"))
            parts = dataset.get_idx_split()
        data = dataset[0]
        for part, key in zip(PARTS, ("train", "valid", "test"), strict=True):
            data[f"{part}_mask"] = torch.zeros(data.num_nodes, dtype=torch.bool).index_fill_(0, parts[key], True)
        return data

    return "OGB", folder, fetch


def _demo(root: Path) -> Data:
    from epagcl.data.generators import demo

    return demo()


def _geom(dataset: str, name: str, **settings: bool) -> tuple[str, str, Fetch]:
    """As :func:`_pyg`, for a class whose train, validation and test masks are Geom-GCN's ten splits."""
_ENTRIES = (
    Entry("Cora", 2708, 5278, 1433, 7, *_pyg("Planetoid", "Cora", name="Cora"), split="public"),
    Entry("CiteSeer", 3327, 4552, 3703, 6, *_pyg("Planetoid", "CiteSeer", name="CiteSeer"), split="public"),
    Entry("PubMed", 19717, 44324, 500, 3, *_pyg("Planetoid", "PubMed", name="PubMed"), split="public"),
    Entry(
        "WikiCS",
        11701,
        216123,  # links as the paper counts them, directed and with duplicates, so no number of pairs
        300,
        10,
        *_pyg("WikiCS", is_undirected=True),
        split="public",
        row_normalise=False,  # signed features: a row's sum is no measure of its size
        edges_known=False,
    ),
    Entry("Amazon-Photo", 7650, 119081, 745, 8, *_pyg("Amazon", "Photo", name="Photo"), aliases=("photo",)),
    Entry(
        "Amazon-Computers",
        13752,
        245861,
        767,
        10,
        *_pyg("Amazon", "Computers", name="Computers"),
        aliases=("computers",),
    ),
    Entry(
        "Coauthor-CS", 18333, 81894, 6805, 15, *_pyg("Coauthor", "CS", name="CS"), binarise=True, aliases=("cs",)
    ),
    Entry(
        "Coauthor-Physics",
        34493,
        247962,
        8415,
        5,
        *_pyg("Coauthor", "Physics", name="Physics"),
        binarise=True,
        aliases=("physics",),
    ),
    Entry(
        "ogbn-arxiv",
        169343,
        1157799,
        128,
        40,
        *_ogb("ogbn-arxiv"),
        split="public",
        row_normalise=False,  # averaged word vectors, signed
        aliases=("arxiv",),
    ),
    Entry("Texas", 183, 279, 1703, 5, *_pyg("WebKB", "texas", geom=True, name="texas"), split="geom"),
    Entry("Cornell", 183, 277, 1703, 5, *_pyg("WebKB", "cornell", geom=True, name="cornell"), split="geom"),
    Entry("Wisconsin", 251, 450, 1703, 5, *_pyg("WebKB", "wisconsin", geom=True, name="wisconsin"), split="geom"),
    Entry(
        "Chameleon",
        2277,
        31371,
        2325,
        5,
        *_pyg("WikipediaNetwork", "chameleon", geom=True, name="chameleon", geom_gcn_preprocess=True),
        split="geom",
    ),
    Entry(
        "Squirrel",
        5201,
        198353,
        2089,
        5,
        *_pyg("WikipediaNetwork", "squirrel", geom=True, name="squirrel", geom_gcn_preprocess=True),
        split="geom",
    ),
    Entry("Actor", 7600, 26659, 932, 5, *_pyg("Actor", geom=True), split="geom"),
)
CATALOGUE = {entry.name.lower(): entry for entry in _ENTRIES}
