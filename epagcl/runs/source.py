"""The graph of a run, loaded again from where the run had it."""

from pathlib import Path

from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.data.catalogue.entries import CATALOGUE
from epagcl.data.catalogue.loading import load
from epagcl.data.io.readers import read_files
from epagcl.data.io.roles import Roles
from epagcl.data.structural.features import split_preset
from epagcl.runs.folder import GraphSource

PARTS = ("edges", "features", "labels", "nodes")


def load_source(source: GraphSource, root: str | Path | None = None, run: str | Path = "the run") -> Data:
    """Return the graph that the configuration of a run names: a named graph, or the user's files.

    Args:
        source: the table ``data`` of the configuration.
        root: folder of named graphs; see :func:`epagcl.data.data_root`.
        run: the run folder, for messages.

    Examples:
        >>> load_source({"name": "demo"}).num_nodes
        2700
    """
    files = {part: str(source[part]) for part in PARTS if part in source}  # type: ignore[literal-required]
    if "file" not in source and not files:
        if source.get("name", "").lower() not in CATALOGUE:
            raise InputError(f"{run}: its graph was made in Python; give it as data=")
        return load(source["name"], root)
    roles = Roles.from_record(source)
    for path in (source.get("file"), *({**files, "features": split_preset(files.get("features"))[1]}.values())):
        if path is not None and not Path(path).exists():
            raise InputError(f"{path}: no such file; repeat the run in the folder in which it was started")
    return read_files(source.get("file"), files, roles=roles)
