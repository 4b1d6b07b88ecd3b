"""Pages in a browser."""

import pytest

from epagcl.report.page import write_page
from tests.report.browser import Shown, launched, payload


@pytest.fixture(scope="module")
def browser():
    with launched() as browser:
        yield browser


@pytest.fixture
def open_page(browser, tmp_path):
    """Show a payload; at the end the page must have logged no error and asked for nothing but itself."""
    opened = []

    def show(what, **settings):
        write_page(what, tmp_path / "report.html")
        opened.append(Shown(browser, tmp_path / "report.html", **settings))
        return opened[-1].wait()

    yield show
    for shown in opened:
        shown.close()


@pytest.fixture(scope="module")
def shared(browser, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(payload(), path)
    shown = Shown(browser, path)
    yield shown.wait()
    shown.close()


@pytest.fixture
def page(shared):
    """The page of one full run, its map as at the beginning; tests share it, since a browser starts slowly."""
    for button in ("#clear", "#node .close"):
        if shared.locator(button).count():
            shared.locator(button).click()
    shared.locator("#colour-by").select_option("label")
    shared.locator("#modes [data-mode=pan][aria-pressed=false]").evaluate_all(
        "found => found.forEach((b) => b.click())"
    )
    shared.locator("#reset").click()
    shared.locator("#map").scroll_into_view_if_needed()
    return shared
