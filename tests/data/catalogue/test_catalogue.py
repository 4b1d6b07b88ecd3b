"""Each source is fed a small graph in its published raw format; the loaders are the real ones, offline."""

import builtins
import gzip
import io
import json
import os
import pickle
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
import torch
import torch_geometric.io
from torch_geometric.data import Data

from epagcl.core.errors import InputError, MissingExtra
from epagcl.data.catalogue import row_normalise
from epagcl.data.catalogue.entries import CATALOGUE, find
from epagcl.data.catalogue.loading import Listing, data_root, datasets, load
from epagcl.data.io.npz import read_npz, write_npz

PARTS = ("train", "val", "test")


def raw_graph(num_nodes: int, values: tuple[float, ...] = (1.0,), seed: int = 0) -> Data:
    """A ring with chords, 12 feature columns (15% dense, row 0 empty), 3 classes."""
    rng = np.random.default_rng(seed)
    i = np.arange(num_nodes)
    edges = np.concatenate([np.stack([i, (i + 1) % num_nodes]), np.stack([i[:3], i[:3] + 5])], axis=1)
    x = np.where(rng.random((num_nodes, 12)) < 0.15, rng.choice(values, (num_nodes, 12)), 0)
    x[0] = 0
    x[-1, -1] = values[0]  # so that formats that list columns know of the last one
    return Data(
        x=torch.from_numpy(x).float(),
        edge_index=torch.from_numpy(edges),
        y=torch.from_numpy(i % 3),
        num_nodes=num_nodes,
    )


def with_masks(data: Data, prefix: str = "", columns: int = 10) -> Data:
    """Columns of masks: node i is in part (i + column) mod 3."""
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
    """Pickles ind.cora.*: the last nodes are the test nodes, listed out of order; 500 are for validation."""
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
    """shchur/gnn-benchmark: adjacency (one direction here) and attributes as CSR parts."""
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
    """One JSON file: dense signed features, directed links, 20 splits as lists of masks, one test mask."""
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
    """Geom-GCN: tab-separated nodes and directed edges (one self-loop here), and ten split files."""
    data = with_masks(raw_graph(15), prefix="geom_")
    if sparse:
        empty = (data.x.sum(1) == 0).nonzero()[:, 0]
        data.x[empty, empty % 12] = 1  # a list of columns cannot be empty
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
    """OGB: gzipped CSV without header, and a file that marks the release."""
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


@pytest.fixture
def small(monkeypatch):
    """Give a named graph the size of a small one."""

    def small(name: str, data: Data) -> None:
        entry = find(name)
        size = {
            "nodes": data.num_nodes,
            "edges": data.num_nodes + 3,
            "features": data.x.shape[1],
            "classes": 3,
        }
        monkeypatch.setitem(CATALOGUE, entry.name.lower(), replace(entry, **size))

    return small


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(torch_geometric.io.fs, "cp", refuse)


def listed(root: Path) -> dict[str, Listing]:
    return {line.name: line for line in datasets(root)}


def assert_same(a: Data, b: Data) -> None:
    assert sorted(a.to_dict()) == sorted(b.to_dict())
    for key, value in a.to_dict().items():
        if isinstance(value, torch.Tensor):
            assert value.dtype == b[key].dtype, key
            assert value.layout == b[key].layout, key
            assert torch.equal(value.to_dense(), b[key].to_dense()), key
        else:
            assert value == b[key], key


SOURCES = {
    "Cora": write_planetoid,
    "Amazon-Photo": write_amazon,
    "Coauthor-CS": write_coauthor,
    "WikiCS": write_wikics,
    "Texas": write_webkb,
    "Chameleon": write_wikipedia,
    "Actor": write_actor,
    "ogbn-arxiv": write_ogb,
}


