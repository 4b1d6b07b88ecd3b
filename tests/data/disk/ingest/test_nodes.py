import numpy as np
import pytest

from epagcl.core.errors import InputError
from epagcl.data.disk.ingest.run import ingest


def ids(tmp_path, edges, **tables):
    paths = {}
    for part, text in {"edges": edges, **tables}.items():
        paths[part] = tmp_path / f"{part}.csv"
        paths[part].write_text(text)
    return ingest(paths.pop("edges"), tmp_path / "graph", **paths, overwrite=True).ids


def test_nodes_are_those_of_the_list_then_of_the_edges_then_of_the_labels(tmp_path, caplog):
    found = ids(tmp_path, "source,target\nd,c\nc,b\n", nodes="id\nx\nb\n", labels="id,label\nz,1\nc,0\n")
    assert found.tolist() == ["x", "b", "d", "c", "z"]
    assert any("1 node without edges (z) added" in record.message for record in caplog.records)


def test_integers_from_0_are_in_ascending_order(tmp_path):
    assert ids(tmp_path, "source,target\n3,1\n0,2\n").tolist() == [0, 1, 2, 3]
    assert ids(tmp_path, "source,target\n3,1\n4,2\n").tolist() == [3, 1, 4, 2]
    assert ids(tmp_path, "source,target\n3,1\n0,2\n").dtype == np.int64


def test_ids_of_text_and_integers_are_compared_as_text(tmp_path):
    found = ids(tmp_path, "source,target\n1,2\n2,3\n", features="id,v\n3,1\n2,1\n1,2\nx,4\n")
    assert found.tolist() == ["3", "2", "1", "x"]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"labels": "id,label\nx,1\ny,0\n"},
            r"labels\.csv: line 2: 2 ids not in the graph \(x, y\); use the ids of edges",
        ),
        (
            {"features": "id,v\na,1\nb,2\n", "labels": "id,label\na,1\ny,0\n"},
            r"labels\.csv: line 3: 1 id not in the graph \(y\); drop these rows, or add the nodes to the features",
        ),
        ({"features": "1.5,2\n2,3\n3,4\n"}, r"features\.csv: 3 rows for 2 distinct nodes in edges\.csv; give the ids"),
        ({"labels": "label\nu\nv\nw\n"}, r"labels\.csv: 3 rows for 2 distinct nodes in edges\.csv; give the ids"),
        (
            {"features": "1.5\n2.5\n", "nodes": "id\na\n"},
            r"nodes\.csv: 1 id for 2 rows of features\.csv; give one per row",
        ),
        (
            {"features": "id,v\na,1\nb,2\n", "nodes": "id\na\n"},
            r"nodes\.csv: features\.csv has ids itself; leave out nodes=",
        ),
    ],
)
def test_tables_that_do_not_fit_are_told(tmp_path, tables, message):
    with pytest.raises(InputError, match=message):
        ids(tmp_path, "source,target\na,b\n", **tables)


def test_negative_ids_have_no_row(tmp_path):
    with pytest.raises(InputError, match=r"edges\.csv: line 3: node -4 is negative, and the rows of features\.csv"):
        ids(tmp_path, "source,target\n1,2\n2,-4\n", features="1.5,2\n2,3\n3,4\n")


def test_a_first_row_that_may_be_a_header_is_told(tmp_path, caplog):
    assert ids(tmp_path, "p,q\na,b\nb,c\n").tolist() == ["p", "q", "a", "b", "c"]
    assert any("line 1 (p, q) is read as an edge" in record.message for record in caplog.records)
