"""The package's logger."""

import logging

from epagcl.core.formatting import one_line

log = logging.getLogger("epagcl")


def _escape(record: logging.LogRecord) -> bool:
    """Keep a message, which may quote what users wrote, in one line and without control characters."""
    record.msg, record.args = one_line(record.getMessage()), ()
    return True


log.addFilter(_escape)
