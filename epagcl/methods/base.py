"""What every method is: an estimator with keyword-only settings, ``fit``, ``embed`` and ``save``."""

import dataclasses
import inspect
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform, get_type_hints

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn
from torch_geometric.data import Data

from epagcl import __version__
from epagcl.config import write_config
from epagcl.data.check import check
from epagcl.data.graph import Graph, row_normalise
from epagcl.errors import InputError
from epagcl.files import atomic_path
from epagcl.hardware import resolve_device
from epagcl.health import Finding, judge
from epagcl.losses import PRECISIONS
from epagcl.training import Callback, Look, Row, health, train
from epagcl.views import Views

#: The types of settings, as people call them.
TYPE_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def setting(default: Any, meaning: str, choices: tuple[str, ...] = ()) -> Any:
    """A method's setting: default and one line that the command line and the documentation show."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, "choices": choices})


@dataclass_transform(kw_only_default=True, field_specifiers=(setting,))
def method_settings(cls: type) -> type:
    """Make a method's annotated settings its keyword-only constructor arguments."""
    made = dataclasses.dataclass(kw_only=True, eq=False, repr=False)(cls)
    types = get_type_hints(made)  # words where a module has `from __future__ import annotations`
    for field in dataclasses.fields(made):
        field.type = types[field.name]
        if field.type not in TYPE_WORDS:
            raise InputError(f"{made.__name__}.{field.name}: a setting is an int, float, bool or str, no {field.type}")
    return made


class NotTrained(InputError, NotFittedError):
    """``fit`` comes first; scikit-learn's tools look for their own class of this error."""


class Step(NamedTuple):
    """One step of the optimiser in an epoch: a loss, and which group of parameters it moves (None: all)."""

    loss: Callable[[nn.Module, Graph, Any, int | Tensor], Tensor]
    group: int | None = None


