"""Columns of vectors: scaled as a whole, and refused where their form differs."""

import numpy as np
import pandas as pd
import pytest

import epagcl
from epagcl.core.errors import InputError
from epagcl.data.io.columns.encoding import RawTable, TableEncoding
from epagcl.data.io.columns.vector import VectorColumn, is_vector

VECTORS = np.random.default_rng(0).normal(3, 0.1, size=(40, 64))


def column(*rows):
    values = np.empty(len(rows), dtype=object)
    for k, row in enumerate(rows):
        values[k] = row
    return pd.Series(values)


def test_ratios_stay_and_the_length_is_bounded():
    features = VectorColumn.fit("v", column(*VECTORS)).transform(column(*VECTORS))
    np.testing.assert_allclose(features / VECTORS, features[0, 0] / VECTORS[0, 0])
    assert np.sqrt(np.square(features).sum(1).mean()) == pytest.approx(3)
    short = VectorColumn.fit("v", column([3.0, 4.0], [0.0, 5.0])).transform(column([3.0, 4.0]))
    np.testing.assert_allclose(short, np.array([[3.0, 4.0]]) * 2**0.5 / 5)


def test_missing_vectors_are_marked():
    values = column([1, 2], None, [3, 4])
    fitted = VectorColumn.fit("v", values)
    assert fitted.feature_names == ["v[0]", "v[1]", "v=missing"]
    assert fitted.transform(values)[1].tolist() == [0, 0, 1]
    assert fitted.words == "2 entries, gaps"


def test_vectors_of_zeros():
    assert VectorColumn.fit("v", column([0.0], [0.0])).transform(column([0.0])).tolist() == [[0.0]]


@pytest.mark.parametrize(
    "rows",
    [([1, 2], [3]), (["a"], ["b"]), ([], []), ([[1, 2], [3]], [1]), ({"a": 1}, {"a": 2}), ([True], [False]), (None,)],
    ids=["lengths", "text", "empty", "nested", "dicts", "booleans", "missing"],
)
def test_other_lists_are_no_vectors(rows):
    assert not is_vector(column(*rows))


def test_a_table_with_vectors_is_saved_and_read_back(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"id": range(40), "embedding": list(VECTORS.astype(np.float32)), "city": ["a", "b"] * 20})
    frame.to_parquet(tmp_path / "f.parquet")
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"{k},{(k + 1) % 40}\n" for k in range(40)))
    data = epagcl.read_graph(edges=tmp_path / "e.csv", features=tmp_path / "f.parquet")
    assert data.feature_names[:2] + data.feature_names[-2:] == ["embedding[0]", "embedding[1]", "city=a", "city=b"]
    assert data.encoding.summary()[0] == {"name": "embedding", "kind": "vector", "words": "64 entries", "features": 64}
    assert TableEncoding.from_dict(data.encoding.to_dict()) == data.encoding
    epagcl.Propagated(dim=4, device="cpu").fit(data).save(tmp_path / "m")
    assert epagcl.load_model(tmp_path / "m").encoding_ == data.encoding


def test_a_later_table_with_another_length_names_the_row():
    encoding = TableEncoding.fit(RawTable("f", pd.DataFrame({"v": column([1, 2], [3, 4])})))
    for row in ([1, 2, 3], "text", [1, "x"]):
        later = RawTable("f", pd.DataFrame({"v": column([1, 2], row)}))
        with pytest.raises(
            InputError, match=r"^f: row 1 \(counted from 0\): column 'v' is not a list of 2 numbers; mend"
        ):
            encoding.transform(later)


def test_a_column_that_the_user_calls_a_vector():
    with pytest.raises(InputError, match=r"^f: column 'v': not a list of numbers in every row"):
        TableEncoding.fit(RawTable("f", pd.DataFrame({"v": ["a", "b"]})), {"v": "vector"})
