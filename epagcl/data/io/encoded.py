"""The feature columns of a table as a tensor: unchanged if they are numbers of similar size, else encoded."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.core.sparse import SparseMatrix
from epagcl.data.checking import check_features
from epagcl.data.io.columns.encoding import RawTable, TableEncoding, raw_table
from epagcl.data.io.columns.number import is_real
from epagcl.data.io.columns.unseen import warn_of_unseen
from epagcl.data.io.features import table_features
from epagcl.data.io.roles import Roles
from epagcl.data.io.tables.base import normalised_name

#: Names of columns that often are labels. Features with such a name are reported.
LABEL_LIKE = ("label", "labels", "y", "class")


class EncodedTable(NamedTuple):
    """Checked features, the names of their columns, and how they were encoded; None if they are as in the table."""

    x: Tensor
    names: list[str] | None
    encoding: TableEncoding | None = None
    raw: RawTable | None = None


def encode_table(
    frame: pd.DataFrame,
    names: list[str] | None,
    source: str,
    place: Callable[[int], str],
    roles: Roles = Roles(),  # noqa: B008 (frozen)
    rows: np.ndarray | None = None,
) -> EncodedTable:
    """Return the columns of a table as features.

    Args:
        frame: the columns, with rows numbered from 0.
        names: the names of the columns; None if the table has no header.
        source: name of the table in messages.
        place: function that describes the position of a row in messages.
        roles: the kinds of columns that the user names, or a fitted encoding.
        rows: numbers of the rows that are needed. With a fitted encoding, the others are zeros and are not read.
    """
    if rows is not None and roles.encoding is not None and names is not None:
        return _encode_rows(frame, names, source, place, roles.encoding, rows)
    titles = [f"column {int(column) + 1}" for column in frame.columns] if names is None else names
    _warn_of_labels(titles, source, roles)
    described = [f"column {title!r}" if names is not None else title for title in titles]
    numbered = frame.set_axis(range(frame.shape[1]), axis=1)
    unique = len(set(titles)) == len(titles)
    numeric = all(is_real(values.dtype) for _, values in numbered.items())
    if not unique and numeric and not roles.columns_as and roles.encoding is None:
        twice = next(title for title in titles if titles.count(title) > 1)
        log.warning("%s: two columns are named %r; a model matches the columns by their order", source, twice)
        return EncodedTable(table_features(numbered, source, lambda column: described[column], place), names)
    raw = raw_table(numbered, titles, source, place)
    encoding = roles.encoding
    if encoding is None:
        encoding = TableEncoding.fit(raw, roles.columns_as, roles.name_of("columns_as"))
        if encoding.as_given:
            verb = "is used as it is" if len(titles) == 1 else "are used as they are"
            log.info("%s: %s of numbers %s", source, counted(len(titles), "column"), verb)
            return EncodedTable(table_features(numbered, source, lambda column: described[column], place), names)
    x = check_features(encoding.transform(raw), source)
    encoding.log(source)
    if roles.encoding is not None:
        warn_of_unseen(encoding, raw)
    return EncodedTable(x, encoding.feature_names, encoding, raw.detached())


def _encode_rows(
    frame: pd.DataFrame,
    names: list[str],
    source: str,
    place: Callable[[int], str],
    encoding: TableEncoding,
    rows: np.ndarray,
) -> EncodedTable:
    """Return sparse features of all rows, of which only some are encoded."""
    part = frame.iloc[rows].reset_index(drop=True)
    raw = raw_table(part, names, source, lambda row: place(int(rows[row])))
    x = SparseMatrix.from_torch(check_features(encoding.transform(raw), source).to_sparse_csr())
    counts = torch.zeros(len(frame), dtype=torch.int64)
    counts[torch.from_numpy(rows)] = x.rowptr.diff().long()
    start = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    encoding.log(source)
    warn_of_unseen(encoding, raw)
    spread = torch.sparse_csr_tensor(start, x.col.long(), x.value, (len(frame), x.shape[1]))
    return EncodedTable(spread, encoding.feature_names, encoding)


def _warn_of_labels(names: list[str], source: str, roles: Roles) -> None:
    """Warn of a feature column that may be the label, which must not be learned from."""
    if roles.label is not None or roles.encoding is not None:
        return
    if found := [name for name in names if normalised_name(name) in LABEL_LIKE and name not in roles.columns_as]:
        use = roles.write(label=found[0])
        log.warning("%s: column %r is used as a feature; if it is the label, give %s", source, found[0], use)
