"""Alignment and drift of two versions of an embedding."""

import numpy as np
import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.data import block_model
from epagcl.tasks.versions import MOVED, NOVEL, Drift, align, common_rows, drift


def random_rows(count: int, dim: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


def test_a_rotated_copy_is_turned_back():
    z = random_rows(50, 6)
    turn = torch.linalg.qr(random_rows(6, 6, seed=1))[0]
    aligned = align(z @ turn, z)
    torch.testing.assert_close(aligned.z, z, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(aligned.rotation, turn.T, atol=1e-5, rtol=1e-4)
    assert aligned.residual < 1e-6
    assert aligned.common == 50


def test_only_common_nodes_decide_and_all_rows_are_turned():
    z, turn = random_rows(20, 3), torch.linalg.qr(random_rows(3, 3, seed=2))[0]
    ids = [f"n{k}" for k in range(20)]
    aligned = align(z @ turn, z[5:15].flip(0), ids=ids, previous_ids=ids[5:15][::-1])
    assert aligned.common == 10
    torch.testing.assert_close(aligned.z, z, atol=1e-5, rtol=1e-4)


def test_no_rotation_comes_closer_than_the_alignment():
    z, previous = random_rows(30, 4), random_rows(30, 4, seed=3)
    best = align(z, previous)
    assert best.residual == pytest.approx(float((best.z - previous).norm() / previous.norm()), rel=1e-5)
    for seed in range(5):
        turn = torch.linalg.qr(random_rows(4, 4, seed=seed))[0]
        assert float((z @ turn - previous).norm() / previous.norm()) >= best.residual


def test_the_shift_is_relative_to_the_spread_of_the_earlier_embedding():
    before = random_rows(40, 5)
    spread = float((before - before.mean(0)).square().sum(1).mean().sqrt())
    after = before.clone()
    after[:10, 0] += 0.5 * spread
    moved = drift(after, before)
    assert moved.common == 40
    assert moved.median == 0
    assert moved.p95 == pytest.approx(0.5, rel=1e-5)
    assert 0 < moved.changed_neighbours < 1
    assert moved.novelty is None


def test_a_model_trained_again_is_aligned_first():
    before = random_rows(40, 5)
    turn = torch.linalg.qr(random_rows(5, 5, seed=4))[0]
    assert drift(before @ turn, before).median > 0.5
    assert drift(before @ turn, before, aligned=False).median < 1e-5


def test_the_novelty_of_new_nodes_is_measured_with_the_graph():
    data = block_model(200, num_classes=2, num_features=40, topic_words=10, words_per_node=8)
    old = (data.y == 0).nonzero().flatten()
    moved = drift(data.x.to_dense(), data.x.to_dense()[old], previous_ids=old.tolist(), data=data)
    assert moved.novelty > NOVEL
    assert moved.train_again
    assert "Train again on today's graph." in moved.sentence()


@pytest.mark.parametrize(
    ("median", "novelty", "again"),
    [(0.1, None, False), (0.1, NOVEL, False), (0.1, NOVEL + 0.01, True), (MOVED + 0.01, 0.0, True)],
)
def test_thresholds(median, novelty, again):
    found = Drift(common=1, median=median, p95=0.9, changed_neighbours=0.25, novelty=novelty)
    assert found.train_again is again
    assert ("Train again" in found.sentence()) is again
    assert "rain again" not in found.sentence(advice=False)
    assert "1 old node moved by" in found.sentence()
    assert "25% of their nearest neighbours changed" in found.sentence()


def test_ids_are_matched_as_text_if_their_types_differ():
    here, there = common_rows(np.zeros((3, 1)), np.zeros((2, 1)), [1, 2, 3], ["3", "x"])
    assert (here.tolist(), there.tolist()) == ([2], [0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ids": ["a", "b"], "previous_ids": ["c", "d"]}, "no node in common"),
        ({"ids": ["a"]}, "ids=: 1 ids for 2 rows"),
    ],
    ids=["different", "few"],
)
def test_wrong_ids_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        drift(torch.eye(2), torch.eye(2), **options)


def test_other_dimensions_are_refused():
    with pytest.raises(InputError, match="train with dim=3"):
        align(torch.eye(2), torch.eye(3))
    with pytest.raises(InputError, match="give versions of one model"):
        drift(torch.eye(2), torch.eye(3))
