"""The error passing rate of common operators, and of the first layer of a trained encoder, on one graph."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.data.graph import Graph
from epagcl.diffusion import ALPHA, Diffusion, power, ppr, relation_ppr
from epagcl.epr.estimate import SharedSignal, effective_messages, estimated_epr, propagation_gain, shared_signal
from epagcl.epr.operators import Operator, chance_epr, layer_operator, operator_rates
from epagcl.epr.structure import structure_score
from epagcl.methods.base import Method
from epagcl.nn.encoders import PAGERANK, ScalesLayer
from epagcl.nn.propagation import PropagatedPCA

#: Operators by name, from raw features to the most distant messages.
OPERATORS: dict[str, Callable[[Graph], Diffusion]] = {
    "X": partial(power, k=0),
    "ÂX": partial(power, k=1),
    "Â²X": partial(power, k=2),
    "PageRank, α = 0.3": partial(ppr, alpha=0.3),
    "PageRank, α = 0.15": partial(ppr, alpha=ALPHA),
    "PageRank, α = 0.05": partial(ppr, alpha=0.05),
}
#: Principal components of the features for the structure score.
COMPONENTS = 64


@dataclass(frozen=True)
class OperatorRow:
    """The error passing rate of an operator, with a node's own message included. None stands for what is unknown.

    Attributes:
        name: the operator.
        per_node: EPR per node, see :func:`epagcl.epr.operator_epr`.
        per_edge: EPR per edge.
        relative: EPR per node / the EPR of messages from random nodes.
        estimate: the estimate of ``relative`` without labels, see :func:`epagcl.epr.estimated_epr`.
        messages: effective number of messages per node, see :func:`epagcl.epr.effective_messages`.
        gain: signal-to-noise ratio relative to raw features, see :func:`epagcl.epr.propagation_gain`.
        estimated_gain: the same from ``estimate``.

    Examples:
        >>> OperatorRow("X", 0.0, 0.0, 0.0, 0.0, messages=1.0, gain=1.0, estimated_gain=1.0).to_dict()["messages"]
        1.0
    """

    name: str
    per_node: float | None
    per_edge: float | None
    relative: float | None
    estimate: float | None
    messages: float
    gain: float | None
    estimated_gain: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def operator_row(
    name: str, operator: Operator, y: Tensor | None, signal: SharedSignal | None, like: Tensor
) -> OperatorRow:
    """Return the row of one operator.

    Args:
        name: of the operator.
        operator: M ≥ 0 as a function Y → MY.
        y: class of each node, −1 for none; or None.
        signal: of the features; or None.
        like: a tensor with one row per node on the operator's device.
    """
    messages = effective_messages(operator, like.shape[0], like.device)
    per_node = per_edge = relative = estimate = None
    if y is not None and bool((y >= 0).any()):
        rates, chance = operator_rates(operator, y.to(like.device)), chance_epr(y)
        per_node, per_edge = rates.per_node, rates.per_edge
        relative = per_node / chance if chance > 0 else None
    if signal is not None:
        estimate = estimated_epr(operator, signal)
    gain, estimated_gain = (None if r is None else propagation_gain(r, messages) for r in (relative, estimate))
    return OperatorRow(name, per_node, per_edge, relative, estimate, messages, gain, estimated_gain)


@dataclass(frozen=True)
class OperatorReport:
    """The operators of one graph, as :func:`operator_report` computes them.

    Attributes:
        rows: one per operator.
        structure: the structure score, see :func:`epagcl.epr.structure_score`; None without at least two feature
            columns that vary.

    Examples:
        >>> OperatorReport(rows=(), structure=0.5).structure
        0.5
    """

    rows: tuple[OperatorRow, ...]
    structure: float | None


@torch.no_grad()
def operator_report(data: Data, model: Method | None = None, device: torch.device | str = "cpu") -> OperatorReport:
    """Return the error passing rate of each of :data:`OPERATORS`, of relations, and of a trained model's first layers.

    With labels, the rates are exact. With features, they are also estimated without labels.

    Args:
        data: a checked graph; ``x`` and ``y`` may be absent.
        model: a trained model whose first layers :func:`first_layers` knows; needs features.
        device: device to compute on, unless there is a model, which has its own.

    Examples:
        >>> from epagcl.data import block_model
        >>> data = block_model(60, num_classes=3, num_features=24, topic_words=8, words_per_node=6)
        >>> report = operator_report(data)
        >>> [row.name for row in report.rows][:3], report.rows[0].per_node
        (['X', 'ÂX', 'Â²X'], 0.0)
    """
    if data.x is None:
        if model is not None:
            raise InputError("data has no features, which the first layer of model= needs; pass data with x")
        data = data.clone().update({"x": torch.zeros(data.num_nodes, 1)})
    if model is not None:
        device = next(iter(model.fitted_network.state_dict().values())).device
    graph = Graph.from_data(data, device)
    signal = shared_signal(graph.x)
    row = partial(operator_row, y=data.get("y"), signal=signal, like=graph.pairs.new_empty(graph.num_nodes, 0))
    rows = [row(name, operator(graph)) for name, operator in OPERATORS.items()]
    rows += [row(f"PageRank, {name}", relation_ppr(graph, k)) for k, name in enumerate(graph.relation_names)]
    structure = None
    if signal is not None:
        components = PropagatedPCA(graph.num_features, COMPONENTS, OPERATORS["X"]).to(device)
        components.fit(graph)
        structure = structure_score(graph.pairs, graph.num_nodes, components(graph))
    if model is not None:
        rows += [row(name, operator) for name, operator in first_layers(model, data)]
    return OperatorReport(tuple(rows), structure)


def first_layers(model: Method, data: Data) -> Iterator[tuple[str, Operator]]:
    """Yield the name of each first layer of a trained model, and its messages as an operator.

    - A GCN layer passes Â_ij x_j W between nodes, and a layer with root weights R also x_i R from a node to itself;
      see :func:`epagcl.epr.layer_operator`.
    - A layer of several scales S_k with their own weights W_k passes S_k,ij x_j W_k. These count as messages of their
      own: the weight is Σ_k S_k,ij ‖x_j W_k‖. PageRank is not truncated here.
    - Models that are trained side by side are summed in the same way.

    Args:
        model: a trained model with one or several encoders of these kinds.
        data: the graph.

    Examples:
        >>> from epagcl.data import block_model
        >>> from epagcl.methods.epagcl import EPAGCL
        >>> data = block_model(60, num_classes=3, num_features=24, topic_words=8, words_per_node=6)
        >>> model = EPAGCL(epochs=1, hidden=8, dim=4, projection=4, device="cpu").fit(data)
        >>> [name for name, _ in first_layers(model, data)]
        ['EPAGCL, first layer']
    """
    graph = model._checked_graph(data, quiet=True)
    found = False
    for path, encoder in model.fitted_network.named_modules():
        *parents, last = path.split(".")
        operators = _messages(encoder, graph) if last == "encoder" else None
        if operators is not None:
            found = True
            yield f"{model.title}{''.join(f', {name}' for name in parents)}, first layer", _sum(operators)
    if not found:
        fix = "pass a model with a GCN, residual, PageRank or multi-scale encoder"
        raise InputError(f"model= is {model.title}, whose first layer has no known messages; {fix}")


def _messages(encoder: nn.Module, graph: Graph) -> list[Operator] | None:
    """Return the operators whose sum are the messages of an encoder's first layer; None for other modules."""
    layers = getattr(encoder, "layers", None)
    layer = layers[0] if isinstance(layers, nn.ModuleList) else None
    layer = getattr(layer, "gcn", layer)  # a convolution inside a layer with a norm
    if isinstance(encoder, ScalesLayer):
        layer = encoder
    if isinstance(layer, ScalesLayer):
        scales = [ppr(graph, ALPHA) if scale == PAGERANK else power(graph, int(scale)) for scale in layer.scales]
        return [
            partial(_weighted, scale, (graph.x @ part).norm(dim=1, keepdim=True))
            for weight in layer.weight.detach().view(-1, *layer.weight.shape[-2:])
            for scale, part in zip(scales, weight.split(layer.widths, dim=1), strict=True)
        ]
    weight, root = getattr(layer, "weight", None), getattr(layer, "root", None)
    if not isinstance(weight, Tensor) or weight.dim() < 2:
        return None
    weights = weight.detach().view(-1, *weight.shape[-2:])
    roots = weights * 0 if root is None else root.detach().view_as(weights)
    loop = (1 / graph.whole_adjacency.rowptr.diff()).float()[:, None]  # Â_ii = 1/(d + 1)
    operators = []
    for w, r in zip(weights, roots, strict=True):
        neighbour = graph.x @ w
        own = loop * neighbour + graph.x @ r
        operators.append(layer_operator(graph.whole_adjacency, neighbour.norm(dim=1), own.norm(dim=1)))
    return operators


def _weighted(operator: Operator, norm: Tensor, h: Tensor) -> Tensor:
    """Return S (norm ∘ H)."""
    return operator(norm * h)


def _sum(operators: list[Operator]) -> Operator:
    """Return the sum of operators."""
    return lambda h: torch.stack([operator(h) for operator in operators]).sum(dim=0)
