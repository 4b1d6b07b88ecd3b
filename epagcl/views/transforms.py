"""The augmentation alone, as transforms of PyTorch Geometric: compose them with others, feed any encoder."""

import copy

import torch
from torch.utils.weak import WeakIdKeyDictionary
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from epagcl.core.sparse import SparseMatrix
from epagcl.data.checking import both_directions, is_edge_level
from epagcl.views.masks import feature_mask
from epagcl.views.probabilities import EdgeProbabilities, edge_probabilities
from epagcl.views.sampling import ViewSampler


class EdgePerturbation(BaseTransform):
    """Drops and adds edges with the probabilities of Algorithm 1 and Eq. 7; every call draws another view.

    The k-th call draws view k of the seed, so a fresh transform repeats the same sequence. Probabilities are computed
    once for each ``edge_index``, and again after it was changed in place. Attributes of edges (``edge_attr``,
    ``edge_type``, whatever else has one row per edge) are dropped, since added edges have none.

    Args:
        p_drop: mean probability that an edge is dropped.
        p_add: mean probability that a candidate is added; 0 drops only.
        drop: ``"eq7"``, ``"text"`` or ``"uniform"``, see :meth:`epagcl.views.probabilities.EdgeWeights.probabilities`.
        add: ``"eq7"`` or ``"uniform"``.
        seed: of the views.
    """

    def __init__(self, p_drop: float = 0.3, p_add: float = 0.05, *, drop: str = "eq7", add: str = "eq7", seed: int = 0):
        self.p_drop, self.p_add, self.drop, self.add, self.seed = p_drop, p_add, drop, add, seed
        self._calls = 0
        self._known: WeakIdKeyDictionary = WeakIdKeyDictionary()

    def probabilities(self, data: Data) -> EdgeProbabilities:
        """What each pair's chances are in ``data``."""
        options = {"drop": self.drop, "add": self.add, "seed": self.seed}
        return edge_probabilities(data.edge_index, data.num_nodes, self.p_drop, self.p_add, **options)

    def forward(self, data: Data) -> Data:
        """A view of ``data``: a shallow copy with another ``edge_index`` (both directions, sorted)."""
        pairs = self._sampler(data).pairs(self._calls)
        self._calls += 1
        view = copy.copy(data)
        for key in _edge_attributes(data):
            del view[key]
        view.edge_index = both_directions(pairs, data.num_nodes)
        return view

    def _sampler(self, data: Data) -> ViewSampler:
        """The sampler of a graph, of an earlier call if its edges are still the same."""
        edges = data.edge_index
        # Tensors made in inference mode do not count their changes: nothing is known of them from one call to the next.
        state = object() if edges.is_inference() else edges._version, data.num_nodes
        known, sampler = self._known.get(edges, (None, None))
        if known != state:
            sampler = ViewSampler(self.probabilities(data), data.num_nodes, seed=self.seed, view=0)
            self._known[edges] = state, sampler
        return sampler

    def __getstate__(self) -> dict:
        """Without what was computed for the graphs seen, which lives by their identity in this process."""
        return {key: value for key, value in self.__dict__.items() if key != "_known"}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state, _known=WeakIdKeyDictionary())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_drop={self.p_drop}, p_add={self.p_add}, drop={self.drop!r}, add={self.add!r})"


def _edge_attributes(data: Data) -> list[str]:
    """What belongs to the edges of ``edge_index``; not the pairs that PyG's RandomLinkSplit sets aside to predict."""
    others = {"edge_index"} | ({"edge_label", "edge_label_index"} if "edge_label_index" in data else set())
    sizes = data.num_nodes, data.edge_index.shape[1]
    return [key for key, value in data.to_dict().items() if key not in others and is_edge_level(key, value, *sizes)]


class FeatureMask(BaseTransform):
    """Hides whole feature columns, each with probability ``p``, for all nodes alike; every call draws another mask."""

    def __init__(self, p: float = 0.1, *, seed: int = 0):
        self.p, self.seed = p, seed
        self._calls = 0

    def forward(self, data: Data) -> Data:
        """A shallow copy of ``data`` with hidden columns set to 0."""
        mask = feature_mask(data.x.shape[1], self.p, seed=self.seed, epoch=self._calls, view=0, device=data.x.device)
        self._calls += 1
        view = copy.copy(data)
        if mask is None:
            return view
        if data.x.layout == torch.strided:
            view.x = data.x * mask
        else:
            x = SparseMatrix.from_torch(data.x)
            view.x = SparseMatrix(x.rowptr, x.col, x.value * mask[x.col], x.shape).csr
        return view

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"
