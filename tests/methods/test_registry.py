import pytest

import epagcl
from epagcl import EPAGCL
from epagcl.core.errors import InputError
from epagcl.methods import Method, method_settings


def test_methods_are_found_by_name_in_any_case():
    assert "epagcl" in epagcl.methods()
    assert epagcl.method("EPAGCL") is EPAGCL
    with pytest.raises(InputError, match="no method 'node2vec'; choose one of bgrl, cca-ssg, "):
        epagcl.method("node2vec")
    with pytest.raises(InputError, match=r"no method 'gracee'; did you mean grace\?"):
        epagcl.method("gracee")


def test_base_classes_without_a_name_are_not_listed():
    assert "name" not in vars(Method)
    assert all("name" in vars(epagcl.method(name)) for name in epagcl.methods())


def test_a_method_that_is_defined_again_replaces_the_first():
    def define(words):
        @method_settings
        class Again(epagcl.DGI):
            name = "again"
            title = words

        return Again

    first, second = define("first"), define("second")
    assert epagcl.method("again") is second is not first
