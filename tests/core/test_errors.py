import pytest

import epagcl
from epagcl.core.errors import InputError, MissingExtra, OutputError, TrainingError


def test_errors_are_subclasses_of_the_builtin_ones():
    assert issubclass(InputError, ValueError)
    assert issubclass(MissingExtra, ImportError)
    assert issubclass(TrainingError, RuntimeError)


def test_a_missing_extra_names_the_command_that_installs_it():
    with pytest.raises(ImportError, match=r"^UMAP needs umap: pip install '\.\[report\]'"):
        raise MissingExtra("umap", "report", "UMAP")


def test_errors_are_public():
    assert epagcl.errors.InputError is InputError


def test_messages_are_one_line_without_escape_codes():
    error = InputError("id \x1b[31m\nred" + "x" * 5000)
    assert str(error).startswith(r"id \x1b[31m\nred")
    assert len(str(error)) < 1100
    assert isinstance(OutputError("z"), OSError)
