"""A small graph in the published raw format of each source."""

import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from torch_geometric.data import Data

PARTS = ("train", "val", "test")


def raw_graph(num_nodes: int, values: tuple[float, ...] = (1.0,), seed: int = 0) -> Data:
    """Return a ring with chords, 12 feature columns (15% dense, row 0 empty), 3 classes."""
    rng = np.random.default_rng(seed)
    i = np.arange(num_nodes)
    edges = np.concatenate([np.stack([i, (i + 1) % num_nodes]), np.stack([i[:3], i[:3] + 5])], axis=1)
    x = np.where(rng.random((num_nodes, 12)) < 0.15, rng.choice(values, (num_nodes, 12)), 0)
    x[0] = 0
    x[-1, -1] = values[0]  # the last column exists in formats that list column numbers
    return Data(
        x=torch.from_numpy(x).float(),
        edge_index=torch.from_numpy(edges),
        y=torch.from_numpy(i % 3),
        num_nodes=num_nodes,
    )


def with_masks(data: Data, prefix: str = "", columns: int = 10) -> Data:
    """Add masks with columns: node i is in part (i + column) mod 3."""
    part = (torch.arange(data.num_nodes)[:, None] + torch.arange(columns)) % 3
    for k, name in enumerate(PARTS):
        data[f"{prefix}{name}_mask"] = part == k
    return data


def csr(x: torch.Tensor, prefix: str) -> dict[str, np.ndarray]:
    matrix = scipy.sparse.csr_matrix(x.numpy())
    return {
        f"{prefix}_data": matrix.data,
        f"{prefix}_indices": matrix.indices,
        f"{prefix}_indptr": matrix.indptr,
        f"{prefix}_shape": np.array(matrix.shape),
    }


def write_planetoid(root: Path) -> Data:
    """Write the pickles ind.cora.*: the last nodes are the test nodes, listed out of order; 500 are for validation."""
    data = raw_graph(530)
    test_index = np.arange(520, 530)[::-1]
    x, y = scipy.sparse.csr_matrix(data.x.numpy()), np.eye(3)[data.y.numpy()]
    neighbours = {i: [] for i in range(530)}
    for i, j in data.edge_index.t().tolist():
        neighbours[i].append(j)
        neighbours[j].append(i)
    neighbours[7].append(7)
    folder = root / "pyg/Planetoid/Cora/raw"
    folder.mkdir(parents=True)
    objects = {"x": x[:6], "tx": x[test_index], "allx": x[:520]}
    objects |= {"y": y[:6], "ty": y[test_index], "ally": y[:520], "graph": neighbours}
    for name, value in objects.items():
        (folder / f"ind.cora.{name}").write_bytes(pickle.dumps(value))
    (folder / "ind.cora.test.index").write_text("".join(f"{i}\n" for i in test_index))
    i = torch.arange(530)
    data.train_mask, data.val_mask, data.test_mask = i < 6, (i >= 6) & (i < 506), i >= 520
    return data


def write_gnn_benchmark(root: Path, folder: str, file: str, values: tuple[float, ...]) -> Data:
    """Write the format of shchur/gnn-benchmark: adjacency (one direction here) and attributes as CSR parts."""
    data = raw_graph(15, values)
    adjacency = torch.zeros(15, 15).index_put_(tuple(data.edge_index), torch.ones(()))
    (root / folder).mkdir(parents=True)
    arrays = {**csr(data.x, "attr"), **csr(adjacency, "adj"), "labels": data.y.numpy()}
    np.savez(root / folder / file, **arrays)
    return data


def write_amazon(root: Path) -> Data:
    return write_gnn_benchmark(root, "pyg/Amazon/Photo/raw", "amazon_electronics_photo.npz", (1.0,))


def write_coauthor(root: Path) -> Data:
    return write_gnn_benchmark(root, "pyg/Coauthor/CS/raw", "ms_academic_cs.npz", (1.0, 2.0, 40.0))


def write_wikics(root: Path) -> Data:
    """Write one JSON file: dense signed features, directed links, 20 splits as lists of masks, one test mask."""
    data = with_masks(raw_graph(15), columns=20)
    data.x = torch.linspace(-1, 1, 15 * 4).reshape(15, 4)
    data.test_mask = data.test_mask[:, 0].clone()
    links = [[] for _ in range(15)]
    for i, j in data.edge_index.t().tolist():
        links[i].append(j)
    folder = root / "pyg/WikiCS/raw"
    folder.mkdir(parents=True)
    content = {
        "features": data.x.tolist(),
        "labels": data.y.tolist(),
        "links": links,
        "train_masks": data.train_mask.t().tolist(),
        "val_masks": data.val_mask.t().tolist(),
        "stopping_masks": data.val_mask.t().tolist(),
        "test_mask": data.test_mask.tolist(),
    }
    (folder / "data.json").write_text(json.dumps(content))
    return data


