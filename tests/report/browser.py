"""A browser for tests of report pages, and payloads for it to show."""

import base64
import gzip
import io
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

FLAGS = ["--no-sandbox", "--disable-gpu"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
VIOLATIONS = """
window.violations = [];
addEventListener("securitypolicyviolation", ({ effectiveDirective, sample }) => {
    window.violations.push(`${effectiveDirective} ${sample}`);
});
"""


@contextmanager
def launched() -> Iterator[Any]:
    """Launch a headless Chromium; skip the test, naming what is missing, if there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (Python package)")
    browsers = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not browsers:
        pytest.skip("needs a browser: chromium or google-chrome")
    with playwright.sync_playwright() as control:
        browser = control.chromium.launch(executable_path=browsers[0], args=FLAGS)
        yield browser
        browser.close()


class OpenPage:
    """A page in the browser, with its network requests and its errors."""

    def __init__(self, browser: Any, path: Path, script: str = "", **settings: Any):
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.page.on("request", self.note)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda line: line.type == "error" and self.errors.append(line.text))
        self.page.add_init_script(VIOLATIONS + script)
        self.url = path.as_uri()
        self.page.goto(self.url)

    def note(self, request: Any) -> None:
        """Record a request; blobs and data are part of the page itself."""
        if not request.url.startswith(("blob:", "data:")):
            self.requests.append(request.url)

    def wait(self) -> Any:
        """Return the page once its first plots are drawn."""
        self.page.wait_for_selector("html[data-ready=yes]", state="attached")
        return self.page

    def close(self) -> None:
        """Close the page; it must have had no error, nothing against its policy, and no request other than itself."""
        violations = self.page.evaluate("window.violations")
        self.context.close()
        assert violations == []
        assert self.errors == []
        assert self.requests == [self.url]


def map_payload(n: int = 120, k: int = 5, seed: int = 0) -> dict[str, Any]:
    """Return points on a grid, far enough apart to be hovered separately, with columns of every kind."""
    rng = np.random.default_rng(seed)
    wide = int(np.ceil(np.sqrt(n)))
    x, y = np.arange(n) % wide + 0.0, np.arange(n) // wide + 0.0
    near = np.argsort((x[:, None] - x) ** 2 + (y[:, None] - y) ** 2 + 10 * np.eye(n), axis=1, kind="stable")[:, :k]
    return {
        "kind": "t-SNE",
        "note": "Synthetic.",
        "nodes": 2 * n,
        "x": x.tolist(),
        "y": y.tolist(),
        "ids": [f"n{i}" for i in range(n)],
        "columns": [
            {
                "name": "label",
                "kind": "category",
                "levels": ["red", "green", "blue"],
                "values": (np.arange(n) % 4 - 1).tolist(),
            },
            {"name": "many", "kind": "category", "levels": [f"level {i}" for i in range(25)], "values": many_levels(n)},
            {"name": "degree", "kind": "number", "log": True, "values": rng.integers(0, 200, n).tolist()},
            {
                "name": "score",
                "kind": "number",
                "log": False,
                "values": [None if i % 10 == 0 else i / 8 for i in range(n)],
            },
        ],
        "k": k,
        "neighbours": near.flatten().tolist(),
        "similarity": np.round(np.tile(np.linspace(0.99, 0.5, k), n), 3).tolist(),
    }


def many_levels(n: int) -> list[int]:
    """Return 25 levels, the low ones frequent."""
    return [i % 25 if i < 25 else i % 19 for i in range(n)]


def run_payload(name: str = "first", **changes: Any) -> dict[str, Any]:
    """Return a run in which no section is empty."""
    return {
        "name": name,
        "method": "EPAGCL",
        "graph": "made",
        "facts": [["Graph", "120 nodes"], ["Trained", "3 epochs"]],
        "settings": [
            {"name": "epochs", "value": "3", "meaning": "passes over the graph", "changed": False},
            {"name": "p_drop", "value": "0.4", "meaning": "probability to drop", "changed": True},
        ],
        "health": [
            {
                "name": "effective rank",
                "value": 11.0,
                "shown": "11 of 16",
                "verdict": "good",
                "words": "Nothing to do.",
            },
            {"name": "loss", "value": None, "shown": "rose", "verdict": "poor", "words": "Lower the learning rate."},
        ],
        "scores": {
            "protocol": "strict, 5 runs",
            "runs": 5,
            "rows": [
                {"name": "raw features", "accuracy": 0.64, "std": 0.011, "macro_f1": None, "knn": None, "nmi": None},
                {"name": "EPAGCL", "accuracy": 0.848, "std": 0.006, "macro_f1": 0.83, "knn": 0.81, "nmi": 0.5612},
            ],
        },
        "history": {"epoch": [1, 2, 3], "loss": [3.0, 2.0, 1.5]},
        "measures": {
            "epoch": [1, 3],
            "effective_rank": [8.0, 11.0],
            "alignment": [0.4, 0.2],
            "uniformity": [None, None],
        },
        "map": map_payload(),
        "classes": {
            "names": ["red", "green", "7"],
            "confusion": [[8, 2, 0], [1, 9, 0], [0, 0, 5]],
            "precision": [0.889, 0.818, 1.0],
            "recall": [0.8, 0.9, 1.0],
            "f1": [0.842, 0.857, 1.0],
            "support": [10, 10, 5],
            "note": "test nodes",
        },
        "structure": {
            "degree": {"degree": [0, 1, 2, 10], "nodes": [4, 60, 50, 6]},
            "epr": {"rows": [{"name": "edges, d", "per_node": 0.168, "per_edge": None}], "words": "Low."},
            "probabilities": {
                "words": "Low degrees are dropped.",
                "drop": {"degree": [1, 5], "mean": [0.4, 0.2], "low": [0.3, 0.1], "high": [0.5, 0.3]},
                "add": None,
            },
            "views": {
                "words": "Near the graph.",
                "original": 0.168,
                "samples": [
                    {"view": 1, "epr": [0.16, 0.17], "edges": [90, 95]},
                    {"view": 2, "epr": [0.15, 0.16], "edges": [99, 98]},
                ],
                "edges": 130,
            },
        },
        **changes,
    }


def payload(*runs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a report of these runs, by default of one."""
    head = {"title": "EPAGCL on made", "created": "2026-11-15T19:20:00+00:00", "version": "0.1.0", "agreement": None}
    return {**head, "runs": list(runs) or [run_payload()], **changes}


def agreement_payload(first: str, second: str, words: str = "Alike.") -> dict[str, Any]:
    """Return the agreement of two runs that share 63% of their neighbours."""
    return {"k": 10, "runs": [first, second], "matrix": [[1, 0.63], [0.63, 1]], "verdict": "good", "words": words}


def flat_map(n: int, k: int = 10) -> dict[str, Any]:
    """Return a map of many points in seven clusters."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 7, n)
    xy = np.round(rng.normal(size=(n, 2)) + 4 * np.stack([np.cos(label), np.sin(label)], 1), 3)
    return {
        **map_payload(),
        "nodes": n,
        "x": xy[:, 0].tolist(),
        "y": xy[:, 1].tolist(),
        "ids": list(range(n)),
        "columns": [
            {"name": "label", "kind": "category", "levels": [f"class {i}" for i in range(7)], "values": label.tolist()},
            {"name": "degree", "kind": "number", "log": True, "values": rng.zipf(2, n).clip(max=5_000).tolist()},
        ],
        "k": k,
        "neighbours": rng.integers(0, n, n * k).tolist(),
        "similarity": np.round(rng.random(n * k), 3).tolist(),
    }


def until(page, condition: str, seconds: float = 20) -> None:
    """Wait until a condition holds. Playwright's own ``wait_for_function`` evaluates text, which the policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"not within {seconds} s: {condition}"
        page.wait_for_timeout(20)


def pixels(page, nodes, map_=None):
    """Return the screen positions of nodes."""
    map_ = map_ or map_payload()
    places = [[map_["x"][i], map_["y"][i]] for i in nodes]
    return page.evaluate("(places) => places.map((place) => map.plot.screen(...place))", places)


def groups(page):
    """Return name, number of points and colour of each group of the map, in the order in which they are drawn."""
    return page.evaluate("map.plot.groups.map((g) => ({name: g.name, length: g.nodes.length, color: g.colour}))")


def coloured_pixels(page) -> int:
    """Return the number of pixels of the map's canvas that show a point."""
    page.locator("#map").scroll_into_view_if_needed()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")  # a frame may be under way
    picture = np.asarray(Image.open(io.BytesIO(page.locator("#map canvas").screenshot())).convert("RGB")).astype(int)
    return int((picture.max(2) - picture.min(2) > 40).sum())  # points have colours, the background has none


def colour_at(page, x: float, y: float) -> list[int]:
    """Return the colour of the map's canvas at a position on the screen."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    return page.evaluate(
        """([x, y]) => {
            const canvas = map.querySelector("canvas"), box = canvas.getBoundingClientRect();
            const ratio = canvas.width / box.width;
            const place = [x - box.left, y - box.top].map((value) => Math.floor(ratio * value));
            return [...canvas.getContext("2d").getImageData(...place, 1, 1).data].slice(0, 3);
        }""",
        [x, y],
    )


def drag(page, *places):
    """Drag with the left button from the first position over the others."""
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=4)
    page.mouse.up()


def search(page, text: str) -> None:
    """Type into the search box and press Enter."""
    page.locator("#search").fill(text)
    page.locator("#search").press("Enter")


def unpacked(text: str, name: str) -> str:
    """Return the unpacked data that a page (as ``text``) has under this element id."""
    return gzip.decompress(base64.b64decode(re.search(rf'id="{name}">([^<]*)<', text)[1])).decode()
