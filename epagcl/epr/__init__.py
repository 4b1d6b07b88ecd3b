"""Error Passing Rate (EPR): the share of a graph's messages that come from another class.

Throughout, Â_ij = 1/√(d_i d_j) on edges and 0 elsewhere: the weight of the message between two nodes of a GCN. A
message is wrong if its two nodes are in different classes. Sums run over both directions of each edge. All arithmetic
is float64.

- :mod:`epagcl.epr.rate` computes EPR.
- :mod:`epagcl.epr.change` computes how one edge changes EPR, exactly and by the paper's theorems.
- :mod:`epagcl.epr.alpha` holds the edge weights α of those theorems.
- :mod:`epagcl.epr.summary` summarises EPR and these changes for one graph.
"""

from epagcl.epr.alpha import alpha_add, alpha_drop
from epagcl.epr.change import Theorem33, epr_change, epr_change_predicted, theorem_3_3_conditions
from epagcl.epr.rate import Rates, check_edge_index, error_passing_rate
from epagcl.epr.summary import EdgeChange, EPRSummary, epr_summary

__all__ = [
    "EPRSummary",
    "EdgeChange",
    "Rates",
    "Theorem33",
    "alpha_add",
    "alpha_drop",
    "check_edge_index",
    "epr_change",
    "epr_change_predicted",
    "epr_summary",
    "error_passing_rate",
    "theorem_3_3_conditions",
]