@pytest.mark.parametrize("name", SOURCES)
def test_library_and_file_give_the_same_graph(name, tmp_path, small, capfd):
    if name == "ogbn-arxiv":
        pytest.importorskip("ogb")
    raw = SOURCES[name](tmp_path / "library")
    small(name, raw)
    data = load(name, tmp_path / "library")
    assert capfd.readouterr().out == ""
    write_npz(raw, tmp_path / f"{name}.npz")
    assert_same(data, load(name, tmp_path))
    assert_same(data, load(name, tmp_path / "library"))  # now from what the library has kept

    pairs = {(min(i, j), max(i, j)) for i, j in raw.edge_index.t().tolist()}
    both = sorted(pairs | {(j, i) for i, j in pairs})
    assert [tuple(edge) for edge in data.edge_index.t().tolist()] == both
    assert data.y.tolist() == raw.y.tolist()
    assert data.name == name
    masks = {key: value for key, value in raw.to_dict().items() if key.endswith("_mask")}
    assert {key for key in data.to_dict() if key.endswith("_mask")} == set(masks)
    for key, mask in masks.items():
        assert torch.equal(data[key], mask)

    x = data.x.to_dense()
    if name in ("WikiCS", "ogbn-arxiv"):
        assert data.x.layout == torch.strided
        assert torch.equal(x, raw.x)
    else:
        assert data.x.layout == torch.sparse_csr
        known = (raw.x > 0).double()  # 0 or 1, or made so
        heterophilous = name in ("Texas", "Chameleon", "Actor")
        total = known.sum(1, keepdim=True).clamp(min=1) if heterophilous else 1
        assert torch.equal(x, (known / total).float())

    graph = load(name, tmp_path / "library", features=False)
    assert "x" not in graph
    del data.x
    assert_same(graph, data)


def test_a_download_that_fails_is_one_line_and_leaves_nothing(tmp_path):
    for name in SOURCES:
        if name == "ogbn-arxiv":
            pytest.importorskip("ogb")
        with pytest.raises(InputError) as error:
            load(name, tmp_path)
        assert str(error.value) == (
            f"{name}: download ({find(name).home}) to {tmp_path} failed (OSError: no network); "
            f"set --data or EPAGCL_DATA to a folder with {name}.npz, or connect to the internet"
        )
        assert list(tmp_path.iterdir()) == []


def test_a_download_is_kept(tmp_path, small, monkeypatch):
    """The class's own download, from a folder instead of the net."""
    raw = write_webkb(tmp_path / "net")
    small("Texas", raw)

    def download(url, *args, **kwargs):
        return io.BytesIO((tmp_path / "net/pyg/WebKB/texas/raw" / url.rpartition("/")[2]).read_bytes())

    monkeypatch.setattr(urllib.request, "urlopen", download)
    assert listed(tmp_path / "root")["Texas"].source == "download (PyG WebKB)"
    first = load("texas", tmp_path / "root")
    assert listed(tmp_path / "root")["Texas"].source == "pyg cache"
    monkeypatch.undo()
    small("Texas", raw)
    assert_same(load("texas", tmp_path / "root"), first)
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["pyg"]


def test_a_download_that_another_process_finished_first_is_no_error(tmp_path, small, monkeypatch):
    raw = write_webkb(tmp_path / "net")
    small("Texas", raw)
    fetch = find("Texas").fetch

    def slow(root):
        os.renames(tmp_path / "net/pyg/WebKB/texas", root / "pyg/WebKB/texas")
        data = fetch(root)
        write_webkb(tmp_path / "root")
        return data

    monkeypatch.setitem(CATALOGUE, "texas", replace(find("Texas"), fetch=slow))
    assert load("Texas", tmp_path / "root").num_nodes == 15


def test_a_broken_cache_names_its_folder(tmp_path):
    folder = tmp_path / "pyg/Planetoid/Cora"
    write_planetoid(tmp_path)
    (folder / "raw/ind.cora.graph").write_bytes(b"")
    with pytest.raises(InputError, match=r"Cora: cannot be read .EOFError.*; remove that folder to download Cora"):
        load("Cora", tmp_path)


