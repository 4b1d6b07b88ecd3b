"""The report page in a real browser: what is drawn, said, found, selected and written is what the payload holds."""

import csv
import json
import re
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from epagcl.errors import MissingExtra
from epagcl.report import page as page_module
from epagcl.report.page import have_plotly, write_page
from tests.report.browser import (
    NO_WEBGL,
    Shown,
    agreement_payload,
    coloured_pixels,
    drag,
    flat_map,
    launched,
    map_payload,
    payload,
    pixels,
    run_payload,
    search,
    traces,
    unpacked,
)

pytestmark = pytest.mark.skipif(not have_plotly(), reason="needs plotly, which brings plotly.js")

HOSTILE = "</script><img src=x onerror=\"document.title='owned'\"><b>bold</b> &amp; %{x} {{js}}"


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


class TestFile:
    def test_everything_is_inside_and_small(self, tmp_path):
        write_page(payload(), tmp_path / "r.html")
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert len(text) < 2_300_000
        assert not re.search(r"(?:src|href)\s*=\s*[\"']?\s*(?:https?:)?//", text)
        assert "sourceMappingURL" not in text
        assert json.loads(unpacked(text, "payload")) == payload()
        assert "plotly.js v" in unpacked(text, "plotly")[:200]

    def test_same_payload_same_bytes(self, tmp_path):
        write_page(payload(), tmp_path / "a.html")
        write_page(payload(), tmp_path / "b.html")
        assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()

    def test_users_text_cannot_end_the_script(self, tmp_path):
        write_page(payload(title=HOSTILE), tmp_path / "r.html")
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert 'onerror="' not in text
        assert "<title>&lt;/script&gt;&lt;img" in text
        assert "{{js}}</title>" in text  # not filled in
        assert text.count("</script>") == 3

    def test_large_ids_keep_their_digits(self, tmp_path):
        large = run_payload(map={**map_payload(), "ids": [2**60 + i for i in range(120)]})
        write_page(payload(large), tmp_path / "r.html")
        found = json.loads(unpacked((tmp_path / "r.html").read_text(encoding="utf-8"), "payload"))
        assert found["runs"][0]["map"]["ids"][1] == "1152921504606846977"

    def test_without_plotly_one_line_and_no_file(self, tmp_path, monkeypatch):
        page_module._plotly.cache_clear()
        monkeypatch.setattr(page_module, "have_plotly", lambda: False)
        with pytest.raises(MissingExtra, match=r"^the report page needs plotly: pip install 'epagcl\[report\]'$"):
            write_page(payload(), tmp_path / "r.html")
        assert list(tmp_path.iterdir()) == []


