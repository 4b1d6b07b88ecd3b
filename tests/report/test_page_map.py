"""The map of the report page in a real browser."""

import csv
import re
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from tests.report.browser import (
    colour_at,
    coloured_pixels,
    drag,
    groups,
    map_payload,
    payload,
    pixels,
    run_payload,
    search,
    until,
)


class TestMap:
    @pytest.mark.slow
    def test_points_are_drawn(self, page):
        assert sum(group["length"] for group in groups(page)) == 120
        assert 1_000 < coloured_pixels(page) < 60_000

    def test_colour_by_category(self, page):
        drawn = {group["name"]: group for group in groups(page)}
        assert {name: group["length"] for name, group in drawn.items()} == {
            "(missing)": 30,
            "red": 30,
            "green": 30,
            "blue": 30,
        }
        assert len({group["color"] for group in drawn.values()}) == 4
        legend = page.locator("#map .map-legend button").all_inner_texts()
        assert [re.sub(r"\s+", " ", text) for text in legend] == ["red 30", "green 30", "blue 30", "(missing) 30"]

    def test_more_than_twenty_levels(self, page):
        page.locator("#colour-by").select_option("many")
        assert len(groups(page)) == 20
        values = Counter(map_payload()["columns"][1]["values"])
        lengths = {group["name"]: group["length"] for group in groups(page)}
        assert lengths == {f"level {i}": values[i] for i in range(19)} | {
            "(6 others)": sum(values[i] for i in range(19, 25))
        }

    def test_colour_by_number(self, page):
        page.locator("#colour-by").select_option("degree")
        page.wait_for_selector("#map .colorbar")
        degrees = map_payload()["columns"][2]["values"]
        values = page.evaluate("[...map.plot.groups[0].values]")
        assert min(degrees) == 0  # hence log(1 + degree)
        assert sorted(values) == pytest.approx(sorted(np.log10(np.array(degrees) + 1.0)), abs=1e-5)
        assert page.locator(".scale-tick").all_inner_texts() == ["0", "1", "3", "10", "30", "100"]
        # The lowest and the highest point have the colours of the ends of the bar.
        places = pixels(page, [int(np.argmin(degrees)), int(np.argmax(degrees))])
        low, high = (np.array(colour_at(page, *place)) for place in places)
        assert abs(low - [13, 8, 135]).max() < 45  # blended with the white background
        assert abs(high - [238, 138, 58]).max() < 45
        page.locator("#colour-by").select_option("score")
        assert [(group["name"], group["length"]) for group in groups(page)] == [("(missing)", 12), ("score", 108)]
        assert page.locator(".scale-tick").all_inner_texts() == ["5", "10"]

    def test_points_are_drawn_in_random_order(self, page):
        page.locator("#colour-by").select_option("degree")
        order = page.evaluate("map.plot.groups[0].nodes")
        assert sorted(order) == list(range(120))
        assert abs(np.corrcoef(order, np.arange(120))[0, 1]) < 0.3

    def test_hover_shows_id_and_all_columns(self, page):
        ((x, y),) = pixels(page, [37])
        page.mouse.move(x - 30, y - 9)
        page.mouse.move(x, y, steps=3)
        page.wait_for_selector("#tip:not([hidden])")
        until(page, "document.querySelector('#tip strong').textContent === 'n37'")
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
        assert page.evaluate("map.plot.marked") == [*map_["neighbours"][250:255], 50]
        page.mouse.move(5, 5)
        assert colour_at(page, x + 9, y) == [35, 85, 165]  # the ring of the chosen node
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
        x, y = page.evaluate("[map.plot.range.x, map.plot.range.y]")
        assert [sum(x) / 2, sum(y) / 2] == pytest.approx([0, 1])  # node 11 is the first of the second row
        assert x[1] - x[0] < 8
        search(page, "N10")
        page.wait_for_selector("#node[data-node=n10]")
        assert page.locator("#found").inner_text() == "First id that contains “N10”."
        search(page, "42")  # no id starts with it
        page.wait_for_selector("#node[data-node=n42]")
        search(page, "nowhere")
        assert page.locator("#found").inner_text() == "No node “nowhere” on the map."

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
        drawn = groups(page)
        assert [group["length"] for group in drawn] == [40, 40, 40]
        assert len({group["color"] for group in drawn}) == 3
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
        assert page.evaluate("map.plot.chosen") == inside
        bright, faint = (colour_at(page, *place) for place in pixels(page, [inside[0], 100]))
        assert min(bright) < 150 < 200 < min(faint)
        page.locator("#clear").click()
        assert page.locator("#selection").get_attribute("data-count") == "0"
        assert page.evaluate("map.plot.chosen") == []

    @pytest.mark.slow
    def test_lasso_and_copy(self, page):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.locator("#modes [data-mode=lasso]").click()
        a, b, c = pixels(page, [0, 4, 44])  # a triangle of the nodes with x + y <= 4
        drag(page, (a[0] - 6, a[1] + 6), (b[0] + 15, b[1] + 6), (c[0] - 6, c[1] - 15), (a[0] - 6, a[1] + 6))
        inside = [i for i in range(120) if i % 11 + i // 11 <= 4]
        page.wait_for_selector(f"#selection[data-count='{len(inside)}']")
        page.locator("#copy").click()
        until(page, "document.getElementById('copy').textContent === 'Copied'")
        assert page.evaluate("navigator.clipboard.readText()") == "\n".join(f"n{i}" for i in inside)
