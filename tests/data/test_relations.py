import pytest
import torch
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.data.relations import MOST_KINDS


def messages(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def graph(edges, **attributes) -> Data:
    edge_index = torch.tensor(edges).T
    return Data(x=torch.eye(int(edge_index.max()) + 1), edge_index=edge_index, **attributes)


def dense(data, relation) -> torch.Tensor:
    """Return the matrix of a relation: row i has the messages that node i receives."""
    matrix = torch.zeros(data.num_nodes, data.num_nodes)
    matrix[data.edge_index[0], data.edge_index[1]] = data.edge_relation[:, relation]
    return matrix


def test_each_kind_is_a_relation_and_the_graph_is_merged(caplog):
    edges = [(0, 1), (1, 2), (0, 1), (2, 1), (2, 3)]
    data = check(graph(edges, edge_type=torch.tensor([0, 0, 2, 2, 2]), relation_names=["mail", "never", "call"]))
    plain = check(graph(edges))
    assert data.edge_index.equal(plain.edge_index)
    assert "edge_weight" not in data
    assert data.relation_names == ["mail", "call"]
    mail, call = torch.zeros(4, 4), torch.zeros(4, 4)
    for matrix, pairs in ((mail, [(0, 1), (1, 2)]), (call, [(0, 1), (1, 2), (2, 3)])):
        for i, j in pairs:
            matrix[i, j] = matrix[j, i] = 1
    assert dense(data, 0).equal(mail)
    assert dense(data, 1).equal(call)
    # 0-1 and 1-2 occur in both kinds, so no edge is a duplicate. The second graph has one.
    assert sum("duplicate" in message for message in messages(caplog)) == 1


@pytest.mark.parametrize(("directed", "names"), [("both", ["out", "in"]), ("out", ["out"]), ("in", ["in"])])
def test_directions_are_a_matrix_and_its_transpose(directed, names):
    edges = [(0, 1), (0, 2), (2, 0), (3, 1)]
    out = torch.zeros(4, 4)
    out[tuple(torch.tensor(edges).T)] = 1
    data = check(graph(edges, directed=directed))
    assert data.relation_names == names
    for number, name in enumerate(names):
        assert dense(data, number).equal(out if name == "out" else out.T)
    assert data.edge_index.equal(check(graph(edges)).edge_index)
    assert "directed" not in data


def test_kinds_and_directions_together():
    data = check(graph([(0, 1), (1, 2)], edge_type=torch.tensor([0, 1]), relation_names=["a", "b"], directed="both"))
    assert data.relation_names == ["a:out", "b:out", "a:in", "b:in"]
    assert dense(data, 1).nonzero().tolist() == [[1, 2]]
    assert dense(data, 2).nonzero().tolist() == [[1, 0]]


def test_weights_are_relative_to_the_mean_of_their_relation():
    kinds = torch.tensor([0, 0, 0, 1])
    edges = [(0, 1), (1, 0), (1, 2), (2, 3)]
    data = check(graph(edges, edge_type=kinds, edge_weight=torch.tensor([1.0, 3.0, 6.0, 100.0])))
    # The pair 0-1 has the weights 1 and 3, whose mean is 2. The mean of 2 and 6 is 4.
    assert dense(data, 0)[0, 1] == dense(data, 0)[1, 0] == 0.5
    assert dense(data, 0)[1, 2] == 1.5
    assert dense(data, 1)[2, 3] == 1
    out = check(graph(edges, edge_weight=torch.tensor([1.0, 3.0, 6.0, 6.0]), directed="out"))
    assert dense(out, 0)[dense(out, 0) > 0].tolist() == [0.25, 0.75, 1.5, 1.5]


def test_edges_of_weight_0_belong_to_no_relation():
    weight = torch.tensor([1.0, 0.0, 2.0])
    data = check(graph([(0, 1), (1, 2), (0, 2)], edge_type=torch.tensor([0, 1, 1]), edge_weight=weight), quiet=True)
    assert dense(data, 1).nonzero().tolist() == [[0, 2], [2, 0]]


@pytest.mark.parametrize("attributes", [{"directed": "both"}, {"edge_type": torch.tensor([0, 1, 1, 0])}])
def test_checking_twice_changes_no_bit(attributes):
    weight = torch.tensor([1.0, 2.5, 0.3, 7.0])
    data = check(graph([(0, 1), (0, 2), (2, 0), (3, 1)], edge_weight=weight, **attributes))
    again = check(data)
    assert again.edge_relation.equal(data.edge_relation)
    assert again.relation_names == data.relation_names


@pytest.mark.parametrize("attributes", [{}, {"directed": "symmetric"}, {"edge_type": torch.tensor([3, 3])}])
def test_one_kind_without_direction_is_no_relation(attributes):
    data = check(graph([(0, 1), (1, 2)], **attributes))
    assert "edge_relation" not in data
    assert "relation_names" not in data
    assert Graph.from_data(data).fingerprint == Graph.from_data(check(graph([(0, 1), (1, 2)]))).fingerprint


def test_edges_in_both_directions_have_no_direction(caplog):
    data = check(graph([(0, 1), (1, 0)], directed="both"))
    assert "edge_relation" not in data
    assert messages(caplog) == ["graph: every edge is given in both directions, so directed=both changes nothing"]


def test_the_rarest_of_many_kinds_are_merged(caplog):
    kind = torch.cat([torch.arange(20), torch.arange(MOST_KINDS - 1)])
    edges = [(k, k + 1) for k in range(len(kind))]
    data = check(graph(edges, edge_type=kind))
    assert data.relation_names == [*map(str, range(MOST_KINDS - 1)), "other"]
    assert int((data.edge_relation[:, -1] > 0).sum()) == 2 * (20 - MOST_KINDS + 1)
    assert messages(caplog) == ["graph: 20 kinds of edges; the 5 rarest are merged into 'other'"]


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"edge_type": torch.tensor([0.0, 1.0])}, r"edge_type is \(2,\) of torch.float32; give one integer per edge"),
        ({"edge_type": torch.tensor([0])}, r"edge_type is \(1,\) of torch.int64; give one integer per edge, \(2,\)"),
        ({"edge_type": torch.tensor([0, -1])}, "edge_type has the value -1; kinds are numbered from 0"),
        ({"edge_type": torch.tensor([0, 1]), "relation_names": ["a"]}, "1 relation_names for 2 kinds"),
        ({"edge_type": torch.tensor([0, 1]), "relation_names": ["a", "a"]}, "give each kind a name"),
        ({"directed": "forwards"}, "directed='forwards' is unknown; give one of symmetric, both, in, out"),
        ({"edge_relation": torch.ones(3, 1)}, r"edge_relation is \(3, 1\); give one row per edge, 2"),
        ({"edge_relation": -torch.ones(2, 1)}, "edge_relation has wrong values"),
    ],
)
def test_wrong_relations_are_refused(attributes, words):
    with pytest.raises(InputError, match=words):
        check(graph([(0, 1), (1, 2)], **attributes))


