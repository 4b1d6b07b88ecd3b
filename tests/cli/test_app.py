import logging
import subprocess
import sys

import pytest

import epagcl
from epagcl.cli.app import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "no graph given; name one"),
        (["train", "coar"], "did you mean Cora?"),
        (["train", "nothing.npz"], "nothing.npz: no such file"),
        (["train", "demo", "--epoch", "3"], "no option --epoch; did you mean --epochs?"),
        (["train", "demo", "--overwrit"], "did you mean --overwrite?"),
        (["train", "demo", "--epochs"], "--epochs needs a value"),
        (["train", "demo", "--epochs", "many"], "--epochs many: must be a whole number"),
        (["train", "demo", "--temperature", "0.001"], "temperature=0.001: must be at least 0.03"),
        (["train", "demo", "--protocol", "loose"], "choose one of strict, paper, public"),
        (["train", "demo", "--protocol", "public"], "no public split"),
        (["train", "demo", "--method", "grce"], "no method 'grce'"),
        (["train", "demo", "--seeds", "0"], "--seeds and --runs must be at least 1"),
        (["train", "demo", "--config", "none.toml"], "none.toml: no such file"),
        (["train", "demo", "--edges", "e.csv"], "demo is a named graph; leave out --edges"),
        (["train", "demo", "stray"], "unexpected extra argument"),
        (["train", "demo", "--resume"], "no run of one seed to resume"),
        (["train", "--refrences", "demo"], "no option --refrences; did you mean --references?"),
        (["train", "demo", "--lr", "nan"], "lr=nan: must be a finite number"),
        (["train", "demo", "--seed", "-1"], "seed=-1: must be at least 0"),
        (["train", "demo", "--config", "."], "cannot be read"),
        (["embed", "demo", "--model", "m", "--save", "s"], "leave out --save and --config"),
        (["embed", "demo", "--out", "z.xlsx"], "cannot write .xlsx"),
        (["embed", "demo", "--out", "/dev/null/z.npy"], "cannot be written"),
        (["train", "demo", "--device", "tpu"], "epagcl: device='tpu': choose one of"),
        (["train", "demo", "--epochs", "-3"], "epagcl: epochs=-3: must be at least 0"),
        (["train", "demo", "--method", "gracee"], "did you mean grace?"),
        (["train", "demo", "--scale-features", "rows"], "choose one of given, row-sum, row-max"),
        (["epr"], "or --edges and --labels"),
        (["epr", "demo", "--top", "-1"], "Invalid value"),
        (["embed", "--edges", "none.csv", "--features", "f.npy"], "none.csv: no such file"),
        (["embed", "demo", "--model", "none"], "none: no such folder; give one that save() or `epagcl train` wrote"),
        (["epr", "--top", "x"], "Invalid value"),
        (["frain"], "No such command"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_with_exit_code_2(run, tmp_path, arguments, message):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("epagcl: ")
    assert message in err
    assert list(tmp_path.iterdir()) == []  # nothing half-written


def test_version_and_no_arguments(run):
    assert run("--version") == (0, f"epagcl {epagcl.__version__}\n", "")
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "Commands:" in out


@pytest.mark.slow
def test_a_mistake_in_a_real_process_is_one_line(tmp_path):
    command = [sys.executable, "-m", "epagcl", "train", "demo", "--epochs", "abc"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == "epagcl: --epochs abc: must be a whole number\n"


def test_the_help_of_every_command_has_an_example(run):
    for command in ("train", "embed", "compare", "epr", "datasets", "methods"):
        code, out, _ = run(command, "--help")
        assert code == 0
        assert "Example: epagcl" in out.replace("\n", " ")


def test_the_package_runs_as_a_module():
    result = subprocess.run([sys.executable, "-m", "epagcl", "--help"], capture_output=True, text=True)
    assert result.returncode == 0
    assert "Usage:" in result.stdout


def test_ctrl_c_is_one_line(run, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("epagcl.data.load", interrupt)
    assert run("epr", "demo") == (130, "", "epagcl: interrupted\n")


def test_an_allocation_that_fails_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)  # tests have their own handlers
    monkeypatch.setattr("epagcl.cli.app.log", logging.getLogger("other"))

    def too_large(**_):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory\nbacktrace")

    monkeypatch.setattr("epagcl.cli.app.app", too_large)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("epagcl: out of memory ([enforce fail")

    def other(**_):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr("epagcl.cli.app.app", other)
    with pytest.raises(RuntimeError, match="shapes"):
        main()
