import dataclasses
import tomllib

import pytest
import torch

from epagcl.core.cost import (
    FITTED,
    ROW_BLOCKS,
    TILE_BYTES,
    Work,
    boundary_share,
    clock,
    cost,
    efficiency,
    full_rate_seconds,
    machine,
    ring_share,
    with_memory,
)
from epagcl.core.errors import InputError
from epagcl.core.memory import FRESH_BYTES, KEEP_BYTES
from epagcl.losses.infonce.ring import ring_bytes

WORK = Work(loss=4e14, dense=1e13, moved=1e11, gathered=2e11, held=1e10, kept=1e9, parameters=1e6, ring=6e9, rows=1e9)


def test_the_time_of_one_rank_is_the_sum_of_its_parts():
    on, share = machine("h200"), efficiency("cuda")
    found = cost(WORK, on)
    expected = (
        4e14 / (share.loss * on.loss_flops)
        + 1e13 / (share.dense * on.dense_flops)
        + 1e11 / (share.moved * on.bandwidth)
        + 2e11 / (share.gathered * on.bandwidth)
        + share.overhead
    )
    assert found.seconds == pytest.approx(expected) == pytest.approx(sum(found.parts.values()))
    assert found.bytes == pytest.approx(share.base + share.held * 1e10 + share.kept * 1e9 + 16e6)
    assert found.sent == 0


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_share_the_work_and_send_the_ring_the_boundary_and_the_gradients(ranks):
    on = machine("h200")
    one, several = cost(WORK, on), cost(WORK, on, ranks, boundary=0.5)
    for part in ("loss", "dense", "moved", "gathered"):
        assert several.parts[part] == pytest.approx(one.parts[part] / ranks)
    others = (ranks - 1) / ranks
    assert several.sent == pytest.approx(ring_share(ranks, 2) * 6e9 + others * (0.5 * 1e9 + 8e6))
    with_lists = WORK._replace(lists=5e9)
    assert cost(with_lists, on, ranks, boundary=0.5).bytes == pytest.approx(several.bytes + 5e9)
    assert cost(with_lists, on).bytes == one.bytes


def test_the_ring_hides_behind_the_products_unless_the_link_is_slow():
    on = dataclasses.replace(machine("h200"), latency=0.0)
    work = WORK._replace(rows=0.0, parameters=0.0)
    assert cost(work, on, 2).parts["link"] == 0
    slow = dataclasses.replace(on, link=1e9)
    assert cost(work, slow, 2).parts["link"] == pytest.approx(1.75 - cost(work, slow, 2).parts["loss"])


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 8])
def test_the_traffic_of_the_ring_is_that_of_the_loss(ranks, itemsize):
    nodes, width = 100, 10_000  # so wide that the one sum that is sent with each row does not matter
    sent = [sum(ring_bytes([nodes] * ranks, width, rank, itemsize).values()) for rank in range(ranks)]
    three_passes = 3 * 4 * 2 * nodes * ranks * width
    assert sum(sent) / ranks == pytest.approx(ring_share(ranks, itemsize) * three_passes, rel=1e-3)


