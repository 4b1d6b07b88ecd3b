"""Screenshots of a report: ``python -m tests.report.screenshots runs/cora/report.html [docs/figures]``."""

import sys
from pathlib import Path

from tests.report.browser import Shown, launched


def main(page: Path, folder: Path) -> None:
    """Health and map in both themes, with a node chosen, and the map on a phone: ``report-<look>.png``."""
    looks = {
        "light": {"viewport": {"width": 1280, "height": 1330}, "color_scheme": "light"},
        "dark": {"viewport": {"width": 1280, "height": 1330}, "color_scheme": "dark"},
        "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "device_scale_factor": 2},
    }
    with launched() as browser:
        for name, look in looks.items():
            shown = Shown(browser, page.resolve(), **look)
            view = shown.wait()
            if name == "phone":
                view.locator("#map").scroll_into_view_if_needed()
                view.evaluate("document.querySelector('#map').scrollIntoView({block: 'center'})")
            else:
                view.fill("#search", "1")  # the first node whose id begins so
                view.keyboard.press("Enter")
                view.get_by_text("Whole map").click()
                top = view.locator("#health").bounding_box()["y"] - 12  # less its margin, under the menu
                view.evaluate(f"scrollBy({{top: {top}, behavior: 'instant'}})")
            view.wait_for_timeout(1500)  # plots lower on the page, the move to the node
            view.screenshot(path=folder / f"report-{name}.png")
            shown.close()


if __name__ == "__main__":
    page = Path(sys.argv[1])
    main(page, Path(sys.argv[2]) if len(sys.argv) > 2 else page.parent)
