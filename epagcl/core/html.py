"""Small pieces of HTML for notebooks: escaped text, tables and curves, without scripts."""

import html
import math
from collections.abc import Iterable, Sequence

#: Colours are inherited from the notebook, so that light and dark themes both work.
STYLE = (
    "<style>"
    ".epagcl{font-size:13px;line-height:1.5;margin:4px 0}"
    ".epagcl table{border-collapse:collapse;margin:6px 0}"
    ".epagcl caption{text-align:left;font-weight:600;padding:2px 0}"
    ".epagcl th,.epagcl td{text-align:left;padding:2px 14px 2px 0;vertical-align:baseline;background:none}"
    ".epagcl thead th{border-bottom:1px solid currentColor}"
    ".epagcl small{opacity:.75}"
    ".epagcl svg{display:block;margin:4px 0}"
    ".epagcl iframe{border:1px solid #8888;border-radius:6px}"
    ".epagcl img{max-width:100%;height:auto}"
    ".epagcl progress{vertical-align:middle;width:16em}"
    "</style>"
)


def block(*parts: str) -> str:
    """Return parts of HTML as one output of a notebook, with the style that they share.

    Examples:
        >>> block("<p>84.6</p>").endswith('<div class="epagcl"><p>84.6</p></div>')
        True
    """
    return f'{STYLE}<div class="epagcl">{"".join(parts)}</div>'


def text(value: object) -> str:
    """Return a value as text that HTML shows as it is.

    Examples:
        >>> text("<b>a & b</b>")
        '&lt;b&gt;a &amp; b&lt;/b&gt;'
    """
    return html.escape(str(value))


def table(caption: str, head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; its first column names the rows.

    Args:
        caption: title of the table.
        head: names of the columns.
        rows: values, as text or anything with a text.

    Examples:
        >>> table("Scores", ["row", "accuracy"], [["raw", 0.64]]).count("<tr>")
        2
    """
    names = "".join(f'<th scope="col">{text(name)}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{text(first)}</th>{"".join(f"<td>{text(value)}</td>" for value in rest)}</tr>'
        for first, *rest in rows
    )
    return f"<table><caption>{text(caption)}</caption><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def sparkline(values: Sequence[float], name: str, width: int = 240, height: int = 40, most: int = 240) -> str:
    """Return a small curve as SVG, described in words for screen readers; empty for fewer than two finite values.

    Args:
        values: the curve, from left to right.
        name: what it shows.
        width: of the picture in pixels.
        height: of the picture in pixels.
        most: points that are drawn of a longer curve.

    Examples:
        >>> "from 3 to 1.5 in 3 steps" in sparkline([3.0, 2.0, 1.5], "loss")
        True
    """
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < 2:
        return ""
    words = f"{name}: from {finite[0]:.4g} to {finite[-1]:.4g} in {len(finite)} steps"
    step = max(1, math.ceil(len(finite) / most))
    drawn = [*finite[:-1:step], finite[-1]]
    low, span = min(finite), (max(finite) - min(finite)) or 1.0
    points = " ".join(
        f"{2 + (width - 4) * i / (len(drawn) - 1):.1f},{2 + (height - 4) * (1 - (value - low) / span):.1f}"
        for i, value in enumerate(drawn)
    )
    return (
        f'<svg role="img" aria-label="{text(words)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><title>{text(words)}</title>'
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )
