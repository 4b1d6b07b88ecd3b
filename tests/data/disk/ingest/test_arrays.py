import numpy as np
import pytest

from epagcl.data.disk.ingest.arrays import writing_array


@pytest.mark.parametrize("columns", [None, 3])
def test_parts_are_one_array(tmp_path, columns):
    rng = np.random.default_rng(0)
    shape = () if columns is None else (columns,)
    parts = [rng.random((rows, *shape)).astype(np.float32) for rows in (4, 0, 1, 12345)]
    with writing_array(tmp_path / "a.npy", np.float32, columns) as writer:
        for part in parts:
            writer.append(part)
        assert not (tmp_path / "a.npy").exists()
    loaded = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert loaded.dtype == np.float32
    assert np.array_equal(loaded, np.concatenate(parts))


def test_an_error_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="invalid literal"), writing_array(tmp_path / "a.npy", np.int64) as writer:
        writer.append(np.array(["x"]))
    assert list(tmp_path.iterdir()) == []
