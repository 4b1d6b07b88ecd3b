"""Ids of text as two arrays: where each begins, and their bytes one after the other. Finding ids in them."""

import itertools
import re

import numpy as np
from numpy.typing import ArrayLike

ROWS = 1 << 20  # ids that are compared at once


def encode_text(ids: "np.ndarray | list[str]") -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets (int64 ``[N + 1]``) and the bytes (UTF-8) of ids.

    Examples:
        >>> offsets, text = encode_text(["ann", "bob", "é"])
        >>> offsets.tolist(), text.tobytes()
        ([0, 3, 6, 8], b'annbob\\xc3\\xa9')
    """
    encoded = [str(node).encode() for node in ids]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(each) for each in encoded], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(encoded), dtype=np.uint8)


def find_text(offsets: np.ndarray, text: np.ndarray, wanted: "list[str]") -> np.ndarray:
    """Return the number of the node of each wanted id, −1 if there is none, without building the ids.

    Args:
        offsets: where each id begins in ``text``, ``[N + 1]``.
        text: the bytes of all ids.
        wanted: ids.

    Examples:
        >>> offsets, text = encode_text(["ann", "bob", "é"])
        >>> find_text(offsets, text, ["é", "eve", "ann"]).tolist()
        [2, -1, 0]
    """
    encoded = [each.encode() for each in wanted]
    number: dict[bytes, int] = {}
    for start in range(0, len(offsets) - 1, ROWS):
        places = np.asarray(offsets[start : start + ROWS + 1])
        lengths = np.diff(places)
        for length in {len(each) for each in encoded} - {0}:
            rows = np.flatnonzero(lengths == length)
            keys = text[places[rows, None] + np.arange(length)].view(f"S{length}").ravel()
            same = np.isin(keys, np.array([each for each in encoded if len(each) == length], dtype=f"S{length}"))
            number |= zip(keys[same].tolist(), (start + rows[same]).tolist(), strict=True)
    return np.array([number.get(each, -1) for each in encoded], dtype=np.int64)


def find_integers(ids: np.ndarray, wanted: "list[str]") -> np.ndarray:
    """Return the number of the node of each wanted id, −1 if there is none.

    Args:
        ids: int64 ids.
        wanted: ids as text; 007 and 7.0 are no integers.

    Examples:
        >>> find_integers(np.array([5, 7]), ["7", "07", "x"]).tolist()
        [1, -1, -1]
    """
    integers = {int(each) for each in wanted if re.fullmatch("-?[0-9]{1,18}", each)}
    rows = np.flatnonzero(np.isin(ids, list(integers)))
    number = dict(zip(map(str, ids[rows].tolist()), rows.tolist(), strict=True))
    return np.array([number.get(each, -1) for each in wanted], dtype=np.int64)


def decode_text(offsets: np.ndarray, text: np.ndarray, nodes: "slice | ArrayLike | None" = None) -> np.ndarray:
    """Return ids as an array of Python strings.

    Args:
        offsets: where each id begins in ``text``, ``[N + 1]``.
        text: the bytes of all ids.
        nodes: the nodes whose ids are wanted, as a slice or as numbers; all by default.

    Examples:
        >>> offsets, text = encode_text(["ann", "bob", "é"])
        >>> decode_text(offsets, text, [2, 0]).tolist(), decode_text(offsets, text, slice(1, 3)).tolist()
        (['é', 'ann'], ['bob', 'é'])
    """
    count = len(offsets) - 1
    if nodes is None or isinstance(nodes, slice):
        start, stop, step = (nodes or slice(None)).indices(count)
        if step != 1:
            return decode_text(offsets, text, np.arange(start, stop, step))
        places = np.asarray(offsets[start : max(start, stop) + 1]).tolist()
        first = places[0] if places else 0
        raw = text[first : places[-1] if places else 0].tobytes()
        ids = [raw[a - first : b - first].decode() for a, b in itertools.pairwise(places)]
    else:
        chosen = np.asarray(nodes, dtype=np.int64)
        pairs = zip(offsets[chosen].tolist(), offsets[chosen + 1].tolist(), strict=True)
        ids = [text[a:b].tobytes().decode() for a, b in pairs]
    array = np.empty(len(ids), dtype=object)
    array[:] = ids
    return array
