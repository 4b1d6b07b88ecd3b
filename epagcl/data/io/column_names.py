"""Edges, features and labels of one graph as they were given, and which row belongs to which node.

The rules stand in :func:`epagcl.read_graph`; files (:mod:`epagcl.data.io.readers`) and what a program holds
(:mod:`epagcl.data.io.frames`) both come here.
"""

import numpy as np
import pandas as pd

from epagcl.core.errors import InputError
from epagcl.data.io.ids import factorise
from epagcl.data.io.table import Table

ID_NAMES = ("id", "node_id", "node", "name", "nodeid", "index")


# Names of ids that are often names of something else: beside an index with the ids they are.
WEAK_ID_NAMES = ("node", "name", "index")


def refuse_index_levels(table: Table) -> None:
    if table.index > 1:
        raise InputError(f"{table.name}: an index of {table.index} levels; reset_index() first, and name one column id")


def distinct_column_ids(column: pd.Series, table: Table) -> np.ndarray:
    """The distinct ids of a column in which none is missing."""
    return factorise(column.map(str).to_numpy(dtype=object).reshape(-1, 1), table, ["id"])[1]
