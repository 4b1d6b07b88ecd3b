"""The graphs that have a name. Adding a dataset = one entry in ``CATALOGUE``.

A named graph is taken from ``<root>/<Name>.npz`` if that file is there (:mod:`epagcl.data.io.npz`), else from
PyTorch Geometric or OGB, which download it into ``<root>/pyg`` or ``<root>/ogb``. Both ways give the same
``Data``.
"""

import contextlib
import io
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError, MissingExtra
from epagcl.core.log import log
from epagcl.data.catalogue.entries import CATALOGUE, Entry, find
from epagcl.data.catalogue.sources import Fetch
from epagcl.data.checking import check
from epagcl.data.graph import row_normalise
from epagcl.data.io.npz import compact, read_npz
from epagcl.data.splits import PARTS


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
