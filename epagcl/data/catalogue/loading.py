"""Loading of named graphs.

A named graph is read from ``<root>/<Name>.npz`` if that file exists (:mod:`epagcl.data.io.npz`), else from PyTorch
Geometric or OGB, which download it into ``<root>/pyg`` or ``<root>/ogb``. Both ways give the same ``Data``, except that
the download of Facebook has other features. Files of these libraries are read as data only; see
:mod:`epagcl.data.catalogue.safety`.
"""

import contextlib
import io
import os
import pickle
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError, MissingExtra, MissingFeatures
from epagcl.core.log import log
from epagcl.data.catalogue.entries import CATALOGUE, Entry, find
from epagcl.data.catalogue.known import check_download
from epagcl.data.catalogue.safety import check_manifest, data_only, write_manifest
from epagcl.data.catalogue.sources import Fetch
from epagcl.data.checking import check
from epagcl.data.graph import row_normalise
from epagcl.data.io.npz import compact, read_npz
from epagcl.data.splits import PARTS


@dataclass(frozen=True)
class Listing:
    """A row of the table of named graphs; ``source`` is where :func:`load` would read the graph from.

    Examples:
        >>> next(row for row in datasets() if row.name == "demo").source
        'generated'
    """

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    source: str


def load(name: str, root: Path | str | None = None, *, features: bool = True) -> Data:
    """Load a named graph: undirected, coalesced, no self-loops, features prepared as in its literature.

    The result has ``x``, ``edge_index``, ``y``, ``num_nodes``, ``name``, and the published splits if the dataset has
    any: ``train_mask``, ``val_mask``, ``test_mask``, or Geom-GCN's ``geom_train_mask``, ... with one column per split.

    Args:
        name: a name that :func:`datasets` lists; case does not matter.
        root: data root, see :func:`data_root`.
        features: if False, ``x`` is left out, and the file need not have it.

    Examples:
        >>> data = load("demo")
        >>> data.num_nodes, data.num_edges
        (2700, 10032)
    """
    root = data_root(root)
    published = find(name)
    entry = _as_available(published, root)
    file = root / f"{entry.name}.npz"
    if features and entry.features != published.features:
        log.warning(
            "%s: the download (%s) has %d features, a reduction of the original %s; results differ from those of %s",
            entry.name,
            entry.home,
            entry.features,
            f"{published.features:,}",
            file.name,
        )
    downloaded = entry.folder is not None and not file.exists() and not (root / entry.folder).exists()
    if file.exists():
        source, raw = str(file), read_npz(file)
    else:
        source, raw = str(root / entry.folder) if entry.folder else entry.name, _fetch(entry, root)

    if features and raw.x is None:
        raise MissingFeatures(
            f"{source}: no features; add them to the file as x ({entry.nodes:,} × {entry.features:,}), "
            f"or move the file to download {entry.name} with features ({entry.home}), or load with features=False"
        )
    masks = [f"{'geom_' * (entry.split == 'geom')}{part}_mask" for part in PARTS] if entry.split else []
    x = _prepare(raw.x, entry) if features else None
    y = None if raw.y is None else raw.y - raw.y.min().clamp(min=0)  # some files number their classes from 1
    data = Data(x=x, edge_index=raw.edge_index, y=y, num_nodes=raw.num_nodes, name=entry.name)
    data = check(data.update({key: raw[key] for key in masks if key in raw}), source, quiet=True, features=features)
    verify(entry, data, source)
    if downloaded and features and entry.features == published.features:
        check_download(entry.name, data)
    return data


def datasets(root: Path | str | None = None) -> list[Listing]:
    """Return all named graphs with their published sizes and sources.

    Args:
        root: data root, see :func:`data_root`.

    Examples:
        >>> [row.name for row in datasets()][:3]
        ['Cora', 'CiteSeer', 'PubMed']
    """
    root = data_root(root)
    return [
        Listing(entry.name, entry.nodes, entry.edges, entry.features, entry.classes, _source(entry, root))
        for entry in (_as_available(entry, root) for entry in CATALOGUE.values())
    ]


def data_root(root: Path | str | None = None) -> Path:
    """Return the folder of named graphs: ``root``, else ``EPAGCL_DATA``, else ``epagcl`` in the user's cache folder.

    Examples:
        >>> data_root("graphs").as_posix()
        'graphs'
    """
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root or os.environ.get("EPAGCL_DATA") or f"{cache}/epagcl").expanduser()


def verify(entry: Entry, data: Data, source: str) -> None:
    """Raise unless a checked graph has the published size, so that no other graph is reported under its name.

    Examples:
        >>> verify(find("demo"), load("demo"), "demo")
    """
    sizes = {"nodes": data.num_nodes}
    if entry.edges_known:
        sizes["edges"] = data.edge_index.shape[1] // 2
    if data.x is not None:
        sizes["features"] = data.x.shape[1]
    if data.y is not None:
        sizes["classes"] = int(data.y.max()) + 1
    for field, size in sizes.items():
        if getattr(entry, field) != size:
            raise InputError(
                f"{source}: {size:,} {field}, expected {getattr(entry, field):,}; this is not the published "
                f"{entry.name}; rename or remove it"
            )


def _as_available(entry: Entry, root: Path) -> Entry:
    """Return an entry with the number of features that :func:`load` finds: those of the file, or of the download."""
    if entry.download_features is None or (root / f"{entry.name}.npz").exists():
        return entry
    return replace(entry, features=entry.download_features)


def _prepare(x: Tensor, entry: Entry) -> Tensor:
    x = compact(x.float())
    if entry.binarise:
        x = x.relu().sign()  # x > 0, by operations that keep a sparse layout
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
    """Return the raw graph from its own loader. A download is moved to ``root`` only when it is complete."""
    if entry.folder is None:
        return entry.fetch(root)
    folder = root / entry.folder
    if folder.exists():
        fix = f"remove that folder to download {entry.name} again"
        check_manifest(folder, fix)
        try:
            return _quietly(entry.fetch, root)
        except MissingExtra:
            raise
        except Exception as error:
            raise InputError(f"{folder}: cannot be read ({_reason(error)}); {fix}") from error
    log.info("downloading %s (%s) to %s", entry.name, entry.home, folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=root) as unfinished:
            data = _quietly(entry.fetch, Path(unfinished))
            write_manifest(Path(unfinished) / entry.folder)
            folder.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.rename(Path(unfinished) / entry.folder, folder)
            except OSError:
                if not folder.exists():  # otherwise another process finished the same download first
                    raise
    except MissingExtra:
        raise
    except Exception as error:  # the errors of a broken connection have no common type
        raise InputError(
            f"{entry.name}: download ({entry.home}) to {root} failed ({_reason(error)}); "
            f"connect to the internet, or set root= or EPAGCL_DATA to a folder with {entry.name}.npz"
        ) from error
    return data


def _quietly(fetch: Fetch, root: Path) -> Data:
    """Call a loader without running code from its files. Discard its output, which would corrupt JSON on stdout."""
    with data_only(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return fetch(root)


def _reason(error: Exception) -> str:
    if isinstance(error, pickle.UnpicklingError) and "weights_only" in str(error):
        return "a pickle that names code, which is not run"  # torch's message advises to run it
    words = str(getattr(error, "reason", "") or error)  # of urllib, without its brackets
    return next(iter(words.splitlines()), "") or type(error).__name__
