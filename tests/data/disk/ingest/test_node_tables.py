import gzip

import numpy as np
import pandas as pd
import pytest

from epagcl.core.errors import InputError
from epagcl.data.disk.ingest.node_tables import block_values, blocks, line_blocks, place_numbers


@pytest.mark.parametrize("size", [1, 7, 30, 10_000])
@pytest.mark.parametrize("name", ["f.csv", "f.csv.gz"])
def test_blocks_of_text_are_the_whole_table(tmp_path, size, name):
    text = 'id,v,t\n# c\na,1,"x,y"\n\nb,2,z\nc,3\nd,4,w'
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    frames, places = [], []
    for number, block in enumerate(blocks(path, size)):
        block.header = number == 0
        if number == 0 and len(block.lines) == 1:
            continue  # the header alone
        frames.append(block_values(block, 0))
        places += place_numbers(block, len(frames[-1])).tolist()
    frame = pd.concat(frames)
    assert frame[0].tolist() == ["a", "b", "c", "d"]
    assert frame[1].tolist() == [1, 2, 3, 4]
    assert places == [3, 5, 6, 7]


def test_no_quote_is_open_at_the_end_of_a_block(tmp_path):
    (tmp_path / "f.csv").write_bytes(b'a,"1\n2\n3"\nb,4\n')
    assert list(line_blocks(tmp_path / "f.csv", 6)) == [b'a,"1\n2\n3"\n', b"b,4\n"]


def test_blocks_of_parquet_are_the_whole_table(tmp_path):
    frame = pd.DataFrame({"id": [f"k{k}" for k in range(25)], "v": np.arange(25.0)})
    frame.to_parquet(tmp_path / "f.parquet")
    found = list(blocks(tmp_path / "f.parquet", rows=10))
    assert [len(block.frame) for block in found] == [10, 10, 5]
    assert found[2].place(1) == "row 21 (counted from 0)"
    assert place_numbers(found[1], 2).tolist() == [10, 11]
    assert pd.concat([block_values(block, 0)[1] for block in found]).tolist() == list(range(25))


def test_unreadable_tables_are_told(tmp_path):
    (tmp_path / "f.parquet").write_bytes(b"PAR1")
    (tmp_path / "f.csv.gz").write_bytes(gzip.compress(bytes(range(33, 127)) * 9)[:60])
    (tmp_path / "f.xlsx").write_bytes(b"x")
    pd.DataFrame({"a": []}).to_parquet(tmp_path / "empty.parquet")
    for name, message in (
        ("f.parquet", "not a readable Parquet file"),
        ("f.csv.gz", "not a complete gzip file; compress it again"),
        ("f.xlsx", r"cannot read \.xlsx as a table; give"),
        ("empty.parquet", "the table is empty"),
    ):
        with pytest.raises(InputError, match=message):
            list(blocks(tmp_path / name))
