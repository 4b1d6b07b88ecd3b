"""The columns of a table of edges: the ends, the weight and the kind, as the user names them, or by well-known names.

A table of two columns needs no names. With more columns, the names decide. If they leave a doubt, the table is refused
with the arguments that settle it.
"""

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.data.io.columns.kinds import shortened
from epagcl.data.io.ids import is_id_name
from epagcl.data.io.roles import Roles, find_column
from epagcl.data.io.tables.base import Table, normalised_name

#: Names of ends that have no other meaning.
SOURCE_NAMES = (
    *("source", "src", "from", "u", "node1", "source_id", "from_id", "citing", "head"),
    *("node_1", "source_node", "from_node", "src_id", "start", "origin"),
)
TARGET_NAMES = (
    *("target", "dst", "dest", "to", "v", "node2", "target_id", "to_id", "cited", "tail"),
    *("node_2", "target_node", "to_node", "dst_id", "end", "destination"),
)
#: Pairs of names that mean the ends of edges unless another column looks like an id. Both ends are of one kind.
PAIRS = (
    *(("sender", "receiver"), ("sender", "recipient"), ("payer", "payee"), ("buyer", "seller")),
    *(("follower", "followee"), ("follower", "followed"), ("caller", "callee"), ("lender", "borrower")),
    *(("parent", "child"), ("subject", "object"), ("friend", "friend_of"), ("debtor", "creditor")),
)
#: The same for ends of two kinds, whose ids may be equal by chance.
PAIRS_OF_KINDS = tuple(
    itertools.chain(
        (("user", other) for other in ("item", "product", "movie", "book", "song", "artist", "page", "post", "group")),
        (("customer", other) for other in ("item", "product", "merchant", "shop")),
        (("author", "paper"), ("reviewer", "product"), ("actor", "movie"), ("account", "merchant"), ("drug", "gene")),
        (("card", "merchant"), ("student", "course"), ("reader", "book"), ("gene", "disease"), ("drug", "protein")),
    )
)
#: Names of a column of weights, and the value of the user for no such column.
WEIGHT_NAMES = ("weight", "edge_weight", "weights")
NO_COLUMN = "none"
#: Names of a column with the kinds of edges.
TYPE_NAMES = ("type", "edge_type", "relation")
#: Columns that describe an edge, and are never an end.
ATTRIBUTES = frozenset(
    (
        *("weight", "weights", "w", "amount", "value", "rating", "score", "count", "distance", "similarity"),
        *("strength", "capacity", "probability", "time", "timestamp", "date", "year", "month", "day", "when"),
        *("created_at", "type", "kind", "relation", "edge_type", "edge_id", "label", "text", "comment"),
    )
)
_FROM_TO = (("from", "to"), ("source", "target"), ("src", "dst"))
_NUMBERED = re.compile(r"([a-z].*?)_?([12ab])")
#: In a table without header, a first column with this many rows and no repeated value is not an end.
ROWS_FOR_KEY = 10


class EdgeColumns(NamedTuple):
    """The columns of the two ends, and whether their names suggest nodes of two kinds."""

    columns: list[int]
    two_kinds: bool = False


def edge_columns(table: Table, roles: Roles) -> EdgeColumns:
    """Return the columns of the ends of edges. Raise if there is a doubt.

    Args:
        table: the table; its header is detected here.
        roles: the columns that the user names.
    """
    if roles.source is not None and roles.target is not None:
        table.header = table.has_header(())
        named = [roles.column(table, roles.source, "source"), roles.column(table, roles.target, "target")]
        if named[0] == named[1]:
            fix = f"give two columns of {shortened(table.first_row, 8)}"
            raise InputError(f"{table.name}: both ends are {table.title(named[0])}; {fix}")
        return EdgeColumns(named)
    header = table.has_header(())
    return _by_name(table, roles, header) or _by_position(table, roles, header)


def optional_column(table: Table, roles: Roles, argument: str, names: Sequence[str], ends: Sequence[int]) -> int | None:
    """Return a column that describes the edges, or None without one.

    Args:
        table: the table, whose header is known.
        roles: the columns that the user names.
        argument: the role of the column, ``weight`` or ``type``.
        names: the names of the column if the user does not name it.
        ends: the columns of the two ends.
    """
    named: str | None = getattr(roles, argument)
    if named is None:
        column = table.column(names, table.index_levels) if table.header else None
        return None if column in ends else column
    if named.lower() == NO_COLUMN and find_column(table, named) is None:
        return None
    return roles.column(table, named, argument)


def column_name(table: Table, column: int) -> str:
    """Return the name of a column, or its number from 1 in a table without header."""
    return table.first_row[column] if table.header else f"column {column + 1}"


def log_columns(
    table: Table, ends: Sequence[int], weight: int | None, kind: int | None, time: int | None = None
) -> None:
    """Log which columns are used and which are not, in one line."""
    columns = range(table.index_levels, len(table.first_row))
    others = [column for column in columns if column not in (*ends, weight, kind, time)]
    used = " and ".join(column_name(table, column) for column in ends)
    used += "" if weight is None else f", weighted by {column_name(table, weight)}"
    used += "" if kind is None else f", of the kinds in {column_name(table, kind)}"
    used += "" if time is None else f", at the times in {column_name(table, time)}"
    ignored = f"; not used: {shortened([column_name(table, column) for column in others])}" if others else ""
    (log.warning if others else log.info)("%s: edges join %s%s", table.name, used, ignored)


