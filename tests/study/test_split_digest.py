import pytest
import torch
from torch_geometric.data import Data

from epagcl.study.split_digest import MASKS, split_digest

MASK = torch.arange(6) % 3 == 0


def test_a_graph_without_masks_has_no_digest():
    assert split_digest(Data(x=torch.ones(6, 1))) is None


@pytest.mark.parametrize("name", MASKS)
def test_every_mask_counts(name):
    digests = {split_digest(Data(**{name: mask})) for mask in (MASK, ~MASK, MASK[:, None].repeat(1, 2))}
    assert len(digests) == 3
    assert split_digest(Data(**{name: MASK})) != split_digest(Data(**dict.fromkeys(MASKS, MASK)))


def test_masks_of_other_types_and_layouts_with_the_same_nodes_have_the_same_digest():
    expected = split_digest(Data(train_mask=MASK))
    assert split_digest(Data(train_mask=MASK.to(torch.uint8))) == expected
    columns = torch.stack([MASK, ~MASK], 1)
    strided = torch.stack([MASK, ~MASK]).t()
    assert split_digest(Data(train_mask=strided)) == split_digest(Data(train_mask=columns))
