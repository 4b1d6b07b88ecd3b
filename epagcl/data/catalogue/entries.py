"""The graphs that have a name. Adding a dataset = one entry in ``CATALOGUE``.

A named graph is taken from ``<root>/<Name>.npz`` if that file is there (:mod:`epagcl.data.io.npz`), else from
PyTorch Geometric or OGB, which download it into ``<root>/pyg`` or ``<root>/ogb``. Both ways give the same
``Data``.
"""

import difflib
from dataclasses import dataclass

from epagcl.core.errors import InputError
from epagcl.data.catalogue.sources import Fetch, SplitKind, demo_source, ogb_source, pyg_source


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


def find(name: str) -> Entry:
    """The entry of that name: in any case, with ``_`` or a space for ``-``, or by its alias."""
    names = {key: entry for entry in CATALOGUE.values() for key in (entry.name.lower(), entry.alias) if key}
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    if wanted in names:
        return names[wanted]
    close = difflib.get_close_matches(wanted, names, n=1)
    hint = f"did you mean {names[close[0]].name}? " if close else ""
    raise InputError(f"no graph is named {name!r}; {hint}`epagcl datasets` lists the names")


# name, nodes, undirected edges, features, classes, source
_ENTRIES = (
    # The paper's code divides the rows of Amazon, Coauthor and WebKB by their sums. Of Amazon and Coauthor that leaves
    # entries of about 1/200, and training ends below the untrained encoder; their features stay 0 and 1 here.
    Entry("Cora", 2708, 5278, 1433, 7, *pyg_source("Planetoid", "Cora", split="public")),
    Entry("CiteSeer", 3327, 4552, 3703, 6, *pyg_source("Planetoid", "CiteSeer", split="public")),
    Entry("PubMed", 19717, 44324, 500, 3, *pyg_source("Planetoid", "PubMed", split="public")),
    # The paper counts WikiCS's links, which are directed. Its features are signed: no row sum to divide by.
    Entry(
        "WikiCS",
        11701,
        216123,
        300,
        10,
        *pyg_source("WikiCS", split="public", is_undirected=True),
        edges_known=False,
    ),
    Entry("Amazon-Photo", 7650, 119081, 745, 8, *pyg_source("Amazon", "Photo"), alias="photo"),
    Entry("Amazon-Computers", 13752, 245861, 767, 10, *pyg_source("Amazon", "Computers"), alias="computers"),
    Entry("Coauthor-CS", 18333, 81894, 6805, 15, *pyg_source("Coauthor", "CS"), binarise=True, alias="cs"),
    Entry(
        "Coauthor-Physics", 34493, 247962, 8415, 5, *pyg_source("Coauthor", "Physics"), binarise=True, alias="physics"
    ),
    # Averaged word vectors, signed like those of WikiCS.
    Entry("ogbn-arxiv", 169343, 1157799, 128, 40, *ogb_source("ogbn-arxiv"), alias="arxiv"),
    Entry("Texas", 183, 279, 1703, 5, *pyg_source("WebKB", "texas", split="geom"), row_normalise=True),
    Entry("Cornell", 183, 277, 1703, 5, *pyg_source("WebKB", "cornell", split="geom"), row_normalise=True),
    Entry("Wisconsin", 251, 450, 1703, 5, *pyg_source("WebKB", "wisconsin", split="geom"), row_normalise=True),
    Entry(
        "Chameleon",
        2277,
        31371,
        2325,
        5,
        *pyg_source("WikipediaNetwork", "chameleon", split="geom"),
        row_normalise=True,
    ),
    Entry(
        "Squirrel", 5201, 198353, 2089, 5, *pyg_source("WikipediaNetwork", "squirrel", split="geom"), row_normalise=True
    ),
    Entry("Actor", 7600, 26659, 932, 5, *pyg_source("Actor", split="geom"), row_normalise=True),
    Entry("demo", 2700, 5016, 1400, 7, "generated", None, demo_source, None),
)


CATALOGUE = {entry.name.lower(): entry for entry in _ENTRIES}