def test_the_boundary_of_a_random_assignment_by_simulation():
    generator = torch.Generator().manual_seed(0)
    n, degree = 20_000, 6
    row, col = torch.randint(n, (2, n * degree // 2), generator=generator)
    for ranks in (2, 4):
        rank = torch.randint(ranks, (n,), generator=generator)
        ends = torch.cat([torch.stack([row, col]), torch.stack([col, row])], 1)
        needed = torch.zeros(ranks, n, dtype=torch.bool)
        needed[rank[ends[0]], ends[1]] = True  # the rank of one end needs the row of the other
        needed[rank, torch.arange(n)] = False
        share = needed.sum().item() / (n * (ranks - 1))
        # Degrees here are Poisson: E[1 − (1 − 1/R)^d] = 1 − e^(−degree/R), slightly less than at the mean.
        assert share == pytest.approx(boundary_share(degree, ranks), abs=0.06)
    assert boundary_share(degree, 1) == 0


def test_machines_are_known_by_name_or_measured():
    assert machine("cpu").dense_flops > 1e8
    assert machine("cpu").bandwidth > 1e7
    with pytest.raises(InputError, match="choose one of auto, cpu, cuda, h200"):
        machine("tpu")
    assert with_memory(machine("h200"), 80).memory == 80 * 2**30
    assert with_memory(machine("h200"), None) == machine("h200")
    assert clock(torch.device("cpu")) >= 0


def test_every_fitted_parameter_is_positive_and_known():
    fitted = tomllib.loads(FITTED.read_text())
    for kind in ("cpu", "cuda"):
        known = {field.name for field in dataclasses.fields(efficiency(kind))}
        assert set(fitted["efficiency"][kind]) == (known if kind == "cpu" else known - {"fresh"})
        assert all(value >= 0 for value in fitted["efficiency"][kind].values())


def test_a_cpu_keeps_the_tiles_of_the_loss_or_computes_them_twice():
    on, share = dataclasses.replace(machine("h200"), kind="cpu", loss_bytes=2), efficiency("cpu")
    few = WORK._replace(tiles=KEEP_BYTES / 2, similarities=KEEP_BYTES, dense=0.0)
    many = few._replace(tiles=KEEP_BYTES, similarities=2 * KEEP_BYTES)
    kept, again = cost(few, on), cost(many, on)
    assert again.parts["loss"] / kept.parts["loss"] == pytest.approx(4 / 3)
    assert kept.parts["loss"] == pytest.approx(2e14 / (share.loss * on.loss_flops))
    assert again.parts["gathered"] - kept.parts["gathered"] == pytest.approx(
        (KEEP_BYTES * (TILE_BYTES + 4) - KEEP_BYTES / 2 * TILE_BYTES) / (share.gathered * on.bandwidth)
    )
    assert kept.bytes - again.bytes == pytest.approx(KEEP_BYTES)
    assert cost(few, dataclasses.replace(on, loss_bytes=4)).bytes == pytest.approx(again.bytes)
    assert cost(many, machine("h200")).bytes == cost(WORK, machine("h200")).bytes


def test_small_batches_save_no_products_by_symmetry():
    on, share = dataclasses.replace(machine("h200"), kind="cpu"), efficiency("cpu")
    one_tile = WORK._replace(tiles=1e6, similarities=1e6, dense=0.0)
    assert cost(one_tile, on).parts["loss"] == pytest.approx(4e14 * 2 / 3 / (share.loss * on.loss_flops))


def test_a_cpu_multiplies_hidden_layers_in_the_precision_of_the_loss_and_features_in_float32():
    on = dataclasses.replace(machine("h200"), kind="cpu")
    work = WORK._replace(loss=0.0, single=3e13)
    seconds = full_rate_seconds(work, on)
    assert seconds["loss"] == 1e13 / on.loss_flops
    assert seconds["dense"] == 3e13 / on.dense_flops
    assert full_rate_seconds(work, machine("h200"))["dense"] == 4e13 / on.dense_flops


def test_a_cpu_writes_the_rows_of_the_loss_and_the_draws_of_views():
    on = dataclasses.replace(machine("h200"), kind="cpu")
    small, large = (full_rate_seconds(WORK._replace(projected=size), on) for size in (FRESH_BYTES, FRESH_BYTES + 1))
    assert small["moved"] == (1e11 + ROW_BLOCKS * FRESH_BYTES) / on.bandwidth
    assert small["fresh"] == 0
    assert large["fresh"] == ROW_BLOCKS * (FRESH_BYTES + 1) / on.bandwidth
    drawn = full_rate_seconds(WORK._replace(drawn=1e6), on)
    assert drawn["moved"] == (1e11 + 80e6) / on.bandwidth
    assert full_rate_seconds(WORK._replace(drawn=1e6, projected=1e9), machine("h200")) == full_rate_seconds(
        WORK, machine("h200")
    )


def test_large_blocks_take_time_on_a_cpu_only():
    on, share = dataclasses.replace(machine("h200"), kind="cpu"), efficiency("cpu")
    fresh = WORK._replace(fresh=5e10)
    assert cost(fresh, on).parts["fresh"] == pytest.approx(5e10 / (share.fresh * on.bandwidth))
    assert cost(fresh, machine("h200")) == cost(WORK, machine("h200"))


def test_the_memory_of_a_cpu_is_that_of_its_blocks():
    on, share = dataclasses.replace(machine("h200"), kind="cpu"), efficiency("cpu")
    work = WORK._replace(blocks=7e10, tiles=1e6)
    assert cost(work, on).bytes == pytest.approx(share.base + share.held * 7e10 + share.kept * 1e9 + 2e6 + 16e6)
    assert cost(work, machine("h200")).bytes == cost(WORK, machine("h200")).bytes
