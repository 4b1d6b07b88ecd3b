"""Locks on systems without ``fcntl``, simulated; tests/core/test_files.py tests those of this system."""

import os
import sys
from types import SimpleNamespace

import pytest

from epagcl.core import files
from epagcl.core.files import locked
from epagcl.core.locks import try_lock


@pytest.fixture
def windows(monkeypatch):
    """Replace ``fcntl`` by a ``msvcrt`` that locks by inode, as Windows does by file."""
    held: dict[int, int] = {}

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert (mode, count) == (2, 1)
        if held.setdefault(os.fstat(descriptor).st_ino, descriptor) != descriptor:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    return held


def test_msvcrt_excludes_other_handles(windows, tmp_path):
    with open(tmp_path / "a", "a") as first, open(tmp_path / "a", "a") as second:
        assert try_lock(first)
        assert not try_lock(second)


def test_locked_on_windows(windows, tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "name", "nt")
    path = tmp_path / ".lock"
    with locked(path) as held:
        assert held
        with locked(path) as again:
            assert not again
        assert path.exists()
    assert not path.exists()


def test_a_lock_file_that_windows_does_not_remove_is_left(windows, tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "name", "nt")
    path = tmp_path / ".lock"

    def refuse(self, missing_ok=False):
        raise PermissionError(13, "in use")

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "unlink", refuse)
        with locked(path) as held:
            assert held
    windows.clear()  # closing the file releases it
    with locked(path) as held:
        assert held


def test_without_any_locks_one_process_is_assumed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", None)
    with locked(tmp_path / ".lock") as held:
        assert held
    assert list(tmp_path.iterdir()) == []


def test_an_error_inside_releases_it(tmp_path):
    def fail():
        with locked(tmp_path / ".lock"):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []
