"""The report page in a real browser: it shows exactly what the payload holds."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest

from epagcl.report import page as page_module
from epagcl.report.page import write_page
from tests.report.browser import (
    OpenPage,
    agreement_payload,
    coloured_pixels,
    map_payload,
    payload,
    pixels,
    run_payload,
    search,
    unpacked,
    until,
)

HOSTILE = "</script><img src=x onerror=\"document.title='owned'\"><b>bold</b> &amp; %{x} {{js}}"


class TestFile:
    def test_the_page_is_small_and_needs_no_other_file(self, tmp_path):
        write_page(payload(), tmp_path / "r.html")
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert len(text) < 130_000
        assert not re.search(r"(?:src|href)\s*=\s*[\"']?\s*(?:https?:)?//", text)
        assert "sourceMappingURL" not in text
        assert json.loads(unpacked(text, "payload")) == payload()

    def test_the_same_payload_gives_the_same_bytes(self, tmp_path):
        write_page(payload(), tmp_path / "a.html")
        write_page(payload(), tmp_path / "b.html")
        assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()

    def test_a_users_text_cannot_end_the_script(self, tmp_path):
        write_page(payload(title=HOSTILE), tmp_path / "r.html")
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert 'onerror="' not in text
        assert "<title>&lt;/script&gt;&lt;img" in text
        assert "{{js}}</title>" in text  # not filled in
        assert text.count("</script>") == 2

    def test_the_policy_allows_the_script_and_the_style_of_the_page_and_nothing_else(self, tmp_path):
        write_page(payload(), tmp_path / "r.html")
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
        inline = [re.search(rf"<{tag}>(.*?)</", text, re.DOTALL)[1] for tag in ('script type="module"', "style")]
        script, style = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in inline)
        assert policy == (
            f"default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; img-src data: blob:; "
            "base-uri 'none'; form-action 'none'"
        )
        assert "unsafe-" not in policy
        assert " style=" not in text.split("<style>")[0] + text.split("</style>")[1].split("<script")[0]

    def test_parts_of_the_script_are_short_and_all_used(self):
        parts = {path.name: path.read_text(encoding="utf-8") for path in page_module.HERE.glob("*.js")}
        assert set(parts) == set(page_module.SCRIPTS)
        for text in parts.values():
            assert len(text.splitlines()) <= 350
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|new Function|eval\(", text)
            assert 'setAttribute("style"' not in text

    @pytest.mark.slow
    def test_a_script_or_style_that_is_not_of_the_page_does_nothing(self, browser, tmp_path):
        write_page(payload(), tmp_path / "r.html")
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        hostile = (
            "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
            "<style>h1 { display: none }</style><p style='color: red' id='styled'>text</p>"
        )
        (tmp_path / "r.html").write_text(text.replace("<main", f"{hostile}<main"), encoding="utf-8")
        opened = OpenPage(browser, tmp_path / "r.html")
        assert opened.wait().title() == "EPAGCL on made"
        assert opened.page.locator("h1").is_visible()
        assert opened.page.locator("#styled").evaluate("(p) => getComputedStyle(p).color") == "rgb(27, 32, 39)"
        directives = {each.split()[0] for each in opened.page.evaluate("window.violations")}
        assert directives == {"script-src-elem", "script-src-attr", "style-src-elem", "style-src-attr", "img-src"}
        opened.context.close()

    def test_large_ids_keep_their_digits(self, tmp_path):
        large = run_payload(map={**map_payload(), "ids": [2**60 + i for i in range(120)]})
        write_page(payload(large), tmp_path / "r.html")
        written = json.loads(unpacked((tmp_path / "r.html").read_text(encoding="utf-8"), "payload"))
        assert written["runs"][0]["map"]["ids"][1] == "1152921504606846977"


class TestSections:
    @pytest.mark.slow
    def test_order_and_text_of_the_sections(self, page):
        assert page.locator("main h2").all_inner_texts() == [
            "Did training work?", "Map of the embedding", "Training", "Scores", "The graph", "What was run",
        ]  # fmt: skip
        assert page.locator("h1").inner_text() == "EPAGCL on made"
        assert page.locator("#created").inner_text() == "2026-11-15 19:20 UTC · epagcl 0.1.0"
        assert page.locator("#about dl").inner_text().split("\n") == ["Graph", "120 nodes", "Trained", "3 epochs"]
        assert "the map shows 120 of 240 nodes" in page.locator("#embedding").inner_text().lower()
        cards = page.locator("#health .card").all_inner_texts()
        assert cards[1].split("\n") == ["Loss", "rose", "✕ poor", "", "Lower the learning rate."]

    @pytest.mark.slow
    def test_a_method_without_training_is_not_asked_whether_training_worked(self, open_page):
        settings = [{"name": "alpha", "value": "0.15", "meaning": "", "changed": False}]
        page = open_page(payload(run_payload(method="propagated", settings=settings)))
        assert page.locator("#health h2").inner_text() == "Is the embedding sound?"

    def test_changed_settings_come_first(self, page):
        rows = page.locator("#settings tbody tr").all_text_contents()
        assert rows == ["p_drop0.4changedprobability to drop", "epochs3passes over the graph"]

    def test_scores(self, page):
        rows = page.locator("#scores .table").first.locator("tbody tr").all()
        assert rows[0].inner_text().split("\t") == ["raw features", "64.0 ± 1.1", "–", "–", "–"]
        assert rows[1].inner_text().split("\t") == ["EPAGCL", "84.8 ± 0.6", "83.0", "81.0", "0.561"]

    def test_plots_are_drawn_when_scrolled_to(self, page):
        page.locator("#graph .plot").last.scroll_into_view_if_needed()
        until(page, "document.querySelectorAll('#graph .plot[data-drawn=yes] svg').length >= 4")
        page.locator("#training").scroll_into_view_if_needed()
        until(page, "[...document.querySelectorAll('.plot')].every((p) => p.dataset.drawn === 'yes')")
        plots = dict(
            page.evaluate("[...document.querySelectorAll('.plot')].map((p) => [p.ariaLabel, p.chart?.layers])")
        )
        assert list(plots) == [
            "Loss", "Effective rank", "Alignment", "Confusion matrix", "Degrees",
            "Probability that a pair changes in a view", "Error passing rate of sampled views",
            "Edges of sampled views",
        ]  # fmt: skip
        assert plots["Loss"][0]["y"] == [3.0, 2.0, 1.5]
        assert [layer["y"] for layer in plots["Edges of sampled views"]] == [[90, 95], [99, 98]]
        (chances,) = plots["Probability that a pair changes in a view"]
        assert (chances["y"], chances["low"], chances["high"]) == ([0.4, 0.2], [0.3, 0.1], [0.5, 0.3])
        edges = page.locator(".plot[aria-label='Edges of sampled views']")
        assert edges.locator(".box").count() == 2
        assert edges.locator(".box .points circle").count() == 4
        assert edges.locator(".reference").count() == 1

    def test_confusion_matrix(self, page):
        page.locator("#scores .plot").scroll_into_view_if_needed()
        page.wait_for_selector(".confusion")
        rows = [row.inner_text().split() for row in page.locator(".confusion tbody tr").all()]
        assert rows == [["red", "8", "2", "0"], ["green", "1", "9", "0"], ["7", "0", "0", "5"]]
        assert page.locator(".confusion thead th").all_inner_texts() == ["predicted", "red", "green", "7"]
        cells = page.locator(".confusion tbody td")
        shares = cells.evaluate_all("(all) => all.map((td) => Number(td.style.getPropertyValue('--share')))")
        assert shares == pytest.approx([0.8, 0.2, 0, 0.1, 0.9, 0, 0, 0, 1])
        shade = cells.evaluate_all("(all) => new Set(all.map((td) => getComputedStyle(td).backgroundColor)).size")
        assert shade == 6  # of six shares
        assert cells.first.get_attribute("title").startswith("8 of 10 test nodes (80.0%)\ntrue: red\npredicted: red")

    def test_hovering_a_curve_reads_out_the_nearest_epoch(self, page):
        plot = page.locator(".plot[aria-label='Loss']")
        plot.scroll_into_view_if_needed()
        plot.locator("svg").wait_for()
        x, y = plot.locator(".line path").evaluate(
            """(path) => {
                const middle = path.getPointAtLength(0.5 * path.getTotalLength());
                const box = path.ownerSVGElement.getBoundingClientRect();
                return [box.left + middle.x, box.top + middle.y];
            }"""
        )
        page.mouse.move(x, y)
        assert plot.locator(".readout").inner_text().split() == ["epoch", "2", "2"]
        page.mouse.move(5, 5)
        assert plot.locator(".readout").is_hidden()

    @pytest.mark.slow
    def test_sections_without_data_are_left_out(self, open_page):
        nothing = {"degree": {"degree": [], "nodes": []}, "epr": None, "probabilities": None, "views": None}
        empty = {"history": {"epoch": [], "loss": []}, "measures": {"epoch": [], "effective_rank": []}}
        page = open_page(
            payload(run_payload(scores=None, map=None, classes=None, health=[], structure=nothing, **empty))
        )
        assert page.locator("main h2").all_inner_texts() == ["What was run"]
        assert page.locator("#map, .plot, #run-field:visible, #agreement").count() == 0


class TestLooks:
    @pytest.mark.slow
    def test_theme(self, page):
        corner = "map.querySelector('canvas').getContext('2d').getImageData(2, 2, 1, 1).data"
        looks = f"[getComputedStyle(document.body).backgroundColor, [...{corner}].join()]"
        assert page.evaluate(looks) == ["rgb(251, 251, 250)", "255,255,255,255"]
        page.locator("#theme").click()
        assert page.evaluate(looks) == ["rgb(19, 22, 26)", "26,30,35,255"]
        assert page.evaluate("localStorage.getItem('epagcl-theme')") == "dark"
        assert coloured_pixels(page) > 1_000
        page.locator("#theme").click()
        assert page.evaluate(looks)[1] == "255,255,255,255"

    @pytest.mark.slow
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

    @pytest.mark.slow
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
        legend = page.locator("#map .legend-name").all_text_contents()
        assert legend[0].startswith("</script><img s…")
        assert legend[1].startswith("<a href='x'>link</a>")
        search(page, HOSTILE)
        page.wait_for_selector("#node[data-node]")
        assert HOSTILE[:30] in page.locator("#node h3").inner_text()
        page.locator("#colour-by").select_option(HOSTILE + "2")
        page.wait_for_selector("#map .colorbar")
        page.locator("#scores .plot").scroll_into_view_if_needed()
        page.wait_for_selector(".confusion")
        assert page.locator(".confusion tbody th").first.text_content().startswith("</script><…")
        assert page.locator("main img, main b, main a, header img").count() == 0

    @pytest.mark.slow
    def test_in_print_all_plots_are_drawn_dark_on_white(self, open_page, tmp_path):
        page = open_page(payload(), color_scheme="dark")
        undrawn = "[...document.querySelectorAll('.plot')].filter((p) => p.dataset.drawn !== 'yes').length"
        assert page.evaluate(undrawn) > 0
        seen = page.evaluate(
            f"""() => {{
                const seen = [];
                const look = () => seen.push(document.documentElement.dataset.theme, {undrawn});
                addEventListener("beforeprint", look);
                dispatchEvent(new Event("beforeprint"));
                removeEventListener("beforeprint", look);
                dispatchEvent(new Event("afterprint"));
                return [...seen, document.documentElement.dataset.theme];
            }}"""
        )
        assert seen == ["light", 0, "dark"]
        page.pdf(path=tmp_path / "report.pdf")
        assert (tmp_path / "report.pdf").stat().st_size > 100_000

    @pytest.mark.slow
    def test_many_classes_on_a_phone(self, open_page):
        names = [f"category number {k}" for k in range(30)]
        by_class = dict.fromkeys(("precision", "recall", "f1", "support"), [1] * 30)
        classes = {"names": names, "confusion": np.eye(30, dtype=int).tolist(), "note": "", **by_class}
        page = open_page(payload(run_payload(classes=classes)), viewport={"width": 390, "height": 844})
        page.locator("#scores .plot").scroll_into_view_if_needed()
        page.wait_for_selector(".confusion")
        ticks = page.locator(".confusion thead th span")
        assert len(set(ticks.all_text_contents())) == 30
        boxes = ticks.evaluate_all("elements => elements.map((t) => t.getBoundingClientRect().left)")
        assert min(np.diff(boxes)) > 12
        assert page.evaluate("document.documentElement.scrollWidth") <= 390

    @pytest.mark.slow
    def test_an_axis_is_logarithmic_if_its_values_span_decades(self, open_page):
        wide = {"degree": [1, 3, 500], "nodes": [1, 2, 4]}
        structure = run_payload()["structure"] | {"degree": wide}
        page = open_page(payload(run_payload(structure=structure)))
        plot = page.locator("#graph .plot").first
        plot.scroll_into_view_if_needed()
        plot.locator("svg").wait_for()
        assert plot.evaluate("({ chart }) => [chart.x.log, chart.y.log]") == [True, False]
        x = plot.locator(".points circle").evaluate_all("(all) => all.map((dot) => Number(dot.getAttribute('cx')))")
        assert (x[1] - x[0]) / (x[2] - x[0]) == pytest.approx(np.log(3) / np.log(500))


class TestRuns:
    @pytest.mark.slow
    def test_two_runs_are_compared(self, open_page):
        other = run_payload("second", method="GRACE", history={"epoch": [1, 2], "loss": [5.0, 4.0]})
        other["map"]["x"] = [-x for x in other["map"]["x"]]
        other["scores"]["rows"][1].update(name="GRACE", accuracy=0.8)
        agreement = agreement_payload("first", "second")
        page = open_page(payload(run_payload(), other, agreement=agreement))
        assert page.locator("main h2").all_inner_texts()[1] == "Comparison"
        rows = [row.inner_text().split("\t") for row in page.locator("#comparison tbody tr").all()]
        assert [row[:6] for row in rows] == [
            ["first", "EPAGCL", "made", "5", "84.8 ± 0.6", "83.0"],
            ["second", "GRACE", "made", "5", "80.0 ± 0.6", "83.0"],
        ]
        assert page.locator("#comparison .legend li").all_inner_texts() == ["first", "second"]
        assert "6.3 of 10 neighbours shared" in page.locator("#agreement").inner_text()
        assert page.locator("#agreement td").all_inner_texts() == ["1.00", "0.63", "0.63", "1.00"]
        page.locator("#comparison .plot").first.scroll_into_view_if_needed()
        until(page, "document.querySelector('#comparison .plot').chart")
        losses = page.evaluate("document.querySelector('#comparison .plot').chart.layers.map((layer) => layer.y)")
        assert losses == [[3, 2, 1.5], [5, 4]]
        search(page, "n50")
        page.locator("#run").select_option("1")
        until(page, "map.plot.range.x[0] + map.plot.range.x[1] < 0")
        assert "second" in page.locator("#about").inner_text()
        assert page.locator("#node").get_attribute("data-node") == "n50"  # the same node in the other map
        assert coloured_pixels(page) > 1_000

    @pytest.mark.slow
    def test_keyboard_focus_stays_in_its_panel(self, open_page):
        page = open_page(payload(run_payload(), run_payload("second")))
        page.locator("#comparison button").nth(1).press("Enter")
        until(page, "document.querySelector('#about').textContent.includes('second')")
        assert page.evaluate("document.activeElement.textContent") == "second"
        search(page, "n50")
        page.locator("#neighbours button").first.press("Enter")
        until(page, "document.querySelector('#node').dataset.node !== 'n50'")
        assert page.evaluate("document.activeElement.id") == "node"


class TestOldBrowsers:
    @pytest.mark.slow
    def test_without_decompression_the_page_shows_an_error(self, browser, tmp_path):
        write_page(payload(), tmp_path / "r.html")
        opened = OpenPage(browser, tmp_path / "r.html", script="delete window.DecompressionStream;")
        until(opened.page, "document.getElementById('loading').textContent.includes('cannot')")
        assert "DecompressionStream is missing" in opened.page.locator("#loading").inner_text()
        opened.errors.clear()  # shown on the page and in the console
        opened.close()
