"""Training on several ranks: the process group, the partition of the nodes, and the exchange of rows."""

from epagcl.distributed.group import Ranks, active_ranks, several_ranks
from epagcl.distributed.partition import Part

__all__ = ["Part", "Ranks", "active_ranks", "several_ranks"]
