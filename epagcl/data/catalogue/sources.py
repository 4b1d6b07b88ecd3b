"""The graphs that have a name. Adding a dataset = one entry in ``CATALOGUE``.

A named graph is taken from ``<root>/<Name>.npz`` if that file is there (:mod:`epagcl.data.io.npz`), else from
PyTorch Geometric or OGB, which download it into ``<root>/pyg`` or ``<root>/ogb``. Both ways give the same
``Data``.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch
from torch_geometric.data import Data
from torch_geometric.utils import index_to_mask

from epagcl.core.errors import MissingExtra
from epagcl.data.splits import PARTS

Fetch = Callable[[Path], Data]
SplitKind = Literal["public", "geom"] | None
Source = tuple[str, str | None, Fetch, SplitKind]  # home, folder, fetch and split of an entry


def pyg_source(dataset: str, name: str | None = None, split: SplitKind = None, **settings: bool) -> Source:
    """A graph that a dataset class of PyG offers."""

    def fetch(root: Path) -> Data:
        import torch_geometric.datasets

        named = {} if name is None else {"name": name}
        data = getattr(torch_geometric.datasets, dataset)(str(root / "pyg" / dataset), **named, **settings)[0]
        if split == "geom":  # PyG gives Geom-GCN's splits the names of a public split
            for part in PARTS:
                data[f"geom_{part}_mask"] = data[f"{part}_mask"]
        return data

    return f"PyG {dataset}", "/".join(filter(None, ("pyg", dataset, name))), fetch, split


def ogb_source(name: str) -> Source:
    """A node-classification graph of the Open Graph Benchmark."""
    folder = f"ogb/{name.replace('-', '_')}"

    def fetch(root: Path) -> Data:
        try:
            from ogb.nodeproppred import PygNodePropPredDataset
        except ModuleNotFoundError as error:
            raise MissingExtra("ogb", "ogb", name) from error
        from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
        from torch_geometric.data.storage import GlobalStorage

        # OGB asks on the terminal what to do with a folder that lacks its mark.
        if (root / folder).exists() and not (root / folder / "RELEASE_v1.txt").exists():
            raise FileNotFoundError("RELEASE_v1.txt is missing")
        # OGB (1.3.6) reads its cache by a plain torch.load, which since torch 2.6 admits only listed classes;
        # these three make up a Data.
        safe = torch.serialization.safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage])
        with safe, warnings.catch_warnings():
            # The tables that it turns into tensors are read-only in pandas 3; nobody writes to them.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            dataset = PygNodePropPredDataset(name, root=str(root / "ogb"))
            parts = dataset.get_idx_split()
        data = dataset[0]
        for part, key in zip(PARTS, ("train", "valid", "test"), strict=True):
            data[f"{part}_mask"] = index_to_mask(parts[key], data.num_nodes)
        return data

    return "OGB", folder, fetch, "public"


def demo_source(root: Path) -> Data:
    from epagcl.data.generators import demo

    return demo()
