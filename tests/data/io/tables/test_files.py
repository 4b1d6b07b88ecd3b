"""Opening tables by their suffix, and the errors of files that cannot be opened."""

from pathlib import Path

import pandas as pd
import pytest

from epagcl.core.errors import MissingExtra
from epagcl.data import read_graph
from epagcl.data.io.tables import files as table_files
from tests.data.io.helpers import FEATURES, read_error


def test_broken_parquet(files):
    message = read_error(files(edges=("e.parquet", "junk"), features=("f.csv", FEATURES)))
    assert message.startswith("e.parquet: not a readable Parquet file (")


def test_missing_pyarrow_names_the_extra(files, monkeypatch):
    names = files(edges=("e.parquet", pd.DataFrame({"u": ["x"], "v": ["y"]})), features=("f.csv", FEATURES))
    monkeypatch.setattr(table_files.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"^reading Parquet needs pyarrow: pip install '\.\[parquet\]'"):
        read_graph(**names)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.csv", "", "e.csv: the file is empty; write it again"),
        ("e.xlsx", "x", "e.xlsx: cannot read .xlsx as a table; give .csv, .tsv, .txt, .parquet"),
        ("e", "x", "e: cannot read a file without suffix as a table; give .csv, .tsv, .txt, .parquet"),
    ],
)
def test_errors_name_the_file_and_the_fix(name, content, message, files):
    assert read_error(files(edges=(name, content), features=("f.csv", FEATURES))) == message


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("a.csv", ".csv"), ("a.TSV", ".tsv"), ("a.b.txt.gz", ".txt"), ("a.parquet.gz", ".gz"), ("a.gz", ".gz"), ("a", "")],
)
def test_the_suffix_names_the_format(name, suffix):
    assert table_files.table_suffix(Path(name)) == suffix
