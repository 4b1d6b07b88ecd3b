"""Loaders of named graphs: PyTorch Geometric, the Open Graph Benchmark, and the generated demo."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch
from torch_geometric.data import Data
from torch_geometric.utils import index_to_mask

from epagcl.core.errors import MissingExtra
from epagcl.data.generators import demo
from epagcl.data.splits import PARTS

#: A function that returns the raw graph. It downloads the graph if the given root folder does not have it.
Fetch = Callable[[Path], Data]
#: The kind of published splits: the splits of the dataset, the ten splits of Geom-GCN, or none.
SplitKind = Literal["public", "geom"] | None
#: The fields ``home``, ``folder``, ``fetch`` and ``split`` of an :class:`~epagcl.data.catalogue.entries.Entry`.
Source = tuple[str, str | None, Fetch, SplitKind]


def pyg_source(dataset: str, name: str | None = None, split: SplitKind = None, **settings: bool) -> Source:
    """Return the source of a graph that a dataset class of PyG loads.

    Args:
        dataset: name of the class in ``torch_geometric.datasets``.
        name: its argument ``name``, if it has one.
        split: the published splits.
        settings: further arguments of the class.
    """

    def fetch(root: Path) -> Data:
        import torch_geometric.datasets

        arguments: dict[str, str | bool] = dict(settings)
        if name is not None:
            arguments["name"] = name
        data = getattr(torch_geometric.datasets, dataset)(str(root / "pyg" / dataset), **arguments)[0]
        if split == "geom":  # PyG stores Geom-GCN's splits under the names of a public split
            for part in PARTS:
                data[f"geom_{part}_mask"] = data[f"{part}_mask"]
        return data

    return f"PyG {dataset}", "/".join(filter(None, ("pyg", dataset, name))), fetch, split


def ogb_source(name: str) -> Source:
    """Return the source of a node-classification graph of the Open Graph Benchmark."""
    folder = f"ogb/{name.replace('-', '_')}"

    def fetch(root: Path) -> Data:
        try:
            from ogb.nodeproppred import PygNodePropPredDataset
        except ModuleNotFoundError as error:
            raise MissingExtra("ogb", "ogb", name) from error
        from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
        from torch_geometric.data.storage import GlobalStorage

        # Without this file, OGB asks on the terminal what to do with the folder.
        if (root / folder).exists() and not (root / folder / "RELEASE_v1.txt").exists():
            raise FileNotFoundError("RELEASE_v1.txt is missing")
        # OGB (1.3.6) reads its cache with a plain torch.load, which since torch 2.6 accepts only listed classes.
        # A Data object consists of these three.
        safe = torch.serialization.safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage])
        with safe, warnings.catch_warnings():
            # OGB converts tables to tensors. The tables are read-only in pandas 3, but OGB does not write to them.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            dataset = PygNodePropPredDataset(name, root=str(root / "ogb"))
            nodes = dataset.get_idx_split()
        data = dataset[0]
        for part, key in zip(PARTS, ("train", "valid", "test"), strict=True):
            data[f"{part}_mask"] = index_to_mask(nodes[key], data.num_nodes)
        return data

    return "OGB", folder, fetch, "public"


def fetch_demo(root: Path) -> Data:
    """Return the demo graph, which is generated; ``root`` is not used."""
    return demo()
