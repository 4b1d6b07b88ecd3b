"""Embeddings in files: values, ids, and nothing half-written."""

import os
import time

import numpy as np
import pandas as pd
import pytest
import torch

from epagcl.data import writers
from epagcl.data.writers import check_output, write_embeddings
from epagcl.errors import InputError, MissingExtra
from epagcl.files import atomic_path

Z = torch.tensor([[0.1, -2.5e-7], [1 / 3, 4e20], [0.0, -1.0]])


def test_npy_has_its_ids_beside_it(tmp_path):
    path = tmp_path / "z.npy"
    assert write_embeddings(Z, np.array(["b", "a", "é"], dtype=object), path) == [path, tmp_path / "z.ids.txt"]
    loaded = np.load(path)
    assert loaded.dtype == np.float32
    assert np.array_equal(loaded, Z.numpy())
    assert (tmp_path / "z.ids.txt").read_text(encoding="utf-8") == "b\na\né\n"
    assert sorted(os.listdir(tmp_path)) == ["z.ids.txt", "z.npy"]


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t"), (".CSV", ",")])
def test_text_gives_back_every_value_and_id(suffix, separator, tmp_path):
    ids = ["plain", 'with,comma "and" quote', "with\ttab"]
    path = tmp_path / f"z{suffix}"
    assert write_embeddings(Z, ids, path) == [path]
    assert path.read_text().splitlines()[0] == separator.join(["id", "z0", "z1"])
    frame = pd.read_csv(path, sep=separator)
    assert frame["id"].tolist() == ids
    assert np.array_equal(frame[["z0", "z1"]].to_numpy(np.float32), Z.numpy())


def test_text_of_random_floats_is_exact(tmp_path):
    bits = np.random.default_rng(0).integers(0, 2**32, 3000, dtype=np.uint32).view(np.float32)
    z = bits[np.isfinite(bits)][:2900].reshape(-1, 10)
    write_embeddings(z, None, tmp_path / "z.csv")
    fields = np.array([line.split(",") for line in (tmp_path / "z.csv").read_text().splitlines()[1:]])
    assert np.array_equal(fields[:, 1:].astype(np.float32), z)
    assert fields[:, 0].tolist() == [str(row) for row in range(290)]


@pytest.mark.parametrize(
    ("ids", "read"),
    [([3, 1, 2], [3, 1, 2]), (["b", "a", "c"], ["b", "a", "c"]), ([(0, 1), 2, "c"], ["(0, 1)", "2", "c"])],
)
def test_parquet(ids, read, tmp_path):
    path = tmp_path / "z.parquet"
    assert write_embeddings(Z, ids, path) == [path]
    frame = pd.read_parquet(path)
    assert frame.columns.tolist() == ["id", "z0", "z1"]
    assert frame["id"].tolist() == read
    assert frame["z0"].dtype == np.float32
    assert np.array_equal(frame[["z0", "z1"]].to_numpy(), Z.numpy())


def test_integer_ids_of_a_graph_stay_integers(tmp_path):
    write_embeddings(Z, np.array([30, 10, 20]), tmp_path / "z.csv")
    assert pd.read_csv(tmp_path / "z.csv")["id"].tolist() == [30, 10, 20]


def test_existing_file_is_replaced(tmp_path):
    path = tmp_path / "z.csv"
    path.write_text("old")
    write_embeddings(Z, None, path)
    assert path.read_text().startswith("id,z0,z1\n0,0.1")


def test_wrong_number_of_ids(tmp_path):
    with pytest.raises(InputError, match=r"^z.csv: 2 ids for 3 embeddings; give one per row$"):
        write_embeddings(Z, ["a", "b"], tmp_path / "z.csv")
    assert os.listdir(tmp_path) == []


def test_id_with_line_break_cannot_stand_in_a_list(tmp_path):
    with pytest.raises(InputError, match=r"^z.ids.txt: an id holds a line break; write .csv or .parquet"):
        write_embeddings(Z, ["a", "b\nc", "d"], tmp_path / "z.npy")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
def test_failure_leaves_the_old_file_and_nothing_else(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"z{suffix}"
    path.write_text("old")

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(writers.np, "save", fail)
    monkeypatch.setattr(writers.csv, "writer", fail)
    monkeypatch.setattr(writers.pd.DataFrame, "to_parquet", fail)
    with pytest.raises(OSError, match="disk full"):
        write_embeddings(Z, None, path)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_text() == "old"


def test_atomic_path_keeps_the_suffix_and_the_folder(tmp_path):
    target = tmp_path / "figure.svg"
    with atomic_path(target) as temporary:
        temporary.write_text("new")
        assert temporary.suffix == ".svg"
        assert temporary.parent == tmp_path
        assert not target.exists()
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["figure.svg"]


def test_atomic_path_cleans_up_after_an_error(tmp_path):
    def stop(path):
        path.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), atomic_path(tmp_path / "a.txt") as temporary:
        stop(temporary)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["z.npy", "z.csv", "z.tsv", "z.parquet"])
def test_check_output_passes_and_writes_nothing(name, tmp_path):
    check_output(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_check_output_names_the_fix(tmp_path):
    with pytest.raises(InputError, match=r"z.xlsx: cannot write .xlsx; use .npy, .csv, .tsv, .parquet$"):
        check_output(tmp_path / "z.xlsx")
    with pytest.raises(InputError, match=r"cannot write a file without suffix; use .npy"):
        check_output(tmp_path / "z")
    with pytest.raises(InputError, match=r"the folder .*nowhere does not exist; make it first$"):
        check_output(tmp_path / "nowhere" / "z.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"folder.csv: is a folder; give the name of a file$"):
        check_output(tmp_path / "folder.csv")
    (tmp_path / "z.ids.txt").mkdir()
    with pytest.raises(InputError, match=r"z.ids.txt: is a folder; give the name of a file$"):
        check_output(tmp_path / "z.npy")


def test_check_output_sees_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(writers.os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(InputError, match=r"is not writable; choose another$"):
        check_output(tmp_path / "z.csv")


def test_missing_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(writers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"^writing Parquet needs pyarrow: pip install 'epagcl\[parquet\]'$"):
        check_output(tmp_path / "z.parquet")
    check_output(tmp_path / "z.csv")


def test_missing_folder_fails_before_writing(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        write_embeddings(Z, None, tmp_path / "nowhere" / "z.npy")


def test_text_is_fast(tmp_path):
    z = np.random.default_rng(0).standard_normal((2000, 256), dtype=np.float32)
    start = time.process_time()
    write_embeddings(z, None, tmp_path / "z.csv")
    assert time.process_time() - start < 2  # a fifth of 10,000 rows, with a tenfold margin
