import os
import subprocess
import sys

import pytest

import epagcl
from epagcl.cli.completion import complete_maps, complete_protocols, graph_names, method_names, setting_names
from epagcl.evaluation.protocol import PROTOCOLS
from epagcl.report.maps import KINDS


def test_the_names_in_the_source_are_those_of_the_library():
    classes = [epagcl.method(name) for name in epagcl.methods() if epagcl.method(name).__module__.startswith("epagcl.")]
    assert method_names() == tuple(cls.name for cls in classes if cls.__module__.startswith("epagcl.methods."))
    assert graph_names() == tuple(row.name.lower() for row in epagcl.data.datasets())
    fields = {field.name for cls in classes for field in cls.setting_fields()}
    assert set(setting_names()) >= fields


def test_choices_are_those_of_the_library():
    assert tuple(complete_protocols("")) == PROTOCOLS
    assert tuple(complete_maps("")) == KINDS


def complete(words: str, shell: str = "bash") -> list[str]:
    """Return what a shell would offer for the last word, by the environment variables that it sets."""
    variables = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1), "_TYPER_COMPLETE_ARGS": words}
    # Without PyTorch: a completion must not wait for it.
    code = "import sys; sys.modules['torch'] = None; sys.argv = ['epagcl']; from epagcl.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables, "_EPAGCL_COMPLETE": f"complete_{shell}"},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("epagcl do", ["doctor"]),
        ("epagcl train ci", ["citeseer"]),
        ("epagcl train demo --method gr", ["grace", "greet"]),
        ("epagcl compare cora --methods grace,gr", ["grace,greet"]),
        ("epagcl train demo --ep", ["--epochs"]),
    ],
)
def test_bash(words, offered):
    assert complete(words) == offered


@pytest.mark.slow
def test_zsh():
    assert '"citeseer"' in " ".join(complete("epagcl train ci", shell="zsh"))


@pytest.mark.slow
def test_the_script_for_bash_names_the_program_and_its_variable():
    code = "import sys; sys.argv = ['epagcl']; from epagcl.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "_EPAGCL_COMPLETE": "source_bash"},
        capture_output=True,
        text=True,
    )
    assert "_EPAGCL_COMPLETE=complete_bash" in done.stdout
    assert done.stdout.rstrip().endswith("epagcl")


def test_the_help_offers_to_install_it(run):
    _, out, _ = run("--help")
    assert "--install-completion" in out
    assert "--show-completion" in out
