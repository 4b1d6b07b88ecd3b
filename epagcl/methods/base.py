"""The base class of all methods: an estimator with keyword-only settings, ``fit``, ``embed`` and ``save``."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.hardware import resolve_device
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.data.large import GraphArrays
from epagcl.data.structural.features import positions_in
from epagcl.evaluation.health import Finding
from epagcl.losses.infonce.loss import PRECISIONS
from epagcl.methods.columns import column_names, match_columns
from epagcl.methods.initial import initial_network
from epagcl.methods.inputs import device_of, has_weights, input_graph, tell_weights
from epagcl.methods.local import NodesLike, embed_nodes, rotated
from epagcl.methods.notebook import NotebookMixin
from epagcl.methods.persistence import load_weights, save_model
from epagcl.methods.relations import apply_relations, learn_relations, two_nodes
from epagcl.methods.settings import checked_setting, method_settings, rename_attributes, setting, warn_of_old_names
from epagcl.training.bar import shown_progress
from epagcl.training.exhaustion import memory_advice
from epagcl.training.history import Callback, Look, Row, examine
from epagcl.training.loop import train
from epagcl.training.protocol import Step, calibrate
from epagcl.views.sampling import Views


class NotTrained(InputError, NotFittedError):
    """A model was used before ``fit``. The class is also a ``NotFittedError``, as scikit-learn expects."""


#: Choices of the setting ``feature_scaling``.
FEATURE_SCALINGS = ("given", "row-sum", "row-max", "row-norm")


@method_settings
class Method(NotebookMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base class of all methods: an estimator with keyword-only settings.

    A subclass sets ``name``, ``title``, ``paper`` and ``cost_note``, declares its settings, and implements
    :meth:`build` and :meth:`loss`. Everything else has a default that suits most methods.

    Attributes:
        name: name of the method in recipes, files and on the command line.
        title: name of the method in tables.
        paper: reference of the paper.
        cost_note: time and memory of an epoch, and inputs beyond features and edges.
        supervised: whether ``fit`` reads labels.
        trained: whether ``fit`` minimises a loss. Otherwise ``fit`` only calls :meth:`calibrate`. It then ignores
            ``checkpoint``, ``callback`` and ``look``, and the method has no settings of training.
        has_validation_loss: whether :meth:`validation_loss` is defined; early stopping then uses it.
        decoupled_decay: whether the optimiser is AdamW in place of Adam.
        half_activations: whether a GPU may keep activations in fp16 during training (``precision``). The loss must be
            computed in float32. A subclass that replaces ``build``, ``loss`` or ``steps`` has to allow it again.
        uses_relations: whether the method uses kinds and directions of edges; otherwise ``fit`` merges them.
        runs_on_ranks: whether ``fit`` and ``embed`` work on several ranks (``epagcl.distributed``).
        saved_attributes: fitted attributes that :meth:`build` reads; they are saved with the model.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> model = epagcl.EPAGCL(epochs=2, hidden=8, dim=4, projection=4, device="cpu").fit(data)
        >>> model.embed(data).shape
        torch.Size([30, 4])
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    cost_note: ClassVar[str]
    supervised: ClassVar[bool] = False
    trained: ClassVar[bool] = True
    has_validation_loss: ClassVar[bool] = False
    decoupled_decay: ClassVar[bool] = False
    uses_relations: ClassVar[bool] = False
    half_activations: ClassVar[bool] = False
    runs_on_ranks: ClassVar[bool] = False
    saved_attributes: ClassVar[tuple[str, ...]] = ("num_features_",)

    epochs: int = setting(200, "training epochs; 0 leaves the encoder untrained")
    lr: float = setting(1e-3, "learning rate of Adam")
    weight_decay: float = setting(1e-4, "weight decay of Adam")
    patience: int = setting(
        0, "stop after this many epochs without a lower loss and restore the best weights; 0: run all epochs"
    )
    feature_scaling: str = setting(
        "given",
        "feature rows as given, or divided by their sum, their largest value or their length",
        FEATURE_SCALINGS,
    )
    seed: int = setting(0, "seed of the initial weights and of every view")
    device: str = setting("auto", "where to train", ("auto", "cpu", "cuda", "mps"))
    precision: str = setting(
        "auto",
        "precision of products, with sums in float32. GPU: that of the loss (auto: fp16); the network has tf32, in "
        "some methods fp16 activations with auto and fp16. CPU: fp32 or bf16; auto: bf16 if it has the instructions",
        ("auto", *PRECISIONS),
    )
    capture: str = setting(
        "auto", "replay an epoch as a CUDA graph, with the same result; auto: small graphs only", ("auto", "on", "off")
    )

    def __post_init__(self) -> None:
        self.validate()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        rename_attributes(cls)
        if "half_activations" not in vars(cls) and {"build", "loss", "steps"} & vars(cls).keys():
            cls.half_activations = False

    def set_params(self, **params: Any) -> Self:
        """Set settings by name, as in scikit-learn; :meth:`fit` validates them."""
        return super().set_params(**warn_of_old_names(params))

    def validate(self) -> None:
        """Raise unless every setting is valid.

        Called by the constructor, and by ``fit`` again because ``set_params`` may have changed a setting.
        """
        if undeclared := [name for name, value in vars(type(self)).items() if isinstance(value, dataclasses.Field)]:
            raise InputError(
                f"{type(self).__name__}: {undeclared[0]} is not a setting yet; decorate the class with @method_settings"
            )
        for field in dataclasses.fields(self):
            setattr(self, field.name, checked_setting(field, getattr(self, field.name)))
        self.check_at_least(0, "epochs", "weight_decay", "patience")
        if self.lr <= 0:
            raise InputError(f"lr={self.lr}: must be positive")
        self.check_at_least(0, "seed")

    def check_probabilities(self, *names: str) -> None:
        """Raise unless the named settings lie between 0 and 1."""
        for name in names:
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name}={getattr(self, name)}: a probability lies between 0 and 1")

    def check_at_least(self, least: float, *names: str) -> None:
        """Raise unless the named settings are at least ``least``."""
        for name in names:
            if getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)}: must be at least {least}")

    # The parts of a method, in the order in which training calls them.

    @abstractmethod
    def build(self, num_features: int) -> nn.Module:
        """Return the network. Its initial weights are drawn as from torch's global generator, seeded by the caller."""

    def prepare(self, graph: Graph) -> Any:
        """Return values that every call of :meth:`loss` needs. Called once, before training."""
        return None

    @abstractmethod
    def loss(self, network: Any, graph: Graph, prepared: Any, epoch: int | Tensor) -> Tensor:
        """Return the loss of one epoch. All randomness depends on (seed, epoch) alone.

        Args:
            network: the result of :meth:`build`.
            graph: the graph to train on.
            prepared: the result of :meth:`prepare`.
            epoch: number of the epoch. On CUDA it is a tensor on the device, so that a captured epoch can be replayed
                with another number.
        """

    def represent(self, network: Any, graph: Graph) -> Tensor:
        """Return the embedding: the output of the encoder on the unmodified graph."""
        return network.encoder(graph.x, graph.adjacency)

    # Defaults that few methods override.

    def parameters(self, network: Any) -> list[dict[str, Any]]:
        """Return the parameter groups of the optimiser; a group may have its own ``lr`` and ``weight_decay``."""
        return [{"params": [parameter for parameter in network.parameters() if parameter.requires_grad]}]

    def steps(self) -> list[Step]:
        """Return the optimiser steps of an epoch; the history records the loss of the first."""
        return [Step(self.loss)] if type(self).trained else []

    def lr_factor(self, epoch: Tensor) -> Tensor | None:
        """Return the factor of the learning rate in an epoch; None for a constant rate."""
        return None

    def after_epoch(self, network: Any, epoch: int | Tensor) -> None:
        """Update the network after the optimiser steps of an epoch."""
        return

    def calibrate(self, network: Any, graph: Graph) -> None:
        """Compute what :meth:`represent` needs besides trained weights, such as principal components.

        Called without gradient on the training graph: at the end of training, and before each measurement and look
        during training. The result belongs in buffers of the network, which are saved with the weights.
        """
        return

    def views(self, graph: Graph) -> Views | None:
        """Return the views whose edges the method samples, for reports; None if it samples none."""
        return None

    def validation_loss(self, network: Any, graph: Graph, prepared: Any) -> Tensor:
        """Return the loss on nodes that :meth:`loss` does not see; called if ``has_validation_loss``."""
        raise TypeError(f"{type(self).__name__} has no validation loss")

    # The estimator.

    def fit(
        self,
        data: "Data | GraphArrays",
        y: None = None,
        *,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        callback: Callback | None = None,
        look: Look | tuple[int, Callable[[int, Tensor], object]] | None = None,
        progress: bool = False,
    ) -> Self:
        """Train on a graph without reading its labels.

        Args:
            data: the graph; for methods that train on subgraphs, also a graph on disk.
            y: ignored; accepted because scikit-learn's pipelines pass it.
            checkpoint: file to which the state of training is written every few seconds. It is not removed at the end.
            resume: continue from ``checkpoint`` if that file exists.
            callback: called with the history row of each epoch; on a GPU, after several epochs have run.
            look: (every, function): after each ``every``-th epoch, the function is called with the number of epochs
                done and the current embedding (on subgraphs, of the first one). It does not change the training.
            progress: show epochs, loss and time left, in notebooks and in terminals.
        """
        self.validate()
        self.history_: list[Row] = []
        self.rotation_: Tensor | None = None
        shown = shown_progress(progress and type(self).trained, callback, type(self).title, self.epochs)
        with memory_advice(self.settings(), checkpoint), shown as callback:
            self._fit(data, checkpoint=checkpoint, resume=resume, callback=callback, look=look and Look(*look))
        return self

    def _fit(self, data: Any, *, checkpoint: str | Path | None, **options: Any) -> None:
        """Build the network for a graph and train it; ``options`` are those of the training loop."""
        device = resolve_device(self.device)
        whole = input_graph(self, check(data, labels=False), device, identified=checkpoint is not None)
        graph, self.relation_names_, self.relation_strengths_ = learn_relations(type(self), whole)
        self.num_features_ = graph.num_features
        self.feature_names_, self.encoding_ = column_names(data), data.get("encoding")
        self.weighted_: bool | None = has_weights(data)
        self.network_ = self.initial_network().to(device)
        if type(self).trained:
            self.history_ = train(self, self.network_, graph, checkpoint=checkpoint, **options)
        else:
            calibrate(self, self.network_, graph)

    @torch.no_grad()
    def embed(self, data: Data, *, nodes: NodesLike | None = None, hops: int | None = None) -> Tensor:
        """Return float32 embeddings ``[num_nodes, dim]`` of the training graph or any graph with the same columns.

        Feature columns are matched by name if both graphs have ``feature_names``, and encoded as in training if they
        come from a table. Otherwise they must be in the same order.

        Args:
            data: the graph; with ``nodes``, also a graph on disk, of which only the neighbourhood is read.
            nodes: embed only these nodes, in this order, from their neighbourhood; see ``epagcl.methods.local``.
            hops: size of the neighbourhood; None: as many as an encoder has layers, 2 if it has PageRank.
        """
        if nodes is not None:
            return embed_nodes(self, data, nodes, hops).z
        z = self._embed(data)
        tell_weights(self, data)
        return z

    def fit_embed(self, data: Data, **options: Any) -> Tensor:
        """Train on a graph and return its embeddings: ``fit(data).embed(data)``."""
        return self.fit(data, **options)._embed(data, quiet=True)  # fit has already logged the repairs of the graph

    def transform(self, data: Data) -> np.ndarray[Any, Any]:
        """Return :meth:`embed` as a NumPy array, for scikit-learn's pipelines."""
        return self.embed(data).cpu().numpy()

    def fit_transform(self, data: Data, y: None = None, **options: Any) -> np.ndarray[Any, Any]:
        """Train on a graph and return its embeddings as a NumPy array: ``fit(data).transform(data)``."""
        return self.fit_embed(data, **options).cpu().numpy()

    @property
    def _n_features_out(self) -> int:
        """Dimension of the embedding, for ``get_feature_names_out``, determined on a graph of two nodes."""
        return self._embed(two_nodes(self.num_features_, self.relation_names_), quiet=True).shape[1]

    def health(self, data: Data) -> list[Finding]:
        """Judge the embedding of a graph without labels: measures, verdicts and advice."""
        graph, positions = self._checked_graph(data, quiet=True), positions_in(self.feature_names_)
        return examine(self, self.fitted_network, graph, trained=type(self).trained, edges_known=positions)

    def save(self, folder: str | Path, **sections: dict[str, Any]) -> None:
        """Write ``config.toml`` (the method and its settings) and ``model.safetensors``; no pickle.

        The folder is created if it does not exist. ``sections`` are further tables of the configuration file.
        """
        save_model(self, folder, **sections)

    def load_weights(self, folder: str | Path, model: dict[str, Any]) -> Self:
        """Load the weights that :meth:`save` wrote; :func:`epagcl.load_model` calls this."""
        load_weights(self, folder, model)
        return self

    def settings(self) -> dict[str, Any]:
        """Return the name of the method and all its settings."""
        return {"name": type(self).name, **self.get_params()}

    def identity(self) -> dict[str, Any]:
        """Return the settings that must match to resume a checkpoint: all but ``device`` and ``capture``."""
        return {key: value for key, value in self.settings().items() if key not in ("device", "capture")}

    @classmethod
    def setting_fields(cls) -> "list[dataclasses.Field[Any]]":
        """Return the declared settings: first the settings of this method, then the settings that all methods share."""
        shared = {field.name for field in dataclasses.fields(Method)}
        fields = [field for field in dataclasses.fields(cls) if field.init]
        return sorted(fields, key=lambda field: field.name in shared)

    @classmethod
    def summary(cls) -> str:
        """Return the first line of the method's docstring."""
        return (cls.__doc__ or "").strip().split("\n")[0]

    @torch.no_grad()
    def _embed(self, data: Data, quiet: bool = False) -> Tensor:
        network = self.fitted_network.eval()
        with memory_advice(self.settings()):
            graph = self._checked_graph(data, quiet)
            return rotated(graph.all_rows(self.represent(network, graph)), self.rotation_).to(data.edge_index.device)

    def _checked_graph(self, data: Data, quiet: bool, *, checked: bool = False) -> Graph:
        """Return a graph to embed: checked, with the training columns in their order, on the network's device."""
        device = device_of(self.fitted_network)
        data = data if checked else check(data, quiet=quiet, labels=False)
        data = match_columns(data, self.feature_names_, self.num_features_, self.encoding_)
        return apply_relations(self, input_graph(self, data, device), quiet=quiet)

    def initial_network(self) -> nn.Module:
        """Return the untrained network with the initial weights of the seed."""
        return initial_network(self)

    @property
    def fitted_network(self) -> nn.Module:
        """The trained network; :class:`NotTrained` is raised if there is none."""
        if not hasattr(self, "network_"):
            raise NotTrained(f"this {type(self).__name__} is not trained; call fit(data) first")
        return self.network_
