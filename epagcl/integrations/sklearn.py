"""Embeddings as a step of scikit-learn's pipelines over nodes."""

import copy
import hashlib
import json
import threading
from collections import OrderedDict
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.data.checking import check
from epagcl.data.io.ids import examples, positions
from epagcl.methods.base import Method, NotTrained

CACHED = 8  # models that are kept, and the most whose embeddings are in memory

_trained: "OrderedDict[tuple, tuple[Method, np.ndarray]]" = OrderedDict()
_lock = threading.Lock()  # one training at a time: torch has all cores already, and two threads may want the same model


class NodeEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Nodes in, rows of the graph's embedding out: what ``cross_val_score`` and ``GridSearchCV`` split are nodes.

    ``fit`` trains on the whole graph, and reads no label; so every fold has the same model, which is trained once:
    the last 8 models of a process are kept in memory, by their settings and the graph's content. (With ``n_jobs`` each
    process trains its own.) A nested setting is ``method__p_add``.

    Args:
        method: the method with its settings; not one that learns from labels.
        data: the graph, all its nodes.
        by: what X holds: ``"number"``, the number of a node (its row in ``data.x``), or ``"id"``, its id in
            ``data.node_ids``.

    Attributes:
        method_: the trained method.
        embedding_: the embedding of all nodes, float32 ``[num_nodes, dim]``.
    """

    def __init__(self, method: Method, data: Data, *, by: str = "number"):
        self.method = method
        self.data = data
        self.by = by

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Train on the graph, or take the model that was trained with these settings on this graph before.

        Args:
            X: the nodes that will be asked for; only checked, since training sees the whole graph.
            y: not used.
        """
        if not isinstance(self.method, Method):
            raise InputError(f"method: a {type(self.method).__name__}; give one such as epagcl.EPAGCL()")
        if self.method.supervised:
            raise InputError(
                f"{self.method.name} learns from labels, and a fold's test labels would be among them; "
                "give a self-supervised method"
            )
        if self.by not in ("number", "id"):
            raise InputError(f"by={self.by!r}: choose one of number, id")
        if not isinstance(self.data, Data):
            check(self.data)  # says what to give
        if X is not None:
            self._numbers(X)
        trained, self.embedding_ = _fitted(self.method, self.data)
        self.method_ = copy.copy(trained)  # fitted anew by its owner, it leaves the one in memory as it is
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The embeddings ``[len(X), dim]`` of these nodes."""
        if not hasattr(self, "embedding_"):
            raise NotTrained("this NodeEmbedder is not trained; call fit first")
        return self.embedding_[self._numbers(X)]

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def __sklearn_clone__(self) -> "NodeEmbedder":
        # The graph is only read: a copy for every fold would be memory for nothing.
        made = type(self)(clone(self.method), self.data, by=self.by)
        if hasattr(self, "_sklearn_output_config"):  # of set_output
            made._sklearn_output_config = dict(self._sklearn_output_config)
        return made

    def __deepcopy__(self, memo: dict) -> "NodeEmbedder":
        made = copy.copy(self)
        made.method = copy.deepcopy(self.method, memo)
        return made

    def _numbers(self, X: Any) -> np.ndarray:
        """The numbers of the nodes in X."""
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
            raise InputError(f"X holds {nodes.dtype}, no node numbers; give integers, or ids with by='id'")
        num_nodes = self.data.num_nodes
        if not (nodes.min() >= 0 and nodes.max() < num_nodes):
            beyond = nodes[(nodes < 0) | (nodes >= num_nodes)]
            raise InputError(f"X: no node {beyond[0]}; nodes are 0 to {num_nodes - 1:,}, or ids with by='id'")
        return nodes

    def _numbers_of_ids(self, nodes: np.ndarray) -> np.ndarray:
        ids = self.data.get("node_ids")
        if ids is None:
            raise InputError("by='id': the graph has no node_ids; give node numbers with by='number'")
        nodes = nodes.astype(np.int64) if nodes.dtype.kind in "iu" else nodes.astype(str).astype(object)
        ids = np.asarray(ids)
        found = positions(nodes, ids if ids.dtype == np.int64 else np.array([str(node) for node in ids], dtype=object))
        if (found < 0).any():
            missing = nodes[found < 0]
            raise InputError(f"X: {counted(len(missing), 'id')} not in the graph ({examples(missing)}); leave them out")
        return found


def _fitted(method: Method, data: Data) -> tuple[Method, np.ndarray]:
    """A trained copy of the method and the embedding of the graph, of this or an earlier call."""
    method = clone(method)
    method.validate()
    # The class itself, not its name: one that is defined again in a notebook is another method.
    key = type(method), json.dumps({**method.identity(), "device": method.device}), _content(data)
    with _lock:
        if key not in _trained:
            method.fit(data)
            z = method.transform(data)
            z.setflags(write=False)
            _trained[key] = method, z
            while len(_trained) > CACHED:
                _trained.popitem(last=False)
        _trained.move_to_end(key)
        return _trained[key]


def _content(data: Data) -> str:
    """A hash of all that training reads; unlike a graph's fingerprint, it tells any two bits apart."""
    if not isinstance(data, Data) or data.x is None or data.edge_index is None:
        check(data)  # says what is missing
    x = data.x if data.x.layout == torch.strided else data.x.to_sparse_csr()
    parts = [x] if x.layout == torch.strided else [x.crow_indices(), x.col_indices(), x.values()]
    digest = hashlib.blake2b()
    for tensor in (*parts, data.edge_index):
        array = np.ascontiguousarray(tensor.detach().cpu().numpy())
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array)
    digest.update(f"{x.layout} {data.num_nodes} {data.get('feature_names')}".encode())
    return digest.hexdigest()
