"""The report page in a real browser: it shows exactly what the payload holds."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest

from epagcl.core.errors import MissingExtra
from epagcl.report import page as page_module
from epagcl.report.page import have_plotly, write_page
from tests.report.browser import (
    NO_WEBGL,
    OpenPage,
    agreement_payload,
    coloured_pixels,
    flat_map,
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


class TestFile:
    def test_the_page_is_small_and_needs_no_other_file(self, tmp_path):
        write_page(payload(), tmp_path / "r.html")
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert len(text) < 2_300_000
        assert not re.search(r"(?:src|href)\s*=\s*[\"']?\s*(?:https?:)?//", text)
        assert "sourceMappingURL" not in text
        assert json.loads(unpacked(text, "payload")) == payload()
        assert "plotly.js v" in unpacked(text, "plotly")[:200]

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
        assert text.count("</script>") == 3

    def test_the_policy_allows_the_scripts_of_the_page_and_no_other_inline_script(self, tmp_path):
        write_page(payload(), tmp_path / "r.html")
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
        scripts = next(part.split()[1:] for part in policy.split("; ") if part.startswith("script-src"))
        module = re.search(r'<script type="module">(.*?)</script>', text, re.DOTALL)[1]
        digests = [hashlib.sha256(code.encode()).digest() for code in (module, unpacked(text, "plotly"))]
        assert scripts == [*(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests), "'unsafe-eval'"]
        assert policy.startswith("default-src 'none'; ")

    @pytest.mark.slow
    def test_an_inline_script_that_is_not_of_the_page_does_not_run(self, browser, tmp_path):
        write_page(payload(), tmp_path / "r.html")
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        hostile = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
        (tmp_path / "r.html").write_text(text.replace("<main", f"{hostile}<main"), encoding="utf-8")
        opened = OpenPage(browser, tmp_path / "r.html")
        assert opened.wait().title() == "EPAGCL on made"
        assert len([error for error in opened.errors if "Content Security Policy" in error]) >= 2
        opened.context.close()

    def test_large_ids_keep_their_digits(self, tmp_path):
        large = run_payload(map={**map_payload(), "ids": [2**60 + i for i in range(120)]})
        write_page(payload(large), tmp_path / "r.html")
        written = json.loads(unpacked((tmp_path / "r.html").read_text(encoding="utf-8"), "payload"))
        assert written["runs"][0]["map"]["ids"][1] == "1152921504606846977"

    def test_without_plotly_there_is_one_line_and_no_file(self, tmp_path, monkeypatch):
        page_module._plotly.cache_clear()
        monkeypatch.setattr(page_module, "have_plotly", lambda: False)
        with pytest.raises(MissingExtra, match=r"^the report page needs plotly: pip install plotly$"):
            write_page(payload(), tmp_path / "r.html")
        assert list(tmp_path.iterdir()) == []


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
        last = page.locator("#graph .plot").last
        last.scroll_into_view_if_needed()
        page.wait_for_function("document.querySelectorAll('#graph .plot[data-drawn=yes] .main-svg').length >= 4")
        drawn = "[...document.querySelectorAll('.plot')].map((p) => [p.ariaLabel, p.data])"
        page.locator("#training").scroll_into_view_if_needed()
        page.wait_for_function("[...document.querySelectorAll('.plot')].every((p) => p.data)")
        plots = dict(page.evaluate(drawn))
        assert list(plots) == [
            "Loss", "Effective rank", "Alignment", "Confusion matrix", "Degrees",
            "Probability that a pair changes in a view", "Error passing rate of sampled views",
            "Edges of sampled views",
        ]  # fmt: skip
        assert plots["Loss"][0]["y"] == [3.0, 2.0, 1.5]
        assert plots["Confusion matrix"][0]["z"] == [[0.8, 0.2, 0], [0.1, 0.9, 0], [0, 0, 1]]
        assert plots["Confusion matrix"][0]["text"][0] == ["8", "2", "0"]
        assert [t["y"] for t in plots["Edges of sampled views"]] == [[90, 95], [99, 98]]
        assert plots["Probability that a pair changes in a view"][2]["y"] == [0.4, 0.2]

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
        legend = page.locator("#map .legendtext").all_text_contents()
        assert legend[0].startswith("</script><img s…")
        assert legend[1].startswith("<a href='x'>link</a>")
        search(page, HOSTILE)
        page.wait_for_selector("#node[data-node]")
        assert HOSTILE[:30] in page.locator("#node h3").inner_text()
        assert page.locator("#map .annotation-text").last.text_content().startswith("</script><img")
        page.locator("#colour-by").select_option(HOSTILE + "2")
        page.wait_for_selector("#map .colorbar")
        page.locator("#scores .plot").scroll_into_view_if_needed()
        page.wait_for_selector("#scores .plot .xtick text")
        assert page.locator("#scores .plot .xtick text").first.text_content().startswith("</script><…")
        assert page.locator("main img, main b, main a, .plot b, #map a, header img").count() == 0

    @pytest.mark.slow
    def test_in_print_all_plots_are_drawn_dark_on_white(self, open_page, tmp_path):
        page = open_page(payload(), color_scheme="dark")
        undrawn = "[...document.querySelectorAll('.plot')].filter((p) => !p.querySelector('.main-svg')).length"
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
        page.wait_for_selector("#scores .plot .xtick text")
        ticks = page.locator("#scores .plot .xtick text")
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
        page.wait_for_function("document.querySelector('#graph .plot')._fullLayout")
        kinds = "['xaxis', 'yaxis'].map((name) => document.querySelector('#graph .plot')._fullLayout[name].type)"
        assert page.evaluate(kinds) == ["log", "linear"]


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
        page.wait_for_function("document.querySelector('#comparison .plot').data")
        losses = page.evaluate("document.querySelector('#comparison .plot').data.map((t) => t.y)")
        assert losses == [[3, 2, 1.5], [5, 4]]
        search(page, "n50")
        page.locator("#run").select_option("1")
        page.wait_for_function("map.layout.xaxis.range[0] + map.layout.xaxis.range[1] < 0")
        assert "second" in page.locator("#about").inner_text()
        assert page.locator("#node").get_attribute("data-node") == "n50"  # the same node in the other map
        assert coloured_pixels(page) > 1_000

    @pytest.mark.slow
    def test_keyboard_focus_stays_in_its_panel(self, open_page):
        page = open_page(payload(run_payload(), run_payload("second")))
        page.locator("#comparison button").nth(1).press("Enter")
        page.wait_for_function("document.querySelector('#about').textContent.includes('second')")
        assert page.evaluate("document.activeElement.textContent") == "second"
        search(page, "n50")
        page.locator("#neighbours button").first.press("Enter")
        page.wait_for_function("document.querySelector('#node').dataset.node !== 'n50'")
        assert page.evaluate("document.activeElement.id") == "node"


class TestOldBrowsers:
    @pytest.mark.slow
    def test_without_webgl_fewer_points_are_drawn_with_a_notice(self, open_page):
        big = run_payload(map=flat_map(6_000))
        page = open_page(payload(big), script=NO_WEBGL)
        assert "no WebGL" in page.locator("#no-webgl").inner_text()
        assert page.evaluate("[...new Set(map.data.map((t) => t.type))]") == ["scatter"]
        assert sum(t["length"] for t in traces(page)) == 5_000

    @pytest.mark.slow
    def test_without_decompression_the_page_shows_an_error(self, browser, tmp_path):
        write_page(payload(), tmp_path / "r.html")
        opened = OpenPage(browser, tmp_path / "r.html", script="delete window.DecompressionStream;")
        opened.page.wait_for_function("document.getElementById('loading').textContent.includes('cannot')")
        assert "DecompressionStream is missing" in opened.page.locator("#loading").inner_text()
        opened.errors.clear()  # shown on the page and in the console
        opened.close()
