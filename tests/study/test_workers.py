import os
import signal
import subprocess
import sys
import time

import pytest

from epagcl.core.errors import InputError
from epagcl.core.termination import helpers
from epagcl.study.workers import COUNT, number_of_workers, run_workers

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


def program(text):
    return [sys.executable, "-c", text]


def test_all_processes_run_and_print_to_their_logs(tmp_path, capfd):
    text = "import os; print(os.getpid(), os.environ['OMP_NUM_THREADS'])"
    assert run_workers(program(text), 3, tmp_path / "logs") == 0
    logs = sorted((tmp_path / "logs").iterdir())
    assert [path.name for path in logs] == ["worker-1.log", "worker-2.log"]
    printed = [capfd.readouterr().out, *(path.read_text() for path in logs)]
    assert len({line.split()[0] for line in printed}) == 3
    assert {line.split()[1] for line in printed} == {os.environ["OMP_NUM_THREADS"]}
    assert helpers == set()


def test_processes_know_how_many_they_are(tmp_path, monkeypatch):
    run_workers(program(f"import os; print(os.environ[{COUNT!r}])"), 2, tmp_path)
    assert (tmp_path / "worker-1.log").read_text() == "2\n"
    assert number_of_workers() == 1
    monkeypatch.setenv(COUNT, "2")
    assert number_of_workers() == 2


def test_threads_are_divided_among_processes(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(os, "cpu_count", lambda: 9)
    run_workers(program("import os; print(os.environ['OMP_NUM_THREADS'])"), 2, tmp_path)
    assert (tmp_path / "worker-1.log").read_text() == "4\n"


def test_a_failed_process_is_quoted_and_the_others_go_on(tmp_path, caplog):
    text = f"import os, sys, pathlib; marker = pathlib.Path({str(tmp_path)!r}, 'first')\n"
    text += "try: marker.touch(exist_ok=False)\nexcept FileExistsError: sys.exit('line 1\\nno memory')"
    assert run_workers(program(text), 3, tmp_path) in (2, 3)
    assert any("worker-" in message and message.endswith(": no memory") for message in caplog.messages)


def test_processes_are_stopped_when_the_time_is_over(tmp_path, caplog):
    caplog.set_level("INFO")
    start = time.monotonic()
    assert run_workers(program("import time; time.sleep(60)"), 2, tmp_path, seconds=0.5) == 0
    assert time.monotonic() - start < 20
    assert "the time is over: 2 of 2 processes are stopped" in caplog.messages
    assert helpers == set()


def test_a_process_that_ignores_sigterm_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("epagcl.study.workers.PATIENCE", 0.3)
    text = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    start = time.monotonic()
    run_workers(program(text), 1, tmp_path, seconds=0.5)
    assert time.monotonic() - start < 20


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_processes_too(tmp_path, number):
    child = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = (
        "import sys\nfrom pathlib import Path\nfrom epagcl.core.termination import handle_sigterm\n"
        "from epagcl.study.workers import run_workers\nhandle_sigterm()\n"
        f"run_workers([sys.executable, '-c', {child!r}], 1, Path({str(tmp_path)!r}))"
    )
    process = subprocess.Popen(program(parent), stderr=subprocess.PIPE)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(30) != 0
    process.stderr.close()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _is_alive(int((tmp_path / "pid").read_text())):
        time.sleep(0.05)
    assert not _is_alive(int((tmp_path / "pid").read_text()))


def _is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("count", [0, -1])
def test_there_is_at_least_one_process(tmp_path, count):
    with pytest.raises(InputError, match=f"count={count}: give a whole number of at least 1"):
        run_workers(program(""), count, tmp_path / "logs")
    assert not (tmp_path / "logs").exists()


def test_one_process_is_stopped_when_the_time_is_over(tmp_path, caplog):
    caplog.set_level("INFO")
    assert run_workers(program("import time; time.sleep(60)"), 1, tmp_path, seconds=0.1) == 0
    assert "the time is over: 1 of 1 process is stopped" in caplog.messages
