"""The first screen, what neighbours share, and print, in a browser."""

import pytest

from tests.report.browser import payload, run_payload, search, until

HOSTILE = "<img src=x onerror=alert(1)>"
VERDICT = {
    "verdict": "fair",
    "headline": f"Usable {HOSTILE}",
    "reasons": ["Accuracy is 85.4%.", HOSTILE],
    "next": [
        {"why": "Look up what is near.", "command": "epagcl neighbours 'my run' --of 7"},
        {"why": HOSTILE, "command": HOSTILE},
    ],
}
N, K = 120, 5
DRIVERS = {
    "names": ["age", HOSTILE],
    "features": [0, 1, -1, -1, -1] * N,
    "parts": [0.25, 0.125, 0, 0, 0] * N,
    "similarity": [0.1, 0.2, 0.3] * N,
    "joined": [1, 1, 0, 0, 0] * N,
    "common": [0, 2, 1, 0, 0] * N,
    "hubs": [3, 4, -1] * N,
    "hub_counts": [4, 1, 0] * N,
}


@pytest.fixture
def page(open_page):
    return open_page(payload(run_payload(verdict=VERDICT, drivers=DRIVERS)), color_scheme="dark")


@pytest.mark.slow
def test_the_first_screen_answers_and_copies_commands(page):
    assert page.locator("main h2").first.inner_text() == "Is this embedding good?"
    assert page.locator(".headline").inner_text() == f"~ fair Usable {HOSTILE}"
    assert page.locator(".reasons li").all_inner_texts() == ["Accuracy is 85.4%.", HOSTILE]
    commands = page.locator(".command code")
    assert commands.first.inner_text() == "epagcl neighbours 'my run' --of 7"
    assert page.locator(".command").last.bounding_box()["y"] < 900  # all on the first screen
    page.evaluate(
        "() => { window.copied = []; navigator.clipboard.writeText = async (text) => { window.copied.push(text); }; }"
    )
    page.locator(".command button").first.click()
    until(page, "document.querySelector('.command button').textContent === 'Copied'")
    assert page.evaluate("window.copied") == ["epagcl neighbours 'my run' --of 7"]
    until(page, "document.querySelector('.command button').textContent === 'Copy'")
    assert page.locator("#verdict img, #verdict [style]").count() == 0

    search(page, "n50")
    panel = page.locator("#node")
    assert page.locator("#neighbours li").nth(1).inner_text().split("\n")[0].endswith("· edge, 2 common")
    assert page.locator("#shared-edges").inner_text() == (
        "Edges: 2 of 5 are joined to it, 2 of 5 have a neighbour in common, most often n3 (4)."
    )
    words = page.locator("#shared-features").inner_text()
    assert "mean similarity 0.60; 0.10 of it from own features alone, 0.30 from neighbours’ alone" in words
    assert page.locator("#shared-features li").all_inner_texts() == ["age\n0.250", f"{HOSTILE}\n0.125"]
    assert panel.locator("img").count() == 0
    page.locator("#shared-edges button").click()
    page.wait_for_selector("#node[data-node=n3]")


@pytest.mark.slow
def test_print_fits_the_paper_and_is_undone_afterwards(page):
    search(page, "n50")
    drawn = "[...document.querySelectorAll('.plot svg')].map((s) => [s.parentElement.clientWidth, s.clientWidth])"
    canvas = "(({ clientWidth, width }) => [2 * clientWidth, width])(map.querySelector('canvas'))"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    widths = [*page.evaluate(drawn), page.evaluate(canvas)]  # paper has more pixels than the screen
    assert all(box == plot for box, plot in widths)
    assert max(box for box, _ in widths[:-1]) <= 681  # 180 mm
    page.emulate_media(media="print")
    hidden = page.locator("nav, .tools, .command button, #selection, .close").evaluate_all(
        "(all) => all.every((e) => getComputedStyle(e).display === 'none')"
    )
    assert hidden
    assert page.locator("#node").is_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    until(page, "map.clientWidth > 700")
    assert page.locator("details[open]").count() == 0
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
