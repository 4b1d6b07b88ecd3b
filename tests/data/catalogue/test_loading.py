"""Loading of named graphs: files, downloads, sizes, and one line for every mistake."""

import io
import os
import pickle
import urllib.request
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from urllib.error import URLError

import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.data.catalogue import loading
from epagcl.data.catalogue.entries import CATALOGUE, find
from epagcl.data.catalogue.loading import Listing, data_root, datasets, load
from epagcl.data.io.npz import read_npz, write_npz
from tests.data.catalogue.raw_files import (
    PARTS,
    SOURCES,
    assert_same,
    raw_graph,
    with_masks,
    write_facebook,
    write_ogb,
    write_planetoid,
    write_webkb,
    write_wikics,
)


def listed(root: Path) -> dict[str, Listing]:
    return {line.name: line for line in datasets(root)}


def test_a_download_that_fails_is_one_line_and_leaves_nothing(tmp_path):
    for name in SOURCES:
        if name == "ogbn-arxiv":
            pytest.importorskip("ogb")
        with pytest.raises(InputError) as error:
            load(name, tmp_path)
        assert str(error.value) == (
            f"{name}: download ({find(name).home}) to {tmp_path} failed (no network); "
            f"connect to the internet, or set root= or EPAGCL_DATA to a folder with {name}.npz"
        )
        assert list(tmp_path.iterdir()) == []


def test_a_download_is_kept(tmp_path, small, monkeypatch):
    """PyG's own download code runs, but reads from a folder instead of the network."""
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


def test_a_download_that_another_process_finished_first_is_used(tmp_path, small, monkeypatch):
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
    with pytest.raises(InputError, match=r"Cora: cannot be read \(Ran out of input\); remove that folder to download"):
        load("Cora", tmp_path)


def test_a_file_without_features_names_the_fix(tmp_path, small):
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
def test_a_file_of_another_size_is_refused(tmp_path, small, monkeypatch, change):
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


def test_edges_of_wikics_are_not_compared_with_the_paper(tmp_path, small, monkeypatch):
    raw = write_wikics(tmp_path)
    small("WikiCS", raw)
    monkeypatch.setitem(CATALOGUE, "wikics", replace(CATALOGUE["wikics"], edges=216123))
    assert load("WikiCS", tmp_path).edge_index.shape == (2, 36)


def test_classes_of_a_file_are_numbered_from_0(tmp_path, small):
    raw = raw_graph(15)
    small("Flickr", raw)
    write_npz(raw.clone().update({"y": raw.y + 1}), tmp_path / "Flickr.npz")
    assert load("Flickr", tmp_path).y.tolist() == raw.y.tolist()


def test_the_features_of_facebook_depend_on_its_source(tmp_path, small, caplog):
    raw = write_facebook(tmp_path)
    small("Facebook", raw)
    entry = replace(find("Facebook"), features=12, download_features=4)
    CATALOGUE["facebook"] = entry  # the fixture restores it
    assert listed(tmp_path)["Facebook"].features == 4
    assert load("facebook", tmp_path).x.shape == (15, 4)
    words = "Facebook: the download (PyG FacebookPagePage) has 4 features, a reduction of the original 12; "
    assert caplog.messages == [words + "results differ from those of Facebook.npz"]
    caplog.clear()
    load("facebook", tmp_path, features=False)
    write_npz(raw_graph(15), tmp_path / "Facebook.npz")
    assert listed(tmp_path)["Facebook"].features == 12
    assert load("facebook", tmp_path).x.shape == (15, 12)
    assert caplog.messages == []


def test_the_demo_is_generated(tmp_path, monkeypatch, small):
    raw = raw_graph(15)
    small("demo", raw)
    monkeypatch.setattr("epagcl.data.catalogue.sources.demo", lambda: raw)
    data = load("demo", tmp_path / "absent")
    assert data.name == "demo"
    assert data.edge_index.shape == (2, 36)
    assert torch.equal(data.x.to_dense(), raw.x)
    assert list(tmp_path.iterdir()) == []


def test_the_demo_has_the_size_of_its_entry(tmp_path):
    data = load("demo", tmp_path)  # verifies nodes, edges, features and classes
    assert data.x.layout == torch.sparse_csr


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


def test_the_list_names_the_source_of_a_graph(tmp_path):
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
        assert int(empty.sum()) == {"CiteSeer": 15, "Chameleon": 233, "Squirrel": 165, "Flickr": 11}.get(name, 0)
        if entry.row_normalise:
            torch.testing.assert_close(sums[~empty], torch.ones(int((~empty).sum())))
        elif name not in ("PubMed", "Flickr"):  # TF-IDF, counts
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


@with_real_data
def test_the_catalogue_names_the_graphs_that_have_the_same_nodes():
    loaded = {
        entry.name: load(entry.name, REAL)
        for entry in CATALOGUE.values()
        if entry.nodes < 3000 and (Path(REAL) / f"{entry.name}.npz").exists()
    }
    for first, second in combinations(loaded.values(), 2):
        equal = first.x.shape == second.x.shape and bool((first.x.to_dense() == second.x.to_dense()).all())
        assert equal == ({first.name, second.name} == {"Texas", "Cornell"}), (first.name, second.name)
        if equal:
            assert torch.equal(first.y, second.y)
            assert not torch.equal(first.edge_index, second.edge_index)
    assert {entry.name: entry.same_nodes for entry in CATALOGUE.values() if entry.same_nodes} == {"Cornell": "Texas"}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (URLError(OSError(-2, "Name or service not known")), "[Errno -2] Name or service not known"),
        (ValueError("bad file\nat line 3"), "bad file"),
        (EOFError(), "EOFError"),
        (pickle.UnpicklingError("a pickle that names posix.system"), "a pickle that names posix.system"),
        (pickle.UnpicklingError("use weights_only=False"), "a pickle that names code, which is not run"),
    ],
)
def test_the_reason_of_a_failed_download_is_in_words(error, words):
    assert loading._reason(error) == words
