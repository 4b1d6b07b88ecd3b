"""The built wheel holds all that the package needs, and runs from there alone."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.package import USES

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    return next(folder.glob("*.whl"))


def test_every_file_of_the_package_is_in_the_wheel(wheel):
    tracked = subprocess.run(["git", "ls-files", "epagcl"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    files = tracked or [path.relative_to(ROOT).as_posix() for path in (ROOT / "epagcl").rglob("*.py")]
    assert len(files) > 90
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert set(files) <= inside
    assert not [name for name in inside if name.startswith(("tests", "docs", "benchmarks", "results"))]


@pytest.mark.long
def test_the_wheel_runs_by_itself(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    small = ["--epochs", "1", "--hidden", "8", "--dim", "8", "--runs", "1", "--map", "pca", "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-m", "epagcl", "train", "demo", "--out", "run", *small],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "report.html").stat().st_size > 10**5


def test_every_extra_is_tried_by_make_package():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(USES) == set(extras)
