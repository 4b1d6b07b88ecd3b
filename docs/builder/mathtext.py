"""Formulas as inline SVG, typeset by matplotlib. This needs no LaTeX, script or download, and uses the text colour."""

import html
import re

from docutils import nodes
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser
from matplotlib.textpath import TextPath
from sphinx.application import Sphinx
from sphinx.util import logging

log = logging.getLogger(__name__)
FONT = FontProperties(math_fontfamily="stix")
SIZE = 100  # units of the drawing per em

# Commands that mathtext lacks, with substitutes. Size commands are removed; they change only the appearance.
SUBSTITUTES = {
    r"\tfrac": r"\frac",
    r"\textstyle": "",
    r"\lVert": r"\Vert",
    r"\rVert": r"\Vert",
    r"\Big": "",
    r"\big": "",
    r"\le": r"\leq",
    r"\ge": r"\geq",
}


def plain(formula: str) -> str:
    """Return a formula of the docstrings in the syntax of mathtext."""
    formula = " ".join(formula.split())
    formula = re.sub(r"\\[A-Za-z]+", lambda match: SUBSTITUTES.get(match[0], match[0]), formula)
    formula = re.sub(r"(\\sum_(?:\{[^{}]*\}|\w))", r"\1\\,", formula)  # mathtext sets the next symbol too close
    return formula.replace("'_", r"^\prime_")


def lines(formula: str) -> list[str]:
    """Split a displayed formula at its wide gaps, so that it fits a narrow page, with fractions in full size."""
    large = re.sub(r"\\frac\b", r"\\dfrac", " ".join(formula.split()))
    return [part for part in re.split(r"\\q?quad", large) if part.strip()]


def svg(formula: str) -> str:
    """Return a formula as an SVG element that scales with the surrounding text."""
    text = f"${plain(formula)}$"
    width, height, depth, *_ = MathTextParser("path").parse(text, dpi=72, prop=_sized())
    path = TextPath((0, 0), text, size=SIZE, prop=FONT)
    steps = []
    for points, code in path.iter_segments(simplify=False, curves=True):
        letter = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}[int(code)]
        numbers = [] if letter == "Z" else [value if k % 2 == 0 else -value for k, value in enumerate(points)]
        steps.append(letter + " ".join(f"{value:.0f}" for value in numbers))
    box = f"0 {-(height):.1f} {width:.1f} {height + depth:.1f}"
    size = f"width:{width / SIZE:.3f}em;height:{(height + depth) / SIZE:.3f}em;vertical-align:{-depth / SIZE:.3f}em"
    label = html.escape(" ".join(formula.split()), quote=True)
    return (
        f'<svg class="formula" role="img" aria-label="{label}" viewBox="{box}" style="{size}" fill="currentColor">'
        f'<title>{label}</title><path d="{"".join(steps)}"/></svg>'
    )


def _sized() -> FontProperties:
    font = FONT.copy()
    font.set_size(SIZE)
    return font


def _formula_html(node: nodes.Element, formula: str) -> str:
    try:
        return svg(formula)
    except ValueError as error:
        log.warning("cannot typeset the formula: %s (%s)", formula, str(error).splitlines()[-1], location=node)
        return f"<code>{html.escape(formula)}</code>"


def _inline(translator: nodes.NodeVisitor, node: nodes.math) -> None:
    translator.body.append(_formula_html(node, node.astext()))
    raise nodes.SkipNode


def _block(translator: nodes.NodeVisitor, node: nodes.math_block) -> None:
    spans = "".join(f"<span>{_formula_html(node, part)}</span> " for part in lines(node.astext()))
    translator.body.append(f'<div class="formula-block">{spans}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer. ``html_math_renderer = "mathtext"`` selects it."""
    app.add_html_math_renderer("mathtext", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
