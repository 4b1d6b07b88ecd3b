"""Sphinx configuration: ``python -m sphinx -W --keep-going -b html docs docs/_build``. No step needs a network."""

import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # for the builder in this folder, and for the package

from builder import reference  # noqa: E402

from epagcl import __version__  # noqa: E402

project = "epagcl"
author = "the authors of epagcl"
project_copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "builder.mathtext"]
exclude_patterns = ["_build", "builder"]
myst_heading_anchors = 4  # the same anchors as on GitHub
myst_enable_extensions = ["attrs_inline"]
html_math_renderer = "mathtext"
smartquotes = False  # they would turn -- of --option into a dash

autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90

# Every name in a docstring and every type in a signature links to the reference, or belongs to another project.
nitpicky = True
OTHER_PROJECTS = "torch|torch_geometric|numpy|np|scipy|pandas|pd|polars|networkx|sklearn|optuna"
STANDARD_LIBRARY = "pathlib|collections|typing|types|contextlib"
nitpick_ignore_regex = [
    ("py:.*", rf"({OTHER_PROJECTS}|{STANDARD_LIBRARY})\b.*"),
    (
        "py:.*",
        r"(dict\[str|Tensor|Data|Path|Any|Self|Sequence|Callable|Iterable|Iterator|AbstractContextManager|optional|nn\.Module|np\.ndarray|Figure)",
    ),
    # Internal types, not in the reference.
    ("py:.*", r"epagcl\.core\.(sparse|streamed|cost|pattern|kernels|hardware)\.[\w.]+"),
    ("py:.*", r"epagcl\.(data\.(large|subgraphs|disk\.layout)|methods\.(work|plan)|runs\.reproduction)\.[\w.]+"),
    ("py:.*", r"epagcl\.(distributed\.group\.Plain|views\.probabilities\.WeightRange|data\.graph\.Graph\.origin)"),
    ("py:.*", r"(DiskMatrix|OutputError|The mode to choose)"),
    ("py:.*", r"epagcl\.[\w.]+\._\w+"),  # private type variables
    ("py:attr", r"\w+"),  # attributes are fields of their class and have no anchor
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


def _expand_marks(_app: Sphinx, _name: str, source: list[str]) -> None:
    source[0] = reference.expanded(source[0])


def _shorten_method_signature(_app: Sphinx, what: str, _name: str, obj: Any, _options: Any, *_: Any) -> Any:
    """Replace the signature of a method, since a table below it lists its two dozen settings."""
    from epagcl.methods import Method

    if what == "class" and isinstance(obj, type) and issubclass(obj, Method):
        return "(**settings)", ""
    return None


def _escape_bars(_app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Escape bars: docstrings use them for sizes of sets, reStructuredText for substitutions."""
    in_math = False
    for number, line in enumerate(lines):
        in_math = line.lstrip().startswith(".. math::") or (in_math and (not line.strip() or line.startswith("    ")))
        if not in_math:
            chunks = line.split("`")
            chunks[::2] = [piece.replace("|", r"\|") for piece in chunks[::2]]
            lines[number] = "`".join(chunks)


def _resolve_public_name(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Node) -> Any:
    """Link to a name under its public path in ``epagcl`` if a docstring names the module that defines it."""
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    path = node["reftarget"].removeprefix("epagcl.").split(".")
    for name_parts in (path, path[-2:], path[-1:]):
        matches = domain.find_obj(env, None, None, ".".join(name_parts), None, 1)
        if len({entry.node_id for _, entry in matches}) == 1:
            name, entry = matches[0]
            return _link(app, node, content, entry, name)
    return None


def _link(app: Sphinx, node: pending_xref, content: nodes.Node, entry: Any, name: str) -> nodes.Node:
    from sphinx.util.nodes import make_refnode

    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content, name)


def setup(app: Sphinx) -> None:
    """Register the hooks that change pages, signatures, docstrings and references."""
    app.connect("source-read", _expand_marks)
    app.connect("autodoc-process-signature", _shorten_method_signature)
    app.connect("autodoc-process-docstring", _escape_bars)
    app.connect("missing-reference", _resolve_public_name)
