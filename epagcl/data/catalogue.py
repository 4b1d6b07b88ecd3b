"""The graphs that have a name. Adding a dataset = one entry in ``CATALOGUE``.

A named graph is taken from ``<root>/<Name>.npz`` if that file is there (:mod:`epagcl.data.npz`), else from
PyTorch Geometric or OGB, which download it into ``<root>/pyg`` or ``<root>/ogb``. Both ways give the same
``Data``.
"""

import contextlib
import difflib
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import index_to_mask

from epagcl.data.check import check
from epagcl.data.graph import row_normalise
from epagcl.data.npz import PARTS, compact, read_npz
from epagcl.errors import InputError, MissingExtra

log = logging.getLogger("epagcl")

Fetch = Callable[[Path], Data]
SplitKind = Literal["public", "geom"] | None
Source = tuple[str, str | None, Fetch, SplitKind]  # home, folder, fetch and split of an entry


@dataclass(frozen=True)
class Entry:
    """A named graph: its published size, where it comes from, what is done to its features.

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
        alias: a short name, in lower case.
    """

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    home: str
    folder: str | None
    fetch: Fetch
    split: SplitKind
    binarise: bool = False
    row_normalise: bool = False
    edges_known: bool = True
    alias: str | None = None


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

    The result has ``x``, ``edge_index``, ``y``, ``num_nodes``, ``name``, and the published splits where there
    are any: ``train_mask``, ``val_mask``, ``test_mask``, or Geom-GCN's ``geom_train_mask``, ... with a column
    for each split.

    Args:
        name: any name that :func:`datasets` lists; case does not matter.
        root: data root, see :func:`data_root`.
        features: False leaves ``x`` out, for what needs only edges and labels; a file may then lack it.
    """
    entry = find(name)
    root = data_root(root)
    file = root / f"{entry.name}.npz"
    if file.exists():
        source, raw = str(file), read_npz(file)
    else:
        source, raw = str(root / entry.folder) if entry.folder else entry.name, _fetch(entry, root)

    if features and raw.x is None:
        raise InputError(
            f"{source}: no features; add them to the file as x ({entry.nodes:,} × {entry.features:,}), or "
            f"move it away to download {entry.name} with features ({entry.home}), or load with features=False"
        )
    masks = [f"{'geom_' * (entry.split == 'geom')}{part}_mask" for part in PARTS] if entry.split else []
    x = _prepare(raw.x, entry) if features else None
    data = Data(x=x, edge_index=raw.edge_index, y=raw.y, num_nodes=raw.num_nodes, name=entry.name)
    data = check(data.update({key: raw[key] for key in masks if key in raw}), source, quiet=True, features=features)
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
    """Where named graphs lie: ``root``, else ``EPAGCL_DATA``, else ``epagcl`` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root or os.environ.get("EPAGCL_DATA") or f"{cache}/epagcl").expanduser()


def find(name: str) -> Entry:
    """The entry of that name: in any case, with ``_`` or a space for ``-``, or by its alias."""
    names = {key: entry for entry in CATALOGUE.values() for key in (entry.name.lower(), entry.alias) if key}
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    if wanted in names:
        return names[wanted]
    close = difflib.get_close_matches(wanted, names, n=1)
    hint = f"did you mean {names[close[0]].name}? " if close else ""
    raise InputError(f"no graph is named {name!r}; {hint}`epagcl datasets` lists the names")


def verify(entry: Entry, data: Data, source: str) -> None:
    """Raise unless a checked graph has the published size: figures belong to a graph, not to its name."""
    found = {"nodes": data.num_nodes}
    if entry.edges_known:
        found["edges"] = data.edge_index.shape[1] // 2
    if data.x is not None:
        found["features"] = data.x.shape[1]
    if data.y is not None:
        found["classes"] = int(data.y.max()) + 1
    for what, count in found.items():
        if getattr(entry, what) != count:
            raise InputError(
                f"{source}: {count:,} {what}, expected {getattr(entry, what):,}; this is not the published "
                f"{entry.name}; rename or remove it"
            )


def _prepare(x: Tensor, entry: Entry) -> Tensor:
    x = compact(x.float())
    if entry.binarise:
        x = x.relu().sign()  # x > 0, in operations that keep a sparse layout
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
        except MissingExtra:
            raise
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
            f"{entry.name}: download ({entry.home}) to {root} failed ({_reason(error)}); "
            f"set --data or EPAGCL_DATA to a folder with {entry.name}.npz, or connect to the internet"
        ) from error
    return data


