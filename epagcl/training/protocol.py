"""The interface between a method and the training loop. :class:`epagcl.methods.Method` implements it."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from epagcl.data.graph import Graph

#: ``loss(network, graph, prepared, epoch)`` of one optimiser step.
LossFunction = Callable[[Any, Graph, Any, int | Tensor], Tensor]


class Step(NamedTuple):
    """One optimiser step of an epoch.

    Attributes:
        loss: the loss to minimise.
        group: index of the parameter group to update; None updates all groups.

    Examples:
        >>> Step(loss=lambda network, graph, prepared, epoch: network.weight.sum()).group is None
        True
    """

    loss: LossFunction
    group: int | None = None


class Trainable(Protocol):
    """The part of a method that the training loop uses; :class:`epagcl.methods.Method` documents each member.

    Methods are subclasses of :class:`epagcl.methods.Method` and satisfy this protocol without naming it.
    """

    epochs: int
    lr: float
    weight_decay: float
    patience: int
    seed: int
    precision: str
    capture: str

    @property
    def supervised(self) -> bool: ...  # noqa: D102
    @property
    def has_validation_loss(self) -> bool: ...  # noqa: D102
    @property
    def decoupled_decay(self) -> bool: ...  # noqa: D102
    @property
    def half_activations(self) -> bool: ...  # noqa: D102

    def prepare(self, graph: Graph) -> Any: ...  # noqa: D102
    def steps(self) -> list[Step]: ...  # noqa: D102
    def after_epoch(self, network: Any, epoch: int | Tensor) -> None: ...  # noqa: D102
    def calibrate(self, network: Any, graph: Graph) -> None: ...  # noqa: D102
    def validation_loss(self, network: Any, graph: Graph, prepared: Any) -> Tensor: ...  # noqa: D102
    def lr_factor(self, epoch: Tensor) -> Tensor | None: ...  # noqa: D102
    def parameters(self, network: Any) -> list[dict[str, Any]]: ...  # noqa: D102
    def represent(self, network: Any, graph: Graph) -> Tensor: ...  # noqa: D102
    def identity(self) -> dict[str, Any]: ...  # noqa: D102


@torch.no_grad()
def calibrate(method: Trainable, network: nn.Module, graph: Graph) -> None:
    """Call the method's ``calibrate`` on the training graph. The network is left in evaluation mode."""
    method.calibrate(network.eval(), graph)


@torch.no_grad()
def embedding_of(method: Trainable, network: nn.Module, graph: Graph) -> Tensor:
    """Return the embedding with the current weights, without gradient. The network is left in evaluation mode.

    The result has all rows on every rank, if the graph is spread over several.
    """
    return graph.all_rows(method.represent(network.eval(), graph))
