import numpy as np
import pytest

from epagcl.core.errors import InputError
from epagcl.data.disk.ingest import ids as module
from epagcl.data.disk.ingest.edge_rows import edge_source, write_rows
from epagcl.data.disk.ingest.ids import EDGE_IDS, write_edge_ids, write_listed
from epagcl.data.disk.ingest.node_tables import block_values, blocks
from epagcl.data.disk.ingest.work import quoted
from epagcl.data.io.roles import Roles


def ids_of(work, tmp_path, text):
    (tmp_path / "e.csv").write_text(text)
    source = edge_source(tmp_path / "e.csv", Roles())
    found = write_edge_ids(source, write_rows(source, work)["integers"], Roles(), work)
    rows = work.sql(f"SELECT id, min(first) FROM '{quoted(work.path(EDGE_IDS))}' GROUP BY id ORDER BY 2")
    return found, [node for node, _ in rows]


def test_ids_are_by_first_appearance_and_trimmed(work, tmp_path):
    found, ids = ids_of(work, tmp_path, "source,target\nb,a\na , c\nc,b\n")
    assert ids == ["b", "a", "c"]
    assert found == {"count": 3, "integers": False, "plain": False, "low": 0, "high": 0}
    assert ids_of(work, tmp_path, "source,target\nb,a\n")[0]["plain"]


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        (["7", "7.0", "-3"], [7, -3]),
        (["07", "7", "3"], ["07", "7", "3"]),
        (["7", "9223372036854775808", "3"], ["7", "9223372036854775808", "3"]),
        (["1e1", "+7", "3"], ["1e1", "+7", "3"]),
    ],
)
def test_ids_are_integers_if_all_are_written_as_one(work, tmp_path, written, ids, caplog):
    found, result = ids_of(work, tmp_path, f"source,target\n{written[0]},{written[1]}\n{written[1]},{written[2]}\n")
    assert result == ids
    assert found["integers"] == isinstance(ids[0], int)
    merged = [each.message for each in caplog.records if "written differently" in each.message]
    assert merged == (["e.csv: ids written differently are one node: '7' and '7.0' (1 such pair)"] if 7 in ids else [])


def test_passes_give_the_same_ids(work, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    text = "source,target\n" + "".join(f"k{a},k{b}\n" for a, b in rng.integers(0, 50, (200, 2)))
    expected = ids_of(work, tmp_path, text)
    monkeypatch.setattr(module, "_GROUP_BYTES", 10**8)
    assert ids_of(work, tmp_path, text) == expected


def listed(work, path, column=0):
    parts = ((block, block_values(block, column)[column].to_numpy(dtype=object)) for block in _with_header(path))
    return write_listed(parts, "listed.parquet", work)


def _with_header(path):
    for number, block in enumerate(blocks(path, size=20)):
        block.header = number == 0
        yield block


def test_the_ids_of_a_table_are_numbered_by_row(work, tmp_path):
    (tmp_path / "f.csv").write_text("id,v\n5,1\n# c\n3.0,2\n7,3\n")
    found = listed(work, tmp_path / "f.csv")
    assert (found.name, found.integers, found.rows) == ("f.csv", True, 3)
    rows = work.sql(f"SELECT row, place, id FROM '{quoted(work.path(found.file))}' ORDER BY row")
    assert rows == [(0, 2, 5), (1, 4, 3), (2, 5, 7)]


def test_missing_and_repeated_ids_are_told_with_their_lines(work, tmp_path):
    (tmp_path / "f.csv").write_text("id,v\na,1\n,2\n")
    with pytest.raises(InputError, match=r"f\.csv: line 3: the id is missing; fill it or drop the row"):
        listed(work, tmp_path / "f.csv")
    (tmp_path / "f.csv").write_text("id,v\na,1\nb,1\n\nb ,2\na,3\n")
    with pytest.raises(InputError, match=r"f\.csv: id b is in line 3 and line 5 \(2 repeated rows\); keep one row"):
        listed(work, tmp_path / "f.csv")