def write_geom(root: Path, folder: str, name: str, sparse: bool = False) -> Data:
    """Write the format of Geom-GCN: tab-separated nodes, directed edges (one self-loop here), and ten split files."""
    data = with_masks(raw_graph(15), prefix="geom_")
    if sparse:
        empty = (data.x.sum(1) == 0).nonzero()[:, 0]
        data.x[empty, empty % 12] = 1  # the format cannot store an empty row
    (root / folder).mkdir(parents=True)
    lines = ["node_id\tfeature\tlabel"]
    for i, (row, label) in enumerate(zip(data.x.long(), data.y.tolist(), strict=True)):
        features = row.nonzero()[:, 0] if sparse else row
        lines.append(f"{i}\t{','.join(map(str, features.tolist()))}\t{label}")
    (root / folder / "out1_node_feature_label.txt").write_text("\n".join(lines) + "\n")
    edges = ["node_id\tnode_id", "4\t4", *(f"{i}\t{j}" for i, j in data.edge_index.t().tolist())]
    (root / folder / "out1_graph_edges.txt").write_text("\n".join(edges) + "\n")
    for k in range(10):
        masks = {f"{part}_mask": data[f"geom_{part}_mask"][:, k].numpy() for part in PARTS}
        np.savez(root / folder / f"{name}_split_0.6_0.2_{k}.npz", **masks)
    return data


def write_webkb(root: Path) -> Data:
    return write_geom(root, "pyg/WebKB/texas/raw", "texas")


def write_wikipedia(root: Path) -> Data:
    return write_geom(root, "pyg/WikipediaNetwork/chameleon/geom_gcn/raw", "chameleon")


def write_actor(root: Path) -> Data:
    return write_geom(root, "pyg/Actor/raw", "film", sparse=True)


def write_ogb(root: Path) -> Data:
    """Write the format of OGB: gzipped CSV without header, and a file that marks the release."""
    data = raw_graph(15)
    data.x = torch.linspace(-1, 1, 15 * 4).reshape(15, 4)
    data = with_masks(data, columns=1)
    for part in PARTS:
        data[f"{part}_mask"] = data[f"{part}_mask"][:, 0].clone()
    tables = {
        "raw/edge": data.edge_index.t(),
        "raw/node-feat": data.x,
        "raw/node-label": data.y[:, None],
        "raw/node_year": 2000 + data.y[:, None],
        "raw/num-node-list": torch.tensor([[15]]),
        "raw/num-edge-list": torch.tensor([[data.edge_index.shape[1]]]),
    }
    for part, name in zip(PARTS, ("train", "valid", "test"), strict=True):
        tables[f"split/time/{name}"] = data[f"{part}_mask"].nonzero()
    folder = root / "ogb/ogbn_arxiv"
    for name, table in tables.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        lines = (",".join(map(repr, row)) for row in table.tolist())
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode() + b"\n"))
    (folder / "RELEASE_v1.txt").touch()
    return data


def write_attributed(root: Path) -> Data:
    """Write the format of PANE: CSR attributes, which PyG leaves sparse above 10,000 columns, and classes from 1."""
    data = raw_graph(15, (1.0, 2.0, 40.0))
    data.x = torch.nn.functional.pad(data.x, (0, 10_000))
    folder = root / "pyg/AttributedGraphDataset/flickr/raw"
    folder.mkdir(parents=True)
    scipy.sparse.save_npz(folder / "attrs.npz", scipy.sparse.csr_matrix(data.x.numpy()))
    (folder / "edgelist.txt").write_text("".join(f"{i} {j}\n" for i, j in data.edge_index.t().tolist()))
    (folder / "labels.txt").write_text("".join(f"{i} {label + 1}\n" for i, label in enumerate(data.y.tolist())))
    return data


def write_facebook(root: Path) -> Data:
    """Write one .npz file: dense features, both directions of the edges and one self-loop, classes."""
    data = raw_graph(15)
    data.x = torch.linspace(-1, 1, 15 * 4).reshape(15, 4)
    folder = root / "pyg/FacebookPagePage/raw"
    folder.mkdir(parents=True)
    edges = torch.cat([data.edge_index, data.edge_index.flip(0), torch.tensor([[4], [4]])], dim=1).t()
    np.savez(folder / "facebook.npz", features=data.x.numpy(), edges=edges.numpy(), target=data.y.numpy())
    return data


SOURCES = {
    "Cora": write_planetoid,
    "Amazon-Photo": write_amazon,
    "Coauthor-CS": write_coauthor,
    "WikiCS": write_wikics,
    "Texas": write_webkb,
    "Chameleon": write_wikipedia,
    "Actor": write_actor,
    "Flickr": write_attributed,
    "Facebook": write_facebook,
    "ogbn-arxiv": write_ogb,
}


def assert_same(a: Data, b: Data) -> None:
    assert sorted(a.to_dict()) == sorted(b.to_dict())
    for key, value in a.to_dict().items():
        if isinstance(value, torch.Tensor):
            assert value.dtype == b[key].dtype, key
            assert value.layout == b[key].layout, key
            assert torch.equal(value.to_dense(), b[key].to_dense()), key
        else:
            assert value == b[key], key
