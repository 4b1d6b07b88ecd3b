"""The scripts in ``examples/`` run and print what they promise."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error::DeprecationWarning:epagcl", str(EXAMPLES / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_script_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"flat_epagcl.py", "own_data.py", "own_method.py"}


@pytest.mark.slow
def test_own_data_finds_the_newcomers_group():
    output = run("own_data.py")
    assert "120 nodes, 32 dimensions" in output
    nearest = re.search(r"nearest to the newcomer: (.+)", output)[1].split(", ")
    assert all(int(name.removeprefix("person-")) % 3 == 0 for name in nearest)


@pytest.mark.slow
def test_own_method_beats_the_raw_features():
    output = run("own_method.py")
    first, last = map(float, re.search(r"loss: ([\d.]+) -> ([\d.]+)", output).groups())
    assert last < first
    raw, trained = map(float, re.findall(r"accuracy ([\d.]+)%", output))
    assert trained > raw


@pytest.mark.slow
def test_the_flat_script_has_sixty_lines_and_learns():
    assert len((EXAMPLES / "flat_epagcl.py").read_text(encoding="utf-8").splitlines()) <= 60
    output = run("flat_epagcl.py", "6")
    losses = [float(value) for value in re.findall(r"loss ([\d.]+)", output)]
    assert len(losses) == 6
    assert losses[-1] < losses[0]
    assert float(re.search(r"accuracy ([\d.]+)%", output)[1]) > 75
