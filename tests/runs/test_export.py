"""Embeddings in files: exact values, ids, and no partial files."""

import csv
import json
import os
import time

import numpy as np
import pandas as pd
import pytest
import torch

from epagcl.core.errors import InputError, MissingExtra, OutputError
from epagcl.core.files import atomic_path
from epagcl.runs import export
from epagcl.runs.export import (
    check_output,
    export_run,
    read_embeddings,
    write_embeddings,
    write_projector,
)

Z = torch.tensor([[0.1, -2.5e-7], [1 / 3, 4e20], [0.0, -1.0]])


def test_the_ids_of_an_npy_file_are_beside_it(tmp_path):
    path = tmp_path / "z.npy"
    assert write_embeddings(Z, np.array(["b", "a", "é"], dtype=object), path) == [path, tmp_path / "z.ids.txt"]
    loaded = np.load(path)
    assert loaded.dtype == np.float32
    assert np.array_equal(loaded, Z.numpy())
    assert (tmp_path / "z.ids.txt").read_text(encoding="utf-8") == "b\na\né\n"
    assert sorted(os.listdir(tmp_path)) == ["z.ids.txt", "z.npy"]


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t"), (".CSV", ",")])
def test_text_restores_every_value_and_id(suffix, separator, tmp_path):
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


def test_an_id_with_a_line_break_is_refused(tmp_path):
    with pytest.raises(
        InputError, match=r"node id 'b\\nc' contains a line break; rename the node, or write \.csv or \.parquet"
    ):
        write_embeddings(Z, ["a", "b\nc", "d"], tmp_path / "z.npy")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
