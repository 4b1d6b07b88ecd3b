"""Graphs: named, generated, or read from users' files and tables; their validation and their splits.

============== ==================================================================
module         content
============== ==================================================================
``catalogue``  named graphs (Cora, ...) and where they are loaded from
``structural`` features computed from the edges
``io``         users' files, tables, NetworkX and SciPy graphs; the .npz format
``disk``       graphs on disk, larger than memory
``generators`` generated graphs
``checking``   validation: every graph passes :func:`check`
``labels``     labels as class numbers
``relations``  kinds and directions of edges
``splits``     training, validation and test nodes
``graph``      :class:`~epagcl.data.graph.Graph`, the form that methods train on
============== ==================================================================
"""

from epagcl.core.moved import moved_names
from epagcl.data.catalogue import data_root, datasets, load
from epagcl.data.checking import check, undirected_pairs
from epagcl.data.disk.graph import OnDiskGraph
from epagcl.data.disk.ingest.run import ingest
from epagcl.data.generators import block_model
from epagcl.data.io.convert import from_networkx, from_scipy
from epagcl.data.io.from_tables import from_tables
from epagcl.data.io.hetero import from_hetero
from epagcl.data.io.npz import read_npz, write_npz
from epagcl.data.io.readers import read_graph
from epagcl.data.splits import Split, geom_splits, public_splits, random_split
from epagcl.data.structural import structural_features, with_structural_features

__all__ = [
    "OnDiskGraph",
    "Split",
    "block_model",
    "check",
    "data_root",
    "datasets",
    "from_hetero",
    "from_networkx",
    "from_scipy",
    "from_tables",
    "geom_splits",
    "ingest",
    "load",
    "public_splits",
    "random_split",
    "read_graph",
    "read_npz",
    "structural_features",
    "undirected_pairs",
    "with_structural_features",
    "write_npz",
]

__getattr__ = moved_names(
    __name__,
    {"write_embeddings": "epagcl.runs.write_embeddings", "write_projector": "epagcl.runs.write_projector"},
)
