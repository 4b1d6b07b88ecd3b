import importlib.metadata
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import epagcl
from epagcl.core import hardware, memory
from epagcl.integrations import doctor
from epagcl.integrations.doctor import Check, Diagnosis, requirements

ROOT = Path(__file__).parents[2]


def by_topic(checks) -> dict[str, Check]:
    return {check.topic: check for check in checks}


def test_a_working_installation():
    checks = by_topic(epagcl.doctor().checks)
    assert checks["torch"].found == torch.__version__
    assert checks["training"].status == "ok"
    assert all(check.status == "ok" for check in checks.values() if check.needed)
    assert all(check.fix for check in checks.values() if check.status == "wrong")


def test_optional_parts_do_not_make_it_sick():
    assert Diagnosis((Check("a", "ok", "", needed=True), Check("b", "wrong", "x", "y"))).healthy
    assert not Diagnosis((Check("a", "wrong", "", needed=True),)).healthy


def test_requirements_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required, extras = requirements()
    assert required == project["dependencies"]
    assert {"audit", "docs", "test"} | set(extras) == set(project["optional-dependencies"])


def test_requirements_of_an_installed_package(monkeypatch, tmp_path):
    lines = ["torch>=2.6", 'usearch>=2.16; extra == "ann"', "ruff>=0.9; extra == 'test'"]
    monkeypatch.setattr(doctor, "ROOT", tmp_path)
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: lines)
    known = SimpleNamespace(get_all=lambda key: ["ann", "test"])
    monkeypatch.setattr(importlib.metadata, "metadata", lambda name: known)
    assert requirements() == (["torch>=2.6"], {"ann": ["usearch>=2.16"]})


def test_an_old_a_missing_and_a_broken_package(monkeypatch, tmp_path):
    old = doctor._package("numpy", ">=99")
    assert (old.status, old.fix) == ("wrong", "pip install 'numpy>=99'")
    assert old.found.endswith("but >=99 is needed")
    assert doctor._package("no-such-package", ">=1").status == "missing"
    monkeypatch.setitem(sys.modules, "pandas", None)
    broken = doctor._package("pandas", ">=2.1")
    assert broken.status == "wrong"
    assert "cannot be imported (ModuleNotFoundError" in broken.found


def test_extras(monkeypatch):
    wanted = {"ann": ["no-such-package>=1"], "old": ["numpy>=99"], "fine": ["numpy>=1"]}
    monkeypatch.setattr(doctor, "requirements", lambda: ([], wanted))
    checks = by_topic(doctor._extras())
    assert checks["extra ann"].status == "missing"
    assert checks["extra ann"].fix == "pip install '.[ann]' in a copy of the repository, if you need it"
    assert checks["extra old"].status == "wrong"
    assert checks["extra fine"].status == "ok"


class TestDevices:
    def test_a_gpu_with_and_without_triton(self, monkeypatch):
        properties = SimpleNamespace(name="NVIDIA H200", major=9, minor=0)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**30, 2**31))
        monkeypatch.setattr(hardware, "triton_failure", lambda device: None)
        gpu, triton = doctor._gpu(torch.device("cuda", 0))
        assert gpu.found.startswith("NVIDIA H200, compute capability 9.0, 1.0 of 2.0 GiB free")
        assert triton.status == "ok"
        monkeypatch.setattr(hardware, "triton_failure", lambda device: "Failed to find C compiler")
        _, triton = doctor._gpu(torch.device("cuda", 0))
        assert triton.status == "wrong"
        assert "gcc" in triton.fix

    def test_a_driver_but_no_torch_for_cuda(self, monkeypatch):
        monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        monkeypatch.setattr(torch.version, "cuda", None)
        gpu = by_topic(doctor._devices())["gpu"]
        assert (gpu.status, gpu.needed) == ("wrong", False)
        assert "torch for CUDA" in gpu.fix
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        assert "finds no GPU" in by_topic(doctor._devices())["gpu"].found


def test_little_memory_and_disk(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**29)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**8))
    checks = list(doctor._resources())
    assert [check.status for check in checks] == ["wrong", "wrong"]
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    assert next(iter(doctor._resources())).found == "unknown on this system"


def test_a_training_that_fails(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no kernel image\nlong trace")

    monkeypatch.setattr(epagcl.EPAGCL, "fit", fail)
    (check,) = doctor._training()
    assert (check.status, check.needed, check.found) == ("wrong", True, "RuntimeError: no kernel image")


class TestFolders:
    def test_the_data_folder(self, tmp_path, monkeypatch):
        (missing,) = doctor._data_folder(tmp_path / "none")
        assert (missing.status, missing.fix) == ("wrong", "create it, or change --data")
        (empty,) = doctor._data_folder(tmp_path)
        assert empty.found == f"{tmp_path} (--data): no graphs yet"
        (tmp_path / "Cora.npz").touch()
        assert next(iter(doctor._data_folder(tmp_path))).found.endswith(": Cora")
        monkeypatch.setenv("EPAGCL_DATA", str(tmp_path / "gone"))
        assert "EPAGCL_DATA" in next(iter(doctor._data_folder(None))).found
        monkeypatch.delenv("EPAGCL_DATA")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert next(iter(doctor._data_folder(None))).status == "missing"

    def test_a_folder_that_cannot_be_written_to(self, monkeypatch):
        def fail(**_):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(doctor.tempfile, "TemporaryFile", fail)
        checks = list(doctor._folders(None))
        assert {check.status for check in checks} == {"wrong"}
        assert all("Permission denied" in check.found and check.fix for check in checks)

    def test_the_cache_is_the_folder_that_is_given(self, tmp_path):
        cache = by_topic(doctor._folders(tmp_path))["cache"]
        assert cache.found == f"{tmp_path} can be written to"
        assert by_topic(epagcl.doctor(tmp_path).checks)["cache"] == cache

    def test_completion(self, tmp_path, monkeypatch):
        monkeypatch.setattr(Path, "home", lambda: tmp_path)
        assert by_topic(doctor._shell())["shell completion"].status == "missing"
        (tmp_path / ".zfunc").mkdir()
        (tmp_path / ".zfunc/_epagcl").touch()
        assert by_topic(doctor._shell())["shell completion"].found == "~/.zfunc/_epagcl"


@pytest.mark.slow
def test_without_torch_the_command_still_says_what_is_wrong():
    code = "import sys; sys.modules['torch'] = None; sys.argv[1:] = ['doctor']; from epagcl.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "torch>=2.6" in done.stdout
    assert "Traceback" not in done.stderr
