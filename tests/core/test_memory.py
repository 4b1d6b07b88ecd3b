import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from epagcl.core import memory
from epagcl.core.errors import InputError
from epagcl.core.memory import (
    available_memory,
    check_memory,
    is_too_large,
    network_bytes,
    peak_resident_memory,
    read_array,
    resident_memory,
)


def test_available_memory_is_a_plausible_number():
    assert 2**20 < available_memory() < 2**50


def test_a_limit_of_the_process_counts(monkeypatch):
    resource = pytest.importorskip("resource", reason="Windows has no such limits")
    size = memory._status("VmSize")
    if size is None:
        pytest.skip("the size of a process is known on Linux only")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (size + 2**24, resource.RLIM_INFINITY))
    assert 0 < available_memory() <= 2**24
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (2**10, resource.RLIM_INFINITY))
    assert available_memory() == 0


def test_more_than_is_available_is_refused_with_both_sizes(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda device: 2**30)
    check_memory(2**30, "x", "y")
    with pytest.raises(
        InputError, match=r"^f\.npy: 7 rows need 3\.0 GiB of memory, and 1\.0 GiB are available; use fewer$"
    ):
        check_memory(3 * 2**30, "f.npy: 7 rows", "use fewer")
    monkeypatch.setattr(memory, "available_memory", lambda device: None)
    check_memory(2**80, "x", "y")  # unknown


def test_the_limit_of_a_container_counts(monkeypatch, tmp_path):
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    monkeypatch.setattr(memory, "Path", lambda path: tmp_path)
    assert memory._container_memory() == 3000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._container_memory() is None


def test_the_size_of_a_network_is_known_without_building_it():
    assert network_bytes(lambda: nn.Sequential(nn.Linear(10, 4), nn.BatchNorm1d(4))) == 4 * (44 + 8 + 8) + 8
    assert network_bytes(lambda: nn.Linear(2**40, 2**20, bias=False)) == 2**62

    def reads_itself():
        layer = nn.Linear(2, 2)
        assert float(layer.weight.sum())
        return layer

    assert network_bytes(reads_itself) is None


def test_errors_of_allocations_are_recognised():
    def message(error_of):
        with pytest.raises((RuntimeError, MemoryError, TypeError, OverflowError, ValueError)) as caught:
            error_of()
        return caught.value

    assert is_too_large(message(lambda: torch.empty(2**50)))
    assert is_too_large(message(lambda: torch.empty(2**40, 2**40)))
    assert is_too_large(message(lambda: np.empty(2**50)))
    assert not is_too_large(message(lambda: torch.ones(2, 3) @ torch.ones(2, 3)))
    assert not is_too_large(message(lambda: torch.ones(0).min()))  # its message names numel()


def header(shape, dtype="<f8"):
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text.encode() + b"\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cannot be read as an array"),
        (b"text", "cannot be read as an array"),
        (header((10**12, 6)) + b"\0" * 8, r"cut short \(48,000,000,000,000 bytes announced, 8 there\)"),
        (header("(3,"), "cannot be read as an array"),
        (header((3,), "|O") + b"\0" * 30, "holds Python objects, which are not read"),
        (header((3,), "odd") + b"\0" * 30, "cannot be read as an array"),
        (header((2**70, 2**70)), "cut short"),
        (header((-1,)) + b"\0" * 8, "cannot be read as an array"),
    ],
)
def test_damaged_arrays_are_one_line(tmp_path, content, reason):
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"x\.npy: {reason}.*; write the file again$"):
        read_array(path)


def test_arrays_are_read_as_numpy_reads_them(tmp_path):
    for array in (np.eye(3), np.arange(6, dtype=np.int16).reshape(2, 3, order="F"), np.float32(3), np.zeros((0, 4))):
        np.save(tmp_path / "x.npy", array)
        assert np.array_equal(read_array(tmp_path / "x.npy"), array)
    with pytest.raises(InputError, match=r"y\.npy: no such file; write the file again$"):
        read_array(tmp_path / "y.npy")


def test_the_memory_of_a_process_grows_with_what_it_holds():
    before, peak = resident_memory(), peak_resident_memory()
    if before is None:
        pytest.skip("resident memory is known on Linux only")
    held = np.ones(2**25)  # 256 MiB
    assert 200 * 2**20 < resident_memory() - before < 300 * 2**20
    assert peak_resident_memory() >= max(peak, before + 200 * 2**20)
    assert resident_memory(os.getpid()) == pytest.approx(resident_memory(), rel=0.05)
    assert held[0] == 1
    assert resident_memory(2**22 + 1) is None  # no process has this number


def test_the_peak_where_linux_does_not_report_it(monkeypatch):
    peak = peak_resident_memory()
    monkeypatch.setattr(memory, "_status", lambda *_: None)
    resource = pytest.importorskip("resource")
    usage = SimpleNamespace(ru_maxrss=peak)
    monkeypatch.setattr(resource, "getrusage", lambda who: usage)
    for system, size in (("Darwin", peak), ("FreeBSD", 1024 * peak)):
        monkeypatch.setattr(memory.platform, "system", lambda system=system: system)
        assert peak_resident_memory() == size
    monkeypatch.setitem(sys.modules, "resource", None)
    assert peak_resident_memory() is None
