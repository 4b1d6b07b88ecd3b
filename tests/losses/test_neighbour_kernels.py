import pytest
import torch

pytest.importorskip("triton")

from epagcl.losses.neighbour_triton import _Panels

pytestmark = pytest.mark.usefixtures("poisoned_memory")


def test_bits_are_the_positives_inside_the_batch(device):
    positives = torch.arange(42)[:, None].repeat(1, 3)
    positives[:3] = torch.tensor([[0, 1, 40], [1, 33, 31], [41, 2, 0]])
    positives[40] = torch.tensor([40, 41, 0])
    panels = _Panels(positives.to(device), 40)
    words = panels.bits((0, 40), (0, 40)).cpu()
    assert words.shape == (2, 40, 4)
    bits = (words[..., None] >> torch.arange(32) & 1).flatten(2)
    assert [bits[0, i].nonzero()[:, 0].tolist() for i in range(3)] == [[0, 1], [1, 31, 33], [0, 2]]
    assert bits[1].nonzero().tolist() == [[0, 0], [0, 1], [1, 1]]
    assert panels.share.cpu()[[0, 1, 2, 40]].tolist() == pytest.approx([1 / 2, 1 / 3, 1 / 2, 1 / 2])
    some = panels.bits((1, 2), (32, 8)).cpu()  # rows 1 and 2, columns 32 to 39
    assert some[0, :, 0].tolist() == [0b10, 0]
