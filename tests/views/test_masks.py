import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, uniform
from epagcl.views.masks import feature_mask, feature_masks


def test_mask_of_one_probability():
    assert feature_mask(10, 0, seed=0, epoch=0, view=0) is None
    assert feature_mask(10, 1, seed=0, epoch=0, view=0).tolist() == [0] * 10
    rate = torch.stack([feature_mask(50, 0.3, seed=0, epoch=e, view=0) for e in range(400)]).mean()
    assert rate == pytest.approx(0.7, abs=0.02)
    # Appending columns does not change the mask of the first ones.
    assert torch.equal(
        feature_mask(60, 0.3, seed=0, epoch=1, view=0)[:50], feature_mask(50, 0.3, seed=0, epoch=1, view=0)
    )


def test_feature_mask_with_a_probability_for_each_column():
    p = torch.linspace(0, 1, 50)
    masks = torch.stack([feature_mask(50, p, seed=1, epoch=epoch, view=0) for epoch in range(2000)])
    assert set(masks.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(masks.mean(0), 1 - p, rtol=0, atol=0.05)
    assert (masks[:, 0] == 1).all()
    assert (masks[:, -1] == 0).all()
    # Equal probabilities act as a single number, and zeros hide no column.
    assert torch.equal(
        feature_mask(50, torch.full((50,), 0.3), seed=1, epoch=4, view=1),
        feature_mask(50, 0.3, seed=1, epoch=4, view=1),
    )
    assert feature_mask(50, torch.zeros(50), seed=1, epoch=4, view=1).tolist() == [1] * 50
    both = feature_masks(50, (p, 0.0), seed=1, epoch=torch.tensor(7), device="cpu")
    assert torch.equal(both[0], feature_mask(50, p, seed=1, epoch=7, view=0))
    assert both[1].tolist() == [1] * 50


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_a_probability_out_of_range_is_an_error(p):
    with pytest.raises(InputError, match=f"p={p}: a probability lies between 0 and 1"):
        feature_mask(10, p, seed=0, epoch=0, view=0)


def test_feature_masks_are_those_of_each_view():
    masks = feature_masks(40, (0.3, 0.0, 0.6), seed=1, epoch=torch.tensor(5), device="cpu")
    assert torch.equal(masks[0], feature_mask(40, 0.3, seed=1, epoch=5, view=0))
    assert masks[1].tolist() == [1] * 40
    assert torch.equal(masks[2], feature_mask(40, 0.6, seed=1, epoch=5, view=2))
    assert feature_masks(40, (0, 0), seed=1, epoch=5, device="cpu") is None


def test_a_column_is_kept_at_its_own_random_number():
    numbers = uniform(torch.arange(5), 3, Stream.FEATURES, 2, 1)
    for column, p in enumerate(numbers.tolist()):
        assert feature_mask(5, p, seed=3, epoch=2, view=1).tolist() == [float(u >= p) for u in numbers.tolist()]
        assert feature_mask(5, p, seed=3, epoch=2, view=1)[column] == 1
