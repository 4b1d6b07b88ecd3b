"""A few cases of each part of the harness; ``make trust`` runs many."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings

from epagcl.core.errors import InputError
from tests.trust import mutants, page
from tests.trust.__main__ import PARTS, main
from tests.trust.cases import Tally, attempt
from tests.trust.damage import damaged, edits

ROOT = Path(__file__).parents[2]


def test_outcomes_are_counted_and_failures_described():
    tally = Tally(seed=0)

    def fail(error):
        raise error

    attempt(tally, "a", lambda: None)
    attempt(tally, "a", lambda: fail(InputError("wrong")))
    attempt(tally, "b", lambda: fail(KeyError("x")))
    result = tally.to_dict()
    assert result["outcomes"] == {"a: accepted": 1, "a: refused in one line": 1, "b: failed": 1}
    assert (result["cases"], result["failed"]) == (3, 1)
    assert "KeyError: 'x'" in result["failures"][0]["what"]


@given(edits())
@settings(max_examples=50, deadline=None)
def test_damage_is_reproducible_and_small(changes):
    content = bytes(range(256)) * 4
    assert damaged(content, changes) == damaged(content, changes)
    assert len(damaged(content, changes)) <= len(content) + 3 * 40
    assert len(damaged(b"", changes)) <= 3 * 40


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_few_cases_of_each_part(tmp_path):
    command = [sys.executable, "-m", "tests.trust", "--short", "--out", str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    results = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert set(results) == {name for name, (_, _, few) in PARTS.items() if few}
    assert all((result["cases"] > 0 or "skipped" in result) and result["failed"] == 0 for result in results.values())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_few_command_lines_and_calls(tmp_path):
    command = [sys.executable, "-m", "tests.trust", "commands", "api", "--short", "--out", str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_time_limit_starts_with_the_oldest_results(tmp_path, monkeypatch):
    for name, date in (("readers", "2026-01-02"), ("kills", "2026-01-01")):
        (tmp_path / f"{name}.json").write_text(json.dumps({"date": date}))
    started = []
    monkeypatch.setattr(
        subprocess, "run", lambda words, check: started.append(words[-1]) or SimpleNamespace(returncode=0)
    )
    words = ["tests.trust", "readers", "kills", "mutation", "--minutes", "1e-9", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(time, "monotonic", iter([0.0, 0.0, 9.0, 9.0]).__next__)
    assert main() == 0
    assert started == ["mutation"]  # without a result


def test_mutants_change_one_thing_each(tmp_path, monkeypatch):
    lines = ["def f(a, b=2):", '    """Add 1."""', "    if a < b and not a:", "        log.info('1')"]
    lines += ["        raise ValueError('1 + 1')", "    return max(a, -b) + 1", ""]
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "m.py").write_text("\n".join(lines))
    words = [str(mutant).split(": ", 1)[1] for mutant in mutants.mutants_of(tmp_path / "m.py")]
    assert words == [
        "2 → 3",
        "if a < b and (not a): → if not (a < b and (not a)):",
        "a < b and (not a) → a < b or not a",
        "a < b → a <= b",
        "not a → not not a",
        "max(a, -b) + 1 → max(a, -b) - 1",
        "max(a, -b) → min(a, -b)",
        "-b → +b",
        "1 → 2",
    ]
    sources = {mutant.change[0] for mutant in mutants.mutants_of(tmp_path / "m.py")}
    assert len(sources) == len(words)
    assert all("Add 1." in text and "1 + 1" in text for text in sources)


def test_the_figures_of_the_page_are_the_stored_results():
    text = page.PAGE.read_text()
    assert page.filled(text) == text


def test_the_stored_results_have_the_numbers_of_cases_of_make_trust():
    stored = page.results()
    assert set(stored) == set(PARTS)
    assert all(result["failed"] == 0 for result in stored.values())
    for name in ("readers", "coverage_guided", "commands", "api", "kills", "full_disks", "shared_folders", "mutation"):
        assert stored[name]["cases"] >= PARTS[name][1], name
    assert stored["readers"]["cases"] + stored["coverage_guided"]["cases"] >= 20_000
    for name in ("kills", "full_disks"):
        at_calls = sum(
            count
            for kind, count in stored[name]["outcomes"].items()
            if " at a moment" not in kind and "limited" not in kind
        )
        assert at_calls >= sum(stored[name]["system_calls"].values()) > 200, name  # each of them at least once


def test_the_tests_that_the_page_names_exist():
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", page.PAGE.read_text()))
    assert len(named) > 20
    assert all((ROOT / name).is_file() for name in named)
