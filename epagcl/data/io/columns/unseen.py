"""What a later table has that the table of an encoding did not have: columns, values and gaps."""

from collections import Counter

import pandas as pd

from epagcl.core.formatting import counted
from epagcl.core.log import log
from epagcl.data.io.columns.category import FALSE, TRUE, BooleanColumn, CategoryColumn, category_text
from epagcl.data.io.columns.encoding import RawTable, TableEncoding
from epagcl.data.io.columns.kinds import shortened


def unseen(encoding: TableEncoding, table: RawTable) -> list[str]:
    """Return a sentence about the columns, one about the values and one about the gaps that are new in a table.

    Args:
        encoding: the encoding of the training table.
        table: a later table.

    Examples:
        >>> encoding = TableEncoding.fit(RawTable("people", pd.DataFrame({"city": ["Rome", "Oslo", "Rome"]})))
        >>> later = RawTable("people", pd.DataFrame({"city": ["Lima", "Oslo", None], "age": [1, 2, 3]}))
        >>> for sentence in unseen(encoding, later):
        ...     print(sentence)
        not used, since the model was trained without: age
        values that the model has not seen become 0: city (Lima in 1 row)
        gaps, of which training had none here, become the median or 0: city (1 row)
    """
    known = {column.name for column in encoding.columns}
    columns = [str(name) for name in table.frame if str(name) not in known]
    values, gaps = [], []
    for column in encoding.columns:
        if column.kind == "skip" or column.name not in table.frame:
            continue
        series = table.frame[column.name]
        if not getattr(column, "missing", True) and (count := int(series.isna().sum())):
            gaps.append(f"{column.name} ({counted(count, 'row')})")
        if isinstance(column, BooleanColumn | CategoryColumn) and (new := _new_values(column, series)):
            named = shortened([value for value, _ in new.most_common()], 3)
            values.append(f"{column.name} ({named} in {counted(new.total(), 'row')})")
    found = {
        "not used, since the model was trained without": columns,
        "values that the model has not seen become 0": values,
        "gaps, of which training had none here, become the median or 0": gaps,
    }
    return [f"{what}: {shortened(names)}" for what, names in found.items() if names]


def warn_of_unseen(encoding: TableEncoding, table: RawTable) -> None:
    """Warn of what a table has that an encoding does not know."""
    for sentence in unseen(encoding, table):
        log.warning("%s: %s", table.source, sentence)


def _new_values(column: BooleanColumn | CategoryColumn, values: pd.Series) -> Counter[str]:
    """Return how often each value occurs that has no feature."""
    text = category_text(values).dropna()
    if isinstance(column, BooleanColumn):
        return Counter(text[~text.str.lower().isin([*TRUE, *FALSE])])
    if column.other or column.slots:  # these values share features with rare ones
        return Counter()
    return Counter(text[~text.isin(column.values)])
