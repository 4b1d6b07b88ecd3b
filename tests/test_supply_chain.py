"""Pinned dependencies: every file has a hash, and the versions are those of constraints.txt."""

from pathlib import Path

from tests.supply_chain import REQUIREMENTS, pinned

ROOT = Path(__file__).parents[1]


def test_requirements_of_ci_have_hashes_and_the_versions_of_the_constraints():
    packages = pinned(REQUIREMENTS.read_text())
    assert len(packages) > 100
    assert all(packages.values())
    constraints = {line for line in (ROOT / "constraints.txt").read_text().split("\n") if line and line[0] != "#"}
    # PyTorch's build for the CPU is not on PyPI, and is installed before by its version.
    assert constraints - packages.keys() == {line for line in constraints if line.startswith("torch==")}
