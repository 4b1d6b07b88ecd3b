"""Graphs: named ones, users' own, generated ones; their checking and their splits."""

from epagcl.data.catalogue import data_root, datasets, load
from epagcl.data.check import check, undirected_pairs
from epagcl.data.convert import from_networkx, from_scipy
from epagcl.data.frames import from_tables
from epagcl.data.generators import block_model
from epagcl.data.npz import read_npz, write_npz
from epagcl.data.readers import read_graph
from epagcl.data.splits import Split, geom_splits, public_splits, random_split
from epagcl.data.writers import write_embeddings, write_projector

__all__ = [
    "Split",
    "block_model",
    "check",
    "data_root",
    "datasets",
    "from_networkx",
    "from_scipy",
    "from_tables",
    "geom_splits",
    "load",
    "public_splits",
    "random_split",
    "read_graph",
    "read_npz",
    "undirected_pairs",
    "write_embeddings",
    "write_npz",
    "write_projector",
]
