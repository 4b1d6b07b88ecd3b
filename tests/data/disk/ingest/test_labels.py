import numpy as np
import pytest

from epagcl.core.errors import InputError
from epagcl.data.disk.ingest.run import ingest


def labelled(tmp_path, labels, name="l.csv", **options):
    (tmp_path / "e.csv").write_text("source,target\na,b\nb,c\n")
    if isinstance(labels, np.ndarray):
        np.save(tmp_path / name, labels)
    else:
        (tmp_path / name).write_text(labels)
    return ingest(tmp_path / "e.csv", tmp_path / "graph", labels=tmp_path / name, overwrite=True, **options)


@pytest.mark.parametrize(
    ("labels", "y", "names"),
    [
        ("id,label\nc,x\na,y\n", [1, -1, 0], ["x", "y"]),
        ("id,label\nc,0\na,1\nb,\n", [1, -1, 0], None),
        ("id,label\nc,5\na,-1\nb,7\n", [-1, 1, 0], ["5", "7"]),
        ("id,label\nc,-1\na,no\nb,NA\n", [1, -1, 0], ["-1", "no"]),
        ("label\nu\nv\nu\n", [0, 1, 0], ["u", "v"]),
    ],
)
def test_labels_are_matched_and_encoded(tmp_path, labels, y, names):
    graph = labelled(tmp_path, labels)
    assert graph.labels.tolist() == y
    assert graph.label_names == names


def test_the_number_of_nodes_without_a_label_is_told(tmp_path, caplog):
    labelled(tmp_path, "id,label\nc,5\na,-1\nb,-1\n")
    assert any("label −1 means no label (nodes with it: 2)" in record.message for record in caplog.records)


def test_labels_in_arrays(tmp_path):
    assert labelled(tmp_path, np.array([[1], [0], [1]]), "l.npy").labels.tolist() == [1, 0, 1]
    with pytest.raises(InputError, match=r"l\.npy: labels have shape \(3, 2\); give one per node"):
        labelled(tmp_path, np.zeros((3, 2)), "l.npy")
    with pytest.raises(InputError, match=r"l\.npy: 2 rows for 3 distinct nodes"):
        labelled(tmp_path, np.zeros(2), "l.npy")


def test_a_column_is_named(tmp_path):
    text = "key,one,two\na,1,p\nb,2,q\nc,3,p\n"
    assert labelled(tmp_path, text, id="key", label="two").label_names == ["p", "q"]
    with pytest.raises(InputError, match="the labels may be in one, two; name their column, such as label='one'"):
        labelled(tmp_path, text, id="key")
