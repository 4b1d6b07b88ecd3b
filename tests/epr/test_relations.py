import pytest
import torch
from torch_geometric.data import Data

from epagcl import error_passing_rate
from epagcl.core.errors import InputError
from epagcl.data import check
from epagcl.epr import relation_rates
from tests.conftest import random_edges


def typed(seed: int, weighted: bool = False) -> tuple[Data, list[torch.Tensor]]:
    """Return a graph with two kinds of edges, and the pairs of each."""
    parts = [random_edges(20, 0.2, seed), random_edges(20, 0.1, seed + 50)]
    data = Data(edge_index=torch.cat(parts, dim=1), num_nodes=20)
    data.y = torch.randint(3, (20,), generator=torch.Generator().manual_seed(seed))
    data.edge_type = torch.cat([torch.full((part.shape[1],), k) for k, part in enumerate(parts)])
    if weighted:
        data.edge_weight = torch.rand(data.num_edges, generator=torch.Generator().manual_seed(seed)) + 0.1
    return data, parts


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weighted", [False, True])
def test_a_kind_has_the_rate_of_its_edges_alone(seed, weighted):
    data, parts = typed(seed, weighted)
    rates = relation_rates(check(data, quiet=True, features=False))
    for kind, (relation, pairs) in enumerate(zip(rates, parts, strict=True)):
        weight = data.edge_weight[data.edge_type == kind] if weighted else None
        assert (relation.name, relation.edges) == (str(kind), pairs.shape[1])
        for per in ("node", "edge"):
            expected = error_passing_rate(pairs, data.y, per=per, edge_weight=weight)
            assert getattr(relation.epr, f"per_{per}") == pytest.approx(expected, abs=1e-6)


def test_directions_differ_by_who_receives():
    edges = torch.tensor([[0, 1, 2], [3, 3, 3]])  # three nodes point to one
    data = check(Data(edge_index=edges, y=torch.tensor([0, 0, 1, 0]), directed="both"), features=False)
    out, into = relation_rates(data)
    assert (out.name, out.edges, into.name) == ("out", 3, "in")
    assert out.epr.per_node == pytest.approx(1 / 3)  # of the three that receive, one from another class
    assert into.epr.per_node == pytest.approx(1 / 3)  # the only receiver has one wrong message of three
    assert out.epr.per_edge == pytest.approx(1 / 3)


def test_nodes_without_label_and_graphs_without_labels():
    edges = torch.tensor([[0, 1, 2], [1, 2, 3]])
    data = Data(edge_index=edges, edge_type=torch.tensor([0, 0, 1]), y=torch.tensor([0, 1, -1, -1]))
    first, second = relation_rates(check(data, quiet=True, features=False))
    assert first.epr.per_edge == 1
    assert second.epr is None
    del data.y
    assert [each.epr for each in relation_rates(check(data, quiet=True, features=False))] == [None, None]
    del data.edge_type
    assert relation_rates(check(data, quiet=True, features=False)) == []


def test_relations_that_do_not_fit_are_refused():
    data = Data(edge_index=torch.tensor([[0], [1]]), edge_relation=torch.ones(2, 1), relation_names=["a"])
    with pytest.raises(InputError, match="edge_relation has 2 rows for 1 edges"):
        relation_rates(data)
