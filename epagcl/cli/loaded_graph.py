"""The graph that the command line names: a named graph, files, or the folder of a graph on disk."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from epagcl.cli.options import flag_of, is_graph_path
from epagcl.core.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from epagcl.data.io.feature_list import Near
    from epagcl.data.io.roles import Roles


class LoadedGraph(NamedTuple):
    """A graph with its name and its source: the user's files, or empty for a named graph."""

    name: str
    data: "Data"
    source: dict[str, Any]

    @property
    def recipe_name(self) -> str | None:
        """Name of the recipe; None for a user's own graph, which has none."""
        return None if self.source else self.name


def graph_of(
    name: str | None,
    root: Path | None,
    *,
    need_features: bool = True,
    roles: "Roles | None" = None,
    near: "Near | None" = None,
    **files: Path | None,
) -> LoadedGraph:
    """Load the graph that the command line names.

    Args:
        name: a named graph, or a file with a whole graph.
        root: folder of named graphs.
        need_features: raise if the graph has no features.
        roles: the columns that the user names; None to find them by their names.
        near: the part of the graph whose features are needed; None: all of it.
        files: tables of ``edges``, ``features``, ``labels`` and ``nodes``.
    """
    from epagcl.data import load
    from epagcl.data.io.readers import read_files
    from epagcl.data.io.roles import OPTION, Roles

    roles = roles or Roles(argument=OPTION)
    tables = {key: value for key, value in files.items() if value is not None}
    if name is None and not tables:
        options = "--edges and --features" if need_features else "--edges and --labels"
        raise InputError(f"no graph given; name one (`epagcl datasets` lists them), or give a file, or {options}")
    if name is None:
        data = read_files(None, tables, need_features, roles, near)
        source = {**{key: str(path) for key, path in tables.items()}, **roles.record()}
        return LoadedGraph(tables.get("edges", Path("graph")).stem, data, source)
    if is_graph_path(name):
        data = read_files(name, tables, need_features, roles, near)
        source = {"file": name, **{key: str(path) for key, path in tables.items()}, **roles.record()}
        return LoadedGraph(data.get("name") or Path(name).stem, data, source)
    if superfluous := [*tables, *roles.record()]:
        flags = ", ".join(flag_of(key) for key in superfluous)
        raise InputError(f"{name} is a named graph; leave out {flags}")
    data = load(name, root, features=need_features)
    return LoadedGraph(data.name, data, {})
