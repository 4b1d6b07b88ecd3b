import logging

from epagcl.core.log import log


def test_the_logger_is_that_of_the_package_and_has_no_handlers():
    assert log is logging.getLogger("epagcl")
    assert log.handlers == []
