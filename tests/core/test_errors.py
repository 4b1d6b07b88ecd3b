import pytest

import epagcl
from epagcl.core.errors import InputError, MissingExtra, TrainingError


def test_errors_are_subclasses_of_the_builtin_ones():
    assert issubclass(InputError, ValueError)
    assert issubclass(MissingExtra, ImportError)
    assert issubclass(TrainingError, RuntimeError)


def test_a_missing_extra_names_the_command_that_installs_it():
    with pytest.raises(ImportError, match=r"^UMAP needs umap: pip install 'epagcl\[report\]'$"):
        raise MissingExtra("umap", "report", "UMAP")


def test_errors_are_public():
    assert epagcl.errors.InputError is InputError
