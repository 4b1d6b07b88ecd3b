"""Embeddings in files: nothing is run, lost or replaced, and damage is told in one line."""

import csv
import errno
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from epagcl.core.errors import InputError, OutputError
from epagcl.runs import export
from epagcl.runs.export import check_replaced, export_run, read_embeddings, write_embeddings

Z = torch.tensor([[0.1, -2.5e-7], [1 / 3, 4e20], [0.0, -1.0]])


def test_text_that_a_spreadsheet_would_run_gets_an_apostrophe_and_is_read_back(tmp_path):
    ids = ["=1+2", "-5", "'=a"]
    columns = pd.DataFrame({"label": ["@a", "b", "+c"], "=x": [1, 2, 3]})
    for suffix in (".csv", ".tsv"):
        [path] = write_embeddings(Z, ids, tmp_path / f"z{suffix}", columns)
        rows = list(csv.reader(path.read_text().splitlines(), delimiter="\t" if suffix == ".tsv" else ","))
        assert [row[:3] for row in rows] == [
            ["id", "label", "'=x"], ["'=1+2", "'@a", "1"], ["-5", "b", "2"], ["''=a", "'+c", "3"],
        ]  # fmt: skip
        assert read_embeddings(path)[1] == ids
    write_embeddings(Z, ids, tmp_path / "z.npy")
    assert (tmp_path / "z.ids.txt").read_text() == "=1+2\n-5\n'=a\n"


def test_an_embedding_that_cannot_be_written_is_kept_elsewhere(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    write = export.write_array

    def full(file, array):
        if elsewhere not in Path(file.name).parents:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, array)

    monkeypatch.setattr(export, "write_array", full)
    expected = r"z\.npy: cannot be written \(No space.*\. The embedding is kept in "
    with pytest.raises(OutputError, match=expected) as caught:
        write_embeddings(Z, ["a", "b", "c"], tmp_path / "z.npy")
    kept = Path(str(caught.value).split(" is kept in ")[1]) / "z.npy"
    assert np.array_equal(read_embeddings(kept)[0], Z)


def test_inputs_and_other_files_are_not_replaced(tmp_path):
    features = tmp_path / "f.npy"
    features.touch()
    (tmp_path / "link.npy").symlink_to(features)
    for out, inputs in ((features, [features]), (tmp_path / "link.npy", [None, features]), (features, [str(features)])):
        with pytest.raises(InputError, match="is an input of this command; give another out="):
            check_replaced(out, *inputs)
    check_replaced(features, None, "cora", tmp_path / "other.csv")  # replaces an earlier embedding
    for name in ("p.ids.txt", "p.report.html"):
        (tmp_path / name).touch()
        with pytest.raises(InputError, match=rf"{name}: exists, and p\.npy does not; move it, or give another out="):
            check_replaced(tmp_path / "p.npy")
        (tmp_path / name).unlink()
    (tmp_path / "e.ids.txt").touch()
    with pytest.raises(InputError, match=r"e\.ids\.txt: is an input"):
        check_replaced(tmp_path / "e.npy", tmp_path / "e.ids.txt")


def test_an_embedding_whose_writing_was_killed_is_written_again(tmp_path):
    script = """
        import os, signal, sys
        from pathlib import Path
        from epagcl.core.files import atomic_paths
        folder, replace = Path(sys.argv[1]), os.replace
        def killed(source, target):
            os.kill(os.getpid(), signal.SIGKILL) if target.name == "z.npy" else replace(source, target)
        os.replace = killed
        with atomic_paths(folder / "z.npy", folder / "z.ids.txt") as (z, ids):
            z.touch(), ids.touch()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), tmp_path], check=False)
    assert (tmp_path / "z.ids.txt").exists()
    assert not (tmp_path / "z.npy").exists()
    check_replaced(tmp_path / "z.npy")
    write_embeddings(Z, ["a", "b", "c"], tmp_path / "z.npy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["z.ids.txt", "z.npy"]


@pytest.mark.parametrize("suffix", [".npy", ".csv"])
def test_ids_that_are_not_unicode_are_refused(tmp_path, suffix):
    with pytest.raises(InputError, match=r"node id .* is not valid Unicode; rename the node"):
        write_embeddings(Z, ["a", "\udc80", "c"], tmp_path / f"z{suffix}")


@pytest.mark.parametrize("name", ["embeddings.npy", "nodes.csv", "embeddings.ids.txt"])
@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00v\x00{'descr'", b"\xff\xfe\x00", b'a,"b'])
def test_damaged_runs_are_one_line(tmp_path, name, content):
    write_embeddings(Z, ["a", "b", "c"], tmp_path / "embeddings.npy")
    pd.DataFrame({"id": ["a", "b", "c"], "label": [1, 2, 3]}).to_csv(tmp_path / "nodes.csv", index=False)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        export_run(tmp_path, tmp_path / "out.csv", None, columns=True)
    assert "\n" not in str(caught.value)


@pytest.fixture
def run_folder(tmp_path):
    """Files with the names of inputs and of a run. Commands refuse to replace them before they read them."""
    (tmp_path / "run").mkdir()
    for name in ("e.csv", "f.csv", "l.csv", "run/config.toml", "run/nodes.csv", "run/history.csv"):
        (tmp_path / name).write_text("mine")
    for name in ("z.npy", "run/embeddings.npy"):
        write_embeddings(Z, None, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("classify z.npy --labels l.csv --out l.csv", "l.csv: is an input of this command; give another --out"),
        ("classify run --labels l.csv --out run/nodes.csv", "run/nodes.csv: belongs to the run in this folder"),
        ("cluster z.npy --k 3 --labels l.csv --out l.csv", "l.csv: is an input of this command"),
        ("anomalies z.npy --edges e.csv --features f.csv --out f.csv", "f.csv: is an input of this command"),
        ("neighbours run --out run/nodes.csv", "run/nodes.csv: belongs to the run"),
        ("export run --out run/history.csv", "run/history.csv: belongs to the run"),
        ("report run --out run/nodes.csv", "run/nodes.csv: cannot write .csv; use .html"),
        ("embed --edges e.csv --features f.csv --out run", "run: holds other files; give a new or an empty folder"),
        ("embed --edges e.csv --features f.csv --out f.csv", "f.csv: is an input of this command"),
        ("embed --edges e.csv --features f.csv --out run/embeddings.npy", "belongs to the run in this folder"),
        ("compare demo --save l.csv", "--save l.csv: must end in .json"),
        ("compare --edges e.csv --features f.csv --labels l.csv --save g.json", "g.json: is an input of this command"),
    ],
)
def test_no_command_replaces_its_inputs_or_a_run(run, run_folder, words, reason):
    (run_folder / "g.json").symlink_to(run_folder / "l.csv")
    before = {path: path.read_bytes() for path in run_folder.rglob("*") if path.is_file()}
    code, out, err = run(*words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert reason in err
    assert {path: path.read_bytes() for path in run_folder.rglob("*") if path.is_file()} == before
