"""Damage of files, drawn by Hypothesis."""

from typing import NamedTuple

from hypothesis import strategies as st

#: Parts that look like numbers, ends, quotes or formulas.
_WORDS = (b"99999999999999", b"-1", b"nan", b"\xff\xfe", b"\x00", b'"', b"\n", b"1e309", b"=", b"\x7f")


class Edit(NamedTuple):
    """One damage of a file: what happens, where (as a share of its size), over how many bytes, and with which bytes."""

    kind: int
    place: float
    length: int
    content: bytes


def edits() -> st.SearchStrategy[list[Edit]]:
    """Return a strategy for a few damages of one file."""
    share = st.floats(0, 1, allow_nan=False)
    one = st.builds(Edit, st.integers(0, 7), share, st.integers(1, 40), st.binary(min_size=1, max_size=40))
    return st.lists(one, min_size=1, max_size=3)


def damaged(content: bytes, changes: list[Edit]) -> bytes:
    """Return content with some damage: bits, bytes, cuts, repeats, zeros, and parts that look like numbers."""
    data = bytearray(content)
    for change in changes:
        place = min(int(change.place * len(data)), max(len(data) - 1, 0))
        end = min(len(data), place + change.length)
        match change.kind:
            case 0 if data:
                data[place] ^= 1 << change.content[0] % 8
            case 1 if data:
                data[place] = change.content[0]
            case 2:
                del data[place:]
            case 3:
                del data[place:end]
            case 4:
                data[place:place] = data[place:end]
            case 5:
                data[place:end] = bytes(end - place)
            case 6:
                data[place:place] = _WORDS[change.content[0] % len(_WORDS)]
            case 7:
                data[place:end] = change.content
    return bytes(data)
