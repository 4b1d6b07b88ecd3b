import json

import pytest

import epagcl
from epagcl.integrations import doctor as module
from epagcl.integrations.doctor import Check, Diagnosis


@pytest.fixture
def diagnosis(monkeypatch):
    def use(*checks: Check):
        monkeypatch.setattr(module, "doctor", lambda data: Diagnosis(checks))

    return use


def test_a_table_names_the_fix(run, diagnosis):
    diagnosis(Check("torch", "ok", "2.9", "", True), Check("extra ann", "missing", "no", "pip install 'epagcl[ann]'"))
    code, out, _ = run("doctor")
    assert code == 0
    assert "pip install 'epagcl[ann]'" in out  # brackets are no markup
    assert "everything that training needs works" in out


def test_something_needed_that_is_broken_is_exit_code_1(run, diagnosis):
    diagnosis(Check("torch", "missing", "not installed", "pip install torch", needed=True))
    code, out, _ = run("doctor", "--json")
    assert code == 1
    assert json.loads(out) == {
        "epagcl": epagcl.__version__,
        "healthy": False,
        "checks": [
            {
                "topic": "torch",
                "status": "missing",
                "found": "not installed",
                "fix": "pip install torch",
                "needed": True,
            }
        ],
    }
