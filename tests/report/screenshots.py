"""Screenshots of a report: ``python -m tests.report.screenshots runs/cora/report.html [docs/figures]``."""

import sys
from pathlib import Path

from tests.report.browser import OpenPage, launched


def main(page: Path, folder: Path) -> None:
    """Save ``report-<look>.png``: health and map in both themes with a node chosen, and the map on a phone."""
    looks = {
        "light": {"viewport": {"width": 1280, "height": 1330}, "color_scheme": "light"},
        "dark": {"viewport": {"width": 1280, "height": 1330}, "color_scheme": "dark"},
        "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "device_scale_factor": 2},
    }
    with launched() as browser:
        for name, look in looks.items():
            opened = OpenPage(browser, page.resolve(), **look)
            browser_page = opened.wait()
            if name == "phone":
                browser_page.locator("#map").scroll_into_view_if_needed()
                browser_page.evaluate("document.querySelector('#map').scrollIntoView({block: 'center'})")
            else:
                browser_page.fill("#search", "1")  # the first node whose id starts with it
                browser_page.keyboard.press("Enter")
                browser_page.get_by_text("Whole map").click()
                top = browser_page.locator("#health").bounding_box()["y"] - 12  # minus its margin, below the menu
                browser_page.evaluate(f"scrollBy({{top: {top}, behavior: 'instant'}})")
            browser_page.wait_for_timeout(1500)  # for the plots further down and the move to the node
            browser_page.screenshot(path=folder / f"report-{name}.png")
            opened.close()


if __name__ == "__main__":
    page = Path(sys.argv[1])
    main(page, Path(sys.argv[2]) if len(sys.argv) > 2 else page.parent)
