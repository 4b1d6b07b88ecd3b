"""The options that name a graph: a named one, a file, or tables and their columns. Commands share them.

:func:`takes_graph` adds the options to a command, which gets their values as one :class:`GraphInput`.
"""

import functools
import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from epagcl.cli.loaded_graph import LoadedGraph, graph_of
from epagcl.cli.options import Edges, Features, Graph, Labels, Nodes, Root
from epagcl.core.errors import InputError

if TYPE_CHECKING:
    from epagcl.data.io.columns.encoding import TableEncoding
    from epagcl.data.io.feature_list import Near
    from epagcl.data.io.roles import Roles

Source = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of the edges with the first end, such as payer.")
]
Target = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of the edges with the second end, such as payee.")
]
Weight = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column of the edges with weights. Default: weight, if there is one; or none."),
]
Type = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of the edges with their kinds. Default: type, edge_type or relation, if there is one; or none.",
    ),
]
Directed = Annotated[
    str | None,
    typer.Option(
        metavar="symmetric|both|in|out",
        help="Use edges without their direction (default), in both directions apart, or in one of them only.",
    ),
]
Id = Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="Column of the features and labels with ids.")]
Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column with the labels, also one of the features.")]
Bipartite = Annotated[
    bool, typer.Option("--bipartite", help="The ends are of two kinds: user 5 and item 5 are two nodes.")
]
ColumnsAs = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN=KIND,...",
        help="Kinds of feature columns: number, boolean, category, date, text, vector, given or skip.",
    ),
]
Name = Annotated[str | None, typer.Option(metavar="TEXT", help="Name of your graph in results. Default: of its file.")]

#: The options, in the order of the help.
_OPTIONS: dict[str, Any] = {
    "graph": Graph,
    "edges": Edges,
    "features": Features,
    "labels": Labels,
    "nodes": Nodes,
    "source": Source,
    "target": Target,
    "weight": Weight,
    "type": Type,
    "directed": Directed,
    "id": Id,
    "label": Label,
    "bipartite": Bipartite,
    "columns_as": ColumnsAs,
    "name": Name,
    "data": Root,
}


@dataclass(frozen=True)
class GraphInput:
    """The graph that the command line names, not loaded yet.

    Attributes:
        graph: a named graph, or a file with a whole graph.
        edges: the file of edges.
        features: the file of features.
        labels: the file of labels.
        nodes: the file with the ids of the feature rows.
        source: column of the edges with the first end.
        target: column of the edges with the second end.
        weight: column of the edges with weights, or none.
        type: column of the edges with their kinds, or none.
        directed: how directed edges are used.
        id: column with the ids.
        label: column with the labels.
        bipartite: whether the ends of an edge are nodes of two kinds.
        columns_as: kinds of feature columns, as text.
        name: name of the graph in results.
        data: folder of named graphs.
    """

    graph: str | None = None
    edges: Path | None = None
    features: Path | None = None
    labels: Path | None = None
    nodes: Path | None = None
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    type: str | None = None
    directed: str | None = None
    id: str | None = None
    label: str | None = None
    bipartite: bool = False
    columns_as: str | None = None
    name: str | None = None
    data: Path | None = None

    @property
    def files(self) -> dict[str, Path | None]:
        """The files of the parts of the graph, None for parts that are not given."""
        return {"edges": self.edges, "features": self.features, "labels": self.labels, "nodes": self.nodes}

    @property
    def is_given(self) -> bool:
        """Whether any option names a graph."""
        return self.graph is not None or any(file is not None for file in self.files.values())

    def roles(self, encoding: "TableEncoding | None" = None) -> "Roles":
        """Return the columns that the options name.

        Args:
            encoding: the encoding of a trained model, to use in place of a new one.
        """
        from epagcl.data.io.columns.kinds import parse_columns_as
        from epagcl.data.io.roles import NAMED, OPTION, Roles

        try:
            columns_as = parse_columns_as(self.columns_as or "")
        except InputError as error:
            raise InputError(f"--columns-as: {error}") from None
        if encoding is not None and columns_as:
            raise InputError("--columns-as: the model has an encoding of its own; leave it out")
        columns = {name: getattr(self, name) for name in NAMED}
        return Roles(**columns, bipartite=self.bipartite, columns_as=columns_as, encoding=encoding, argument=OPTION)

    def load(
        self,
        *,
        need_features: bool = True,
        encoding: "TableEncoding | None" = None,
        near: "Near | None" = None,
        time: str | None = None,
    ) -> LoadedGraph:
        """Load the graph.

        Args:
            need_features: raise if the graph has no features.
            encoding: the encoding of a trained model, to use in place of a new one.
            near: the part of the graph whose features are needed; None: all of it.
            time: column of the edges with times, if the caller reads them.
        """
        roles = replace(self.roles(encoding), time=time)
        loaded = graph_of(self.graph, self.data, need_features=need_features, roles=roles, near=near, **self.files)
        if self.name is None:
            return loaded
        if not loaded.source:
            raise InputError(f"--name {self.name}: {loaded.name} is a named graph; leave it out")
        return loaded._replace(name=self.name)

    def words(self) -> str:
        """Return the words of the command line that name the graph."""
        words = [self.graph] if self.graph else []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("graph", "data") or not value:
                continue
            words += [f"--{field.name.replace('_', '-')}", *([] if value is True else [str(value)])]
        return shlex.join(words)


def takes_graph(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command the options of a graph, in place of its parameter ``inputs``.

    Args:
        without: options that the command does not have.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        options = {name: kind for name, kind in _OPTIONS.items() if name not in without}
        own = inspect.signature(command).parameters
        hints = get_type_hints(command, include_extras=True)

        @functools.wraps(command)
        def wrapper(**values: Any) -> None:
            inputs = GraphInput(**{name: values.pop(name) for name in options})
            command(inputs=inputs, **values)

        parameters: list[inspect.Parameter] = []
        for name, parameter in own.items():
            if name != "inputs":
                parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
                continue
            parameters += [
                inspect.Parameter(
                    option,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=False if option == "bipartite" else None,
                    annotation=kind,
                )
                for option, kind in options.items()
            ]
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del wrapper.__wrapped__  # typer would read the signature of the command
        return wrapper

    return decorate
