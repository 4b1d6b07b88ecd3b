"""The report page: one HTML file with its data, styles and drawing library, which needs no network."""

import base64
import gzip
import hashlib
import html
import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from epagcl.core.errors import MissingExtra
from epagcl.core.files import atomic_path
from epagcl.report.content import ReportContent, RunContent

HERE = Path(__file__).parent
SCRIPTS = (
    "map.js",
    "map_panels.js",
    "drivers.js",
    "verdict.js",
    "sections.js",
    "page.js",
)  # one script; the last part starts it
COMPRESSION = 4  # with 100,000 nodes, level 9 saves 4% of the size and takes 15 times as long


def have_plotly() -> bool:
    """Return whether the package that contains plotly.js is installed."""
    return find_spec("plotly") is not None


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
    plotly, plotly_hash = _plotly()
    parts = {
        "title": html.escape(str(payload["title"])),
        "policy": _policy(_hash(js), plotly_hash),
        "css": (HERE / "page.css").read_text(encoding="utf-8"),
        "payload": _packed(json.dumps(_text_ids(payload), allow_nan=False, separators=(",", ":")), COMPRESSION),
        "plotly": plotly,
        "js": js,
    }
    template = (HERE / "page.html").read_text(encoding="utf-8")
    # One pass, so that a user's text that looks like a placeholder is not filled in.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def _policy(*scripts: str) -> str:
    """Return the Content-Security-Policy of a page: its own scripts by their hashes, and no request.

    Text in the page cannot become a script. Plotly's WebGL traces compile their drawing functions and its plots set
    style attributes, so that evaluation and inline styles are allowed.
    """
    return (
        f"default-src 'none'; script-src {' '.join(scripts)} 'unsafe-eval'; "
        "style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    """Return the source expression that allows an inline script with exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _packed(text: str, level: int) -> str:
    """Return text as gzip in base64: less than half the size, and no character that HTML could read as markup."""
    return base64.b64encode(gzip.compress(text.encode(), level, mtime=0)).decode()


@cache
def _plotly() -> tuple[str, str]:
    """Return the drawing library, packed, and the hash of its text."""
    if not have_plotly():
        raise MissingExtra("plotly", None, "the report page")
    from plotly.offline import get_plotlyjs

    # A browser turns all line breaks of a text into \n before it compares the hash.
    text = get_plotlyjs().replace("\r\n", "\n").replace("\r", "\n")
    return _packed(text, 9), _hash(text)


def _text_ids(payload: ReportContent) -> ReportContent:
    """Return the payload with ids as text, since JavaScript rounds integers beyond 2**53."""
    return {**payload, "runs": [_run_with_text_ids(run) for run in payload["runs"]]}


def _run_with_text_ids(run: RunContent) -> RunContent:
    map_ = run["map"]
    return run if map_ is None else {**run, "map": {**map_, "ids": [str(i) for i in map_["ids"]]}}
