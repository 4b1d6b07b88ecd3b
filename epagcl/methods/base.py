"""What every method is: an estimator with keyword-only settings, ``fit``, ``embed`` and ``save``."""

import dataclasses
import inspect
import warnings
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
from epagcl.data.graph import Graph, row_normalise
from epagcl.evaluation.health import Finding, judge
from epagcl.losses.infonce.loss import PRECISIONS
from epagcl.methods.columns import column_names, match_columns
from epagcl.methods.persistence import load_weights, save_model
from epagcl.methods.settings import checked_setting, method_settings, setting, warn_of_old_names
from epagcl.training.history import Callback, Look, Row, measure
from epagcl.training.loop import train
from epagcl.training.protocol import Step
from epagcl.views.sampling import Views


class NotTrained(InputError, NotFittedError):
    """``fit`` comes first; scikit-learn's tools look for their own class of this error."""


#: Class attributes that earlier versions had under another name.
RENAMED_ATTRIBUTES = {"validates": "has_validation_loss", "fitted": "saved_attributes", "needs": "cost_note"}


@method_settings
class Method(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of all methods. A method says how its network is built and what its loss is; the rest is shared.

    A subclass sets ``name``, ``title``, ``paper`` and ``needs``, adds settings, and implements :meth:`build` and
    :meth:`loss`; all else has a default that fits most methods.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    cost_note: ClassVar[str]  # beside features and edges, and what an epoch costs
    supervised: ClassVar[bool] = False  # whether ``fit`` reads labels
    has_validation_loss: ClassVar[bool] = (
        False  # whether there is a validation loss; it is watched in place of the loss
    )
    decoupled_decay: ClassVar[bool] = False  # AdamW in place of Adam
    saved_attributes: ClassVar[tuple[str, ...]] = (
        "num_features_",
    )  # what :meth:`build` reads, so that models can be loaded

    epochs: int = setting(200, "training epochs; 0 leaves the encoder untrained")
    lr: float = setting(1e-3, "learning rate of Adam")
    weight_decay: float = setting(1e-4, "weight decay of Adam")
    patience: int = setting(
        0, "stop after this many epochs without a lower loss, and take the weights of the lowest; 0: all epochs"
    )
    feature_scaling: str = setting(
        "given",
        "feature rows as given, or divided by their sum or by their largest value",
        ("given", "row-sum", "row-max"),
    )
    seed: int = setting(0, "seed of the initial weights and of every view")
    device: str = setting("auto", "where to train", ("auto", "cpu", "cuda", "mps"))
    precision: str = setting(
        "auto",
        "of products on a GPU, sums in float32: fp16 and bf16 for the loss with tf32 for the network; auto: fp16; "
        "a CPU has fp32",
        ("auto", *PRECISIONS),
    )
    capture: str = setting(
        "auto", "replay an epoch as a CUDA graph, with the same result; auto: small graphs", ("auto", "on", "off")
    )

    def __post_init__(self) -> None:
        self.validate()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for old, new in RENAMED_ATTRIBUTES.items():
            if old in vars(cls):
                warnings.warn(f"{cls.__name__}.{old} is now {new}", DeprecationWarning, stacklevel=2)
                setattr(cls, new, vars(cls)[old])

    def set_params(self, **params: Any) -> Self:
        """Set settings by name, as scikit-learn does; :meth:`fit` checks them."""
        return super().set_params(**warn_of_old_names(params))

    def validate(self) -> None:
        """Raise unless every setting can be used; ``fit`` asks again, since ``set_params`` may have changed some."""
        if forgotten := [name for name, value in vars(type(self)).items() if isinstance(value, dataclasses.Field)]:
            raise InputError(
                f"{type(self).__name__}: {forgotten[0]} is no setting yet; put @method_settings above the class"
            )
        for field in dataclasses.fields(self):
            setattr(self, field.name, checked_setting(field, getattr(self, field.name)))
        self.check_at_least(0, "epochs", "weight_decay", "patience")
        if self.lr <= 0:
            raise InputError(f"lr={self.lr}: must be positive")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed={self.seed}: must be 0 or more, and below 2⁶³")

    def check_probabilities(self, *names: str) -> None:
        """Raise unless these settings lie between 0 and 1."""
        for name in names:
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name}={getattr(self, name)}: a probability lies between 0 and 1")

    def check_at_least(self, least: float, *names: str) -> None:
        """Raise unless these settings are that large."""
        for name in names:
            if getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)}: must be at least {least}")

    # What a method is made of, in the order training uses it.

    @abstractmethod
    def build(self, num_features: int) -> nn.Module:
        """The network, with its initial weights drawn from torch's global generator (seeded by the caller)."""

    def prepare(self, graph: Graph) -> Any:
        """What is computed once before training and handed to every :meth:`loss`."""
        return None

    @abstractmethod
    def loss(self, network: nn.Module, graph: Graph, prepared: Any, epoch: int | Tensor) -> Tensor:
        """The loss of one epoch. All randomness comes from (seed, epoch), none from what went before.

        On CUDA ``epoch`` is a number on the device: a captured epoch is replayed with the next one.
        """

    def represent(self, network: nn.Module, graph: Graph) -> Tensor:
        """The embedding of a graph's nodes: the encoder on the graph as it is."""
        return network.encoder(graph.x, graph.adjacency)

    # What few methods change.

    def parameters(self, network: nn.Module) -> list[dict[str, Any]]:
        """Groups of parameters for Adam, each with settings of its own where they differ."""
        return [{"params": [parameter for parameter in network.parameters() if parameter.requires_grad]}]

    def steps(self) -> list[Step]:
        """The steps of an epoch; the loss of the first is what the history shows."""
        return [Step(self.loss)]

    def lr_factor(self, epoch: Tensor) -> Tensor | None:
        """What the learning rate is multiplied by in an epoch; None: a constant rate."""
        return None

    def after_epoch(self, network: nn.Module, epoch: int | Tensor) -> None:
        """What follows the steps of an epoch."""
        return

    def views(self, graph: Graph) -> Views | None:
        """How the method draws edges, for those who look at it; None for methods that draw none."""
        return None

    def validation_loss(self, network: nn.Module, graph: Graph, prepared: Any) -> Tensor:
        """For methods that ``has_validation_loss``: what is watched, on nodes that the loss does not see."""
        raise TypeError(f"{type(self).__name__} has no validation loss")

    # What users call.

    def fit(
        self,
        data: Data,
        y: None = None,
        *,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        callback: Callback | None = None,
        look: Look | tuple[int, Callable[[int, Tensor], object]] | None = None,
    ) -> Self:
        """Train on a graph. Labels, if it has any, are not read.

        Args:
            data: the graph.
            y: not used; here because scikit-learn's pipelines pass it.
            checkpoint: file to keep the state of training in, written every few seconds; it is the caller's to remove.
            resume: continue from ``checkpoint`` if it is there.
            callback: called with each epoch's history row; on a GPU some epochs at a time, after the last of them.
            look: (every, function): after each ``every``-th epoch the function is called with the number of epochs done
                and the embedding as it is then; training is the same with and without.
        """
        self.validate()
        device = resolve_device(self.device)
        graph = self._graph(check(data, labels=False), device)
        self.num_features_ = graph.num_features
        self.feature_names_ = column_names(data)
        self.network_ = self.initial_network().to(device)
        self.history_: list[Row] = train(
            self,
            self.network_,
            graph,
            checkpoint=checkpoint,
            resume=resume,
            callback=callback,
            look=None if look is None else Look(*look),
        )
        return self

    @torch.no_grad()
    def embed(self, data: Data) -> Tensor:
        """Embeddings ``[num_nodes, dim]``, float32, of this or any other graph with the same feature columns.

        Where both graphs name their columns (``feature_names``), they are matched by name, else they must have the
        same order.
        """
        return self._embed(data)

    def fit_embed(self, data: Data, **options: Any) -> Tensor:
        """``fit(data).embed(data)``."""
        return self.fit(data, **options)._embed(data, quiet=True)  # fit has said what there is to say of the graph

    def transform(self, data: Data) -> np.ndarray:
        """:meth:`embed` as a NumPy array, for scikit-learn's pipelines."""
        return self.embed(data).cpu().numpy()

    def fit_transform(self, data: Data, y: None = None, **options: Any) -> np.ndarray:
        """``fit(data).transform(data)``."""
        return self.fit_embed(data, **options).cpu().numpy()

    @property
    def _n_features_out(self) -> int:
        """Dimensions of the embedding, for ``get_feature_names_out``: asked of the smallest graph there is."""
        pair = Data(x=torch.ones(2, self.num_features_), edge_index=torch.tensor([[0, 1], [1, 0]]))
        return self._embed(pair, quiet=True).shape[1]

    def health(self, data: Data) -> list[Finding]:
        """What the embedding of a graph shows of its training without labels: measures, verdicts and words."""
        network = self.fitted_network
        graph = self._checked_graph(data, quiet=True)
        return judge(measure(self, network, graph), *self._embed(data, quiet=True).shape, self.num_features_)

    def save(self, folder: str | Path, **sections: dict[str, Any]) -> None:
        """Write ``config.toml`` (the method and its settings) and ``model.safetensors``; no pickle.

        Further ``sections`` become tables of the configuration file.
        """
        save_model(self, folder, **sections)

    def load_weights(self, folder: str | Path, model: dict[str, Any]) -> Self:
        """Load the weights that :meth:`save` wrote; :func:`epagcl.load_model` calls this."""
        load_weights(self, folder, model)
        return self

    def settings(self) -> dict[str, Any]:
        """The method's name and all its settings."""
        return {"name": type(self).name, **self.get_params()}

    def identity(self) -> dict[str, Any]:
        """What a checkpoint belongs to: the settings, all but where and how it runs."""
        return {key: value for key, value in self.settings().items() if key not in ("device", "capture")}

    @classmethod
    def setting_fields(cls) -> list[dataclasses.Field]:
        """The settings in reading order: what is the method's own first, then what all methods share."""
        shared = {field.name for field in dataclasses.fields(Method)}
        return sorted(dataclasses.fields(cls), key=lambda field: field.name in shared)

    @classmethod
    def summary(cls) -> str:
        """First line of the method's documentation."""
        return inspect.cleandoc(cls.__doc__ or "").split("\n")[0]

    @torch.no_grad()
    def _embed(self, data: Data, quiet: bool = False) -> Tensor:
        network = self.fitted_network.eval()
        return self.represent(network, self._checked_graph(data, quiet)).to(data.edge_index.device)

    def _checked_graph(self, data: Data, quiet: bool) -> Graph:
        """A graph to embed, with the columns of training, where the network is."""
        device = next(self.fitted_network.parameters()).device
        checked = check(data, quiet=quiet, labels=False)
        return self._graph(match_columns(checked, self.feature_names_, self.num_features_), device)

    def _graph(self, data: Data, device: torch.device) -> Graph:
        if self.feature_scaling != "given":
            data = data.clone().update({"x": row_normalise(data.x, self.feature_scaling.removeprefix("row-"))})
        return Graph.from_data(data, device)

    def initial_network(self) -> nn.Module:
        """Build the network with the initial weights of the seed."""
        # Drawn on the CPU whatever the device, so that a seed means the same weights everywhere.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return self.build(self.num_features_)

    @property
    def fitted_network(self) -> nn.Module:
        """The trained network; raise if there is none."""
        if not hasattr(self, "network_"):
            raise NotTrained(f"this {type(self).__name__} is not trained; call fit(data) first")
        return self.network_
