"""The report of a trained model inside a notebook, without a run folder."""

from torch_geometric.data import Data

from epagcl.data.checking import check
from epagcl.methods.base import Method
from epagcl.report.content import report, run_content
from epagcl.report.inline import InlineReport
from epagcl.report.maps import check_kind
from epagcl.report.nodes import node_table
from epagcl.report.page import page_text
from epagcl.runs.evaluation import Plan, unfit_labels
from epagcl.runs.execute import add_scores, trained_metrics


def inline_report(
    method: Method, data: Data, *, evaluate: bool = True, kind: str = "auto", height: int = 720
) -> InlineReport:
    """Return the report of a trained model on a graph; ``model.report(data)`` calls it.

    Args:
        method: the trained model.
        data: the graph.
        evaluate: if the graph has labels, also score the embedding beside its references.
        kind: kind of the map, one of :data:`epagcl.report.maps.KINDS`.
        height: height of the report in the notebook, in pixels.

    Examples:
        >>> from epagcl import Propagated
        >>> from epagcl.data import block_model
        >>> data = block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3, seed=3)
        >>> inline_report(Propagated(dim=4, device="cpu").fit(data), data, evaluate=False, kind="pca").title
        'propagated on graph'
    """
    check_kind(kind)
    z = method.embed(data)
    name = str(data.get("name") or "graph")
    data = check(data, quiet=True)
    metrics = trained_metrics(data, method, name)
    plan = Plan(references=True)
    if evaluate and data.y is not None and not method.supervised and unfit_labels(data, plan) is None:
        add_scores(metrics, z, data, method, plan, None)
    content = run_content(name, data, method, z, metrics, node_table(data, z, method.seed), kind=kind)
    payload = report([content])
    return InlineReport(payload["title"], page_text(payload), height)
