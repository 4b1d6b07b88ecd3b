"""Error Passing Rate (EPR): the share of a graph's messages that come from another class.

Throughout, Â_ij = 1/√(d_i d_j) on edges and 0 elsewhere: the weight of the message between two nodes of a GCN. A
message is wrong if its two nodes are in different classes. Sums run over both directions of each edge. All arithmetic
is float64.

- :mod:`epagcl.epr.rate` computes EPR.
- :mod:`epagcl.epr.change` computes how one edge changes EPR, exactly and by the paper's theorems.
- :mod:`epagcl.epr.alpha` holds the edge weights α of those theorems.
- :mod:`epagcl.epr.relations` computes EPR of each kind of edges.
- :mod:`epagcl.epr.summary` summarises EPR and these changes for one graph.

The following modules carry EPR over to any propagation operator and to graphs without labels, in float32 products:

- :mod:`epagcl.epr.operators` computes the EPR of an operator such as PageRank, or of a layer.
- :mod:`epagcl.epr.estimate` estimates it from the features.
- :mod:`epagcl.epr.structure` measures how much the edges say about the features.
- :mod:`epagcl.epr.own_features` compares what a node's own features and its neighbours say about it.
"""

from epagcl.epr.alpha import alpha_add, alpha_drop
from epagcl.epr.change import (
    Theorem33,
    epr_change,
    epr_change_predicted,
    theorem_3_3_conditions,
    theorem_3_3_repaired,
)
from epagcl.epr.estimate import SharedSignal, effective_messages, estimated_epr, propagation_gain, shared_signal
from epagcl.epr.operators import chance_epr, layer_operator, operator_epr
from epagcl.epr.own_features import own_advantage
from epagcl.epr.rate import Rates, check_edge_index, error_passing_rate
from epagcl.epr.relations import RelationRates, relation_rates
from epagcl.epr.structure import edge_similarity, neighbourhood_agreement, structure_score
from epagcl.epr.summary import EdgeChange, EPRSummary, epr_summary

__all__ = [
    "EPRSummary",
    "EdgeChange",
    "Rates",
    "RelationRates",
    "SharedSignal",
    "Theorem33",
    "alpha_add",
    "alpha_drop",
    "chance_epr",
    "check_edge_index",
    "edge_similarity",
    "effective_messages",
    "epr_change",
    "epr_change_predicted",
    "epr_summary",
    "error_passing_rate",
    "estimated_epr",
    "layer_operator",
    "neighbourhood_agreement",
    "operator_epr",
    "own_advantage",
    "propagation_gain",
    "relation_rates",
    "shared_signal",
    "structure_score",
    "theorem_3_3_conditions",
    "theorem_3_3_repaired",
]
