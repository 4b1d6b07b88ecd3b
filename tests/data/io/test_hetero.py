import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import ToUndirected

import epagcl
from epagcl.core.errors import InputError
from epagcl.data import from_hetero


def library() -> HeteroData:
    """Return two authors and three papers, with features of different widths."""
    data = HeteroData()
    data["author"].x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    data["paper"].x = torch.tensor([[5.0], [6.0], [7.0]])
    data["paper"].y = torch.tensor([0, 1, 0])
    data["paper"].train_mask = torch.tensor([True, False, True])
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 1], [0, 1, 2]])
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1], [1, 2]])
    return data


def test_types_are_blocks_of_columns_with_a_mark():
    data = from_hetero(library())
    assert data.x.to_dense().tolist() == [
        [1, 2, 1, 0, 0],
        [3, 4, 1, 0, 0],
        [0, 0, 0, 5, 1],
        [0, 0, 0, 6, 1],
        [0, 0, 0, 7, 1],
    ]
    assert data.feature_names == ["author:0", "author:1", "type=author", "paper:0", "type=paper"]
    assert data.node_ids.tolist() == ["author:0", "author:1", "paper:0", "paper:1", "paper:2"]
    assert data.node_type.tolist() == [0, 0, 1, 1, 1]
    assert data.y.tolist() == [-1, -1, 0, 1, 0]
    assert data.train_mask.tolist() == [False, False, True, False, True]


def test_edge_types_are_relations():
    data = from_hetero(library())
    assert data.relation_names == ["writes", "cites"]
    writes, cites = ({*map(tuple, data.edge_index[:, column > 0].T.tolist())} for column in data.edge_relation.T)
    assert writes == {(0, 2), (2, 0), (1, 3), (3, 1), (1, 4), (4, 1)}
    assert cites == {(2, 3), (3, 2), (3, 4), (4, 3)}
    assert from_hetero(library(), directed="out").relation_names == ["writes:out", "cites:out"]


def test_reverse_edge_types_change_nothing():
    plain, undirected = from_hetero(library()), from_hetero(ToUndirected()(library()))
    assert undirected.relation_names == ["writes", "cites"]
    assert undirected.edge_relation.equal(plain.edge_relation)


def test_equal_relations_between_other_types_have_longer_names():
    data = library()
    data["author", "cites", "paper"].edge_index = torch.tensor([[0], [2]])
    assert from_hetero(data).relation_names == ["writes", "paper cites paper", "author cites paper"]


def test_ids_names_weights_and_types_without_features(caplog):
    data = library()
    del data["author"].x
    data["author"].num_nodes = 2
    data["author"].node_ids = ["ann", "bob"]
    data["paper"].feature_names = ["year"]
    data["paper", "cites", "paper"].edge_weight = torch.tensor([1.0, 3.0])
    graph = from_hetero(data)
    assert graph.node_ids[:2].tolist() == ["author:ann", "author:bob"]
    assert graph.feature_names == ["type=author", "paper:year", "type=paper"]
    assert sorted(graph.edge_relation[:, 1].unique().tolist()) == [0.0, 0.5, 1.5]
    assert "no features of author; only a column tells them from others" in caplog.text


def test_one_type_of_nodes_needs_no_mark():
    data = HeteroData()
    data["node"].x = torch.eye(3)
    data["node", "a", "node"].edge_index = torch.tensor([[0], [1]])
    data["node", "b", "node"].edge_index = torch.tensor([[1], [2]])
    graph = from_hetero(data)
    assert graph.x.equal(torch.eye(3))
    assert graph.relation_names == ["a", "b"]


def test_wrong_graphs_are_refused():
    with pytest.raises(InputError, match="Data is no HeteroData"):
        from_hetero(Data())
    data = library()
    data["author"].y = torch.tensor([0, 1])
    with pytest.raises(InputError, match="labels of author and paper; keep those of one kind"):
        from_hetero(data)
    data = library()
    data["author"].node_ids = ["ann"]
    with pytest.raises(InputError, match="1 node_ids for 2 nodes 'author'"):
        from_hetero(data)
    data = library()
    del data["paper", "cites", "paper"], data["author", "writes", "paper"]
    with pytest.raises(InputError, match="no edges"):
        from_hetero(data)


def test_methods_use_the_relations():
    model = epagcl.Propagated(dim=3, device="cpu").fit(from_hetero(library()))
    assert model.relation_names_ == ["writes", "cites"]
    assert model.embed(from_hetero(library())).shape == (5, 3)


def test_a_saved_graph_is_read(tmp_path):
    torch.save(library(), tmp_path / "g.pt")
    graph = epagcl.read_graph(tmp_path / "g.pt")
    assert graph.edge_relation.equal(from_hetero(library()).edge_relation)
    assert graph.relation_names == ["writes", "cites"]
    assert epagcl.read_graph(tmp_path / "g.pt", directed="in").relation_names == ["writes:in", "cites:in"]


def broken(change):
    data = library()
    change(data)
    return data


def set_end(data, number):
    data["author", "writes", "paper"].edge_index[0, 0] = number


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        # In the numbering of all nodes, 2 would be the first paper.
        (lambda data: set_end(data, 2), "author writes paper: 2 is no node 'author'; they are 0 to 1"),
        (lambda data: set_end(data, -1), "author writes paper: -1 is no node 'author'"),
        (lambda data: data["paper", "cites", "paper"].pop("edge_index"), "paper cites paper: no edge_index of two"),
        (lambda data: data["paper"].update({"y": torch.ones(3, 4)}), r"'paper': y has shape \(3, 4\); give one"),
        (
            lambda data: data["paper"].update({"train_mask": torch.ones(3, 2, dtype=torch.bool)}),
            r"'paper': train_mask has shape \(3, 2\); give one value per node",
        ),
        (
            lambda data: data["author"].update({"x": torch.full((2, 3), float("nan")), "num_nodes": 2}),
            "'author': 6 missing, NaN or infinite feature values",
        ),
    ],
    ids=["end of another type", "negative end", "no edges", "several labels", "several masks", "gaps"],
)
def test_wrong_parts_are_refused_in_one_line(change, reason):
    with pytest.raises(InputError, match=f"^HeteroData: {reason}") as caught:
        from_hetero(broken(change))
    assert "\n" not in str(caught.value)


def test_attributes_of_edges_are_not_ignored_without_a_word(caplog):
    data = library()
    data["paper", "cites", "paper"].edge_attr = torch.rand(data["paper", "cites", "paper"].num_edges, 2)
    from_hetero(data)
    assert "HeteroData: paper cites paper: edge_attr is not used; give weights of edges as edge_weight" in caplog.text


def test_features_of_many_types_are_never_one_dense_matrix(monkeypatch):
    """Ten types of 1,000 nodes with 200 columns each would be 10,000 × 2,010."""
    monkeypatch.setattr(torch, "block_diag", None)
    data = HeteroData()
    for k in range(10):
        x = torch.rand(1000, 200) + 0.1  # no zero, which a sparse matrix would leave out
        data[f"t{k}"].x = x if k % 2 else x.to_sparse_csr()
    data["t0", "r", "t1"].edge_index = torch.randint(0, 1000, (2, 50))
    graph = from_hetero(data)
    assert graph.x.layout == torch.sparse_csr
    assert graph.x.values().numel() == 10 * 1000 * 201
    assert torch.equal(graph.x[1000].to_dense()[201:401], data["t1"].x[0])
