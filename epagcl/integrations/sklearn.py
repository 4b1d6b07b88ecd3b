"""Node embeddings as a step of scikit-learn pipelines whose samples are nodes."""

import copy
import hashlib
import json
import threading
from collections import OrderedDict
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.data.checking import check
from epagcl.data.io.ids import examples, positions
from epagcl.methods.base import Method, NotTrained

MAX_CACHED = 8  # trained models, each with the embedding of its graph

_Key = tuple[type[Method], str, str]
_cache: OrderedDict[_Key, tuple[Method, npt.NDArray[np.float32]]] = OrderedDict()
# One training at a time: PyTorch already uses all cores, and two threads may need the same model.
_lock = threading.Lock()


class NodeEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Transformer that maps nodes to their embeddings. Nodes are the samples in cross-validation and grid search.

    ``fit`` trains on the whole graph and reads no label. Therefore all folds use the same model, which is trained once.
    Each process caches the 8 models that it used last, by their settings and the content of the graph. With ``n_jobs``,
    each process trains its own models. Settings of the method are parameters such as ``method__p_add``.

    Args:
        method: the method with its settings; not a supervised one.
        data: the graph with all its nodes.
        by: the content of X: ``"number"``, the number of a node (its row in ``data.x``), or ``"id"``, its id in
            ``data.node_ids``.

    Attributes:
        method_: the trained method.
        embedding_: the embedding of all nodes, float32 ``[num_nodes, dim]``.

    Examples:
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.model_selection import cross_val_score
        >>> from sklearn.pipeline import make_pipeline
        >>> from epagcl import EPAGCLPlus
        >>> from epagcl.data import block_model
        >>> data = block_model(60, num_classes=3, num_features=40, topic_words=10, seed=3)
        >>> embedder = NodeEmbedder(EPAGCLPlus(epochs=2, hidden=8, dim=4, projection=4, device="cpu"), data)
        >>> embedder.fit_transform([0, 7]).shape
        (2, 4)
        >>> pipe = make_pipeline(embedder, LogisticRegression())
        >>> len(cross_val_score(pipe, np.arange(60), data.y.numpy(), cv=3))
        3
    """

    def __init__(self, method: Method, data: Data, *, by: str = "number"):
        self.method = method
        self.data = data
        self.by = by

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Train on the graph, or use the cached model with the same settings and graph.

        Args:
            X: nodes; only checked, since training uses the whole graph.
            y: not used.
        """
        if not isinstance(self.method, Method):
            raise InputError(
                f"method: a {type(self.method).__name__} is not a method; give one such as epagcl.EPAGCLPlus()"
            )
        if self.method.supervised:
            raise InputError(
                f"method: {self.method.name} is supervised and would see the test labels of each fold; "
                "give a self-supervised method"
            )
        if self.by not in ("number", "id"):
            raise InputError(f"by={self.by!r}: choose one of number, id")
        if not isinstance(self.data, Data):
            check(self.data)  # raises and names the expected type
        if X is not None:
            self._node_numbers(X)
        trained, self.embedding_ = _trained(self.method, self.data)
        self.method_ = copy.copy(trained)  # if the user fits it again, the cached model does not change
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the embeddings ``[len(X), dim]`` of the nodes in X."""
        if not hasattr(self, "embedding_"):
            raise NotTrained("this NodeEmbedder is not trained; call fit first")
        return self.embedding_[self._node_numbers(X)]

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def __sklearn_clone__(self) -> "NodeEmbedder":
        # The graph is only read: copying it for every fold would waste memory.
        cloned = type(self)(clone(self.method), self.data, by=self.by)
        if hasattr(self, "_sklearn_output_config"):  # written by set_output
            cloned._sklearn_output_config = dict(self._sklearn_output_config)
        return cloned

    def __deepcopy__(self, memo: dict[int, Any]) -> "NodeEmbedder":
        copied = copy.copy(self)
        copied.method = copy.deepcopy(self.method, memo)
        return copied

    def _node_numbers(self, X: Any) -> npt.NDArray[np.int64]:
        """Return the numbers of the nodes in X."""
        nodes = X.cpu().numpy() if isinstance(X, torch.Tensor) else np.asarray(X)
        if nodes.ndim == 2 and nodes.shape[1] == 1:
            nodes = nodes[:, 0]
        if nodes.ndim != 1:
            raise InputError(f"X has shape {nodes.shape}; give one node per row")
        if self.by == "id":
            return self._numbers_of_ids(nodes)
        if not len(nodes):
            return np.empty(0, dtype=np.int64)
        if nodes.dtype.kind not in "iu":
            raise InputError(f"X: {nodes.dtype} values are not node numbers; give integers, or ids with by='id'")
        num_nodes = self.data.num_nodes
        if not (nodes.min() >= 0 and nodes.max() < num_nodes):
            outside = nodes[(nodes < 0) | (nodes >= num_nodes)]
            raise InputError(f"X: no node {outside[0]}; nodes are 0 to {num_nodes - 1:,}, or ids with by='id'")
        return nodes

    def _numbers_of_ids(self, nodes: np.ndarray[Any, Any]) -> npt.NDArray[np.int64]:
        ids = self.data.get("node_ids")
        if ids is None:
            raise InputError("by='id': the graph has no node_ids; give node numbers with by='number'")
        nodes = nodes.astype(np.int64) if nodes.dtype.kind in "iu" else nodes.astype(str).astype(object)
        ids = np.asarray(ids)
        ids = ids if ids.dtype == np.int64 else np.array([str(node) for node in ids], dtype=object)
        numbers = positions(nodes, ids)
        if (numbers < 0).any():
            missing = nodes[numbers < 0]
            raise InputError(f"X: {counted(len(missing), 'id')} not in the graph ({examples(missing)}); leave them out")
        return numbers


def _trained(method: Method, data: Data) -> tuple[Method, npt.NDArray[np.float32]]:
    """Return a trained copy of the method and the embedding of the graph, from the cache if they are in it."""
    method = clone(method)
    method.validate()
    # The class itself, not its name: a class that is defined again in a notebook is another method.
    key = type(method), json.dumps({**method.identity(), "device": method.device}), _digest(data)
    with _lock:
        if key not in _cache:
            method.fit(data)
            z = method.transform(data)
            z.setflags(write=False)
            _cache[key] = method, z
            while len(_cache) > MAX_CACHED:
                _cache.popitem(last=False)
        _cache.move_to_end(key)
        return _cache[key]


def _digest(data: Data) -> str:
    """Return a hash of everything that training reads, before the graph is checked."""
    if not isinstance(data, Data) or data.x is None or data.edge_index is None:
        check(data)  # raises and names what is missing
    x = data.x if data.x.layout == torch.strided else data.x.to_sparse_csr()
    parts = [x] if x.layout == torch.strided else [x.crow_indices(), x.col_indices(), x.values()]
    digest = hashlib.blake2b()
    for tensor in (*parts, data.edge_index):
        array = np.ascontiguousarray(tensor.detach().cpu().numpy())
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.data)
    digest.update(f"{x.layout} {data.num_nodes} {data.get('feature_names')}".encode())
    return digest.hexdigest()
