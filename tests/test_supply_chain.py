"""Pinned dependencies: every file has a hash, and the versions are those of constraints.txt."""

from pathlib import Path

from tests.report.test_page import PLOTLY
from tests.supply_chain import REQUIREMENTS, pinned, plotly_component

ROOT = Path(__file__).parents[1]


def test_requirements_of_ci_have_hashes_and_the_versions_of_the_constraints():
    packages = pinned(REQUIREMENTS.read_text())
    assert len(packages) > 100
    assert all(packages.values())
    constraints = {line for line in (ROOT / "constraints.txt").read_text().split("\n") if line and line[0] != "#"}
    # PyTorch's build for the CPU is not on PyPI, and is installed before by its version.
    assert constraints - packages.keys() == {line for line in constraints if line.startswith("torch==")}


def test_the_list_of_dependencies_names_the_vendored_library():
    entry = plotly_component()
    assert entry["purl"] == "pkg:npm/plotly.js-strict-dist-min@4.1.1"
    assert entry["hashes"] == [{"alg": "SHA-256", "content": PLOTLY}]
