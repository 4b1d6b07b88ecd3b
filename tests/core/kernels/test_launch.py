from contextlib import nullcontext
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")

from epagcl.core.kernels import launch
from epagcl.core.kernels.launch import RowChunks

pytestmark = pytest.mark.usefixtures("poisoned_memory")


@given(lengths=st.lists(st.integers(0, 20), min_size=1, max_size=12), longest=st.sampled_from([1, 4, 8, 64]))
@settings(max_examples=100, deadline=None)
def test_chunks_cover_every_entry_once_and_none_is_too_long(lengths, longest):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "MAX_CHUNK", longest)
        chunks = RowChunks.from_rowptr(torch.tensor([0, *lengths]).cumsum(0))
    start, row, target = chunks.start.tolist(), chunks.row.tolist(), chunks.target.tolist()
    row_of_entry = [i for i, length in enumerate(lengths) for _ in range(length)]
    covered = [(i, e) for i, (a, b) in zip(row, pairwise(start), strict=True) for e in range(a, b)]
    assert covered == list(zip(row_of_entry, range(len(row_of_entry)), strict=True))
    assert all(0 <= b - a <= longest for a, b in pairwise(start))
    assert chunks.num_rows == len(lengths)
    assert sorted(set(row)) == list(range(len(lengths)))  # an empty row has a chunk, as its zeros must be written

    cut = [i for i, length in enumerate(lengths) if length > longest]
    assert chunks.long_row.tolist() == cut
    assert [t for t in target if t >= 0] == [i for i in range(len(lengths)) if i not in cut]
    spilled = [i for i, t in zip(row, target, strict=True) if t < 0]
    assert [-1 - t for t in target if t < 0] == list(range(len(spilled)))
    bounds = chunks.long_start.tolist()
    assert [spilled[a:b] for a, b in pairwise(bounds)] == [[i] * -(-lengths[i] // longest) for i in cut]
    assert bounds[-1] == len(spilled)


@pytest.mark.parametrize(
    ("width", "block"), [(1, 32), (40, 64), (128, 128), (130, 128), (256, 256), (500, 512), (600, 128)]
)
def test_blocks_have_few_columns_past_the_last(width, block):
    assert launch.block_size(width) == block


def test_kernels_are_launched_on_the_device_of_their_first_tensor(monkeypatch):
    devices = []
    monkeypatch.setattr(torch.cuda, "device_of", lambda tensor: devices.append(tensor.device) or nullcontext())
    double = launch.on_device_of_arguments(lambda name, x: 2 * x)
    assert double("a name", torch.tensor(2)).item() == 4
    assert devices == [torch.device("cpu")]
