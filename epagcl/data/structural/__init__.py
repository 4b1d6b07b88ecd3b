"""Features computed from the edges alone, for graphs without features or beside given ones.

============= =====================================================================
module        content
============= =====================================================================
``features``  :func:`structural_features`, and the same as columns of a graph
``adjacency`` the graph as sorted neighbour lists and normalised matrices
``roles``     degree, PageRank, core number, clustering, return probabilities
``positions`` random projection, leading eigenvectors
``walks``     positions from random walks, the strongest of the three
============= =====================================================================
"""

from epagcl.data.structural.features import (
    KINDS,
    StructuralFeatures,
    structural_features,
    with_structural_features,
)

__all__ = ["KINDS", "StructuralFeatures", "structural_features", "with_structural_features"]
