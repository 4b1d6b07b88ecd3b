import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

import epagcl
from epagcl.core.errors import InputError
from epagcl.data.structural.features import KINDS, ROLES, structural_features, with_structural_features

EDGES = torch.tensor(sorted(nx.karate_club_graph().edges)).T


def test_columns_and_names():
    x, names = structural_features(EDGES, dim=24)
    assert x.shape == (34, 24)
    assert x.dtype == torch.float32
    assert names[:4] == ["degree", "pagerank", "core", "clustering"]
    assert names[4:12] == [f"returns_{k}" for k in range(2, 10)]
    assert names[12:] == [f"walks_{k}" for k in range(12)]
    assert torch.isfinite(x).all()


def test_positions_share_the_columns():
    _, names = structural_features(EDGES, kinds=("walks", "degree", "projection"), dim=10)
    assert names == [*(f"walks_{k}" for k in range(5)), "degree", *(f"projection_{k}" for k in range(4))]


def test_small_graphs_have_no_more_positions_than_nodes():
    x, _ = structural_features(torch.tensor([[0, 1], [1, 2]]), kinds=("walks", "spectral"), dim=128)
    assert x.shape == (3, 6)


def test_edges_in_any_form_give_the_same():
    both = torch.cat([EDGES, EDGES.flip(0)], 1)[:, torch.randperm(2 * EDGES.shape[1])]
    data = Data(edge_index=EDGES, num_nodes=34)
    expected = structural_features(EDGES).x
    for graph in (both, data):
        assert torch.equal(structural_features(graph).x, expected)
    assert structural_features(EDGES, 40).x.shape[0] == 40


def test_seeds():
    assert torch.equal(structural_features(EDGES, seed=1).x, structural_features(EDGES, seed=1).x)
    assert not torch.equal(structural_features(EDGES, seed=1).x, structural_features(EDGES, seed=2).x)


def test_positions_have_rows_of_unit_length():
    for kind in ("walks", "spectral", "projection"):
        x = structural_features(EDGES, kinds=(kind,), dim=8).x
        assert float(x.square().sum(1).mean()) == pytest.approx(1, abs=1e-5)


def test_what_carries_over_does_not_depend_on_the_rest_of_the_graph():
    twice = torch.cat([EDGES, EDGES + 34], 1)
    kinds = [kind for kind in ROLES if kind != "returns"]  # estimated by random signs of each node
    one, two = (structural_features(edges, kinds=kinds).x for edges in (EDGES, twice))
    torch.testing.assert_close(two[:34, [0, 1, 2]], one[:, [0, 1, 2]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": ("degrees",)}, r"kinds='degrees': choose from degree, pagerank"),
        ({"kinds": ()}, r"kinds=\(\): give a list of different kinds"),
        ({"kinds": "degree"}, r"kinds='degree': give a list"),
        ({"kinds": ("core", "core")}, "different kinds"),
        ({"dim": 12}, "dim=12: these kinds need at least 13 columns"),
    ],
)
def test_errors(options, message):
    with pytest.raises(InputError, match=message):
        structural_features(EDGES, **options)


def test_data_has_its_own_number_of_nodes():
    with pytest.raises(InputError, match="num_nodes=: Data has its own"):
        structural_features(Data(edge_index=EDGES, num_nodes=34), 35)


def test_the_docstring_lists_all_kinds():
    for name, kind in KINDS.items():
        (line,) = [line.split() for line in structural_features.__doc__.splitlines() if f"``{name}``" in line]
        assert line[1] == ("yes" if kind.carries_over else "no")


@pytest.mark.parametrize("sparse", [False, True])
def test_structure_beside_given_features(sparse):
    given = 100 * torch.eye(34)
    x = given.to_sparse_csr() if sparse else given
    data = with_structural_features(Data(x=x, edge_index=EDGES, num_nodes=34), dim=20)
    assert data.x.layout == x.layout
    dense = data.x.to_dense() if sparse else data.x
    assert torch.equal(dense[:, :34], given)
    assert float(dense[:, 34:].square().sum(1).mean()) == pytest.approx(100**2, rel=1e-4)
    assert data.feature_names[33:35] == ["given_33", "degree"]


def test_a_given_column_of_the_same_name_is_refused():
    data = Data(x=torch.ones(34, 1), edge_index=EDGES, num_nodes=34, feature_names=["degree"])
    with pytest.raises(InputError, match="'degree' is also a structural feature; rename the column"):
        with_structural_features(data)


def test_methods_train_on_them():
    data = with_structural_features(Data(edge_index=EDGES, num_nodes=34), dim=20)
    assert data.x.shape == (34, 20)
    assert epagcl.Propagated(dim=4, device="cpu").fit_embed(data).shape == (34, 4)
