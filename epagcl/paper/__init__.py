"""What the paper reports."""

import tomllib
from importlib import resources
from typing import Any


def reported() -> dict[str, Any]:
    """The paper's figures, one table per artefact; ``reported.toml`` explains each."""
    return tomllib.loads((resources.files(__name__) / "reported.toml").read_text(encoding="utf-8"))
