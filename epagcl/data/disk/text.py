"""Ids of text as two arrays: where each begins, and their bytes one after the other."""

import itertools

import numpy as np
from numpy.typing import ArrayLike


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
