"""Screenshots of a report: ``python -m tests.report.screenshots runs/cora/report.html [docs/figures]``."""

import sys
from pathlib import Path

from tests.report.browser import OpenPage, launched


def main(page: Path, folder: Path) -> None:
    """Save ``report-<look>.png``: in both themes from the top to the map with a node chosen, and the map on a phone."""
    looks = {
        "light": {"viewport": {"width": 1280, "height": 1000}, "color_scheme": "light"},
        "dark": {"viewport": {"width": 1280, "height": 1000}, "color_scheme": "dark"},
        "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "device_scale_factor": 2}
        | {"has_touch": True, "is_mobile": True},
    }
    with launched() as browser:
        for name, look in looks.items():
            opened = OpenPage(browser, page.resolve(), **look)
            browser_page = opened.wait()
            path = folder / f"report-{name}.png"
            if name == "phone":
                browser_page.evaluate("map.scrollIntoView({block: 'center', behavior: 'instant'})")
                browser_page.wait_for_timeout(500)  # for the plots further down
                browser_page.screenshot(path=path)
            else:
                browser_page.fill("#search", "1")  # the first node whose id starts with it
                browser_page.keyboard.press("Enter")
                browser_page.get_by_text("Whole map").click()
                browser_page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
                browser_page.wait_for_timeout(500)
                map_ = browser_page.locator(".map-grid").bounding_box()
                clip = {"x": 0, "y": 0, "width": 1280, "height": map_["y"] + map_["height"] + 16}
                browser_page.screenshot(path=path, full_page=True, clip=clip)
            opened.close()


if __name__ == "__main__":
    page = Path(sys.argv[1])
    main(page, Path(sys.argv[2]) if len(sys.argv) > 2 else page.parent)
