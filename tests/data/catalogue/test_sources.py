"""Each source reads a small graph in its published raw format, offline, with the real loaders."""

import builtins
import sys

import pytest
import torch

from epagcl.core.errors import InputError, MissingExtra
from epagcl.data.catalogue.loading import load
from epagcl.data.io.npz import write_npz
from tests.data.catalogue.raw_files import (
    SOURCES,
    assert_same,
    write_ogb,
)


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
    assert_same(data, load(name, tmp_path / "library"))  # now from the library's cache

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
    if name in ("WikiCS", "ogbn-arxiv", "Facebook"):
        assert data.x.layout == torch.strided
        assert torch.equal(x, raw.x)
    else:
        assert data.x.layout == torch.sparse_csr
        binary = raw.x.double() if name == "Flickr" else (raw.x > 0).double()  # counts; binary, or binarised
        heterophilous = name in ("Texas", "Chameleon", "Actor")
        total = binary.sum(1, keepdim=True).clamp(min=1) if heterophilous else 1
        assert torch.equal(x, (binary / total).float())

    graph = load(name, tmp_path / "library", features=False)
    assert "x" not in graph
    del data.x
    assert_same(graph, data)


def test_ogb_does_not_ask_about_an_incomplete_folder(tmp_path, monkeypatch):
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
    with pytest.raises(MissingExtra, match=r"ogbn-arxiv needs ogb: pip install '\.\[ogb\]'"):
        load("arxiv", tmp_path)
