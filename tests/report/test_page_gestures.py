"""Pointer, wheel, fingers and keyboard on the map of the report page, in a real browser."""

import numpy as np
import pytest

from tests.report.browser import (
    colour_at,
    coloured_pixels,
    drag,
    flat_map,
    map_payload,
    payload,
    pixels,
    run_payload,
    until,
)

WIDTH = "(map.plot.range.x[1] - map.plot.range.x[0])"


def press(page, name: str, times: int = 1) -> None:
    """Click a group of the legend once, or twice as one double-click."""
    button = page.locator(".map-legend button", has_text=name)
    button.click() if times == 1 else button.dblclick()


class TestPointing:
    @pytest.mark.slow
    def test_hover_finds_the_nearest_point(self, open_page):
        map_ = {**flat_map(2_000), "ids": [f"n{i}" for i in range(2_000)]}
        page = open_page(payload(run_payload(map=map_)))
        page.locator("#map").scroll_into_view_if_needed()
        places = np.array(pixels(page, range(2_000), map_))
        rng = np.random.default_rng(0)
        for place in places[rng.choice(2_000, 12, replace=False)]:
            cursor = (place + rng.uniform(-4, 4, 2)).round()
            page.mouse.move(*cursor)
            nearest = np.hypot(*(places - cursor).T).argmin()
            until(page, f"document.querySelector('#tip strong')?.textContent === 'n{nearest}'", 3)

    def test_nothing_is_hovered_far_from_points(self, page):
        ((x0, y0),) = pixels(page, [37])
        ((x1, y1),) = pixels(page, [49])
        page.mouse.move(x0, y0)
        page.wait_for_selector("#tip:not([hidden])")
        page.mouse.move((x0 + x1) / 2, (y0 + y1) / 2)
        page.wait_for_selector("#tip", state="hidden")

    def test_hidden_groups_are_neither_hovered_nor_clicked(self, page):
        ((x, y),) = pixels(page, [37])  # red
        press(page, "red")
        page.mouse.move(x - 2, y)
        page.mouse.click(x, y)
        page.mouse.move(x + 1, y)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        assert page.locator("#tip").is_hidden()
        assert page.locator("#node").get_attribute("data-node") is None
        press(page, "red")


class TestLegend:
    @pytest.mark.slow
    def test_a_click_hides_a_group_and_shows_it_again(self, page):
        ((x, y),) = pixels(page, [37])
        page.mouse.move(5, 5)
        shown = colour_at(page, x, y)
        before = coloured_pixels(page)
        press(page, "red")
        ((x, y),) = pixels(page, [37])
        assert colour_at(page, x, y) == [255, 255, 255] != shown
        assert 0.5 * before < coloured_pixels(page) < 0.8 * before
        assert page.locator(".map-legend button[aria-pressed=false]").inner_text().startswith("red")
        page.locator("#colour-by").select_option("many")  # another column shows all of its groups
        assert page.locator(".map-legend button[aria-pressed=false]").count() == 0
        page.locator("#colour-by").select_option("label")
        assert coloured_pixels(page) == before

    def test_a_double_click_shows_a_group_alone_and_then_all(self, page):
        press(page, "green", 2)
        hidden = page.locator(".map-legend button[aria-pressed=false] .legend-name")
        assert hidden.all_inner_texts() == ["red", "blue", "(missing)"]
        page.locator("#modes [data-mode=select]").click()
        (x0, y1), (x1, y0) = pixels(page, [0, 10 * 11 + 9])
        drag(page, (x0 - 8, y1 + 8), (x1 + 60, y0 - 8))  # only what is visible is selected
        green = [i for i in range(120) if map_payload()["columns"][0]["values"][i] == 1]
        page.wait_for_selector(f"#selection[data-count='{len(green)}']")
        assert page.evaluate("map.plot.chosen") == green
        press(page, "green", 2)
        assert hidden.count() == 0


