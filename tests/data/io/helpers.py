"""A small graph in files and tables, and readable views of what was read."""

import pandas as pd
import pytest
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.data import from_tables, read_graph

EDGES = "source,target\nx,y\ny,z\n"
FEATURES = "id,a,b\nx,1,2\ny,3,4\nz,5,6\n"
X = [[1, 2], [3, 4], [5, 6]]
PATH = {("x", "y"), ("y", "z")}
ENDS = pd.DataFrame({"source": ["x", "y"], "target": ["y", "z"]})
TABLE = pd.DataFrame({"id": ["x", "y", "z"], "a": [1, 3, 5], "b": [2, 4, 6]})


def pairs(data: Data) -> set[tuple]:
    """Return the undirected pairs by id."""
    ends = data.node_ids[data.edge_index.numpy()].T.tolist()
    return {tuple(pair) for pair in ends if list(pair) == sorted(pair)}


def rows(data: Data) -> dict:
    """Return the features by id."""
    return dict(zip(data.node_ids.tolist(), data.x.to_dense().tolist(), strict=True))


def logged(caplog) -> list[str]:
    """Return the logged warnings, and notes other than those of every graph: directions, and columns used."""
    usual = ("in both directions", ": edges join ", ": ids in ", "are used as they are")
    return [
        text
        for record in caplog.records
        if not any(words in (text := record.getMessage()) for words in usual) or record.levelname == "WARNING"
    ]


def read_error(arguments: dict) -> str:
    """Return the one-line error of ``read_graph``."""
    with pytest.raises(InputError) as error:
        read_graph(**arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


def from_tables_error(*arguments, **options) -> str:
    """Return the one-line error of ``from_tables``."""
    with pytest.raises(InputError) as error:
        from_tables(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)
