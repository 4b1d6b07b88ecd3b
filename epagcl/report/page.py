"""The report page: one HTML file with its data, its drawing library and its looks; it asks the network for nothing."""

import base64
import gzip
import html
import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from epagcl.core.errors import MissingExtra
from epagcl.core.files import atomic_path

HERE = Path(__file__).parent
LEVEL = 4  # of compression: of 100,000 nodes 9 makes 4% less in 15 times the time


def have_plotly() -> bool:
    """Whether the package that brings plotly.js is installed."""
    return find_spec("plotly") is not None


def write_page(payload: dict[str, Any], path: Path) -> None:
    """Write what ``payload`` holds as a page that any browser of the last years shows from disk."""
    parts = {
        "title": html.escape(str(payload["title"])),
        "css": (HERE / "page.css").read_text(encoding="utf-8"),
        "payload": _packed(json.dumps(_text_ids(payload), allow_nan=False, separators=(",", ":")), LEVEL),
        "plotly": _plotly(),
        "js": "".join((HERE / name).read_text(encoding="utf-8") for name in ("map.js", "page.js")),
    }
    template = (HERE / "page.html").read_text(encoding="utf-8")
    # In one pass, so that nothing a user wrote is taken for a place to fill.
    page = re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _packed(text: str, level: int) -> str:
    """gzip and base64: less than half the size, and no character that HTML could read as markup."""
    return base64.b64encode(gzip.compress(text.encode(), level, mtime=0)).decode()


@cache
def _plotly() -> str:
    if not have_plotly():
        raise MissingExtra("plotly", "report", "the report page")
    from plotly.offline import get_plotlyjs

    return _packed(get_plotlyjs(), 9)


def _text_ids(payload: dict[str, Any]) -> dict[str, Any]:
    """Ids as text: JavaScript would round whole numbers beyond 2**53."""
    runs = [
        {**run, "map": {**run["map"], "ids": [str(i) for i in run["map"]["ids"]]}} if run.get("map") else run
        for run in payload["runs"]
    ]
    return {**payload, "runs": runs}
