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