def _quietly(fetch: Fetch, root: Path) -> Data:
    """Without the loaders' chatter: OGB's goes to stdout, where a program may be reading JSON."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return fetch(root)


def _reason(error: Exception) -> str:
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


def _pyg(dataset: str, name: str | None = None, split: SplitKind = None, **settings: bool) -> Source:
    """A graph that a dataset class of PyG offers."""

    def fetch(root: Path) -> Data:
        import torch_geometric.datasets

        named = {} if name is None else {"name": name}
        data = getattr(torch_geometric.datasets, dataset)(str(root / "pyg" / dataset), **named, **settings)[0]
        if split == "geom":  # PyG gives Geom-GCN's splits the names of a public split
            for part in PARTS:
                data[f"geom_{part}_mask"] = data[f"{part}_mask"]
        return data

    return f"PyG {dataset}", "/".join(filter(None, ("pyg", dataset, name))), fetch, split


def _ogb(name: str) -> Source:
    """A node-classification graph of the Open Graph Benchmark."""
    folder = f"ogb/{name.replace('-', '_')}"

    def fetch(root: Path) -> Data:
        try:
            from ogb.nodeproppred import PygNodePropPredDataset
        except ModuleNotFoundError as error:
            raise MissingExtra("ogb", "ogb", name) from error
        from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
        from torch_geometric.data.storage import GlobalStorage

        # OGB asks on the terminal what to do with a folder that lacks its mark.
        if (root / folder).exists() and not (root / folder / "RELEASE_v1.txt").exists():
            raise FileNotFoundError("RELEASE_v1.txt is missing")
        # OGB (1.3.6) reads its cache by a plain torch.load, which since torch 2.6 admits only listed classes;
        # these three make up a Data.
        safe = torch.serialization.safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage])
        with safe, warnings.catch_warnings():
            # The tables that it turns into tensors are read-only in pandas 3; nobody writes to them.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            dataset = PygNodePropPredDataset(name, root=str(root / "ogb"))
            parts = dataset.get_idx_split()
        data = dataset[0]
        for part, key in zip(PARTS, ("train", "valid", "test"), strict=True):
            data[f"{part}_mask"] = index_to_mask(parts[key], data.num_nodes)
        return data

    return "OGB", folder, fetch, "public"


def _demo(root: Path) -> Data:
    from epagcl.data.generators import demo

    return demo()


# name, nodes, undirected edges, features, classes, source
_ENTRIES = (
    # The paper's code divides the rows of Amazon, Coauthor and WebKB by their sums. Of Amazon and Coauthor that leaves
    # entries of about 1/200, and training ends below the untrained encoder; their features stay 0 and 1 here.
    Entry("Cora", 2708, 5278, 1433, 7, *_pyg("Planetoid", "Cora", split="public")),
    Entry("CiteSeer", 3327, 4552, 3703, 6, *_pyg("Planetoid", "CiteSeer", split="public")),
    Entry("PubMed", 19717, 44324, 500, 3, *_pyg("Planetoid", "PubMed", split="public")),
    # The paper counts WikiCS's links, which are directed. Its features are signed: no row sum to divide by.
    Entry(
        "WikiCS",
        11701,
        216123,
        300,
        10,
        *_pyg("WikiCS", split="public", is_undirected=True),
        edges_known=False,
    ),
    Entry("Amazon-Photo", 7650, 119081, 745, 8, *_pyg("Amazon", "Photo"), alias="photo"),
    Entry("Amazon-Computers", 13752, 245861, 767, 10, *_pyg("Amazon", "Computers"), alias="computers"),
    Entry("Coauthor-CS", 18333, 81894, 6805, 15, *_pyg("Coauthor", "CS"), binarise=True, alias="cs"),
    Entry("Coauthor-Physics", 34493, 247962, 8415, 5, *_pyg("Coauthor", "Physics"), binarise=True, alias="physics"),
    # Averaged word vectors, signed like those of WikiCS.
    Entry("ogbn-arxiv", 169343, 1157799, 128, 40, *_ogb("ogbn-arxiv"), alias="arxiv"),
    Entry("Texas", 183, 279, 1703, 5, *_pyg("WebKB", "texas", split="geom"), row_normalise=True),
    Entry("Cornell", 183, 277, 1703, 5, *_pyg("WebKB", "cornell", split="geom"), row_normalise=True),
    Entry("Wisconsin", 251, 450, 1703, 5, *_pyg("WebKB", "wisconsin", split="geom"), row_normalise=True),
    Entry("Chameleon", 2277, 31371, 2325, 5, *_pyg("WikipediaNetwork", "chameleon", split="geom"), row_normalise=True),
    Entry("Squirrel", 5201, 198353, 2089, 5, *_pyg("WikipediaNetwork", "squirrel", split="geom"), row_normalise=True),
    Entry("Actor", 7600, 26659, 932, 5, *_pyg("Actor", split="geom"), row_normalise=True),
    Entry("demo", 2700, 5016, 1400, 7, "generated", None, _demo, None),
)
CATALOGUE = {entry.name.lower(): entry for entry in _ENTRIES}