def test_ogb_is_never_asked_about_half_a_folder(tmp_path, monkeypatch):
    pytest.importorskip("ogb")
    write_ogb(tmp_path)
    (tmp_path / "ogb/ogbn_arxiv/RELEASE_v1.txt").unlink()
    monkeypatch.setattr(builtins, "input", lambda *_: pytest.fail("asked on the terminal"))
    with pytest.raises(InputError, match=r"ogbn_arxiv: cannot be read .*RELEASE_v1.txt is missing.; remove that"):
        load("ogbn-arxiv", tmp_path)


@pytest.mark.parametrize("cached", [False, True])
def test_ogb_not_installed(tmp_path, monkeypatch, cached):
    if cached:
        write_ogb(tmp_path)
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", None)
    with pytest.raises(MissingExtra, match=r"ogbn-arxiv needs ogb: pip install 'epagcl\[ogb\]'"):
        load("arxiv", tmp_path)


def test_a_file_without_features_says_how_to_give_them(tmp_path, small):
    raw = with_masks(raw_graph(15), columns=1)
    small("ogbn-arxiv", raw)
    del raw.x
    write_npz(raw, tmp_path / "ogbn-arxiv.npz")
    with pytest.raises(InputError, match=r"ogbn-arxiv.npz: no features; add them to the file as x \(15 × 12\)"):
        load("arxiv", tmp_path)
    data = load("arxiv", tmp_path, features=False)
    assert sorted(data.to_dict()) == [
        "edge_index",
        "name",
        "num_nodes",
        "test_mask",
        "train_mask",
        "val_mask",
        "y",
    ]


@pytest.mark.parametrize("change", [{"nodes": 2708}, {"edges": 5}, {"features": 1433}, {"classes": 7}])
def test_a_file_of_another_size_is_not_the_graph(tmp_path, small, monkeypatch, change):
    raw = raw_graph(15)
    small("Cora", raw)
    write_npz(raw, tmp_path / "Cora.npz")
    load("Cora", tmp_path)
    monkeypatch.setitem(CATALOGUE, "cora", replace(CATALOGUE["cora"], **change))
    ((what, expected),) = change.items()
    found = {"nodes": 15, "edges": 18, "features": 12, "classes": 3}[what]
    with pytest.raises(InputError) as error:
        load("Cora", tmp_path)
    assert str(error.value) == (
        f"{tmp_path / 'Cora.npz'}: {found} {what}, expected {expected:,}; this is not the published Cora; "
        "rename or remove it"
    )


def test_edges_of_wikics_are_not_held_against_the_paper(tmp_path, small, monkeypatch):
    raw = write_wikics(tmp_path)
    small("WikiCS", raw)
    monkeypatch.setitem(CATALOGUE, "wikics", replace(CATALOGUE["wikics"], edges=216123))
    assert load("WikiCS", tmp_path).edge_index.shape == (2, 36)


def test_the_demo_is_generated(tmp_path, monkeypatch, small):
    raw = raw_graph(15)
    small("demo", raw)
    monkeypatch.setitem(sys.modules, "epagcl.data.generators", SimpleNamespace(demo=lambda: raw))
    data = load("demo", tmp_path / "absent")
    assert data.name == "demo"
    assert data.edge_index.shape == (2, 36)
    assert torch.equal(data.x.to_dense(), raw.x)
    assert list(tmp_path.iterdir()) == []


def test_the_demo_has_the_size_of_its_entry(tmp_path):
    data = load("demo", tmp_path)  # verifies nodes, edges, features and classes
    assert data.x.layout == torch.sparse_csr


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("CORA", "Cora"),
        (" citeseer ", "CiteSeer"),
        ("amazon_photo", "Amazon-Photo"),
        ("Amazon Computers", "Amazon-Computers"),
        ("photo", "Amazon-Photo"),
        ("computers", "Amazon-Computers"),
        ("CS", "Coauthor-CS"),
        ("Physics", "Coauthor-Physics"),
        ("arxiv", "ogbn-arxiv"),
        ("OGBN_ARXIV", "ogbn-arxiv"),
    ],
)
def test_names(written, name):
    assert find(written).name == name


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(InputError, match=r"^no graph is named 'coar'; did you mean Cora\? `epagcl datasets` lists"):
        load("coar")
    with pytest.raises(InputError, match=r"^no graph is named 'zzz'; `epagcl datasets` lists the names$"):
        load("zzz")


