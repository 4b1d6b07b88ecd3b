import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from epagcl.losses.infonce import triton_loss
from epagcl.losses.infonce.tiles import Tiles
from epagcl.losses.infonce.triton_loss import Operands, gather, row_sums
from tests.losses.infonce.examples import every_precision, stacked

pytestmark = [
    pytest.mark.usefixtures("poisoned_memory", "untimed_tiles"),
    # numpy warns in the interpreter about rows past the end of a group, which are computed but not stored
    pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in (add|matmul):RuntimeWarning"),
]


def exact_sums(x, tau, groups):
    """The unit rows, E and the row sums in float64, by group."""
    z = F.normalize(x.double(), dim=1).view(groups, -1, x.shape[1])
    e = (z @ z.transpose(1, 2) / tau).exp()
    e.diagonal(dim1=1, dim2=2).zero_()
    return z, e, e.sum(2)


@pytest.mark.slow
@pytest.mark.parametrize("tiles", [(16, 16), (32, 16), (32, 32), (64, 16), (64, 64), (128, 32)])
@pytest.mark.parametrize("groups", [1, 3])
def test_row_sums_with_tiles_of_any_size(device, tiles, groups):
    x = stacked(75 // groups, 5, groups=groups, device=device)
    expected = exact_sums(x, 0.3, groups)[2].flatten().float()
    operands = Operands(x, 0.3, groups, "fp32")
    for symmetric in (True, False):
        sums = row_sums(operands, Tiles(*tiles, 4, 1), symmetric)
        torch.testing.assert_close(sums, expected, rtol=5e-6, atol=0)


@every_precision
@pytest.mark.parametrize("size", [1, 16, 24, 33])  # one tile, whole tiles, ragged ones
def test_symmetry_changes_only_the_order_of_sums(device, size, precision):
    operands = Operands(stacked(size, 7, device=device), 0.3, 1, precision)
    half, whole = (row_sums(operands, Tiles(32, 16, 4, 1), symmetric) for symmetric in (True, False))
    torch.testing.assert_close(half, whole, rtol=2e-6, atol=0)


@pytest.mark.parametrize("symmetric", [True, False])
def test_row_sums_in_many_chunks(device, monkeypatch, symmetric):
    monkeypatch.setattr(triton_loss, "PROGRAMS_PER_PROCESSOR", 10**6)  # gives chunks of 256 columns
    x = stacked(301, 4, device=device)
    sums = row_sums(Operands(x, 0.3, 1, "fp32"), Tiles(64, 64, 4, 1), symmetric)
    torch.testing.assert_close(sums, exact_sums(x, 0.3, 1)[2].flatten().float(), rtol=5e-6, atol=0)


@pytest.mark.parametrize("groups", [1, 2])
def test_row_sums_in_several_rounds(device, monkeypatch, groups):
    monkeypatch.setattr(triton_loss, "BLOCKS_PER_ROUND", 2)
    x = stacked(84 // groups, 16, groups=groups, device=device)
    sums = row_sums(Operands(x, 0.3, groups, "fp32"), Tiles(32, 32, 4, 1))
    torch.testing.assert_close(sums, exact_sums(x, 0.3, groups)[2].flatten().float(), rtol=5e-6, atol=0)


@pytest.mark.parametrize("tiles", [(32, 16), (16, 32), (32, 64), (64, 64)])
@pytest.mark.parametrize(("n", "d", "groups"), [(32, 5, 1), (37, 20, 1), (13, 5, 3)])
def test_gather_with_tiles_of_any_size_and_any_number_of_parts(device, tiles, n, d, groups):
    x = stacked(n, d, groups=groups, device=device)
    z, e, sums = exact_sums(x, 0.3, groups)
    weight = e * (1 / sums[:, :, None] + 1 / sums[:, None, :])
    expected = (weight @ z).flatten(0, 1).float()
    operands = Operands(x, 0.3, groups, "fp32")
    for parts in (1, 2, 5):
        out = gather(operands, sums.flatten().float(), Tiles(*tiles, 4, 1), parts)
        assert out.shape == (parts, groups * 2 * n, d)
        torch.testing.assert_close(out.sum(0) / operands.scale, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(("n", "groups"), [(37, 1), (32, 1), (20, 2)])
@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("columns", [16, 32, 48])
def test_gather_in_several_rounds_equals_gather_in_one(device, monkeypatch, n, groups, parts, columns):
    x = stacked(n, 5, groups=groups, device=device)
    operands = Operands(x, 0.3, groups, "fp32")
    sums = exact_sums(x, 0.3, groups)[2].flatten().float()
    in_one_round = gather(operands, sums, Tiles(32, 16, 4, 1), parts).sum(0)
    monkeypatch.setattr(triton_loss, "FP32_COLUMNS", columns)
    in_rounds = gather(operands, sums, Tiles(32, 16, 4, 1), parts).sum(0)
    torch.testing.assert_close(in_rounds, in_one_round, rtol=1e-5, atol=1e-6 * in_one_round.abs().max().item())


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_gather_chooses_its_number_of_parts(device, precision):
    x = stacked(70, 5, device=device)
    operands = Operands(x, 0.3, 1, precision)
    sums = row_sums(operands, Tiles(32, 16, 4, 1))
    one, chosen = (gather(operands, sums, Tiles(32, 16, 4, 1), parts).sum(0) for parts in (1, 0))
    torch.testing.assert_close(chosen, one, rtol=1e-4, atol=1e-5 * one.abs().max().item())


def test_parts_fill_the_processors():
    for blocks, tiles, processors in ((1, 1, 132), (3, 8, 132), (10, 100, 132), (132, 100, 132), (140, 100, 132)):
        parts = triton_loss._num_parts(blocks, tiles, processors)
        assert 1 <= parts <= max(1, min(triton_loss.MAX_PARTS, tiles // 8))
    assert triton_loss._num_parts(132, 100, 132) == 1  # one part fills a wave
    assert triton_loss._num_parts(66, 100, 132) == 2
