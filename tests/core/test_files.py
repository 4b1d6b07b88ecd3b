import contextlib
import errno
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from epagcl.core import files
from epagcl.core.errors import InputError, OutputError
from epagcl.core.files import (
    atomic_path,
    atomic_paths,
    check_space,
    is_leftover,
    locked,
    read_json,
    reading,
    write_failure,
    write_json,
)


def test_success_replaces_the_file_and_failure_keeps_the_old_one(tmp_path):
    path = tmp_path / "a.txt"
    with atomic_path(path) as temporary:
        assert temporary.suffix == ".txt"
        assert temporary.parent == tmp_path
        temporary.write_text("one")

    def fail():
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_files_have_the_permissions_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_path(tmp_path / "a.txt") as temporary:
            temporary.write_text("one")
            temporary.chmod(0o600)  # as some writers create it
        assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640
        assert os.umask(0o027) == 0o027  # the umask itself is unchanged
    finally:
        os.umask(before)


def test_json_is_indented_and_keeps_letters(tmp_path):
    write_json({"name": "épa", "runs": [1]}, tmp_path / "a.json")
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"name": "épa", "runs": [1]}
    assert text.startswith('{\n  "name": "épa"')
    assert text.endswith("}\n")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "No space left on device); free some space there, or write elsewhere"),
        (errno.EIO, "Input/output error); check the disk, or write elsewhere"),
        (errno.EACCES, "Permission denied); give a path that you may write to"),
        (errno.EMFILE, "Too many open files); write elsewhere"),
    ],
)
def test_errors_of_the_system_are_one_line_with_the_name_of_the_file(tmp_path, number, words):
    path = tmp_path / "z.npy"

    def fail():
        with atomic_path(path) as temporary:
            temporary.write_bytes(b"half")
            raise OSError(number, os.strerror(number))

    with pytest.raises(OutputError) as caught:
        fail()
    assert str(caught.value) == f"{path}: cannot be written ({words}"
    assert isinstance(caught.value, OSError)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone(tmp_path):
    expected = r"a\.txt: cannot be written \(No such file or directory\); its folder is gone"
    with pytest.raises(OutputError, match=expected), atomic_path(tmp_path / "gone" / "a.txt") as temporary:
        temporary.write_text("x")


def test_an_error_about_another_file_is_not_blamed_on_this_one(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"other\.csv"), atomic_path(tmp_path / "a.txt"):
        (tmp_path / "other.csv").read_text()