def test_the_data_root(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("EPAGCL_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data_root() == Path("/home/me/.cache/epagcl")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert data_root() == Path("/cache/epagcl")
    monkeypatch.setenv("EPAGCL_DATA", "~/graphs")
    assert data_root() == Path("/home/me/graphs")
    assert data_root(tmp_path) == tmp_path


def test_the_list_says_where_a_graph_comes_from(tmp_path):
    write_npz(raw_graph(15), tmp_path / "PubMed.npz")
    write_ogb(tmp_path)
    lines = listed(tmp_path)
    assert lines["PubMed"].source == f"file {tmp_path / 'PubMed.npz'}"
    assert lines["ogbn-arxiv"].source == "ogb cache"
    assert lines["Actor"].source == "download (PyG Actor)"
    assert lines["demo"].source == "generated"
    cora = lines["Cora"]
    assert (cora.nodes, cora.edges, cora.features, cora.classes) == (2708, 5278, 1433, 7)
    assert lines["WikiCS"].edges == 216_123


@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_csr])
def test_rows_are_divided_by_their_sum(layout):
    x = torch.tensor([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.25, 0.25], [2.0, -2.0, 0.0]])
    out = row_normalise(x.to_sparse_csr() if layout == torch.sparse_csr else x)
    assert out.layout == layout
    assert out.dtype == torch.float32
    assert out.to_dense().tolist() == [[0.25, 0.75, 0], [0, 0, 0], [0, 0.5, 0.5], [2, -2, 0]]


REAL = os.environ.get("EPAGCL_DATA")
with_real_data = pytest.mark.skipif(not REAL, reason="EPAGCL_DATA is not set")


@with_real_data
@pytest.mark.parametrize("name", [entry.name for entry in CATALOGUE.values() if entry.folder])
def test_real_graph(name):
    file = Path(REAL) / f"{name}.npz"
    if not file.exists():
        pytest.skip(f"no {file.name}")
    entry = find(name)
    has_features = name != "ogbn-arxiv"
    data = load(name, REAL, features=has_features)  # verifies nodes, edges, features and classes
    i, j = data.edge_index
    assert (i != j).all()
    assert torch.equal(i * entry.nodes + j, (i * entry.nodes + j).unique())
    if has_features:
        assert data.x.layout == (torch.strided if name.startswith("Amazon") else torch.sparse_csr)
        sums = data.x.to_dense().sum(1) if data.x.layout == torch.strided else data.x @ torch.ones(entry.features)
        empty = sums == 0
        assert int(empty.sum()) == {"CiteSeer": 15, "Chameleon": 233, "Squirrel": 165}.get(name, 0)
        if entry.row_normalise:
            torch.testing.assert_close(sums[~empty], torch.ones(int((~empty).sum())))
        elif name != "PubMed":  # TF-IDF
            assert set(data.x.to_dense().unique().tolist()) == {0, 1}
    sizes = {
        "Cora": [140, 500, 1000],
        "CiteSeer": [120, 500, 1000],
        "PubMed": [60, 500, 1000],
        "ogbn-arxiv": [90941, 29799, 48603],
    }
    if entry.split == "public":
        assert [int(data[f"{part}_mask"].sum()) for part in PARTS] == sizes[name]
    if entry.split == "geom":
        assert data.geom_train_mask.shape == (entry.nodes, 10)
        parts = sum(data[f"geom_{part}_mask"].int() for part in PARTS)
        assert int(parts.max()) == 1


@with_real_data
def test_real_coauthor_counts_are_binarised():
    if not (Path(REAL) / "Coauthor-CS.npz").exists():
        pytest.skip("no Coauthor-CS.npz")
    assert read_npz(Path(REAL) / "Coauthor-CS.npz").x.values().max() == 105
    assert load("cs", REAL).x.values().unique().tolist() == [1]
