"""Base of the supervised GCN and GAT: cross-entropy on training nodes, early stopping on validation nodes."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.hashing import hash64
from epagcl.core.randomness import Stream, dropout
from epagcl.core.sparse import SparseMatrix
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.data.labels import class_numbers
from epagcl.data.splits import Split, as_split, random_split
from epagcl.methods.base import Method
from epagcl.methods.settings import method_settings, setting


class Targets(NamedTuple):
    """Training and validation nodes, and their classes numbered from 0."""

    train: Tensor
    y_train: Tensor
    val: Tensor
    y_val: Tensor


@method_settings
class Supervised(Method):
    """A classifier trained on labels, the reference for embeddings learned without labels.

    The loss is the mean cross-entropy over the training nodes. The weights of the epoch with the lowest cross-entropy
    on the validation nodes are used, whether or not training stops early. Test labels are not read. ``embed`` returns
    the logits, ``predict`` the classes.
    """

    supervised = True
    has_validation_loss = True
    saved_attributes: ClassVar[tuple[str, ...]] = ("num_features_", "classes_")

    dropout: float = setting(0.5, "probability that an input value of a layer is dropped in training")
    patience: int = setting(50, "stop after this many epochs without a lower validation loss; 0: run all epochs")

    def validate(self) -> None:
        """Raise unless every setting is valid."""
        super().validate()
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout={self.dropout}: must be at least 0 and below 1")

    def fit(
        self,
        data: Data,
        y: Tensor | np.ndarray[Any, Any] | Sequence[Any] | None = None,
        *,
        split: Split | tuple[Tensor, ...] | None = None,
        **options: Any,
    ) -> Self:
        """Train on the labels ``data.y`` of the training nodes of a split. Labels of test nodes are not read.

        Args:
            data: the graph with labels; −1 for none.
            y: labels for a graph that has none, as scikit-learn passes them. Names are numbered in sorted order. If the
                graph has labels, ``y`` is ignored.
            split: a split, or node numbers or masks as (train, val) or (train, val, test). By default, the random
                10/10/80 split with the seed of the method.
            options: as for :meth:`Method.fit`.
        """
        labels = self._labels(data, y)
        split = random_split(labels, seed=self.seed) if split is None else as_split(split, len(labels))
        nodes = [part[labels[part] >= 0] for part in (split.train.cpu(), split.val.cpu())]
        if min(part.numel() for part in nodes) == 0:
            raise InputError("the split has no labelled training or no labelled validation nodes; give another split")
        seen = labels[torch.cat(nodes)]
        classes = seen.unique()
        y_train, y_val = torch.searchsorted(classes, seen).split([part.numel() for part in nodes])
        self.classes_ = classes.tolist()
        self._targets = Targets(nodes[0], y_train, nodes[1], y_val)
        return super().fit(data, **options)

    def fit_transform(
        self, data: Data, y: Tensor | np.ndarray[Any, Any] | Sequence[Any] | None = None, **options: Any
    ) -> np.ndarray[Any, Any]:
        """Train on a graph and return its logits as a NumPy array: ``fit(data, y).transform(data)``."""
        return self.fit_embed(data, y=y, **options).cpu().numpy()

    def predict(self, data: Data) -> Tensor:
        """Return the most likely class of each node."""
        best = self.embed(data).argmax(1).cpu()  # raises if the model is not trained
        return torch.tensor(self.classes_)[best].to(data.edge_index.device)

    def _labels(self, data: Data, y: Tensor | np.ndarray[Any, Any] | Sequence[Any] | None) -> Tensor:
        """Return the class number of each node, from the graph or else from ``y``."""
        graph = check(data, quiet=True)
        if graph.y is not None:
            return graph.y.cpu()
        if y is None:
            raise InputError(f"{self.name} learns from labels, and the graph has none; set data.y or give y=")
        labels = class_numbers(y)[0].cpu()
        if len(labels) != graph.num_nodes:
            raise InputError(f"y: {len(labels):,} labels for {graph.num_nodes:,} nodes; give one per node, −1 for none")
        return labels

    def prepare(self, graph: Graph) -> Targets:
        """Return the labels on the device of the graph."""
        return Targets(*(t.to(graph.device) for t in self._targets))

    def identity(self) -> dict[str, Any]:
        """Return the settings, with a hash of the nodes and labels that training reads."""
        seen = torch.cat([t.flatten() * (place + 1) for place, t in enumerate(self._targets)])
        return super().identity() | {"labels": f"{int(hash64(seen + torch.arange(seen.numel())).sum()) % 2**64:016x}"}

    @abstractmethod
    def logits(self, network: Any, graph: Graph, epoch: int | Tensor | None) -> Tensor:
        """Return the logits ``[N, C]``, with the dropout of an epoch, or without dropout if ``epoch`` is None."""

    def loss(self, network: Any, graph: Graph, prepared: Targets, epoch: int | Tensor) -> Tensor:
        """Return the cross-entropy on the training nodes."""
        return F.cross_entropy(self.logits(network, graph, epoch)[prepared.train], prepared.y_train)

    def validation_loss(self, network: Any, graph: Graph, prepared: Targets) -> Tensor:
        """Return the cross-entropy on the validation nodes, without dropout."""
        return F.cross_entropy(self.logits(network, graph, None)[prepared.val], prepared.y_val)

    def represent(self, network: Any, graph: Graph) -> Tensor:
        """Return the logits."""
        return self.logits(network, graph, None)

    def dropped(self, x: Tensor, epoch: int | Tensor | None, place: int, p: float | None = None) -> Tensor:
        """Return x with the dropout of an epoch. Each ``place`` in the network has its own random numbers."""
        if epoch is None:
            return x
        return dropout(x, self.dropout if p is None else p, self.seed, Stream.DROPOUT, epoch, place)

    def dropped_product(self, x: Tensor | SparseMatrix, weight: Tensor, epoch: int | Tensor | None) -> Tensor:
        """Return X W with dropout on X. Entries of a sparse X are dropped without copying X."""
        if not isinstance(x, SparseMatrix):
            return self.dropped(x, epoch, 0) @ weight
        return x.pattern.multiply(self.dropped(x.value, epoch, 0), weight)
