import pickle

import pytest

import epagcl
from epagcl.core import errors
from epagcl.core.errors import InputError, MissingExtra, OutputError, TrainingError
from epagcl.methods.base import NotTrained

OF_ERRORS = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]


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


@pytest.mark.parametrize("kind", [*OF_ERRORS, NotTrained], ids=lambda kind: kind.__name__)
def test_errors_travel_between_processes(kind):
    error = kind("umap", "report", "UMAP") if kind is MissingExtra else kind("graph: line 3\nis wrong; mend it")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.args) == (kind, str(error), error.args)
