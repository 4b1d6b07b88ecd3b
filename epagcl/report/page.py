"""The report page: one HTML file with its data, styles and scripts, which needs no network."""

import base64
import gzip
import hashlib
import html
import json
import re
from pathlib import Path

from epagcl.core.files import atomic_path
from epagcl.report.content import ReportContent, RunContent

HERE = Path(__file__).parent
#: The parts of the page's one script, in an order in which constants precede their use; the last part starts it.
SCRIPTS = (
    "dom.js",
    "axes.js",
    "charts.js",
    "map_groups.js",
    "map_index.js",
    "map_canvas.js",
    "map.js",
    "map_gestures.js",
    "map_panels.js",
    "drivers.js",
    "verdict.js",
    "plots.js",
    "sections.js",
    "page.js",
)
COMPRESSION = 4  # with 100,000 nodes, level 9 saves 4% of the size and takes 15 times as long


def write_page(payload: ReportContent, path: Path) -> None:
    """Write a report as a page that current browsers open from disk.

    Args:
        payload: the content of :func:`epagcl.report.content.report`.
        path: the page.
    """
    page = page_text(payload)
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="backslashreplace")


def page_text(payload: ReportContent) -> str:
    """Return a report as HTML.

    Args:
        payload: the content of :func:`epagcl.report.content.report`.
    """
    js = "".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    css = (HERE / "page.css").read_text(encoding="utf-8")
    data = json.dumps(_text_ids(payload), allow_nan=False, separators=(",", ":"))
    parts = {
        "title": html.escape(str(payload["title"])),
        "policy": _policy(js, css),
        "css": css,
        "payload": _packed(data),
        "js": js,
    }
    template = (HERE / "page.html").read_text(encoding="utf-8")
    # One pass, so that a user's text that looks like a placeholder is not filled in.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def _policy(script: str, style: str) -> str:
    """Return the Content-Security-Policy of a page: its own script and style sheet by their hashes, and no request.

    Text in the page can become neither a script nor a style, and no text is evaluated as code.
    """
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    """Return the source expression that allows an inline script or style sheet with exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _packed(text: str) -> str:
    """Return text as gzip in base64: less than half the size, and no character that HTML could read as markup."""
    return base64.b64encode(gzip.compress(text.encode(), COMPRESSION, mtime=0)).decode()


def _text_ids(payload: ReportContent) -> ReportContent:
    """Return the payload with ids as text, since JavaScript rounds integers beyond 2**53."""
    return {**payload, "runs": [_run_with_text_ids(run) for run in payload["runs"]]}


def _run_with_text_ids(run: RunContent) -> RunContent:
    map_ = run["map"]
    return run if map_ is None else {**run, "map": {**map_, "ids": [str(i) for i in map_["ids"]]}}
