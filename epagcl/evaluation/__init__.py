"""Evaluation of embeddings: linear classifier, k-nearest neighbours, clustering, and label-free health."""

from epagcl.evaluation.clusters import clustering
from epagcl.evaluation.knn import knn_accuracy
from epagcl.evaluation.linear import linear_evaluation
from epagcl.evaluation.protocol import PAPER, PROTOCOLS, STRICT, Rule
from epagcl.evaluation.scores import Evaluation, class_scores, prediction_evaluation, spread

__all__ = [
    "PAPER",
    "PROTOCOLS",
    "STRICT",
    "Evaluation",
    "Rule",
    "class_scores",
    "clustering",
    "knn_accuracy",
    "linear_evaluation",
    "prediction_evaluation",
    "spread",
]
