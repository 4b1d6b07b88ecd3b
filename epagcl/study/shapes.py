"""Shapes of stored records: the parts that the readers of a record need."""

import math
from typing import Any

#: A type, of which ``object`` takes everything; None; a list with the shape of all entries; a tuple of alternatives; or
#: a dictionary with the shape of each part. A part whose name ends in "?" may be absent. ``{str: shape}`` gives all
#: parts one shape.
Shape = type | None | list["Shape"] | tuple["Shape", ...] | dict[Any, "Shape"]

#: What the readers of most records need of their origin.
ORIGIN: dict[Any, Shape] = {"hardware": {"device": str}}


def fits(value: Any, shape: Shape) -> bool:
    """Return whether a value of JSON has a shape.

    A dictionary may have further parts. A list needs an entry. A ``float`` is any finite number.

    Examples:
        >>> fits({"accuracy": [0.5, 1], "date": "today"}, {"accuracy": [float], "seed?": int})
        True
        >>> fits({"accuracy": [float("nan")]}, {"accuracy": [float]}), fits({}, {"accuracy": [float]}), fits(None, dict)
        (False, False, False)
    """
    if isinstance(shape, tuple):
        return any(fits(value, one) for one in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and len(value) > 0 and all(fits(entry, shape[0]) for entry in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(_has(value, name, part) for name, part in shape.items())
    if shape is None:
        return value is None
    if shape is int or shape is float:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole or (shape is float and isinstance(value, float) and math.isfinite(value))
    return isinstance(value, shape)


def _has(value: dict[str, Any], name: Any, shape: Shape) -> bool:
    """Return whether a part of a dictionary has a shape."""
    if name is str:
        return all(fits(part, shape) for part in value.values())
    if name.endswith("?"):
        return name[:-1] not in value or fits(value[name[:-1]], shape)
    return name in value and fits(value[name], shape)
