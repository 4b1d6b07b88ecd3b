"""What the named graphs contain, as digests: a download that differs is noticed."""

import json
from functools import cache
from pathlib import Path

from torch_geometric.data import Data

from epagcl.core.log import log
from epagcl.data.identity import data_fingerprint

#: Digests of the prepared graphs that the results of this package were measured on.
KNOWN = Path(__file__).parent / "known.json"


def content_digest(data: Data) -> str:
    """Return the digest of the edges, features and labels of a graph; published splits do not count.

    Args:
        data: a checked graph.

    Examples:
        >>> from epagcl.data import load
        >>> content_digest(load("demo")) == known_digests()["demo"]
        True
    """
    return data_fingerprint(Data(x=data.x, edge_index=data.edge_index, y=data.y, num_nodes=data.num_nodes))


@cache
def known_digests() -> dict[str, str]:
    """Return the known digests by the names of the graphs."""
    return dict(json.loads(KNOWN.read_text(encoding="utf-8")))


def check_download(name: str, data: Data) -> None:
    """Log whether a downloaded graph is, bit by bit, the one that the results of this package were measured on.

    Args:
        name: the name of the graph in the catalogue.
        data: the graph, prepared and checked.
    """
    expected, found = known_digests().get(name), content_digest(data)
    if expected is None:
        log.info("%s: no digest of its content is known; its files are recorded, and checked from now on", name)
    elif found != expected:
        log.warning(
            "%s: the download differs from the graph that our results were measured on (%s, expected %s); "
            "its provider may have changed it",
            *(name, found, expected),
        )
