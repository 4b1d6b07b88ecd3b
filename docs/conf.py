"""The site: ``python -m sphinx -W --keep-going -b html docs docs/_build``. No network, to build or to read."""

import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the builder beside this file, and the package beside its documentation

from builder import reference  # noqa: E402

from epagcl import __version__  # noqa: E402

project = "epagcl"
author = "the authors of epagcl"
project_copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "builder.mathtext"]
exclude_patterns = ["_build", "builder"]
myst_heading_anchors = 4  # the anchors a code host gives to headings
myst_enable_extensions = ["attrs_inline"]
html_math_renderer = "mathtext"
smartquotes = False  # it would make a dash of --option

autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90

# Every name in a docstring leads to its place in the reference, or is one of another project's.
nitpicky = True
OTHERS = "torch|torch_geometric|numpy|np|scipy|pandas|pd|polars|networkx|sklearn|optuna|pathlib|collections|typing"
nitpick_ignore_regex = [
    ("py:.*", rf"({OTHERS}|types|contextlib)\b.*"),
    (
        "py:.*",
        r"(dict\[str|Tensor|Data|Path|Any|Self|Sequence|Callable|Iterable|Iterator|AbstractContextManager|optional|nn\.Module|np\.ndarray)",
    ),
    ("py:.*", r"epagcl\.(sparse|terminal|tuning)\.[\w.]+"),  # what the rooms stand on; nobody outside needs it
]

html_theme = "furo"
html_title = "epagcl"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"top_of_page_buttons": []}
pygments_style, pygments_dark_style = "friendly", "github-dark"


def _made_here(_app: Sphinx, _name: str, source: list[str]) -> None:
    source[0] = reference.expanded(source[0])


def _settings_are_in_the_table(_app: Sphinx, what: str, _name: str, obj: Any, _options: Any, *_: Any) -> Any:
    """A method's two dozen settings stand in a table below it, with their meanings; not in its signature too."""
    from epagcl.methods import Method

    if what == "class" and isinstance(obj, type) and issubclass(obj, Method):
        return "(**settings)", ""
    return None


def _bars_are_bars(_app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """|E| is a size in these docstrings; reStructuredText would look for something of that name to put there."""
    in_math = False
    for number, line in enumerate(lines):
        in_math = line.lstrip().startswith(".. math::") or (in_math and (not line.strip() or line.startswith("    ")))
        if not in_math:
            chunks = line.split("`")
            chunks[::2] = [piece.replace("|", r"\|") for piece in chunks[::2]]
            lines[number] = "`".join(chunks)


def _by_its_last_name(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Node) -> Any:
    """Docstrings name what is near them; in the reference a public name stands under ``epagcl`` and not in its room."""
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    last = node["reftarget"].removeprefix("epagcl.").split(".")
    for words in (last, last[-1:]):
        found = domain.find_obj(env, None, None, ".".join(words), None, 1)
        if len({entry.node_id for _, entry in found}) == 1:
            name, entry = found[0]
            return _link(app, node, content, entry, name)
    return None


def _link(app: Sphinx, node: pending_xref, content: nodes.Node, entry: Any, name: str) -> nodes.Node:
    from sphinx.util.nodes import make_refnode

    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content, name)


def setup(app: Sphinx) -> None:
    """What is done to pages and docstrings on the way."""
    app.connect("source-read", _made_here)
    app.connect("autodoc-process-signature", _settings_are_in_the_table)
    app.connect("autodoc-process-docstring", _bars_are_bars)
    app.connect("missing-reference", _by_its_last_name)
