import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from safetensors import safe_open

from epagcl.core import termination
from epagcl.core.files import atomic_path
from epagcl.core.termination import advice, end_in_one_line, handle_sigterm, quiet_ctrl_c
from epagcl.data.io.npz import write_npz


@pytest.fixture
def ends(monkeypatch):
    """Python's handlers of a program that was started in a terminal; the end of the process is an exception."""

    def end(code):
        raise SystemExit(code)

    monkeypatch.setattr(termination.os, "_exit", end)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_sigterm_is_one_line_with_advice_and_removes_unfinished_files(ends, tmp_path, capfd):
    def write():
        with (
            advice("nothing was written"),
            advice("to continue: epagcl train"),
            atomic_path(tmp_path / "z.npy") as file,
        ):
            file.write_text("half")
            signal.raise_signal(signal.SIGTERM)

    handle_sigterm()
    with pytest.raises(SystemExit) as ended:
        write()
    assert ended.value.code == 143
    assert capfd.readouterr().err == "epagcl: terminated; to continue: epagcl train\n"
    assert list(tmp_path.iterdir()) == []
    assert not termination._advice
    assert not termination.unfinished_files
    signal.raise_signal(signal.SIGTERM)  # a second one is ignored


def test_files_are_removed_by_the_handler_itself(ends, tmp_path, monkeypatch):
    (tmp_path / "t").touch()
    monkeypatch.setattr(termination, "unfinished_files", {tmp_path / "t", tmp_path / "gone"})
    handle_sigterm()
    with pytest.raises(SystemExit):
        signal.raise_signal(signal.SIGTERM)
    assert not (tmp_path / "t").exists()


def test_ctrl_c_is_one_line_inside_the_block_only(ends, capfd):
    with pytest.raises(SystemExit) as ended, quiet_ctrl_c():
        signal.raise_signal(signal.SIGINT)
    assert ended.value.code == 130
    assert capfd.readouterr().err == "epagcl: interrupted\n"
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_other_handlers_and_several_ranks_are_left_alone(ends, monkeypatch):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with quiet_ctrl_c():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    handle_sigterm()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    handle_sigterm()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    monkeypatch.setenv("WORLD_SIZE", "1")
    handle_sigterm()
    assert signal.getsignal(signal.SIGTERM) is end_in_one_line


#: Runs the command line, and sends a signal to the whole process group when a module is imported, as timeout(1) does.
_AT_IMPORT = """
    import os, signal, sys
    from importlib.abc import MetaPathFinder
    module, number = sys.argv[1], int(sys.argv[2])
    class Sender(MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name == module:
                os.kill(os.getpid(), number)
                os.killpg(0, number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.meta_path.insert(0, Sender())
    from epagcl.cli import main
    sys.argv[1:] = ["epr", "demo"]
    main()
"""


def _command(*words, code=_AT_IMPORT, folder, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *words],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no process groups")
@pytest.mark.parametrize(
    ("module", "number"),
    [
        ("typer", signal.SIGTERM),
        ("typer", signal.SIGINT),
        ("epagcl.cli.epr", signal.SIGTERM),
        ("numpy", signal.SIGTERM),
        ("numpy._core.multiarray", signal.SIGTERM),  # imported by an extension in C
        ("torch", signal.SIGTERM),
        ("torch.autograd", signal.SIGTERM),
    ],
    ids=lambda value: value if isinstance(value, str) else signal.Signals(value).name,
)
def test_a_signal_during_an_import_is_one_line(tmp_path, module, number):
    done = _command(module, str(int(number)), folder=tmp_path)
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert (done.returncode, done.stderr, done.stdout) == (128 + number, f"epagcl: {word}\n", "")
    assert list(tmp_path.iterdir()) == []


#: Trains in a process group that gets SIGTERM in the middle of an epoch.
_IN_TRAINING = """
    import os, signal
    import epagcl
    original = epagcl.EPAGCL.loss
    def loss(self, network, graph, prepared, epoch):
        if epoch == 3:
            os.killpg(0, signal.SIGTERM)
        return original(self, network, graph, prepared, epoch)
    epagcl.EPAGCL.loss = loss
    from epagcl.cli import main
    main()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no process groups")
def test_sigterm_during_training_keeps_a_checkpoint_and_says_how_to_continue(tmp_path, small_graph):
    write_npz(small_graph, tmp_path / "g.npz")
    words = ["train", "g.npz", "--method", "epagcl", "--epochs", "6", "--hidden", "8", "--dim", "4"]
    words += ["--projection", "4", "--device", "cpu", "--quiet", "--out", "run"]
    done = _command(*words, code=_IN_TRAINING, folder=tmp_path, EPAGCL_CHECKPOINT_SECONDS="1000")
    advised = f"to continue: epagcl {' '.join(words)} --resume"
    assert (done.returncode, done.stderr, done.stdout) == (143, f"epagcl: terminated; {advised}\n", "")
    with safe_open(tmp_path / "run" / "checkpoint.safetensors", "pt") as saved:
        assert len(json.loads(saved.metadata()["history"])) == 4  # epochs count from 0 in the loss
