import numpy as np
import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.runs import read_embeddings, write_shards
from epagcl.runs.shards import check_shards

pytest.importorskip("pyarrow")


@pytest.mark.parametrize("chunk", [1, 4, 7, 30])
def test_chunks_of_any_size_give_the_same_shards(tmp_path, chunk):
    z = torch.randn(23, 3)
    files = write_shards(z.split(chunk), tmp_path / "z", rows=10)
    assert [file.name for file in files] == [f"embeddings-0000{k}.parquet" for k in range(3)]
    found, ids = read_embeddings(tmp_path / "z")
    assert np.array_equal(found, z.numpy())
    assert ids == list(range(23))


def test_ids_stand_beside_their_rows(tmp_path):
    names = [f"node {k}" for k in range(5)]
    write_shards([torch.eye(5)], tmp_path, ids=lambda nodes: names[nodes], rows=2)
    assert read_embeddings(tmp_path)[1] == names


def test_shards_are_not_mixed_with_others(tmp_path):
    write_shards([torch.eye(2)], tmp_path)
    with pytest.raises(InputError, match="holds shards of an embedding"):
        write_shards([torch.eye(2)], tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        write_shards([torch.eye(2)], tmp_path / "file")


def test_shards_are_not_written_beside_other_files(tmp_path):
    check_shards(tmp_path)
    (tmp_path / "config.toml").touch()
    with pytest.raises(InputError, match="holds other files; give a new or an empty folder"):
        check_shards(tmp_path)


def test_a_column_is_a_list_of_fixed_size(tmp_path):
    import pyarrow.parquet

    (file,) = write_shards([torch.eye(3)], tmp_path)
    column = pyarrow.parquet.read_table(file).schema.field("vector").type
    assert column.list_size == 3