class TestSections:
    def test_order_and_words(self, page):
        assert page.locator("main h2").all_inner_texts() == [
            "What was run", "Did training work?", "Map of the embedding", "Training", "Scores", "The graph",
        ]  # fmt: skip
        assert page.locator("h1").inner_text() == "EPAGCL on made"
        assert page.locator("#made").inner_text() == "2026-11-15 19:20 · epagcl 0.1.0"
        assert page.locator("#about dl").inner_text().split("\n") == ["Graph", "120 nodes", "Trained", "3 epochs"]
        assert "the map shows 120 of 240 nodes" in page.locator("#embedding").inner_text().lower()
        cards = page.locator("#health .card").all_inner_texts()
        assert cards[1].split("\n") == ["Loss", "rose", "✕ poor", "", "Lower the learning rate."]

    def test_changed_settings_come_first(self, page):
        rows = page.locator("#settings tbody tr").all_text_contents()
        assert rows == ["p_drop0.4changedprobability to drop", "epochs3passes over the graph"]

    def test_scores(self, page):
        rows = page.locator("#scores .table").first.locator("tbody tr").all()
        assert rows[0].inner_text().split("\t") == ["raw features", "64.0 ± 1.1", "–", "–", "–"]
        assert rows[1].inner_text().split("\t") == ["EPAGCL", "84.8 ± 0.6", "83.0", "81.0", "0.561"]

    def test_plots_are_drawn_when_scrolled_to(self, page):
        last = page.locator("#graph .plot").last
        last.scroll_into_view_if_needed()
        page.wait_for_function("document.querySelectorAll('#graph .plot[data-drawn=yes] .main-svg').length >= 4")
        drawn = "[...document.querySelectorAll('.plot')].map((p) => [p.ariaLabel, p.data])"
        page.locator("#training").scroll_into_view_if_needed()
        page.wait_for_function("[...document.querySelectorAll('.plot')].every((p) => p.data)")
        found = dict(page.evaluate(drawn))
        assert list(found) == [
            "Loss", "Effective rank", "Alignment", "Confusion matrix", "Degrees",
            "Probability that a pair changes in a view", "Error passing rate of sampled views",
            "Edges of sampled views",
        ]  # fmt: skip
        assert found["Loss"][0]["y"] == [3.0, 2.0, 1.5]
        assert found["Confusion matrix"][0]["z"] == [[0.8, 0.2, 0], [0.1, 0.9, 0], [0, 0, 1]]
        assert found["Confusion matrix"][0]["text"][0] == ["8", "2", "0"]
        assert [t["y"] for t in found["Edges of sampled views"]] == [[90, 95], [99, 98]]
        assert found["Probability that a pair changes in a view"][2]["y"] == [0.4, 0.2]

    def test_what_is_missing_is_absent(self, open_page):
        nothing = {"degree": {"degree": [], "nodes": []}, "epr": None, "probabilities": None, "views": None}
        empty = {"history": {"epoch": [], "loss": []}, "measures": {"epoch": [], "effective_rank": []}}
        page = open_page(
            payload(run_payload(scores=None, map=None, classes=None, health=[], structure=nothing, **empty))
        )
        assert page.locator("main h2").all_inner_texts() == ["What was run"]
        assert page.locator("#map, .plot, #run-field:visible, #agreement").count() == 0


class TestMap:
    def test_points_are_drawn(self, page):
        assert sum(t["length"] for t in traces(page)) == 120
        assert 1_000 < coloured_pixels(page) < 60_000

    def test_colour_by_category(self, page):
        found = {t["name"].split("  ")[0]: t for t in traces(page)}
        assert {name: t["length"] for name, t in found.items()} == {"none": 30, "red": 30, "green": 30, "blue": 30}
        assert len({t["color"] for t in found.values()}) == 4
        legend = page.locator("#map .legendtext").all_text_contents()
        assert [re.sub(r"\s+", " ", text) for text in legend] == ["red 30", "green 30", "blue 30", "none 30"]

    def test_more_than_twenty_levels(self, page):
        page.locator("#colour-by").select_option("many")
        page.wait_for_function("map.data.length === 20")
        values = Counter(map_payload()["columns"][1]["values"])
        found = {t["name"].split("  ")[0]: t["length"] for t in traces(page)}
        assert found == {f"level {i}": values[i] for i in range(19)} | {"other": sum(values[i] for i in range(19, 25))}

    def test_colour_by_number(self, page):
        page.locator("#colour-by").select_option("degree")
        page.wait_for_selector("#map .colorbar")
        degrees = map_payload()["columns"][2]["values"]
        colours = page.evaluate("Array.from(map.data[0].marker.color)")
        assert min(degrees) == 0  # hence log(1 + degree)
        assert sorted(colours) == pytest.approx(sorted(np.log10(np.array(degrees) + 1.0)), abs=1e-5)
        page.locator("#colour-by").select_option("score")
        page.wait_for_function("map.data.length === 2")
        assert [(t["name"], t["length"]) for t in traces(page)] == [("none  12", 12), ("score  108", 108)]

    def test_order_of_drawing_is_mixed(self, page):
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
        assert page.locator("#neighbours button").evaluate_all("found => found.map((b) => b.dataset.node)") == near
        assert page.locator("#neighbours .number").all_inner_texts() == [f"{c:.3f}" for c in map_["similarity"][:5]]
        marked = page.evaluate("map.layout.annotations.filter((a) => a.width).map((a) => [a.x, a.y])")
        assert marked == [[map_["x"][i], map_["y"][i]] for i in [*map_["neighbours"][250:255], 50]]
        assert page.locator("#map .annotation-text").last.text_content() == "n50"
        page.locator("#neighbours button").nth(2).click()
        page.wait_for_selector(f"#node[data-node={near[2]}]")

    def test_picture(self, page, tmp_path):
        with page.expect_download() as started:
            page.get_by_role("button", name="Picture").click()
        started.value.save_as(tmp_path / "map.png")
        assert started.value.suggested_filename == "first-map.png"
        with Image.open(tmp_path / "map.png") as picture:
            assert picture.width == 2 * page.evaluate("map.clientWidth")
            shown = np.asarray(picture.convert("RGB")).astype(int)
        assert (shown.max(2) - shown.min(2) > 40).sum() > 4_000  # twice the pixels of the page, each way

    def test_search(self, page):
        page.locator("#search").fill("n11")
        options = page.locator("#suggestions option").evaluate_all("found => found.map((o) => o.value)")
        assert options == ["n11", *(f"n{i}" for i in range(110, 120))]
        page.locator("#search").press("Enter")
        page.wait_for_selector("#node[data-node=n11]")
        assert page.locator("#found").inner_text() == ""
        x, y = page.evaluate("(() => { const l = map.layout; return [l.xaxis.range, l.yaxis.range]; })()")
        assert [sum(x) / 2, sum(y) / 2] == pytest.approx([0, 1])  # node 11 is the first of the second row
        assert x[1] - x[0] < 8
        search(page, "N10")
        page.wait_for_selector("#node[data-node=n10]")
        assert "starts with" in page.locator("#found").inner_text()
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


