import logging

from epagcl.core.log import log


def test_the_logger_is_that_of_the_package_and_has_no_handlers():
    assert log is logging.getLogger("epagcl")
    assert log.handlers == []


def test_messages_are_one_line_without_escape_codes(caplog):
    with caplog.at_level(logging.INFO, "epagcl"):
        log.info("id %s and %d", "\x1b[2J\n", 7)
    assert caplog.messages == [r"id \x1b[2J\n and 7"]
