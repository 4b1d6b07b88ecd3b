"""The interface of all tables: names and titles of columns."""

import pandas as pd
import pytest

from epagcl.data.io.tables.base import is_number, normalised_name
from epagcl.data.io.tables.frame import FrameTable


@pytest.mark.parametrize("name", ["node_id", "Node ID", " node-id ", '"NODE  id"'])
def test_column_names_are_compared_without_case_and_spaces(name):
    assert normalised_name(name) == "node_id"


def test_columns_are_found_by_the_preferred_name():
    table = FrameTable(pd.DataFrame({"Name": ["p"], "ID": ["x"], "a": [1]}), "t")
    assert table.column(("id", "name")) == 1
    assert table.column(("id", "name"), start=2) is None
    assert table.title(0) == "column 'Name'"
    table.header = False
    assert table.title(0) == "column 1"


@pytest.mark.parametrize(
    ("text", "expected"), [("1", True), ("-1e3", True), ("nan", True), ("1,5", False), ("", False)]
)
def test_numbers(text, expected):
    assert is_number(text) == expected
