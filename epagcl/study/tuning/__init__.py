"""Search of a method's settings on validation nodes."""

from epagcl.study.tuning.study import Tuning, tune

__all__ = ["Tuning", "tune"]
