"""The map of the report page in a real browser."""

import csv
import re
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from epagcl.report.page import have_plotly
from tests.report.browser import (
    coloured_pixels,
    drag,
    flat_map,
    map_payload,
    payload,
    pixels,
    run_payload,
    search,
    traces,
)

pytestmark = pytest.mark.skipif(not have_plotly(), reason="needs plotly, which brings plotly.js")


class TestMap:
    @pytest.mark.slow
    def test_points_are_drawn(self, page):
        assert sum(t["length"] for t in traces(page)) == 120
        assert 1_000 < coloured_pixels(page) < 60_000

    def test_colour_by_category(self, page):
        groups = {t["name"].split("  ")[0]: t for t in traces(page)}
        assert {name: t["length"] for name, t in groups.items()} == {
            "(missing)": 30,
            "red": 30,
            "green": 30,
            "blue": 30,
        }
        assert len({t["color"] for t in groups.values()}) == 4
        legend = page.locator("#map .legendtext").all_text_contents()
        assert [re.sub(r"\s+", " ", text) for text in legend] == ["red 30", "green 30", "blue 30", "(missing) 30"]

    def test_more_than_twenty_levels(self, page):
        page.locator("#colour-by").select_option("many")
        page.wait_for_function("map.data.length === 20")
        values = Counter(map_payload()["columns"][1]["values"])
        lengths = {t["name"].split("  ")[0]: t["length"] for t in traces(page)}
        assert lengths == {f"level {i}": values[i] for i in range(19)} | {
            "(6 others)": sum(values[i] for i in range(19, 25))
        }

    def test_colour_by_number(self, page):
        page.locator("#colour-by").select_option("degree")
        page.wait_for_selector("#map .colorbar")
        degrees = map_payload()["columns"][2]["values"]
        colours = page.evaluate("Array.from(map.data[0].marker.color)")
        assert min(degrees) == 0  # hence log(1 + degree)
        assert sorted(colours) == pytest.approx(sorted(np.log10(np.array(degrees) + 1.0)), abs=1e-5)
        page.locator("#colour-by").select_option("score")
        page.wait_for_function("map.data.length === 2")
        assert [(t["name"], t["length"]) for t in traces(page)] == [("(missing)  12", 12), ("score  108", 108)]

    def test_points_are_drawn_in_random_order(self, page):
        page.locator("#colour-by").select_option("degree")
        page.wait_for_selector("#map .colorbar")
        xy = page.evaluate("(() => { const [t] = map.data; return [[...t.x], [...t.y]]; })()")
        order = np.array(xy[0]) + 11 * np.array(xy[1])
        assert sorted(order) == list(range(120))
        assert abs(np.corrcoef(order, np.arange(120))[0, 1]) < 0.3

    def test_hover_shows_id_and_all_columns(self, page):
        ((x, y),) = pixels(page, [37])
        page.mouse.move(x - 30, y - 9)
        page.mouse.move(x, y, steps=3)
        page.wait_for_selector("#tip:not([hidden])")
        page.wait_for_function("document.querySelector('#tip strong').textContent === 'n37'")
        map_ = map_payload()
        assert page.locator("#tip dt").all_inner_texts() == ["label", "many", "degree", "score"]
        assert page.locator("#tip dd").all_inner_texts() == [
            "red",
            "level 18",
            str(map_["columns"][2]["values"][37]),
            "4.625",
        ]
        page.mouse.move(5, 5)
        page.wait_for_selector("#tip", state="hidden")

    def test_click_shows_the_neighbours(self, page):
        ((x, y),) = pixels(page, [50])
        page.mouse.click(x, y)
        page.wait_for_selector("#node[data-node=n50]")
        map_ = map_payload()
        near = [f"n{i}" for i in map_["neighbours"][250:255]]
        assert page.locator("#neighbours button").evaluate_all("all => all.map((b) => b.dataset.node)") == near
        assert page.locator("#neighbours .number").all_inner_texts() == [f"{c:.3f}" for c in map_["similarity"][:5]]
        marked = page.evaluate("map.layout.annotations.filter((a) => a.width).map((a) => [a.x, a.y])")
        assert marked == [[map_["x"][i], map_["y"][i]] for i in [*map_["neighbours"][250:255], 50]]
        assert page.locator("#map .annotation-text").last.text_content() == "n50"
        page.locator("#neighbours button").nth(2).click()
        page.wait_for_selector(f"#node[data-node={near[2]}]")

    @pytest.mark.slow
    def test_saved_image(self, page, tmp_path):
        with page.expect_download() as started:
            page.get_by_role("button", name="Save image").click()
        started.value.save_as(tmp_path / "map.png")
        assert started.value.suggested_filename == "first-map.png"
        with Image.open(tmp_path / "map.png") as picture:
            assert picture.width == 2 * page.evaluate("map.clientWidth")
            pixels_ = np.asarray(picture.convert("RGB")).astype(int)
        assert (pixels_.max(2) - pixels_.min(2) > 40).sum() > 4_000  # twice the pixels of the page, each way

    @pytest.mark.slow
    def test_search(self, page):
        page.locator("#search").fill("n11")
        options = page.locator("#suggestions option").evaluate_all("elements => elements.map((o) => o.value)")
        assert options == ["n11", *(f"n{i}" for i in range(110, 120))]
        page.locator("#search").press("Enter")
        page.wait_for_selector("#node[data-node=n11]")
        assert page.locator("#found").inner_text() == ""
        x, y = page.evaluate("(() => { const l = map.layout; return [l.xaxis.range, l.yaxis.range]; })()")
        assert [sum(x) / 2, sum(y) / 2] == pytest.approx([0, 1])  # node 11 is the first of the second row
        assert x[1] - x[0] < 8
        search(page, "N10")
        page.wait_for_selector("#node[data-node=n10]")
        assert page.locator("#found").inner_text() == "First id that contains “N10”."
        search(page, "42")  # no id starts with it
        page.wait_for_selector("#node[data-node=n42]")
        search(page, "nowhere")
        assert page.locator("#found").inner_text() == "No node “nowhere” on the map."

    def test_the_wheel_zooms_only_after_a_click(self, page):
        width = "(map.layout.xaxis.range[1] - map.layout.xaxis.range[0])"
        before, top = page.evaluate(f"[{width}, scrollY]")
        ((x, y),) = pixels(page, [60])
        page.mouse.move(x + 12, y + 12)
        page.mouse.wheel(0, -60)
        page.wait_for_function(f"scrollY === {top - 60}")  # the page scrolls, the map stays
        assert page.evaluate(width) == before
        page.mouse.click(x + 12, y + 12)
        page.wait_for_selector(".dragcover", state="detached")
        page.mouse.wheel(0, -60)
        page.wait_for_function(f"{width} < {before}")
        assert page.evaluate("scrollY") == top - 60

    @pytest.mark.slow
    def test_levels_named_like_built_in_groups_stay_separate(self, open_page):
        map_ = map_payload()
        values = [i % 3 - 1 for i in range(120)]  # missing, (missing), other
        map_["columns"][0] = {"name": "word", "kind": "category", "levels": ["(missing)", "other"], "values": values}
        map_["columns"][1] = {**map_["columns"][1], "colour": False}  # too many levels to colour by
        page = open_page(payload(run_payload(map=map_)))
        page.locator("#map").scroll_into_view_if_needed()
        offered = page.locator("#colour-by option").all_inner_texts()
        assert offered == ["word", "degree", "score"]
        groups = traces(page)
        assert [t["length"] for t in groups] == [40, 40, 40]
        assert len({t["color"] for t in groups}) == 3
        page.locator("#modes [data-mode=select]").click()
        (x0, y0), (x1, y1) = pixels(page, [0, 22 + 2])
        drag(page, (x0 - 8, y0 + 8), (x1 + 8, y1 - 8))
        page.wait_for_selector("#selection[data-count='9']")
        assert len(page.locator("#composition li").all_inner_texts()) == 3

    @pytest.mark.slow
    def test_a_tooltip_with_many_columns_has_the_first_ones_and_the_chosen_one(self, open_page):
        map_ = map_payload()
        more = [{"name": f"column {k}", "kind": "number", "log": False, "values": [k] * 120} for k in range(20)]
        map_["columns"] += more
        page = open_page(payload(run_payload(map=map_)))
        page.locator("#map").scroll_into_view_if_needed()
        page.locator("#colour-by").select_option("column 19")
        page.wait_for_selector("#map .colorbar")
        ((x, y),) = pixels(page, [37])
        page.mouse.move(x - 30, y - 9)
        page.mouse.move(x, y, steps=3)
        page.wait_for_selector("#tip:not([hidden])")
        names = page.locator("#tip dt").all_inner_texts()
        assert names[-2:] == ["column 19", "and 12 more"]
        assert len(names) == 13
        page.mouse.click(x, y)
        page.wait_for_selector("#node[data-node=n37]")
        assert page.locator("#node dt").count() == 24


