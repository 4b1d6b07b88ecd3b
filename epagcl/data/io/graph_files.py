"""Graphs of other programs: GraphML, GEXF and GML by NetworkX, and node-link JSON.

A file becomes two tables, one of its edges and one of its nodes with their attributes. They are then read like any
other tables. An edge without the attribute ``weight`` has weight 1 if others have one, as in NetworkX.
"""

import json
import xml.etree.ElementTree
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from epagcl.core.errors import InputError, MissingExtra
from epagcl.data.io.tables.frame import FrameTable

GRAPH_SUFFIXES = (".graphml", ".gexf", ".gml", ".json")
#: NetworkX's name of the weight of an edge.
WEIGHT = "weight"
#: Attributes of nodes that describe a drawing.
_DRAWING = frozenset({"viz", "graphics"})
#: The attribute of nodes that is the text in a drawing, or a class.
_LABEL = "label"


class GraphTables(NamedTuple):
    """The edges of a graph file, its nodes with their attributes, and its nodes if they have none; None otherwise."""

    edges: FrameTable
    nodes: FrameTable | None
    without_attributes: FrameTable | None


def is_graph_file(path: Path | str) -> bool:
    """Return whether the suffix of a file is that of a graph of another program.

    Examples:
        >>> is_graph_file("g.graphml"), is_graph_file("e.csv")
        (True, False)
    """
    return Path(path).suffix.lower() in GRAPH_SUFFIXES


def read_graph_file(path: Path) -> GraphTables:
    """Return the edges and the nodes of a graph file.

    Args:
        path: ``.graphml``, ``.gexf``, ``.gml``, or ``.json`` in NetworkX's node-link form.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> graph = {"nodes": [{"id": "a", "age": 3}, {"id": "b"}], "links": [{"source": "a", "target": "b"}]}
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "g.json").write_text(json.dumps(graph))
        ...     tables = read_graph_file(Path(folder, "g.json"))
        >>> tables.edges.first_row, tables.nodes.first_row
        (['source', 'target'], ['id', 'age'])
    """
    nodes, edges = _node_link(path) if path.suffix.lower() == ".json" else _by_networkx(path)
    if not edges:
        raise InputError(f"{path.name}: no edges; a graph needs at least one")
    if any(WEIGHT in edge for edge in edges):
        edges = [{WEIGHT: 1, **edge} for edge in edges]
    table = pd.DataFrame(nodes)
    if _LABEL in table and table[_LABEL].map(str).is_unique:  # the text of each node in a drawing
        table = table.drop(columns=_LABEL)
    frame = FrameTable(table, path.name) if len(table) else None
    features, ids = (frame, None) if table.shape[1] > 1 else (None, frame)
    return GraphTables(FrameTable(pd.DataFrame(edges), path.name), features, ids)


def _by_networkx(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the nodes and edges of a file that NetworkX reads, each with its attributes."""
    try:
        import networkx
    except ModuleNotFoundError:
        raise MissingExtra("networkx", "networkx", f"reading {path.suffix}") from None
    reader = {".graphml": networkx.read_graphml, ".gexf": networkx.read_gexf, ".gml": networkx.read_gml}
    options = {"label": "id"} if path.suffix.lower() == ".gml" else {}
    try:
        graph = reader[path.suffix.lower()](path, **options)
    except (networkx.NetworkXException, xml.etree.ElementTree.ParseError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())[:80]
        raise InputError(f"{path.name}: not a readable {path.suffix} file ({reason}); write it again") from None
    nodes = [{"id": node, **_plain(attributes)} for node, attributes in graph.nodes(data=True)]
    edges = [{"source": u, "target": v, **_plain(attributes)} for u, v, attributes in graph.edges(data=True)]
    return nodes, edges


def _node_link(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the nodes and edges of a node-link JSON file, each with its attributes."""
    fix = "give node-link JSON, as networkx.node_link_data writes it"
    try:
        graph = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise InputError(f"{path.name}: not a JSON file; {fix}") from None
    edges = graph.get("links", graph.get("edges")) if isinstance(graph, dict) else None
    nodes = graph.get("nodes") if isinstance(graph, dict) else None
    if not isinstance(nodes, list) or not isinstance(edges, list):
        raise InputError(f"{path.name}: no lists nodes and links (or edges); {fix}")
    for item, keys in ((nodes, {"id"}), (edges, {"source", "target"})):
        wrong = next((k for k, each in enumerate(item) if not isinstance(each, dict) or not keys <= set(each)), None)
        if wrong is not None:
            what = f"entry {wrong} (counted from 0) has no {' or '.join(sorted(keys))}"
            raise InputError(f"{path.name}: {what}; {fix}")
    ids = [{"id": _scalar(node["id"]), **_plain(node)} for node in nodes]
    ends = [{"source": _scalar(edge["source"]), "target": _scalar(edge["target"]), **_plain(edge)} for edge in edges]
    return ids, ends


def _plain(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a node or edge without its ids and its drawing."""
    own = {*_DRAWING, "id", "source", "target", "key"}
    return {str(name): value for name, value in attributes.items() if name not in own}


def _scalar(node: Any) -> Any:
    """Return an id as a single value; a list, which JSON has for a tuple, becomes text."""
    return str(node) if isinstance(node, list | dict) else node
