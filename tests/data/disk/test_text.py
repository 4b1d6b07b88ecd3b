import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from epagcl.data.disk.text import decode_text, encode_text


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