class TestSelection:
    @pytest.mark.slow
    def test_box(self, page, tmp_path):
        page.locator("#modes [data-mode=select]").click()
        map_ = map_payload()
        (x0, y0), (x1, y1) = pixels(page, [2 * 11 + 2, 5 * 11 + 6])
        drag(page, (x0 - 8, y0 + 8), (x1 + 8, y1 - 8))  # y runs upwards in the plot and downwards on the screen
        inside = [i for i in range(120) if 2 <= map_["x"][i] <= 6 and 2 <= map_["y"][i] <= 5]
        assert len(inside) == 20
        page.wait_for_selector("#selection[data-count='20']")
        names = [["red", "green", "blue", "(missing)"][map_["columns"][0]["values"][i]] for i in inside]
        assert dict(row.split("\n")[:2] for row in page.locator("#composition li").all_inner_texts()) == {
            name: f"{number} · {5 * number:.1f}%" for name, number in Counter(names).items()
        }
        with page.expect_download() as started:
            page.locator("#download").click()
        started.value.save_as(tmp_path / "ids.csv")
        with open(tmp_path / "ids.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert [row["id"] for row in rows] == [f"n{i}" for i in inside]
        assert list(rows[0]) == ["id", "label", "many", "degree", "score"]
        assert [row["label"] for row in rows] == ["" if name == "(missing)" else name for name in names]
        assert [row["score"] for row in rows] == ["" if i % 10 == 0 else f"{i / 8:g}" for i in inside]
        assert started.value.suggested_filename == "first-selection.csv"

        # Another colouring keeps the selection, and its points stay the bright ones.
        page.locator("#colour-by").select_option("degree")
        page.wait_for_selector("#map .colorbar")
        assert page.locator("#selection").get_attribute("data-count") == "20"
        chosen = "map._fullData[0].selectedpoints.map((i) => 11 * map.data[0].y[i] + map.data[0].x[i])"
        assert sorted(page.evaluate(chosen)) == inside
        page.locator("#clear").click()
        assert page.locator("#selection").get_attribute("data-count") == "0"
        page.wait_for_function("map._fullData.every((t) => !t.selectedpoints)")

    @pytest.mark.slow
    def test_lasso_and_copy(self, page):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.locator("#modes [data-mode=lasso]").click()
        a, b, c = pixels(page, [0, 4, 44])  # a triangle of the nodes with x + y <= 4
        drag(page, (a[0] - 6, a[1] + 6), (b[0] + 15, b[1] + 6), (c[0] - 6, c[1] - 15), (a[0] - 6, a[1] + 6))
        inside = [i for i in range(120) if i % 11 + i // 11 <= 4]
        page.wait_for_selector(f"#selection[data-count='{len(inside)}']")
        page.locator("#copy").click()
        page.wait_for_function("document.getElementById('copy').textContent === 'Copied'")
        assert page.evaluate("navigator.clipboard.readText()") == "\n".join(f"n{i}" for i in inside)

    @pytest.mark.slow
    def test_the_map_works_under_a_selection(self, page):
        page.locator("#modes [data-mode=select]").click()
        (x0, y0), (x1, y1), (x, y) = pixels(page, [2 * 11 + 2, 5 * 11 + 6, 3 * 11 + 4])
        drag(page, (x0 - 8, y0 + 8), (x1 + 8, y1 - 8))
        page.wait_for_selector("#selection[data-count='20']")
        page.locator("#modes [data-mode=pan]").click()
        page.mouse.click(x, y)
        page.wait_for_selector("#node[data-node=n37]")
        before = page.evaluate("map.layout.xaxis.range[0]")
        drag(page, (x + 9, y + 9), (x + 60, y + 9))
        page.wait_for_function(f"map.layout.xaxis.range[0] < {before}")
        assert page.locator("#selection").get_attribute("data-count") == "20"


@pytest.mark.slow
def test_hundred_thousand_points(open_page, tmp_path):
    """Load, draw and recolour; the limits are for two slow cores that draw in software."""
    page = open_page(payload(run_payload(map=flat_map(100_000))))
    assert (tmp_path / "report.html").stat().st_size < 20_000_000
    assert sum(t["length"] for t in page.evaluate("map.data.map((t) => ({length: t.x.length}))")) == 100_000
    page.locator("#map").scroll_into_view_if_needed()
    assert coloured_pixels(page) > 20_000
    seconds = page.evaluate(
        """async () => {
            const select = document.getElementById("colour-by"), start = performance.now();
            const drawn = new Promise((done) => map.once("plotly_afterplot", done));
            select.value = "degree";
            select.dispatchEvent(new Event("change"));
            await drawn;
            return (performance.now() - start) / 1000;
        }"""
    )
    assert seconds < 5
    assert page.evaluate("map.data.map((t) => t.x.length)") == [100_000]
