import numpy as np
import pandas as pd
import pytest

from epagcl.core.errors import InputError
from epagcl.runs import read_embeddings, write_embeddings

Z = np.random.default_rng(0).normal(size=(12, 11)).astype(np.float32)
IDS = list("abcdefghijkl")


@pytest.mark.parametrize("ids", [IDS, list(range(12)), ["007", *map(str, range(11))]])
@pytest.mark.parametrize("name", ["z.npy", "z.csv", "z.tsv", "z.parquet", "vectors.parquet"])
def test_what_was_written_is_read(name, ids, tmp_path):
    path = tmp_path / name
    write_embeddings(Z, ids, path, vectors=name.startswith("vectors"))
    z, read = read_embeddings(path)
    assert z.dtype == np.float32
    assert z.flags.c_contiguous
    assert np.array_equal(z, Z)
    assert read == ids


def test_other_columns_are_ignored_and_dimensions_are_in_order(tmp_path):
    columns = pd.DataFrame({"degree": range(12), "zone": ["x"] * 12})
    write_embeddings(Z, None, tmp_path / "z.parquet", columns)
    z, ids = read_embeddings(tmp_path / "z.parquet")
    assert np.array_equal(z, Z)
    assert ids == list(range(12))


def test_a_run_folder_and_an_array_without_ids(tmp_path):
    write_embeddings(Z, IDS, tmp_path / "embeddings.npy")
    assert read_embeddings(tmp_path)[1] == IDS
    np.save(tmp_path / "own.npy", Z)
    assert read_embeddings(tmp_path / "own.npy")[1] == list(range(12))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("z.csv", None, "no such file; give embeddings"),
        ("z.xlsx", "x", "not a file of embeddings; give .npy, .csv, .tsv, .parquet or a run folder"),
        ("z.csv", "id,a\n1,2\n", "no columns id and z0, z1, ... or vector; write it with `epagcl embed --out"),
        ("z.csv", "id,z0\n1,x\n", "embeddings are not numbers in rows of one length; write it again"),
        ("z.npy", "x", "write it"),
        ("z.parquet", "x", "write it again"),
    ],
)
def test_wrong_files_are_named_with_the_fix(name, text, message, tmp_path):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as error:
        read_embeddings(tmp_path / name)
    assert message in str(error.value)


def test_rows_and_ids_must_agree(tmp_path):
    write_embeddings(Z, None, tmp_path / "z.npy")
    (tmp_path / "z.ids.txt").write_text("a\n")
    with pytest.raises(InputError, match=r"z.npy: 12 rows for 1 ids; write both again$"):
        read_embeddings(tmp_path / "z.npy")
    np.save(tmp_path / "z.npy", Z[0])
    with pytest.raises(InputError, match=r"shape \(11,\); give numbers, one row per node$"):
        read_embeddings(tmp_path / "z.npy")


# ---- One column of vectors


def test_vectors_are_arrow_lists_of_fixed_size(tmp_path):
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "z.parquet"
    columns = pd.DataFrame({"degree": range(12)})
    assert write_embeddings(Z, IDS, path, columns, vectors=True) == [path]
    schema = pyarrow.parquet.read_schema(path)
    assert schema.names == ["id", "degree", "vector"]
    assert schema.field("vector").type == pyarrow.list_(pyarrow.float32(), 11)
    assert np.array_equal(np.stack(pd.read_parquet(path)["vector"]), Z)


def test_duckdb_reads_vectors(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    import pyarrow.parquet

    path = tmp_path / "z.parquet"
    write_embeddings(np.eye(3), ["a", "b", "c"], path, vectors=True)
    query = "select id, array_cosine_similarity(vector::FLOAT[3], [0, 1, 0]::FLOAT[3]) from '{}'"
    assert duckdb.sql(query.format(path)).fetchall() == [("a", 0.0), ("b", 1.0), ("c", 0.0)]
    nodes = pyarrow.parquet.read_table(path)
    with duckdb.connect() as connection:
        connection.register("nodes", nodes)
        assert connection.sql("select typeof(vector) from nodes").fetchall()[0] == ("FLOAT[3]",)


def test_vectors_need_parquet_and_a_free_name(tmp_path):
    with pytest.raises(InputError, match=r"z.csv: one column of vectors needs .parquet; leave out vectors= or write"):
        write_embeddings(Z, None, tmp_path / "z.csv", vectors=True)
    with pytest.raises(InputError, match=r"^z.parquet: a column named vector already exists; rename yours$"):
        write_embeddings(Z, None, tmp_path / "z.parquet", pd.DataFrame({"vector": range(12)}), vectors=True)


def test_arrays_are_written_in_c_order(tmp_path):
    write_embeddings(np.asfortranarray(Z), None, tmp_path / "z.npy")
    assert np.load(tmp_path / "z.npy").flags.c_contiguous


@pytest.mark.parametrize("name", ["z.npy", "z.csv", "z.parquet"])
def test_ids_occur_once(tmp_path, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    write_embeddings(np.eye(3), ["a", "b", "a"], tmp_path / name)
    with pytest.raises(InputError, match=r"id a is in rows 0 and 2 \(counted from 0\); keep one row per node"):
        read_embeddings(tmp_path / name)
