"""Views of a graph: random variants with edges dropped or added and feature columns masked.

- :mod:`epagcl.views.probabilities` computes how likely each pair is to be dropped or added (Algorithm 1, Eq. (9)).
- :mod:`epagcl.views.candidates` finds pairs of similar nodes as candidates for adding.
- :mod:`epagcl.views.sampling` draws views from such probabilities.
- :mod:`epagcl.views.masks` draws feature masks.
- :mod:`epagcl.views.transforms` offers both as transforms of PyTorch Geometric.
"""

from epagcl.core.moved import moved_names
from epagcl.views.candidates import neighbour_candidates
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
    "neighbour_candidates",
    "normalise_from_max",
    "normalise_from_min",
]

__getattr__ = moved_names(
    __name__,
    {"share_of_large": "epagcl.views.normalise_from_min", "share_of_small": "epagcl.views.normalise_from_max"},
)
