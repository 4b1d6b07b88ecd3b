import signal
import subprocess
import sys

import pytest

from epagcl.cli import app, main
from epagcl.core.termination import end_in_one_line


def test_signals_are_handled_before_the_command_runs(monkeypatch):
    seen = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setattr(app, "main", lambda: seen.append([signal.getsignal(number) for number in before]))
    try:
        main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert seen == [[signal.default_int_handler, end_in_one_line]]


def test_the_exit_code_is_that_of_the_command(monkeypatch, capsys):
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("sys.argv", ["epagcl", "--version"])
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("epagcl ")


def test_little_is_imported_before_signals_are_handled():
    code = "import sys; before = set(sys.modules); import epagcl.cli.start; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "epagcl.core.termination" in imported
    assert not imported & {"ast", "dataclasses", "inspect", "pathlib", "re", "typing", "typer", "numpy", "torch"}