@method_settings
class Method(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of all methods. A method says how its network is built and what its loss is; the rest is shared.

    A subclass sets ``name``, ``title``, ``paper`` and ``needs``, adds settings, and implements :meth:`build` and
    :meth:`loss`; all else has a default that fits most methods.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    needs: ClassVar[str]  # beside features and edges, and what an epoch costs
    supervised: ClassVar[bool] = False  # whether ``fit`` reads labels
    validates: ClassVar[bool] = False  # whether there is a validation loss; it is watched in place of the loss
    decoupled_decay: ClassVar[bool] = False  # AdamW in place of Adam
    fitted: ClassVar[tuple[str, ...]] = ("num_features_",)  # what :meth:`build` reads, so that models can be loaded

    epochs: int = setting(200, "training epochs; 0 leaves the encoder untrained")
    lr: float = setting(1e-3, "learning rate of Adam")
    weight_decay: float = setting(1e-4, "weight decay of Adam")
    patience: int = setting(
        0, "stop after this many epochs without a lower loss, and take the weights of the lowest; 0: all epochs"
    )
    features: str = setting(
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

    def __post_init__(self):
        self.validate()

    def validate(self) -> None:
        """Raise unless every setting can be used; ``fit`` asks again, since ``set_params`` may have changed some."""
        if forgotten := [name for name, value in vars(type(self)).items() if isinstance(value, dataclasses.Field)]:
            raise InputError(
                f"{type(self).__name__}: {forgotten[0]} is no setting yet; put @method_settings above the class"
            )
        for field in dataclasses.fields(self):
            setattr(self, field.name, _checked_setting(field, getattr(self, field.name)))
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
        """For methods that ``validates``: what is watched, on nodes that the loss does not see."""
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
        look: Look | None = None,
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
        self.feature_names_ = _column_names(data)
        self.network_ = self._initial_network().to(device)
        self.history_: list[Row] = train(
            self, self.network_, graph, checkpoint=checkpoint, resume=resume, callback=callback, look=look
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
        network = self._fitted_network()
        graph = self._checked_graph(data, quiet=True)
        return judge(health(self, network, graph), *self._embed(data, quiet=True).shape, self.num_features_)

    def save(self, folder: str | Path, **sections: dict[str, Any]) -> None:
        """Write ``config.toml`` (the method and its settings) and ``model.safetensors``; no pickle.

        Further ``sections`` go into the configuration as they are.
        """
        state = {key: value.detach().cpu().contiguous() for key, value in self._fitted_network().state_dict().items()}
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is a file; give the name of a folder")
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(folder / "model.safetensors") as path:
            save_file(state, path)
        kept = (*type(self).fitted, "feature_names_")
        model = {name.removesuffix("_"): getattr(self, name) for name in kept} | {"version": __version__}
        write_config(folder / "config.toml", {"method": self.settings(), "model": model, **sections})

    def load_weights(self, folder: str | Path, model: dict[str, Any]) -> Self:
        """Take over the weights that :meth:`save` wrote; :func:`epagcl.load_model` is the usual way."""
        path = Path(folder) / "model.safetensors"
        if not path.is_file():
            raise InputError(f"{folder}: no model.safetensors; give a folder that save() or `epagcl train` finished")
        for name in type(self).fitted:
            if name.removesuffix("_") not in model:
                raise InputError(f"{folder}/config.toml: [model] has no {name.removesuffix('_')}; was it edited?")
            setattr(self, name, model[name.removesuffix("_")])
        self.feature_names_ = model.get("feature_names")
        self.history_ = []  # that of its training is not kept with the weights
        self.network_ = self._initial_network()
        try:
            self.network_.load_state_dict(load_file(path))
        except (SafetensorError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{path}: not the weights that config.toml beside it describes ({reason})") from None
        self.network_.to(resolve_device(self.device)).eval()
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

    def _same_columns(self, data: Data) -> Data:
        """The graph with the feature columns of training, in their order."""
        names, trained = _column_names(data), self.feature_names_
        if names is not None and trained is not None and names != trained:
            position = {name: k for k, name in enumerate(names)}
            if missing := [name for name in trained if name not in position]:
                raise InputError(
                    f"the graph has no feature column {missing[0]!r}, on which the model was trained "
                    f"({len(missing)} of {len(trained)} are missing); give them, or leave out the names of all"
                )
            order = torch.tensor([position[name] for name in trained], device=data.x.device)
            x = data.x.index_select(1, order) if data.x.layout == torch.strided else _sparse_columns(data.x, order)
            return data.clone().update({"x": x, "feature_names": trained})
        if data.x.shape[1] != self.num_features_:
            raise InputError(
                f"the graph has {data.x.shape[1]} feature columns, the model was trained on {self.num_features_}"
            )
        return data

    @torch.no_grad()
    def _embed(self, data: Data, quiet: bool = False) -> Tensor:
        network = self._fitted_network().eval()
        return self.represent(network, self._checked_graph(data, quiet)).to(data.edge_index.device)

    def _checked_graph(self, data: Data, quiet: bool) -> Graph:
        """A graph to embed, with the columns of training, where the network is."""
        device = next(self._fitted_network().parameters()).device
        return self._graph(self._same_columns(check(data, quiet=quiet, labels=False)), device)

    def _graph(self, data: Data, device: torch.device) -> Graph:
        if self.features != "given":
            data = data.clone().update({"x": row_normalise(data.x, self.features.removeprefix("row-"))})
        return Graph.from_data(data, device)

    def _initial_network(self) -> nn.Module:
        # Drawn on the CPU whatever the device, so that a seed means the same weights everywhere.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return self.build(self.num_features_)

    def _fitted_network(self) -> nn.Module:
        if not hasattr(self, "network_"):
            raise NotTrained(f"this {type(self).__name__} is not trained; call fit(data) first")
        return self.network_


def _column_names(data: Data) -> list[str] | None:
    """What the graph calls its feature columns; None if two have one name, which then tells nothing."""
    names = data.get("feature_names")
    names = None if names is None else [str(name) for name in names]
    return names if names is None or len(set(names)) == len(names) else None


def _sparse_columns(x: Tensor, order: Tensor) -> Tensor:
    """Some columns of a CSR matrix, in that order."""
    place = torch.full((x.shape[1],), -1, device=x.device)
    place[order] = torch.arange(len(order), device=x.device)
    rows = torch.repeat_interleave(torch.arange(x.shape[0], device=x.device), x.crow_indices().diff())
    columns = place[x.col_indices()]
    kept = columns >= 0
    size = (x.shape[0], len(order))
    return torch.sparse_coo_tensor(torch.stack([rows, columns])[:, kept], x.values()[kept], size).to_sparse_csr()


def _checked_setting(field: dataclasses.Field, value: Any) -> Any:
    """A setting as its plain type (NumPy's numbers are taken, a whole number is a float too), of its choices."""
    kinds = {int: numbers.Integral, float: numbers.Real}
    wanted = kinds.get(field.type, field.type)
    if not isinstance(value, wanted) or (isinstance(value, bool) and field.type is not bool):
        raise InputError(f"{field.name}={value!r}: must be {TYPE_WORDS[field.type]}")
    if field.type is float and not math.isfinite(value):
        raise InputError(f"{field.name}={value!r}: must be a finite number")
    choices = field.metadata.get("choices")
    if choices and value not in choices and not (field.name == "device" and str(value).startswith("cuda:")):
        raise InputError(f"{field.name}={value!r}: choose one of {', '.join(choices)}")
    return value if type(value) in (int, float) else field.type(value)