@pytest.mark.skipif(os.name == "nt", reason="needs a limit on the size of files")
def test_a_full_disk_in_another_library(tmp_path):
    script = f"""
import resource, torch
from pathlib import Path
from safetensors.torch import save_file
from epagcl.core.errors import OutputError
from epagcl.core.files import atomic_path
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with atomic_path(Path({str(tmp_path)!r}, "m.safetensors")) as temporary:
        save_file({{"w": torch.zeros(10_000)}}, temporary)
except OutputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.startswith(f"{tmp_path}/m.safetensors: cannot be written (File too large)"), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_threads_may_write_one_path(tmp_path):
    path, failures = tmp_path / "a.json", []

    def write(k):
        try:
            for _ in range(20):
                write_json({"k": k, "rest": "x" * 1000}, path)
        except Exception as error:
            failures.append(error)

    before = os.umask(0o022)
    threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(json.loads(path.read_text())["rest"]) == 1000
    assert list(tmp_path.iterdir()) == [path]
    assert os.umask(before) == 0o022


def dead_process():
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_files_of_killed_processes_are_removed_by_the_next_write(tmp_path):
    dead, host = dead_process(), files._HOST
    gone = [f".a.{dead}.tmp.npy", f".a.b.{dead}.{host}-0a1b2c-7.tmp.csv", f".a.{os.getpid()}.{host}-0a1b2c-0.tmp"]
    kept = [f".a.{os.getppid()}.tmp.npy", f".a.{dead}.ffffff-0a1b2c-7.tmp", ".a.tmp", "a.7.tmp.npy", ".hidden"]
    for name in (*gone, *kept):
        (tmp_path / name).write_text("x")
    write_json({}, tmp_path / "a.json")
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "a.json"}
    old = tmp_path / kept[1]  # of another machine, which is only known to be old
    os.utime(old, (0, 0))
    assert is_leftover(old)


def test_long_names_have_temporary_names_that_are_not_too_long(tmp_path):
    path = tmp_path / f"{'x' * 240}.json"
    write_json({"a": 1}, path)
    assert json.loads(path.read_text()) == {"a": 1}


def write_pair(folder, z, ids):
    with atomic_paths(folder / "z", folder / "ids") as (first, second):
        first.write_text(z)
        second.write_text(ids)


@pytest.mark.parametrize("step", range(1, 12))
def test_files_that_belong_together_never_mix(tmp_path, monkeypatch, step):
    """The process ends at any step: rename, removal or waiting for the disk."""
    write_pair(tmp_path, "old z", "old ids")
    calls = iter(range(1, 100))

    class Killed(BaseException):
        pass

    def counted(function):
        def call(*arguments, **options):
            if next(calls) == step:
                raise Killed
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(files.os, "replace", counted(os.replace))
        patch.setattr(files, "_sync", counted(files._sync))
        write_pair(tmp_path, "new z", "new ids")
    found = tuple((tmp_path / name).read_text() if (tmp_path / name).exists() else None for name in ("z", "ids"))
    assert found[0] is None or found in (("old z", "old ids"), ("new z", "new ids"))


def test_an_unchanged_companion_leaves_the_first_file_in_place(tmp_path, monkeypatch):
    write_pair(tmp_path, "old z", "ids")
    removed = []
    monkeypatch.setattr(files, "_same_content", lambda path, new: removed.append(path) or True)
    write_pair(tmp_path, "new z", "ids")
    assert removed == [tmp_path / "ids"]
    assert (tmp_path / "z").read_text() == "new z"


def test_locks_exclude_threads_and_processes_and_end_with_them(tmp_path):
    path = tmp_path / ".lock"
    code = "from pathlib import Path\nfrom epagcl.core.files import locked\n"
    code += f"with locked(Path({str(path)!r})) as held: print(held)"
    with locked(path) as held:
        assert held
        with locked(path) as again:
            assert not again
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert other.stdout.strip() == "False"
    assert not path.exists()
    path.touch()  # of a killed process
    with locked(path) as held:
        assert held


def test_space_is_checked(tmp_path):
    check_space(tmp_path, 1)
    check_space(tmp_path / "gone", 10**30)  # unknown
    with pytest.raises(OutputError, match=r"about 1,000,000,000,000 MB will be written, but only [\d,]+ MB are free"):
        check_space(tmp_path, 10**18)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"3", b"[" * 100_000])
def test_damaged_json_is_one_line(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json: damaged \(.+\); write it again$"):
        read_json(path, "write it again")


def test_missing_files_and_errors_with_advice_stay_as_they_are(tmp_path):
    with pytest.raises(InputError, match=r"a\.json: no such file; write it again$"):
        read_json(tmp_path / "a.json", "write it again")
    with pytest.raises(InputError, match=r"^advice$"), reading("a", "b"):
        raise InputError("advice")
    with pytest.raises(InputError, match=r"^a: damaged \('k' is missing\); b$"), reading("a", "b"):
        {}["k"]
    with pytest.raises(KeyboardInterrupt), reading("a", "b"):
        raise KeyboardInterrupt


def test_an_unknown_reason():
    assert str(write_failure("z", None, "odd")) == "z: cannot be written (odd); write elsewhere"


def test_a_companion_does_not_stay_without_its_file(tmp_path, monkeypatch):
    first, second = tmp_path / "z.npy", tmp_path / "z.ids.txt"
    replace = os.replace

    def full(source, target):
        if target == first:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(OutputError, match=r"z\.npy: cannot be written"), atomic_paths(first, second) as temporaries:
        [path.write_text("new") for path in temporaries]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [".", "/"])
def test_a_path_without_a_name_is_refused(path):
    with pytest.raises(InputError, match="is a folder; give the name of a file in it"), atomic_path(Path(path)):
        pass
