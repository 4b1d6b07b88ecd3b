"""Report pages in a browser."""

import pytest

from epagcl.report.page import write_page
from tests.report.browser import OpenPage, launched, payload


@pytest.fixture(scope="module")
def browser():
    with launched() as browser:
        yield browser


@pytest.fixture
def open_page(browser, tmp_path):
    """Open a payload as a page; at the end it must have had no error and no request other than itself."""
    opened = []

    def show(what, **settings):
        write_page(what, tmp_path / "report.html")
        opened.append(OpenPage(browser, tmp_path / "report.html", **settings))
        return opened[-1].wait()

    yield show
    for opened_page in opened:
        opened_page.close()


@pytest.fixture(scope="module")
def shared(browser, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(payload(), path)
    opened_page = OpenPage(browser, path)
    yield opened_page.wait()
    opened_page.close()


@pytest.fixture
def page(shared):
    """The page of one run with its map in the initial state; shared by tests, since pages load slowly."""
    for button in ("#clear", "#node .close"):
        if shared.locator(button).count():
            shared.locator(button).click()
    shared.locator("#colour-by").select_option("label")
    shared.locator("#modes [data-mode=pan][aria-pressed=false]").evaluate_all(
        "elements => elements.forEach((b) => b.click())"
    )
    shared.locator("#reset").click()
    shared.locator("#map").scroll_into_view_if_needed()
    return shared
