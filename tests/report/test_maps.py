"""Maps in the plane: t-SNE, UMAP and principal components."""

import numpy as np
import pytest
import torch

from epagcl.core.errors import InputError, MissingExtra
from epagcl.report import maps
from epagcl.report.maps import check_kind, choose_kind, flat_map, principal_components


def blobs(n=90, classes=3, d=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % classes
    return torch.randn(classes, d, generator=generator)[y] + 0.05 * torch.randn(n, d, generator=generator), y


def test_principal_components_are_those_of_the_svd():
    z, _ = blobs()
    rows = torch.nn.functional.normalize(z, dim=1).double()
    rows = rows - rows.mean(0)
    u, s, _ = torch.linalg.svd(rows, full_matrices=False)
    components = principal_components(z, 3).double()
    torch.testing.assert_close(components.abs(), (u * s)[:, :3].abs(), atol=1e-4, rtol=1e-3)
    assert principal_components(z, 50).shape == (90, 12)
    assert principal_components(z[:, :1], 2).shape == (90, 2)


def test_signs_do_not_depend_on_the_order_of_nodes():
    z, _ = blobs()
    order = torch.randperm(90, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(principal_components(z, 2)[order], principal_components(z[order], 2), atol=1e-4, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tsne", "pca", pytest.param("umap", marks=pytest.mark.long)])
def test_a_map_keeps_groups_together(kind):
    if kind == "umap":
        pytest.importorskip("umap")
    z, y = blobs()
    places = flat_map(z, kind, seed=0)
    distance = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    assert (y[distance.argmin(1)] == y).all()
    if kind != "umap":
        np.testing.assert_array_equal(places, flat_map(z, kind, seed=0))


def test_auto_is_tsne_for_few_nodes_then_umap_if_installed_else_pca(monkeypatch):
    assert choose_kind("auto", 2708) == "tsne"
    monkeypatch.setattr(maps.importlib.util, "find_spec", lambda name: object())
    assert choose_kind("auto", maps.MAX_TSNE_NODES + 1) == "umap"
    monkeypatch.setattr(maps.importlib.util, "find_spec", lambda name: None)
    assert choose_kind("auto", maps.MAX_TSNE_NODES + 1) == "pca"
    assert choose_kind("auto", 3) == "pca"  # too few for t-SNE
    assert choose_kind("none", 2708) == "none"
    assert choose_kind("tsne", 50_000) == "tsne"


def test_maps_that_cannot_be_drawn_are_refused(monkeypatch):
    with pytest.raises(InputError, match=r"^kind='star': choose one of auto, tsne"):
        check_kind("star")
    with pytest.raises(InputError, match=r"^--map star: choose one of auto, tsne"):
        check_kind("star", "--map")
    monkeypatch.setattr(maps.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"a UMAP map needs umap-learn: pip install '\.\[report\]'"):
        check_kind("umap")
