"""``--method auto``: the method that suits a graph, chosen without labels."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from epagcl.cli.graph_input import GraphInput
from epagcl.cli.loaded_graph import LoadedGraph
from epagcl.cli.options import flag_of, options_of
from epagcl.core.errors import MissingFeatures
from epagcl.core.log import log

if TYPE_CHECKING:
    from epagcl.data.io.columns.encoding import TableEncoding
    from epagcl.data.io.feature_list import Near

AUTO = "auto"
#: The methods that may be chosen.
CHOICES = ("epagcl+", "propagated")


def check_settings(context: typer.Context, method: str) -> None:
    """Raise on a mistyped setting, before a download."""
    options_of(context, *(CHOICES if method == AUTO else (method,)))


def load_graph(
    inputs: GraphInput, method: str, encoding: "TableEncoding | None" = None, near: "Near | None" = None
) -> LoadedGraph:
    """Load the graph. With ``--method auto``, one without features gets those that its edges give.

    Args:
        inputs: the options that name the graph.
        method: the method.
        encoding: the encoding of a trained model, to use in place of a new one.
        near: the part of the graph whose features are needed; None: all of it.
    """
    try:
        return inputs.load(encoding=encoding, near=near)
    except MissingFeatures:
        if method != AUTO or inputs.features is not None or inputs.graph is not None:
            raise
        log.info("no features given: computed from the edges (--features structure)")
        return replace(inputs, features=Path("structure")).load(encoding=encoding)


def chosen_method(context: typer.Context, method: str, graph: LoadedGraph) -> str:
    """Return the method to use, and log why it was chosen.

    Args:
        context: of the command. Settings that the chosen method does not have are removed.
        method: value of ``--method``.
        graph: the graph.
    """
    if method != AUTO:
        return method
    from epagcl.methods import method as method_class
    from epagcl.methods import recommend

    given = options_of(context, *CHOICES)
    choice = recommend(graph.data, device=given.get("device", "auto"))
    log.info("method: %s. %s", choice.method, choice.reason)
    known = {flag_of(field.name) for field in method_class(choice.method).setting_fields()}
    unused = [flag for flag, _ in context.meta["settings"] if flag.replace("_", "-") not in known]
    if unused:
        log.warning("%s has no %s; ignored", choice.method, ", ".join(unused))
        context.meta["settings"] = [setting for setting in context.meta["settings"] if setting[0] not in unused]
    return choice.method
