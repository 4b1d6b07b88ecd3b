"""No code runs from the caches of other libraries, and changed downloads are noticed."""

import os
import pickle
import threading

import numpy as np
import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.data.catalogue.loading import load
from epagcl.data.catalogue.safety import MANIFEST, check_manifest, data_only, write_manifest
from tests.data.catalogue.raw_files import SOURCES


class Hostile:
    """An object whose pickle creates a file when it is read."""

    def __init__(self, path, function=os.makedirs):
        self.path, self.function = path, function

    def __reduce__(self):
        return self.function, (str(self.path),)


@pytest.mark.parametrize("function", [os.mkdir, os.makedirs], ids=["builtin", "python"])
def test_a_hostile_cache_of_pyg_runs_nothing(tmp_path, small, function):
    raw = SOURCES["Cora"](tmp_path)
    small("Cora", raw)
    load("Cora", tmp_path)  # PyG writes its cache
    cache = tmp_path / "pyg/Planetoid/Cora/processed/data.pt"
    torch.save((Hostile(tmp_path / "owned", function), None), cache)
    with pytest.raises(InputError, match=r"Cora: cannot be read \(.*a pickle that names .*code.*\); remove"):
        load("Cora", tmp_path)
    assert not (tmp_path / "owned").exists()


def test_hostile_raw_pickles_run_nothing(tmp_path, small):
    raw = SOURCES["Cora"](tmp_path)
    small("Cora", raw)
    for name in ("x", "graph"):
        (tmp_path / f"pyg/Planetoid/Cora/raw/ind.cora.{name}").write_bytes(pickle.dumps(Hostile(tmp_path / "owned"), 2))
    with pytest.raises(InputError, match=r"cannot be read .*which is code and not data"):
        load("Cora", tmp_path)
    assert not (tmp_path / "owned").exists()


def test_hostile_arrays_run_nothing(tmp_path):
    np.save(tmp_path / "x.npy", np.array([Hostile(tmp_path / "owned")], dtype=object), allow_pickle=True)
    with data_only(), pytest.raises(Exception, match="which is code and not data"):
        np.load(tmp_path / "x.npy", allow_pickle=True)
    assert not (tmp_path / "owned").exists()


def test_pickles_elsewhere_are_not_affected():
    texts = []
    with data_only():
        other = threading.Thread(target=lambda: texts.append(pickle.loads(pickle.dumps(len))))
        other.start()
        other.join()
        with pytest.raises(pickle.UnpicklingError):
            pickle.loads(pickle.dumps(len))
    assert texts == [len]
    assert pickle.loads(pickle.dumps(len)) is len


def test_a_changed_download_is_noticed(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/x.txt").write_text("1")
    check_manifest(tmp_path, "fix")  # without a manifest
    write_manifest(tmp_path)
    assert (tmp_path / MANIFEST).is_file()
    (tmp_path / "more.txt").write_text("written later")
    check_manifest(tmp_path, "fix")
    (tmp_path / "raw/x.txt").write_text("2")
    with pytest.raises(InputError, match=r"x.txt: has changed since it was downloaded .*; fix$"):
        check_manifest(tmp_path, "fix")


def test_names_never_leave_the_folder_of_a_download(tmp_path):
    folder = tmp_path / "download"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("1")
    (folder / MANIFEST).write_text('{"../secret.txt": "0"}')
    with pytest.raises(InputError, match=r"names \.\./secret\.txt, which is outside of the folder; fix$"):
        check_manifest(folder, "fix")
    (folder / "inside.txt").write_text("2")
    (folder / "link.txt").symlink_to(folder / "inside.txt")
    write_manifest(folder)
    (folder / "raw").symlink_to(tmp_path)
    with pytest.raises(InputError, match=r"raw: leads out of the folder of the download; it is not used"):
        write_manifest(folder)
