"""Tasks on embeddings, each one function with an honest evaluation.

Nearest nodes, clusters and their stability, classes from a few labels, anomalies, link prediction, and two versions of
an embedding.
"""

from epagcl.tasks.anomalies import anomaly_scores
from epagcl.tasks.classifier import Classification, classify
from epagcl.tasks.clusters import Clusters, cluster
from epagcl.tasks.curve import Curve, learning_curve
from epagcl.tasks.edge_scores import LinkScores
from epagcl.tasks.edge_split import EdgeSplit, split_edges
from epagcl.tasks.injection import Injected, anomaly_evaluation, inject_anomalies
from epagcl.tasks.links import LinkPrediction, predict_links
from epagcl.tasks.neighbours import Neighbours, nearest_neighbours
from epagcl.tasks.novelty import novelty
from epagcl.tasks.versions import Alignment, Drift, align, drift

__all__ = [
    "Alignment",
    "Classification",
    "Clusters",
    "Curve",
    "Drift",
    "EdgeSplit",
    "Injected",
    "LinkPrediction",
    "LinkScores",
    "Neighbours",
    "align",
    "anomaly_evaluation",
    "anomaly_scores",
    "classify",
    "cluster",
    "drift",
    "inject_anomalies",
    "learning_curve",
    "nearest_neighbours",
    "novelty",
    "predict_links",
    "split_edges",
]
