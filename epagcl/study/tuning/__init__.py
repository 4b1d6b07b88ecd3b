"""Search of a method's settings by validation accuracy."""

from epagcl.study.tuning.result import Tuning
from epagcl.study.tuning.study import tune

__all__ = ["Tuning", "tune"]
