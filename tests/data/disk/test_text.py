import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epagcl.data.disk import text as module
from epagcl.data.disk.text import decode_text, encode_text, find_integers, find_text


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=8), st.data())
def test_text_is_decoded_as_it_was_encoded(ids, data):
    offsets, text = encode_text(ids)
    assert len(offsets) == len(ids) + 1
    assert offsets[-1] == len(text)
    assert decode_text(offsets, text).tolist() == ids
    part = slice(*data.draw(st.tuples(*[st.none() | st.integers(-9, 9)] * 2, st.sampled_from([None, 1, 2, -1]))))
    assert decode_text(offsets, text, part).tolist() == ids[part]
    if ids:
        chosen = data.draw(st.lists(st.integers(0, len(ids) - 1)))
        assert decode_text(offsets, text, np.array(chosen, dtype=int)).tolist() == [ids[k] for k in chosen]


IDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=3)


@given(st.lists(IDS, unique=True, max_size=8), st.lists(IDS, max_size=8), st.integers(1, 4))
def test_ids_of_text_are_found(ids, others, rows):
    wanted = [*others, *ids[::2]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS", rows)
        found = find_text(*encode_text(ids), wanted)
    assert found.tolist() == [ids.index(each) if each in ids else -1 for each in wanted]


@given(st.lists(st.integers(-20, 20), unique=True, max_size=8), st.lists(st.integers(-20, 20).map(str), max_size=8))
def test_integer_ids_are_found(ids, wanted):
    words = [*wanted, "07", "7.0", "x", "-0", ""]
    expected = [ids.index(int(each)) if each in map(str, ids) else -1 for each in words]
    assert find_integers(np.array(ids, dtype=np.int64), words).tolist() == expected