class TestZoom:
    def test_the_wheel_zooms_only_after_a_click(self, page):
        before, top = page.evaluate(f"[{WIDTH}, scrollY]")
        ((x, y),) = pixels(page, [60])
        page.mouse.move(x + 12, y + 12)
        page.mouse.wheel(0, -60)
        until(page, f"scrollY === {top - 60}")  # the page scrolls, the map stays
        assert page.evaluate(WIDTH) == before
        page.mouse.click(x + 12, y + 12)
        page.mouse.wheel(0, -60)
        until(page, f"{WIDTH} < {before}")
        assert page.evaluate("scrollY") == top - 60

    def test_zoom_keeps_the_point_below_the_cursor(self, page):
        start = np.array(pixels(page, [27])[0])  # far from the centre
        cursor = start.round()  # events of the wheel have whole pixels
        before = page.evaluate(WIDTH)
        page.mouse.click(*cursor)
        for step in (-120, -120, -120, 200):
            width = page.evaluate(WIDTH)
            page.mouse.wheel(0, step)
            until(page, f"{WIDTH} !== {width}")
            factor = before / page.evaluate(WIDTH)
            assert pixels(page, [27])[0] == pytest.approx(cursor + factor * (start - cursor), abs=1e-6)
        assert factor == pytest.approx(np.exp(0.0025 * 160))

    def test_both_axes_have_one_scale(self, page):
        (x0, y0), (x1, y1), (x2, y2) = pixels(page, [0, 1, 11])
        assert x1 - x0 == pytest.approx(y0 - y2)
        assert (y0, x0) == pytest.approx((y1, x2))

    def test_buttons_and_keys(self, page):
        home = page.evaluate("map.plot.range.x")
        page.get_by_role("button", name="Zoom in").click()
        assert page.evaluate(WIDTH) == pytest.approx(0.6 * (home[1] - home[0]))
        page.locator("#map canvas").press("ArrowRight")
        assert sum(page.evaluate("map.plot.range.x")) > sum(home)
        page.locator("#map canvas").press("-")
        assert page.evaluate(WIDTH) == pytest.approx(home[1] - home[0])
        page.locator("#map canvas").press("Home")
        assert page.evaluate("map.plot.range.x") == pytest.approx(home)

    def test_a_drag_moves_the_map_with_the_pointer_and_a_double_click_resets_it(self, page):
        ((x, y),) = pixels(page, [60])
        drag(page, (x + 10, y + 10), (x + 70, y - 20))
        assert pixels(page, [60])[0] == pytest.approx([x + 60, y - 30], abs=0.01)
        page.mouse.dblclick(x + 60 + 14, y - 30 + 14)
        assert pixels(page, [60])[0] == pytest.approx([x, y], abs=0.01)

    @pytest.mark.slow
    def test_two_fingers_zoom_about_the_place_between_them(self, open_page):
        phone = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}
        page = open_page(payload(), **phone)
        page.locator("#map").scroll_into_view_if_needed()
        ((x, y),) = pixels(page, [60])
        before = page.evaluate(WIDTH)
        session = page.context.new_cdp_session(page)

        def touch(kind: str, *apart: float) -> None:
            points = [{"x": x + side * each, "y": y, "id": side + 1} for each in apart for side in (-1, 1)]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        touch("touchStart", 20)
        for apart in (25, 30, 40, 50, 60):
            touch("touchMove", apart)
        touch("touchEnd")
        until(page, f"{WIDTH} < 0.5 * {before}")
        assert page.evaluate(WIDTH) == pytest.approx(before / 3, rel=0.2)
        assert pixels(page, [60])[0] == pytest.approx([x, y], abs=8)


class TestSelecting:
    @pytest.mark.slow
    def test_shift_adds_and_alt_removes(self, page):
        page.locator("#modes [data-mode=select]").click()
        places = pixels(page, [0, 12, 24, 36])
        drag(page, np.add(places[0], [-8, 8]), np.add(places[1], [8, -8]))
        page.wait_for_selector("#selection[data-count='4']")
        page.keyboard.down("Shift")
        drag(page, np.add(places[2], [-8, 8]), np.add(places[3], [8, -8]))
        page.keyboard.up("Shift")
        page.wait_for_selector("#selection[data-count='8']")
        page.keyboard.down("Alt")
        drag(page, np.add(places[1], [-8, 8]), np.add(places[2], [8, -8]))
        page.keyboard.up("Alt")
        page.wait_for_selector("#selection[data-count='6']")
        assert page.evaluate("map.plot.chosen") == [0, 1, 11, 25, 35, 36]
        page.mouse.dblclick(places[3][0] + 14, places[3][1] - 14)
        page.wait_for_selector("#selection[data-count='0']")

    @pytest.mark.slow
    def test_the_map_works_under_a_selection(self, page):
        page.locator("#modes [data-mode=select]").click()
        (x0, y0), (x1, y1), (x, y) = pixels(page, [2 * 11 + 2, 5 * 11 + 6, 3 * 11 + 4])
        drag(page, (x0 - 8, y0 + 8), (x1 + 8, y1 - 8))
        page.wait_for_selector("#selection[data-count='20']")
        page.locator("#modes [data-mode=pan]").click()
        page.mouse.click(x, y)
        page.wait_for_selector("#node[data-node=n37]")
        before = page.evaluate("map.plot.range.x[0]")
        drag(page, (x + 9, y + 9), (x + 60, y + 9))
        until(page, f"map.plot.range.x[0] < {before}")
        assert page.locator("#selection").get_attribute("data-count") == "20"


@pytest.mark.slow
def test_hundred_thousand_points(open_page, tmp_path):
    """Load, draw, recolour, hover and select; the limits are for two slow cores that draw in software."""
    map_ = flat_map(100_000)
    page = open_page(payload(run_payload(map=map_)))
    assert (tmp_path / "report.html").stat().st_size < 9_000_000
    assert page.evaluate("performance.now()") < 15_000
    assert sum(page.evaluate("map.plot.groups.map((group) => group.nodes.length)")) == 100_000
    page.locator("#map").scroll_into_view_if_needed()
    assert coloured_pixels(page) > 20_000
    assert page.evaluate("map.plot.milliseconds") < 500
    seconds = page.evaluate(
        """() => {
            const select = document.getElementById("colour-by"), start = performance.now();
            select.value = "degree";
            select.dispatchEvent(new Event("change"));
            return (performance.now() - start) / 1000;
        }"""
    )
    assert seconds < 2
    assert page.evaluate("map.plot.groups.map((group) => group.nodes.length)") == [100_000]
    page.locator("#modes [data-mode=select]").click()
    x, y = np.array(map_["x"]), np.array(map_["y"])
    corners = {"x": [-1.0, 1.0], "y": [-1.0, 1.0]}
    low, high = pixels(page, [0, 1], corners)
    drag(page, low, high)
    until(page, "map.plot.chosen.length > 0")
    inside = np.flatnonzero((abs(x) < 0.99) & (abs(y) < 0.99))
    chosen = np.array(page.evaluate("map.plot.chosen"))
    assert set(inside) <= set(chosen)
    assert max(abs(x[chosen]).max(), abs(y[chosen]).max()) < 1.01
