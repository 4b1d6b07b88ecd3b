"""Relations in methods: how much each says about the features, measured without labels, and their mixture."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.data.graph import Graph
from epagcl.data.relations import relation_words
from epagcl.diffusion import relation_mean
from epagcl.epr.estimate import estimated_epr, shared_signal

if TYPE_CHECKING:
    from epagcl.methods.base import Method

#: If no relation differs more from random messages than this, features do not tell which is informative.
LEAST_STRENGTH = 0.02
#: The least weight of a pair in the mixture. A pair keeps a weight, so that all methods know the same pairs.
LEAST_WEIGHT = 0.01


@torch.no_grad()
def relation_strengths(graph: Graph) -> list[float]:
    r"""Return how much each relation says about the features, from −1 to 1, without labels.

    The strength of a relation is 1 − r, where r is the estimate of its EPR relative to random messages
    (:func:`~epagcl.epr.estimated_epr`), divided by the largest absolute value over all relations. It is 0 for random
    edges, positive if messages come from nodes of the same kind, and negative if they come from nodes of other kinds.
    If no relation differs from random edges, or features are too few to tell, all strengths are 1.

    Args:
        graph: a graph with relations.

    Examples:
        Of two kinds of edges, one joins nodes of the same class and the other random nodes:

        >>> from epagcl.data import block_model, check
        >>> words = {"num_classes": 4, "num_features": 200, "topic_words": 40, "topic_share": 0.3}
        >>> parts = [block_model(400, homophily=h, seed=seed, **words) for seed, h in enumerate((0.9, 0.25))]
        >>> data = parts[0].clone()
        >>> data.edge_index = torch.cat([part.edge_index for part in parts], dim=1)
        >>> data.edge_type = torch.cat([torch.full((part.num_edges,), k) for k, part in enumerate(parts)])
        >>> [round(strength, 1) for strength in relation_strengths(Graph.from_data(check(data, quiet=True)))]
        [1.0, 0.0]
    """
    signal = shared_signal(graph.x)
    count = len(graph.relation_names)
    if signal is None:
        return [1.0] * count
    strengths = [1 - estimated_epr(relation_mean(graph, relation), signal) for relation in range(count)]
    largest = max(abs(strength) for strength in strengths)
    return [1.0] * count if largest < LEAST_STRENGTH else [strength / largest for strength in strengths]


def mixed(graph: Graph, strengths: list[float]) -> Graph:
    """Return a graph whose pairs are weighted by the strengths of their relations; without strengths, merge them.

    A negative strength counts as 0: neighbours of another kind do not belong into an average with the node itself. If
    no strength is positive, all relations count equally.

    Args:
        graph: the graph.
        strengths: one per relation, or none to merge the relations.

    Examples:
        >>> relations = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
        >>> graph = Graph(torch.ones(3, 1), torch.tensor([[0, 1], [1, 2]]), 3, None, relations, ("mail", "call"))
        >>> mixed(graph, [1.0, 0.5]).weight
        tensor([1.3333, 0.6667])
    """
    if graph.relations is None or not strengths:
        return graph if graph.relations is None else replace(graph, relations=None, relation_names=())
    factors = [max(strength, 0.0) for strength in strengths] if max(strengths) > 0 else [1.0] * len(strengths)
    weight = torch.zeros_like(graph.relations[0, 0])
    for factor, relation in zip(factors, graph.relations, strict=True):
        weight += factor * relation.sum(0) / (relation > 0).sum(0).clamp(min=1)
    weight.clamp_(min=LEAST_WEIGHT)
    equal = bool((weight == weight[0]).all())
    return replace(graph, weight=None if equal else weight / weight.mean())


class Learned(NamedTuple):
    """The training graph as a method uses it, and the names and the strengths of its relations."""

    graph: Graph
    names: list[str]
    strengths: list[float]


def note_merged(cls: "type[Method]", names: Sequence[str], *, where: str = "") -> None:
    """Log that a method does not use the relations of a graph, if it has any.

    Args:
        cls: the method.
        names: the names of the relations.
        where: on which graphs other methods use them; all if empty.
    """
    if names:
        words = relation_words(names)
        verb = "merges" if "kinds" in words else "does not use"
        log.warning("%s %s %s; epagcl+ and propagated use them%s", cls.name, verb, words, where)


def learn_relations(cls: "type[Method]", graph: Graph) -> Learned:
    """Return the training graph as a method uses it: its relations mixed, or merged with a notice.

    Args:
        cls: the method.
        graph: the training graph.
    """
    if not cls.uses_relations:
        note_merged(cls, graph.relation_names)
    names = list(graph.relation_names) if cls.uses_relations else []
    strengths = relation_strengths(graph) if names else []
    return Learned(mixed(graph, strengths), names, strengths)


def apply_relations(model: "Method", graph: Graph, *, quiet: bool = False) -> Graph:
    """Return a graph to embed with the relations on which a model was trained, in their order and mixture.

    A relation that the graph does not have is empty there.

    Args:
        model: the trained model.
        graph: the graph.
        quiet: do not log relations that differ.

    Raises:
        InputError: if the model was trained on relations and the graph has none of them.
    """
    trained, names = model.relation_names_, graph.relation_names
    if not trained or tuple(trained) == names:
        return mixed(graph, model.relation_strengths_)
    missing, new = [name for name in trained if name not in names], [name for name in names if name not in trained]
    if len(missing) == len(trained) or graph.relations is None:
        has = f"are {', '.join(names)}" if names else "have neither kinds nor directions"
        fix = "give edge_type and relation_names, or directed (--type, --directed)"
        raise InputError(f"the model was trained on the edges {', '.join(trained)}, those of the graph {has}; {fix}")
    if missing and not quiet:
        log.warning("the graph has no edges %s, on which the model was trained", ", ".join(missing))
    if new and not quiet:
        log.warning("the model does not know the edges %s; they are left out of its mixture", ", ".join(new))
    empty = torch.zeros_like(graph.relations[:1])
    order = [names.index(name) if name in names else -1 for name in trained]
    relations = torch.cat([graph.relations, empty])[order]
    return mixed(replace(graph, relations=relations, relation_names=tuple(trained)), model.relation_strengths_)


def two_nodes(num_features: int, relation_names: list[str]) -> Data:
    """Return a graph of one edge with the columns and the relations of a training graph.

    Examples:
        >>> two_nodes(3, ["mail"])
        Data(x=[2, 3], edge_index=[2, 2], edge_relation=[2, 1], relation_names=[1])
    """
    pair = Data(x=torch.ones(2, num_features), edge_index=torch.tensor([[0, 1], [1, 0]]))
    if relation_names:
        pair.edge_relation, pair.relation_names = torch.ones(2, len(relation_names)), relation_names
    return pair