def test_failure_leaves_the_old_file_and_nothing_else(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"z{suffix}"
    path.write_text("old")

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(export, "write_array", fail)
    monkeypatch.setattr(export.csv, "writer", fail)
    monkeypatch.setattr(export.pd.DataFrame, "to_parquet", fail)
    with pytest.raises(OutputError, match=r"z\.\w+: cannot be written \(disk full\); write elsewhere$"):
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
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"z.csv: cannot be written \(.*\); give another path$"):
        check_output(tmp_path / "file" / "z.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"folder.csv: is a folder; give the name of a file$"):
        check_output(tmp_path / "folder.csv")
    (tmp_path / "z.ids.txt").mkdir()
    with pytest.raises(InputError, match=r"z.ids.txt: is a folder; give the name of a file$"):
        check_output(tmp_path / "z.npy")


def test_check_output_sees_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    def refuse(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)  # root may write anywhere
    with pytest.raises(InputError, match=r"z.csv: cannot be written \(Permission denied\); give another path$"):
        check_output(tmp_path / "z.csv")


def test_a_missing_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(export.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"^writing Parquet needs pyarrow: pip install '\.\[parquet\]'"):
        check_output(tmp_path / "z.parquet")
    check_output(tmp_path / "z.csv")


def test_a_missing_folder_is_made(tmp_path):
    write_embeddings(Z, None, tmp_path / "new" / "one" / "z.npy")
    assert np.load(tmp_path / "new" / "one" / "z.npy").shape == Z.shape


def test_files_have_the_permissions_of_the_umask(tmp_path):
    """Some writers create files that only their owner can read."""
    before = os.umask(0o027)
    try:
        with atomic_path(tmp_path / "a.bin") as temporary:
            os.close(os.open(temporary, os.O_CREAT | os.O_WRONLY, 0o600))
    finally:
        os.umask(before)
    assert (tmp_path / "a.bin").stat().st_mode & 0o777 == 0o640


def test_further_columns_have_one_row_per_node_and_new_names(tmp_path):
    for suffix in (".csv", ".parquet"):
        path = tmp_path / f"z{suffix}"
        with pytest.raises(InputError, match="2 rows of columns for 3 embeddings; give one per row"):
            write_embeddings(np.eye(3), None, path, pd.DataFrame({"a": [1, 2]}))
        with pytest.raises(InputError, match="a column named id already exists; rename yours"):
            write_embeddings(np.eye(3), None, path, pd.DataFrame({"id": [1, 2, 3]}))
    with pytest.raises(InputError, match=r"embeddings of shape \(3,\); give one row per node"):
        write_embeddings(np.ones(3), None, tmp_path / "z.csv")
    write_embeddings(np.eye(3), [np.int64(7), np.int64(8), np.int64(9)], tmp_path / "z.parquet")
    assert pd.read_parquet(tmp_path / "z.parquet")["id"].tolist() == [7, 8, 9]


def test_text_is_fast(tmp_path):
    z = np.random.default_rng(0).standard_normal((2000, 256), dtype=np.float32)
    start = time.process_time()
    write_embeddings(z, None, tmp_path / "z.csv")
    assert time.process_time() - start < 2  # a fifth of 10,000 rows, with a tenfold margin


# ---- Further columns, and runs in other formats

IDS = ["a", 'b,"\tc', "NA"]
NODES = pd.DataFrame({"id": IDS, "degree": [3, 1, 2], "label": ["NA", None, "red"], "cluster": [1, None, 0]})


@pytest.fixture
def run_folder(tmp_path):
    """A finished run of three nodes, with the report's table of nodes."""
    folder = tmp_path / "run"
    folder.mkdir()
    write_embeddings(Z, IDS, folder / "embeddings.npy")
    NODES.assign(cluster=NODES["cluster"].astype("Int64"), x=[0.1, -2.0, 1 / 3]).to_csv(
        folder / "nodes.csv", index=False
    )
    return folder


@pytest.mark.parametrize("ids", [["x", "7", "y"], [0, 5, -3], ["007", "1", "2"], ["\u2028", "\x0b", "NA"]])
def test_embeddings_read_back(ids, tmp_path):
    write_embeddings(Z, ids, tmp_path / "z.npy")
    z, read = read_embeddings(tmp_path / "z.npy")
    assert np.array_equal(z, Z.numpy())
    assert read == ids


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_export_as_text_with_the_columns_of_the_nodes(suffix, run_folder, tmp_path):
    out = tmp_path / f"z{suffix}"
    assert export_run(run_folder, out, None, columns=True) == [out]
    with out.open(newline="") as file:
        rows = list(csv.reader(file, delimiter="," if suffix == ".csv" else "\t"))
    assert rows[0] == ["id", "degree", "label", "cluster", "x", "z0", "z1"]
    assert [row[:5] for row in rows[1:]] == [
        ["a", "3", "NA", "1", "0.1"],
        ['b,"\tc', "1", "", "", "-2.0"],
        ["NA", "2", "red", "0", repr(1 / 3)],
    ]
    assert np.array_equal(np.array([row[5:] for row in rows[1:]], dtype=np.float32), Z.numpy())


def test_export_as_parquet_keeps_the_types(run_folder, tmp_path):
    export_run(run_folder, tmp_path / "z.parquet", None, columns=True)
    frame = pd.read_parquet(tmp_path / "z.parquet")
    assert frame.columns.tolist() == ["id", "degree", "label", "cluster", "x", "z0", "z1"]
    assert frame["id"].tolist() == IDS
    assert frame["degree"].tolist() == [3, 1, 2]
    assert frame["cluster"].isna().tolist() == [False, True, False]
    assert frame["cluster"].dropna().tolist() == [1, 0]
    assert frame["label"].isna().tolist() == [False, True, False]
    assert frame["z0"].dtype == np.float32
    assert frame["z1"].tolist() == Z[:, 1].tolist()


def test_export_without_columns_equals_the_file_of_training(run_folder, tmp_path):
    (run_folder / "nodes.csv").unlink()
    export_run(run_folder, tmp_path / "z.csv", None)
    write_embeddings(Z, IDS, tmp_path / "expected.csv")
    assert (tmp_path / "z.csv").read_bytes() == (tmp_path / "expected.csv").read_bytes()
    assert export_run(run_folder, tmp_path / "z.npy", None) == [tmp_path / "z.npy", tmp_path / "z.ids.txt"]
    assert np.array_equal(np.load(tmp_path / "z.npy"), Z.numpy())


def test_projector_files(run_folder, tmp_path):
    folder = tmp_path / "deep" / "projector"
    files = export_run(run_folder, None, folder)
    assert [path.name for path in files] == ["vectors.tsv", "metadata.tsv", "projector_config.pbtxt"]
    assert sorted(os.listdir(folder)) == sorted(path.name for path in files)
    vectors = [line.split("\t") for line in (folder / "vectors.tsv").read_text().splitlines()]
    assert np.array_equal(np.array(vectors, dtype=np.float32), Z.numpy())
    assert (folder / "metadata.tsv").read_text() == (
        f'id\tdegree\tlabel\tcluster\tx\na\t3\tNA\t1\t0.1\nb," c\t1\t\t\t-2.0\nNA\t2\tred\t0\t{1 / 3}\n'
    )


def test_a_single_metadata_column_has_no_header(tmp_path):
    ids = ["plain", "with\ttab", "with\r\nbreak\u2028s"]
    write_projector(Z, pd.DataFrame({"id": ids}), tmp_path)
    assert (tmp_path / "metadata.tsv").read_text() == "plain\nwith tab\nwith  break s\n"


def test_tensorboard_reads_the_projector_files(tmp_path):
    plugin = pytest.importorskip("tensorboard.plugins.projector.projector_plugin")
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    write_projector(Z, pd.DataFrame({"id": IDS}), tmp_path)
    config = ProjectorConfig()
    text_format.Parse((tmp_path / "projector_config.pbtxt").read_text(), config)
    (embedding,) = config.embeddings
    assert (tmp_path / embedding.metadata_path).is_file()
    read = plugin._read_tensor_tsv_file(str(tmp_path / embedding.tensor_path))
    assert np.array_equal(read.astype(np.float32), Z.numpy())


def test_export_mistakes(run_folder, tmp_path):
    def fails(*arguments, **options):
        with pytest.raises(InputError) as error:
            export_run(*arguments, **options)
        return str(error.value)

    assert "nothing to write; give out= or projector=" in fails(run_folder, None, None)
    assert "an array has no other columns" in fails(run_folder, tmp_path / "z.npy", None, columns=True)
    assert "cannot write .xlsx" in fails(run_folder, tmp_path / "z.xlsx", None)
    (tmp_path / "file").write_text("")
    assert "file: cannot be created" in fails(run_folder, None, tmp_path / "file")
    (run_folder / "nodes.csv").write_text("id,degree\na,1\nb,2\nc,3\n")
    assert "its ids differ from embeddings.ids.txt" in fails(run_folder, None, tmp_path / "p")
    (run_folder / "nodes.csv").unlink()
    assert "no nodes.csv to take columns from; export without columns" in fails(
        run_folder, tmp_path / "z.csv", None, columns=True
    )
    (tmp_path / "seeds").mkdir()
    assert "finished" in fails(tmp_path / "seeds", tmp_path / "z.csv", None)
    run_folder.rename(tmp_path / "seeds" / "seed-4")
    assert f"give one of its seeds, {tmp_path}/seeds/seed-4" in fails(tmp_path / "seeds", tmp_path / "z.csv", None)
    with pytest.raises(InputError, match="1 rows of metadata for 3 embeddings"):
        write_projector(Z, pd.DataFrame({"id": ["a"]}), tmp_path / "p")
    assert not (tmp_path / "z.csv").exists()


def test_export_command(run, run_folder, tmp_path):
    code, out, _ = run("export", run_folder, "--out", "z.csv", "--projector", "p", "--columns")
    assert (code, out) == (
        0,
        "written: z.csv, p/vectors.tsv, p/metadata.tsv, p/projector_config.pbtxt\n",
    )
    assert (tmp_path / "z.csv").read_text().startswith("id,degree,label,cluster,x,z0,z1\n")
    code, out, _ = run("export", run_folder, "--out", "z.npy", "--json")
    assert json.loads(out) == {"files": ["z.npy", "z.ids.txt"]}
    code, _, err = run("export", tmp_path / "nowhere", "--out", "z.csv")
    assert code == 2
    assert "no embeddings.npy" in err
    code, _, err = run("export", run_folder)
    assert code == 2
    assert err.startswith("epagcl: nothing to write; give --out")


def test_a_projector_that_cannot_be_written_is_refused_before_anything_is_written(tmp_path):
    write_embeddings(torch.eye(3), ["a", "b", "c"], tmp_path / "embeddings.npy")
    (tmp_path / "taken").touch()
    with pytest.raises(InputError, match=r"taken: cannot be created \(File exists\); give another folder"):
        export_run(tmp_path, tmp_path / "z.csv", tmp_path / "taken", columns=False)
    assert not (tmp_path / "z.csv").exists()
