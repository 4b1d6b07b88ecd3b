"""``epagcl reproduce`` and ``--deterministic``."""

import json

import numpy as np
import pytest

from epagcl import EPAGCL
from epagcl.cli.reproduce import _words, fixed_order
from epagcl.runs.reproduction import Difference, Reproduction
from tests.cli.conftest import FAST


@pytest.mark.slow
def test_a_run_is_repeated_and_compared(run, files):
    tables = ["--edges", "e.csv", "--features", "f.csv", "--labels", "l.csv"]
    assert run("train", *tables, *FAST, "--runs", 1, "--out", "r", "--quiet", "--deterministic")[0] == 0
    code, out, err = run("reproduce", "r")
    assert code == 0, err
    assert out.splitlines()[:4] == [
        "r: bit-equal",
        *(f"  {what}: bit-equal" for what in ("embeddings", "losses", "scores")),
    ]
    z = np.load(files / "r" / "embeddings.npy")
    np.save(files / "r" / "embeddings.npy", 2 * z)
    code, out, err = run("reproduce", "r", "--json")
    assert code == 1
    [result] = json.loads(out)
    assert (result["verdict"], result["differences"][0]["largest"]) == ("different", 0.5)
    (files / "l.csv").write_text((files / "l.csv").read_text().replace("red", "blue", 1))
    code, _, err = run("reproduce", "r")
    assert code == 2
    assert err.startswith("epagcl: r: its graph has changed")


def test_differences_and_reasons_are_lines():
    rows = [Difference("embeddings", 0.5, 0.05, "row 3"), Difference("losses", 0.0, 0.01)]
    assert _words(Reproduction("r", rows, ["torch 2.6, now 2.13", "threads 1, now 2"])).splitlines() == [
        "r: different",
        "  embeddings: different (largest difference 0.5, row 3; bound 0.05)",
        "  losses: bit-equal",
        "  not as in the run: torch 2.6, now 2.13; threads 1, now 2",
    ]


def test_on_a_cpu_deterministic_changes_nothing_and_says_so(caplog):
    with caplog.at_level("INFO", logger="epagcl"), fixed_order(EPAGCL(device="cpu"), on=True):
        pass
    assert "on a CPU, the same seed and number of threads give the same bits" in caplog.text
    caplog.clear()
    with fixed_order(EPAGCL(device="cpu"), on=False):
        pass
    assert caplog.text == ""
