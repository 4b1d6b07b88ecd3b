"""The theory artefact measured on the packaged graph, once per process."""

import json
import tempfile
from functools import cache
from typing import Any

import pytest

from epagcl.paper.artefact import Request
from epagcl.paper.theory.artefact import ARTEFACT, theorems
from epagcl.study.store import Store


def theory_of_demo() -> dict[str, Any]:
    """Return a copy of the result, with few and small random graphs."""
    return json.loads(_measurement())


@cache
def _measurement() -> str:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(theorems, "SIZES", (30,))
        patch.setattr(theorems, "REPEATS", 1)
        request = Request(datasets=("demo",), methods=(), runs=2, protocols=("strict",), store=Store(folder))
        return json.dumps(ARTEFACT.measure(request))
