"""Views of a graph: which edges are dropped and added, which features are masked, and their sampling."""

from epagcl.views.masks import feature_mask, feature_masks
from epagcl.views.probabilities import (
    EdgeProbabilities,
    EdgeWeights,
    drop_probabilities,
    edge_probabilities,
    edge_weights,
    normalise_from_max,
    normalise_from_min,
)
from epagcl.views.sampling import Views, ViewSampler, drop_views

__all__ = [
    "EdgeProbabilities",
    "EdgeWeights",
    "ViewSampler",
    "Views",
    "drop_probabilities",
    "drop_views",
    "edge_probabilities",
    "edge_weights",
    "feature_mask",
    "feature_masks",
    "normalise_from_max",
    "normalise_from_min",
]