class TestSelection:
    def test_box(self, page, tmp_path):
        page.locator("#modes [data-mode=select]").click()
        map_ = map_payload()
        (x0, y0), (x1, y1) = pixels(page, [2 * 11 + 2, 5 * 11 + 6])
        drag(page, (x0 - 8, y0 + 8), (x1 + 8, y1 - 8))  # y runs upwards in the plot and downwards on the screen
        inside = [i for i in range(120) if 2 <= map_["x"][i] <= 6 and 2 <= map_["y"][i] <= 5]
        assert len(inside) == 20
        page.wait_for_selector("#selection[data-count='20']")
        names = [["red", "green", "blue", "none"][map_["columns"][0]["values"][i]] for i in inside]
        assert dict(row.split("\n")[:2] for row in page.locator("#make-up li").all_inner_texts()) == {
            name: f"{number} · {5 * number:.1f}%" for name, number in Counter(names).items()
        }
        with page.expect_download() as started:
            page.locator("#download").click()
        started.value.save_as(tmp_path / "ids.csv")
        with open(tmp_path / "ids.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert [row["id"] for row in rows] == [f"n{i}" for i in inside]
        assert list(rows[0]) == ["id", "label", "many", "degree", "score"]
        assert [row["label"] for row in rows] == ["" if name == "none" else name for name in names]
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


class TestLooks:
    def test_theme(self, page):
        looks = "[getComputedStyle(document.body).backgroundColor, map._fullLayout.font.color]"
        light = page.evaluate(looks)
        page.locator("#theme").click()
        page.wait_for_function(f"{looks}[1] !== '{light[1]}'")
        dark = page.evaluate(looks)
        assert light[0] == "rgb(251, 251, 250)"
        assert dark[0] == "rgb(19, 22, 26)"
        assert page.evaluate("localStorage.getItem('epagcl-theme')") == "dark"
        assert coloured_pixels(page) > 1_000
        page.locator("#theme").click()
        page.wait_for_function(f"{looks}[1] === '{light[1]}'")

    def test_phone(self, open_page):
        phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
        page = open_page(
            payload(run_payload("a-rather-long-name-" * 5), run_payload("second")), color_scheme="dark", **phone
        )
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        small = page.locator(".tools button, .tools input, select").evaluate_all(
            "(all) => all.filter((e) => e.offsetHeight < 44)"
        )
        assert small == []
        page.locator("#map").scroll_into_view_if_needed()
        ((x, y),) = pixels(page, [50])
        page.touchscreen.tap(x, y)
        page.wait_for_selector("#node[data-node=n50]")

    def test_hostile_text_stays_text(self, open_page):
        map_ = map_payload()
        map_["ids"][50] = HOSTILE
        map_["columns"][0] = {
            **map_["columns"][0],
            "name": HOSTILE,
            "levels": [HOSTILE, "<a href='x'>link</a>", "__proto__"],
        }
        map_["columns"][2]["name"] = HOSTILE + "2"
        run = run_payload(HOSTILE, map=map_, method=HOSTILE, facts=[[HOSTILE, HOSTILE]])
        run["settings"][0] = {"name": HOSTILE, "value": HOSTILE, "meaning": HOSTILE, "changed": True}
        run["classes"]["names"] = [HOSTILE, HOSTILE, "constructor"]
        run["health"][0].update(name=HOSTILE, shown=HOSTILE, words=HOSTILE)
        matrix = agreement_payload(HOSTILE, "b", words=HOSTILE)
        page = open_page(payload(run, run_payload("b"), title=HOSTILE, agreement=matrix))
        assert page.title() == re.sub(r"\s+", " ", HOSTILE)
        legend = page.locator("#map .legendtext").all_text_contents()
        assert legend[0].startswith("</script><img src=x onerr")
        assert legend[1].startswith("<a href='x'>link</a>")
        search(page, HOSTILE)
        page.wait_for_selector("#node[data-node]")
        assert HOSTILE[:40] in page.locator("#node h3").inner_text()
        assert page.locator("#map .annotation-text").last.text_content().startswith("</script><img")
        page.locator("#colour-by").select_option(HOSTILE + "2")
        page.wait_for_selector("#map .colorbar")
        page.locator("#scores .plot").scroll_into_view_if_needed()
        page.wait_for_selector("#scores .plot .xtick text")
        assert page.locator("#scores .plot .xtick text").first.text_content().startswith("</script><img")
        assert page.locator("main img, main b, main a, .plot b, #map a, header img").count() == 0


class TestRuns:
    def test_two_runs_are_compared(self, open_page):
        other = run_payload("second", method="GRACE", history={"epoch": [1, 2], "loss": [5.0, 4.0]})
        other["map"]["x"] = [-x for x in other["map"]["x"]]
        other["scores"]["rows"][1].update(name="GRACE", accuracy=0.8)
        agreement = agreement_payload("first", "second")
        page = open_page(payload(run_payload(), other, agreement=agreement))
        assert page.locator("main h2").all_inner_texts()[2] == "Comparison"
        rows = [row.inner_text().split("\t") for row in page.locator("#comparison tbody tr").all()]
        assert [row[:5] for row in rows] == [
            ["first", "EPAGCL", "made", "84.8 ± 0.6", "83.0"],
            ["second", "GRACE", "made", "80.0 ± 0.6", "83.0"],
        ]
        assert "6.3 of 10 neighbours shared" in page.locator("#agreement").inner_text()
        assert page.locator("#agreement td").all_inner_texts() == ["1.00", "0.63", "0.63", "1.00"]
        page.locator("#comparison .plot").first.scroll_into_view_if_needed()
        page.wait_for_function("document.querySelector('#comparison .plot').data")
        losses = page.evaluate("document.querySelector('#comparison .plot').data.map((t) => t.y)")
        assert losses == [[3, 2, 1.5], [5, 4]]
        search(page, "n50")
        page.locator("#run").select_option("1")
        page.wait_for_function("map.layout.xaxis.range[0] + map.layout.xaxis.range[1] < 0")
        assert "second" in page.locator("#about").inner_text()
        assert page.locator("#node").get_attribute("data-node") == "n50"  # the same node in the other map
        assert coloured_pixels(page) > 1_000


class TestOldBrowsers:
    def test_without_webgl_fewer_points_and_words(self, open_page):
        big = run_payload(map=flat_map(6_000))
        page = open_page(payload(big), script=NO_WEBGL)
        assert "no WebGL" in page.locator("#no-webgl").inner_text()
        assert page.evaluate("[...new Set(map.data.map((t) => t.type))]") == ["scatter"]
        assert sum(t["length"] for t in traces(page)) == 5_000

    def test_without_decompression_words(self, browser, tmp_path):
        write_page(payload(), tmp_path / "r.html")
        shown = Shown(browser, tmp_path / "r.html", script="delete window.DecompressionStream;")
        shown.page.wait_for_function("document.getElementById('loading').textContent.includes('cannot')")
        assert "DecompressionStream is missing" in shown.page.locator("#loading").inner_text()
        shown.errors.clear()  # said on the page and in the console
        shown.close()


def test_hundred_thousand_points(open_page, tmp_path):
    """Loaded, drawn, coloured anew and hovered; the limits are for two slow cores that draw in software."""
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
