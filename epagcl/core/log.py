"""The package's logger."""

import logging

log = logging.getLogger("epagcl")
