"""GRACE, GCA, BGRL and CCA-SSG that draw the two directions of an edge separately, and GREET that draws them together.

The registered methods do the opposite.
"""

import torch
from torch import Tensor

from epagcl.core.randomness import Stream, uniform
from epagcl.core.sparse import SparseMatrix, StackedMatrix, rowptr_of
from epagcl.data.graph import Graph
from epagcl.methods.bgrl import BGRL
from epagcl.methods.cca_ssg import CCASSG
from epagcl.methods.contrast import Augmentation
from epagcl.methods.gca import GCA
from epagcl.methods.grace import GRACE
from epagcl.methods.greet import GREET, Prepared
from epagcl.methods.settings import method_settings, setting
from epagcl.views.sampling import Views, ViewSampler

#: The views' sizes change from epoch to epoch.
UNCAPTURED = "the views' sizes change from epoch to epoch"


class DirectedViews(Views):
    """Views that keep or drop the two directions of an edge separately, as the released code of most methods does.

    A view is then a directed graph. Its matrix has the value 1/√(d_i d_j) for a message from j to i. d_i is the number
    of messages that i receives, its own included.

    Args:
        views: the views whose edges and probabilities are used.
        by_source: let d_j be the number of messages that j sends, as in DGL; otherwise it is the number that j
            receives, as in PyG.
    """

    def __init__(self, views: Views, *, by_source: bool = False):
        super().__init__(views.samplers)
        self.by_source = by_source

    def adjacency(self, epoch: int | Tensor) -> StackedMatrix:
        """Return the matrix of every view of this epoch."""
        return StackedMatrix([self._matrix(sampler, epoch) for sampler in self.samplers])

    def _matrix(self, sampler: ViewSampler, epoch: int | Tensor) -> SparseMatrix:
        assert sampler.weight is None, "directed views have no edge weights"
        n, pairs = sampler.num_nodes, sampler.counter
        directed = torch.cat([pairs, pairs % n * n + pairs // n])
        kept = uniform(directed, sampler.seed, Stream.EDGES, epoch, sampler.view) < sampler.keep.repeat(2)
        loops = torch.arange(n, device=pairs.device) * (n + 1)
        entries = torch.cat([directed[kept], loops]).sort().values
        row, col = entries // n, entries % n
        rowptr = rowptr_of(row, n)
        received = rowptr.diff()
        sources = torch.bincount(col, minlength=n) if self.by_source else received
        value = received.float().rsqrt()[row] * sources.float().rsqrt()[col]
        return SparseMatrix(rowptr, col, value, (n, n))


@method_settings
class DirectedGRACE(GRACE):
    """GRACE with directed views."""

    runs_on_ranks = False
    capture: str = setting("off", UNCAPTURED, ("off",))

    def prepare(self, graph: Graph) -> Augmentation:
        """Return the views and masks of GRACE, with directed views."""
        augmentation = super().prepare(graph)
        return augmentation._replace(views=DirectedViews(augmentation.views))


@method_settings
class DirectedGCA(GCA):
    """GCA with directed views."""

    runs_on_ranks = False
    capture: str = setting("off", UNCAPTURED, ("off",))

    def prepare(self, graph: Graph) -> Augmentation:
        """Return the views and masks of GCA, with directed views."""
        augmentation = super().prepare(graph)
        return augmentation._replace(views=DirectedViews(augmentation.views))


@method_settings
class DirectedBGRL(BGRL):
    """BGRL with directed views."""

    capture: str = setting("off", UNCAPTURED, ("off",))

    def prepare(self, graph: Graph) -> Views:
        """Return the views of BGRL as directed views."""
        return DirectedViews(super().prepare(graph))


@method_settings
class DirectedCCASSG(CCASSG):
    """CCA-SSG with directed views, normalised as in DGL, which its code uses."""

    capture: str = setting("off", UNCAPTURED, ("off",))

    def prepare(self, graph: Graph) -> Views:
        """Return the views of CCA-SSG as directed views."""
        return DirectedViews(super().prepare(graph), by_source=True)


@method_settings
class SymmetricGREET(GREET):
    """GREET whose noise and dropout are the same for both directions of an edge."""

    def prepare(self, graph: Graph) -> Prepared:
        """Return what GREET prepares, with one number for both directions of an edge."""
        prepared, n = super().prepare(graph), graph.num_nodes
        row, col = prepared.entries // n, prepared.entries % n
        return prepared._replace(entries=torch.minimum(row, col) * n + torch.maximum(row, col))
