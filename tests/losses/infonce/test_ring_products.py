import torch
import torch.nn.functional as F

from epagcl.losses.infonce.ring_products import products_for

TAU = 0.4


def unit_rows(seed):
    return F.normalize(torch.randn(12, 8, generator=torch.Generator().manual_seed(seed)), dim=1)


def gathered(precision, z, y):
    """What the tile of z and y adds to the rows of both, with sums S = 1, 2, ..."""
    products = products_for(precision, TAU)
    mean = torch.cat([z, y]).mean(0) if products.centres else None
    sums = torch.arange(1.0, 13.0)
    own, other = (products.unpack(products.pack(rows, 1 / sums, mean)) for rows in (z, y))
    e = products.exponentials(own.block, other.block)
    factor = torch.exp(z @ y.T / TAU).mean() / e.float().mean()  # bf16 has exponentials times a constant
    totals = torch.zeros(2, 12, products.width(8))
    products.gather(e.clone(), own, other, totals[0], totals[1])
    return [factor * products.gradient(total, mean) for total in totals], e.float() * factor


def test_a_tile_adds_to_its_rows_and_columns():
    z, y = unit_rows(0), unit_rows(1)
    (rows, columns), e = gathered("fp32", z, y)
    sums = torch.arange(1.0, 13.0)
    expected = torch.exp(z @ y.T / TAU)
    torch.testing.assert_close(e, expected)
    weight = expected * (1 / sums[:, None] + 1 / sums)
    torch.testing.assert_close(rows, weight @ y)
    torch.testing.assert_close(columns, weight.T @ z)


def test_bf16_is_close_to_float32(use_bf16):
    z, y = unit_rows(0), unit_rows(1)
    (rows, columns), e = gathered("bf16", z, y)
    (rows32, columns32), e32 = gathered("fp32", z, y)
    torch.testing.assert_close(e, e32, rtol=0.03, atol=0)
    torch.testing.assert_close(rows, rows32, rtol=0.05, atol=0.05)
    torch.testing.assert_close(columns, columns32, rtol=0.05, atol=0.05)


def test_row_losses_need_no_shift_in_bf16(use_bf16):
    z, sums = unit_rows(2), torch.arange(1.0, 13.0)
    bf16, fp32 = products_for("bf16", TAU), products_for("fp32", TAU)
    losses = bf16.row_losses(z, sums * torch.exp(torch.tensor(-bf16.shift)))
    torch.testing.assert_close(losses, fp32.row_losses(z, sums), rtol=0.02, atol=0.02)
