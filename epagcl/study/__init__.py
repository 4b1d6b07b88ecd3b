"""Studies of many runs: comparison of methods, the store of finished runs, and the search of settings."""

from epagcl.study.comparison import collect, fill
from epagcl.study.design import Cell, Row, cells, fingerprint, protocols_of, rows, settings_source
from epagcl.study.store import Store

__all__ = ["Cell", "Row", "Store", "cells", "collect", "fill", "fingerprint", "protocols_of", "rows", "settings_source"]