def _by_name(table: Table, roles: Roles, header: bool) -> EdgeColumns | None:
    """Return the columns with names of ends, or None. Raise if several pairs of columns have such names.

    ``header`` is True if the first row is a header by its content. Without one, n1 and n2 are two nodes.
    """
    source, target = _named_end(table, SOURCE_NAMES), _named_end(table, TARGET_NAMES)
    if source is not None and target is not None:
        table.header = True
        return EdgeColumns([source, target])
    names = [normalised_name(name) for name in table.first_row]
    pairs = [
        pair
        for pair in itertools.permutations(range(table.index_levels, len(names)), 2)
        if _are_ends(names[pair[0]], names[pair[1]]) or (header and _are_numbered(names[pair[0]], names[pair[1]]))
    ]
    if not pairs:
        return None
    table.header = True
    first = pairs[0]
    rest = [column for column in range(table.index_levels, len(names)) if column not in first]
    doubt = [column for column in rest if is_id_name(table.first_row[column])]
    if len(pairs) > 1 or doubt:
        columns = doubt or [column for column in pairs[1] if column not in first]
        raise InputError(
            f"{table.name}: edges may join {' and '.join(table.first_row[column] for column in first)}, or "
            f"{shortened([table.first_row[column] for column in columns])}; give {_suggestion(table, first, roles)}"
        )
    return EdgeColumns(list(first), (_stem(names[first[0]]), _stem(names[first[1]])) in PAIRS_OF_KINDS)


def _by_position(table: Table, roles: Roles, header: bool) -> EdgeColumns:
    """Return the only two columns that can be ends. Raise if there are more, or fewer."""
    table.header = header
    # Numbers as names, as those of a pandas table made from an array, are no names.
    numbered = all(name.isdigit() for name in table.first_row[table.index_levels :])
    columns = list(range(table.index_levels, len(table.first_row)))
    if len(columns) < 2:
        if table.index_levels >= 2:
            return EdgeColumns([0, 1])
        example = {"\t": "a<tab>b", r"\s+": "a b"}.get(table.separator, "a,b")
        hint = " (the index does not count: reset_index())" if table.index_levels else ""
        raise InputError(f"{table.name}: one column{hint}; an edge list needs two, source and target, as {example}")
    if len(columns) == 2:
        return EdgeColumns(columns)
    if table.header and not numbered:
        ends = [column for column in columns if normalised_name(table.first_row[column]) not in ATTRIBUTES]
        if len(ends) == 2:
            return EdgeColumns(ends)
        names = shortened([table.first_row[column] for column in columns], 8)
        likely = [column for column in ends if not is_id_name(table.first_row[column])]
        suggestion = _suggestion(table, likely[:2] if len(likely) >= 2 else columns[:2], roles)
        raise InputError(
            f"{table.name}: {len(columns)} columns ({names}), and no names that mean the ends of edges; "
            f"name them, such as {suggestion}"
        )
    first = table.ids(columns[:1])[:, 0]
    if len(first) >= ROWS_FOR_KEY and len(set(first.tolist())) == len(first):
        raise InputError(
            f"{table.name}: {column_name(table, columns[0])} has another value in each row, so it may number the "
            f"edges; name the ends, such as {_suggestion(table, columns[1:3], roles)}"
        )
    return EdgeColumns(columns[:2])


def _suggestion(table: Table, columns: Sequence[int], roles: Roles) -> str:
    names = [table.first_row[column] if table.header else str(column + 1) for column in columns]
    return roles.write(source=names[0], target=names[1])


def _named_end(table: Table, names: tuple[str, ...]) -> int | None:
    """Return the column with one of these names. The index is used only if no other column has one of them."""
    column = table.column(names, table.index_levels)
    return table.column(names) if column is None else column


def _are_ends(first: str, second: str) -> bool:
    """Return whether two column names mean the two ends of an edge, in this order."""
    if (_stem(first), _stem(second)) in {*PAIRS, *PAIRS_OF_KINDS}:
        return True
    for start, end in _FROM_TO:
        if first.startswith(f"{start}_") and second == f"{end}_{first.removeprefix(f'{start}_')}":
            return first.removeprefix(f"{start}_") not in ATTRIBUTES
    return False


def _are_numbered(first: str, second: str) -> bool:
    """Return whether two column names differ in their number or letter only, as protein1 and protein2."""
    one, two = _NUMBERED.fullmatch(first), _NUMBERED.fullmatch(second)
    return bool(one and two and one[1] == two[1] and one[1] not in ATTRIBUTES and one[2] + two[2] in ("12", "ab"))


def _stem(name: str) -> str:
    """Return a column name without the ending that means an id: user_id, userid and user are alike."""
    return re.sub(r"_?(?:id|no|nr|key)$", "", name) or name
