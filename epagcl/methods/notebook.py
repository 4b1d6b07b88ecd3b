"""Estimators in notebooks: a summary as HTML, and the report inline."""

from typing import TYPE_CHECKING, Any

from sklearn import get_config

from epagcl.core.formatting import duration
from epagcl.core.html import block, sparkline, table, text

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from epagcl.methods.base import Method
    from epagcl.report.inline import InlineReport


class NotebookMixin:
    """What notebooks show of an estimator, in place of scikit-learn's diagram."""

    def _repr_html_(self: "Method") -> str:  # type: ignore[misc]
        return method_html(self)

    def _repr_mimebundle_(self: "Method", **_: Any) -> dict[str, str]:  # type: ignore[misc]
        plain = {"text/plain": repr(self)}
        return plain if get_config()["display"] == "text" else {**plain, "text/html": method_html(self)}

    def report(  # type: ignore[misc]
        self: "Method", data: "Data", *, evaluate: bool = True, map: str = "auto", height: int = 720
    ) -> "InlineReport":
        """Return the report of the embedding of a graph, which a notebook shows inline.

        Args:
            data: the graph to embed.
            evaluate: if the graph has labels, also score the embedding beside its references.
            map: the kind of map: auto, tsne, umap, pca or none.
            height: height of the report in the notebook, in pixels.

        Examples:
            >>> import epagcl
            >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
            >>> model = epagcl.EPAGCL(epochs=2, hidden=8, dim=4, projection=4, device="cpu").fit(data)
            >>> model.report(data, evaluate=False, map="pca").title
            'EPAGCL on graph'
        """
        from epagcl.runs.inline import inline_report

        return inline_report(self, data, evaluate=evaluate, kind=map, height=height)


def method_html(method: "Method") -> str:
    """Return a summary of an estimator: its state, the settings that differ from the defaults, and the loss.

    Args:
        method: the estimator, trained or not.

    Examples:
        >>> from epagcl.methods.grace import GRACE
        >>> "not trained; call fit(data)" in method_html(GRACE(lr=0.01))
        True
    """
    values = method.get_params()
    changed = [
        (field.name, values[field.name], field.default, field.metadata["meaning"])
        for field in method.setting_fields()
        if values[field.name] != field.default
    ]
    losses = [row["loss"] for row in getattr(method, "history_", [])]
    settings = (
        table("Settings that differ from the defaults", ["setting", "value", "default", "meaning"], changed)
        if changed
        else "<p>All settings have their defaults.</p>"
    )
    head = f"<strong>{text(type(method).__name__)}</strong> – {text(type(method).summary())}"
    return block(f"<p>{head}<br><small>{text(_state(method))}</small></p>", sparkline(losses, "loss"), settings)


def _state(method: "Method") -> str:
    """Return in a sentence whether the model is trained, and on what."""
    if not hasattr(method, "network_"):
        return "not trained; call fit(data)"
    history = getattr(method, "history_", [])
    features = f"{method.num_features_:,} feature columns"
    if not type(method).trained:
        return f"fitted on {features}; the method has no training"
    if not history:
        return f"{'loaded, or ' if method.epochs else ''}not trained for any epoch, on {features}"
    last = history[-1]
    return f"trained for {last['epoch']:,} epochs in {duration(last['seconds'])} on {features}; loss {last['loss']:.4f}"
