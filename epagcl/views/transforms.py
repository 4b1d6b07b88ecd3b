"""The augmentations as transforms of PyTorch Geometric, for use with any encoder and training loop."""

import copy
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from epagcl.core.checks import check_seed, check_tensor
from epagcl.core.config import current_settings, warn_of_old_value
from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix
from epagcl.data.checking import both_directions, is_edge_level
from epagcl.views.masks import feature_mask
from epagcl.views.probabilities import EdgeProbabilities, edge_probabilities
from epagcl.views.sampling import ViewSampler

__all__ = ["EdgePerturbation", "FeatureMask"]


class EdgePerturbation(BaseTransform):
    """Transform that drops and adds edges with the probabilities of Algorithm 1 and Eq. (9).

    Every call draws a new view. The k-th call draws view k of the seed, so that a new transform repeats the same
    sequence. Probabilities are computed once per ``edge_index``, and again if it is changed in place. Edge-level
    attributes (``edge_attr``, ``edge_type`` and all others with one row per edge) are removed, since added edges have
    none.

    Args:
        p_drop: mean probability that an edge is dropped.
        p_add: mean probability that a candidate is added; 0 adds no edges.
        drop: ``"eq9"``, ``"text"`` or ``"uniform"``, see :meth:`epagcl.views.EdgeWeights.probabilities`.
        add: ``"eq9"`` or ``"uniform"``.
        seed: random seed of the views.

    Examples:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> EdgePerturbation(p_drop=1.0, p_add=0.0)(data).num_edges
        0
    """

    def __init__(self, p_drop: float = 0.3, p_add: float = 0.05, *, drop: str = "eq9", add: str = "eq9", seed: int = 0):
        self.p_drop, self.p_add, self.seed = p_drop, p_add, check_seed(seed)
        self.drop, self.add = warn_of_old_value("drop", drop), warn_of_old_value("add", add)
        self._calls = 0
        self._samplers: WeakIdKeyDictionary = WeakIdKeyDictionary()

    def probabilities(self, data: Data) -> EdgeProbabilities:
        """Return the drop and add probabilities of the pairs of ``data``."""
        return edge_probabilities(
            data.edge_index, data.num_nodes, self.p_drop, self.p_add, drop=self.drop, add=self.add, seed=self.seed
        )

    def forward(self, data: Data) -> Data:
        """Return a view of ``data``: a shallow copy with a new ``edge_index`` (both directions, sorted)."""
        pairs = self._sampler(data).pairs(self._calls)
        self._calls += 1
        view = copy.copy(data)
        for key in _edge_attributes(data):
            del view[key]
        view.edge_index = both_directions(pairs, data.num_nodes)
        return view

    def _sampler(self, data: Data) -> ViewSampler:
        """Return the sampler of a graph, from an earlier call if its edges have not changed."""
        edges = check_tensor(data.edge_index, "edge_index")
        # Tensors created in inference mode have no version counter, so that a change in place cannot be detected.
        state = object() if edges.is_inference() else edges._version, data.num_nodes
        cached_state, sampler = self._samplers.get(edges, (None, None))
        if cached_state != state:
            sampler = ViewSampler(self.probabilities(data), data.num_nodes, seed=self.seed, view=0)
            self._samplers[edges] = state, sampler
        return sampler

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the cached samplers, whose keys are valid in this process only."""
        return {key: value for key, value in self.__dict__.items() if key != "_samplers"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(current_settings(state), _samplers=WeakIdKeyDictionary())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_drop={self.p_drop}, p_add={self.p_add}, drop={self.drop!r}, add={self.add!r})"


def _edge_attributes(data: Data) -> list[str]:
    """Return the names of edge-level attributes, except the target pairs of PyG's RandomLinkSplit."""
    preserved = {"edge_index"} | ({"edge_label", "edge_label_index"} if "edge_label_index" in data else set())
    sizes = data.num_nodes, data.edge_index.shape[1]
    return [key for key, value in data.to_dict().items() if key not in preserved and is_edge_level(key, value, *sizes)]


class FeatureMask(BaseTransform):
    """Transform that hides each feature column, for all nodes, with probability ``p``.

    Every call draws a new mask. The k-th call draws mask k of the seed.

    Args:
        p: probability that a column is hidden.
        seed: random seed of the masks.

    Examples:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> FeatureMask(p=1.0)(Data(x=torch.ones(2, 3))).x
        tensor([[0., 0., 0.],
                [0., 0., 0.]])
    """

    def __init__(self, p: float = 0.1, *, seed: int = 0):
        self.p, self.seed = p, check_seed(seed)
        self._calls = 0

    def forward(self, data: Data) -> Data:
        """Return a shallow copy of ``data`` with hidden columns set to 0."""
        if data.x is None or check_tensor(data.x, "x").dim() != 2:
            raise InputError("data has no features to hide; add x, a matrix with one row per node")
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
