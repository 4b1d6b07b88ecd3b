"""The kinds of edges in a column of a table or an attribute of a graph."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.io.columns.kinds import shortened

#: The kind of an edge whose kind is missing.
NO_KIND = "none"


class EdgeTypes(NamedTuple):
    """The kind of each edge.

    Attributes:
        numbers: the number of the kind of each edge, int64.
        names: the names of the kinds, in alphabetical order.
    """

    numbers: np.ndarray
    names: list[str]


def edge_types(values: "pd.Series | Sequence[Any]", source: str) -> EdgeTypes | None:
    """Return the kinds of edges, or None if all are of one kind. Log their names.

    Args:
        values: the name of the kind of each edge; missing values are a kind of their own.
        source: the name of the column in messages.

    Examples:
        >>> edge_types(["mail", "call", "mail", None], "type")
        EdgeTypes(numbers=array([1, 0, 1, 2]), names=['call', 'mail', 'none'])
    """
    series = pd.Series(values, dtype=object)
    missing = series.isna() | (series.astype(str).str.strip() == "")
    text = series.astype(str).str.strip().where(~missing, NO_KIND)
    numbers, names = pd.factorize(text, sort=True)
    if len(names) < 2:
        return None
    if missing.any():
        log.warning(
            "%s: %s without a kind; they are of the kind %r", source, counted(int(missing.sum()), "edge"), NO_KIND
        )
    log.info("%s: %d kinds of edges (%s)", source, len(names), shortened(list(names)))
    return EdgeTypes(numbers.astype(np.int64), [str(name) for name in names])
