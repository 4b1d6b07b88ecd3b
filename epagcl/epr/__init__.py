"""Error Passing Rate (EPR): the measure, exact changes of it, and what the paper's theorems predict."""

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