def test_the_graph_of_methods_has_the_same_matrices():
    data = check(graph([(0, 1), (0, 2), (2, 0), (3, 1)], directed="both"))
    inner = Graph.from_data(data)
    assert inner.relation_names == ("out", "in")
    for relation in (0, 1):
        assert inner.related(relation).to_dense().equal(dense(data, relation))
    assert inner.related(0) is inner.related(0)
    shuffled = data.clone()
    order = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(0))
    shuffled.edge_index, shuffled.edge_relation = data.edge_index[:, order], data.edge_relation[order]
    assert Graph.from_data(shuffled).relations.equal(inner.relations)


def test_a_subsample_keeps_the_relations_of_its_pairs():
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(30, (80, 2), generator=generator).tolist()
    inner = Graph.from_data(check(graph([*edges, (29, 0)], directed="both"), quiet=True))
    part = inner.subsample(0.5, view=0)
    kept = ~inner.hidden(0.5, view=0)[0]
    assert part.relations.equal(inner.relations[..., kept])
    assert part.relation_names == inner.relation_names


def test_the_fingerprint_depends_on_relations_and_their_names():
    edges = [(0, 1), (1, 2)]
    variants = [
        {},
        {"directed": "both"},
        {"directed": "out"},
        {"directed": "in"},
        {"edge_type": torch.tensor([0, 1])},
        {"edge_type": torch.tensor([0, 1]), "relation_names": ["a", "b"]},
        {"edge_type": torch.tensor([1, 0]), "relation_names": ["a", "b"]},
    ]
    prints = {Graph.from_data(check(graph(edges, **attributes))).fingerprint for attributes in variants}
    assert len(prints) == len(variants)


def test_a_kind_that_is_called_other_stays_apart_from_the_merged_ones(caplog):
    edges = [(k, k + 1) for k in range(60)]
    kinds = torch.tensor([0] * 40 + list(range(1, 21)))
    names = ["other", *(f"k{k}" for k in range(1, 21))]
    data = check(graph(edges, edge_type=kinds, relation_names=names))
    assert data.relation_names == ["other", *(f"k{k}" for k in range(1, 15)), "other*"]
    assert check(data, quiet=True).relation_names == data.relation_names
    assert "the 6 rarest are merged into 'other*'" in caplog.text
