import math

import pytest
import torch

import epagcl
from epagcl.core.errors import InputError
from epagcl.data import block_model
from epagcl.data.graph import Graph
from epagcl.data.large import Arrays
from epagcl.losses.infonce.tiled_bf16 import TILE, _slices
from epagcl.methods.work import MODELLED, Sizes, sizes_of, work_of

SIZES = Sizes(1000, 5000, 600)


def test_the_products_of_epagcl_are_counted_by_hand():
    model = epagcl.EPAGCL(hidden=64, dim=32, projection=16, p_drop_1=0.0, p_drop_2=0.0, p_add=0.0)
    work = work_of(model, SIZES)
    n, views = 1000, 2
    # Features need no gradient: two products; every other layer has three. X W comes first, since 600 > 2·64.
    assert work.single == views * n * 4 * 600 * 64
    assert work.dense == views * n * 6 * (64 * 32 + 32 * 16 + 16 * 32)
    assert work.loss == 3 * 2 * (2 * n) ** 2 * 32
    assert work.similarities == (2 * n) ** 2
    assert work.parameters == 600 * 64 + 64 * 32 + 2 * 32 * 16
    assert work.gathered == 4 * views * 2 * (64 + 32) * (10_000 + 1000)
    # Five blocks in float32 and two in bf16 for each layer, and two products with Â for each of the first two.
    assert work.moved == 4 * views * n * (6 * (64 + 32 + 16 + 32) + 2 * (64 + 32))
    assert work.drawn == views * (10_000 + n)
    assert work.held == 4 * views * n * (64 + 32 + 16 + 32)
    assert work.ring == 3 * 4 * 2 * n * 32
    assert work.lists == 2 * 16 * 5000


def test_few_features_are_propagated_before_they_are_multiplied_and_need_no_gradient():
    wide = work_of(epagcl.GRACE(hidden=64, dim=32, p_drop_1=0.0, p_drop_2=0.0), SIZES._replace(features=100))
    narrow = work_of(epagcl.GRACE(hidden=64, dim=32, p_drop_1=0.0, p_drop_2=0.0), SIZES._replace(features=10))
    assert wide.gathered - narrow.gathered == 4 * 2 * (100 - 10) * 11_000


def test_batches_make_the_loss_linear_and_need_no_ring():
    work = work_of(epagcl.EPAGCL(batch_size=100, dim=32), SIZES)
    assert work.loss == 6 * 2000 * 200 * 32
    assert work.similarities == 2000 * 200
    assert work.ring == 0


@pytest.mark.parametrize("name", MODELLED)
def test_work_grows_with_every_size(name):
    model = epagcl.method(name)()
    for training in (True, False) if model.trained else (False,):
        small = work_of(model, SIZES, training=training)
        for bigger in (Sizes(2000, 5000, 600), Sizes(1000, 9000, 600), Sizes(1000, 5000, 900)):
            large = work_of(model, bigger, training=training)
            assert sum(large[1:4]) + large.single > sum(small[1:4]) + small.single
            assert large.kept > small.kept


def test_sizes_of_graphs_in_memory_and_as_arrays():
    data = block_model(60, num_features=800, topic_words=400)
    found = sizes_of(data)
    assert found == Sizes(60, data.num_edges // 2, 800, data.x.values().numel())
    assert sizes_of(Arrays.from_data(data)) == found
    data.x = data.x.to_dense()
    assert sizes_of(data) == found == sizes_of(Arrays.from_data(data))


def test_features_with_many_entries_are_dense_however_they_are_stored():
    data = block_model(60, num_features=40, topic_words=10)
    assert data.x.layout == torch.sparse_csr
    assert sizes_of(data) == sizes_of(Arrays.from_data(data)) == Sizes(60, data.num_edges // 2, 40, None)
    assert isinstance(Graph.from_data(data, "cpu").x, torch.Tensor)


def test_entries_of_large_arrays_are_estimated_by_some_rows():
    data = block_model(5000, num_features=800, topic_words=400)
    found = sizes_of(Arrays.from_data(data)).entries
    assert found == pytest.approx(data.x.values().numel(), rel=0.02)


def test_other_methods_are_not_modelled():
    with pytest.raises(InputError, match="dgi: trains on the whole graph"):
        work_of(epagcl.DGI(), SIZES)


def test_views_without_drops_gather_all_entries():
    sizes = Sizes(1000, 50_000, 64)
    settings = {"members": 1, "p_add": 0.0}
    half, none = (work_of(epagcl.EPAGCLPlus(**settings, p_drop_1=p, p_drop_2=p), sizes) for p in (0.5, 0.0))
    default = work_of(epagcl.EPAGCLPlus(**settings), sizes)  # drops 0.3 and 0.4
    assert none.gathered - default.gathered == pytest.approx(0.7 * (none.gathered - half.gathered))


@pytest.mark.parametrize(("nodes", "batch"), [(1000, 0), (1000, 256), (700, 500)])
def test_tiles_are_those_that_the_loss_computes(nodes, batch):
    size = 2 * (batch or nodes)
    rows = 2 * (nodes // batch * batch if batch else nodes)  # of batches of full size
    tile = math.ceil(size / max(1, round(size / TILE)))
    slices = list(_slices(rows, rows // size, tile))
    entries = sum((i.stop - i.start) * (j.stop - j.start) for i, j in slices)
    counted = work_of(epagcl.EPAGCL(batch_size=batch), Sizes(nodes, 5000, 60)).tiles
    assert counted * rows / (2 * nodes) == pytest.approx(entries, rel=0.01)


def test_small_and_large_blocks_have_their_peaks_at_different_times():
    model = epagcl.EPAGCL(hidden=512, dim=64, projection=32)
    n = 9_000
    unit = 4 * 2 * n  # bytes of a column of both views
    # The loss holds each layer in float32 and bf16, and four and a half blocks of its rows; 512 columns are large.
    small = unit * (512 / 2 + 1.5 * (64 + 32 + 64) + 4.5 * 64)
    large = 3 * unit * 512
    assert work_of(model, Sizes(n, 5000, 60)).blocks == small + min(small, 64 * 2**20) + large
    # With fewer nodes, all blocks are small, and only the larger of both phases counts.
    fewer = 4 * 2 * 1000
    both = (fewer * (1.5 * (512 + 64 + 32 + 64) + 4.5 * 64), fewer * (3 * 512 + 60))
    assert work_of(model, Sizes(1000, 5000, 60)).blocks == 2 * max(both) == 2 * both[1]


def test_blocks_above_32_mib_are_fresh():
    model = epagcl.EPAGCL(hidden=512, dim=64, projection=64)
    assert work_of(model, Sizes(8_000, 5000, 60)).fresh == 0
    assert work_of(model, Sizes(9_000, 5000, 60)).fresh == 5 * 4 * 2 * 9_000 * 512
    # Blocks in bf16 are half as large.
    assert work_of(model, Sizes(17_000, 5000, 60)).fresh == (5 + 2 / 2) * 4 * 2 * 17_000 * 512
