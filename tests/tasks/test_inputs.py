import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.data import block_model
from epagcl.data.disk.graph import OnDiskGraph
from epagcl.tasks.inputs import (
    check_table,
    embedding_rows,
    feature_rows,
    graph_by_row,
    labels_by_id,
    numbers_of,
    unit_rows,
    write_table,
)


def test_rows_of_any_type_become_float32():
    for z in ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]]), torch.tensor([[1.0, 2], [3, 4]], dtype=torch.float64)):
        assert embedding_rows(z).dtype == np.float32
        assert embedding_rows(z).tolist() == [[1, 2], [3, 4]]
    assert np.allclose(np.linalg.norm(unit_rows([[1, 2], [3, 4]]), axis=1), 1)


@pytest.mark.parametrize(
    ("z", "message"),
    [
        ([1.0, 2.0], r"z: shape \(2,\); give one row per node"),
        ([[1.0]], "z: 1 node; at least 2 are needed"),
        ([[1.0], [float("nan")]], "the embedding has NaN or infinite values; train again with a lower lr"),
    ],
)
def test_wrong_embeddings(z, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        embedding_rows(z)


def test_sparse_and_dense_features_have_the_same_unit_rows():
    x = block_model(40, num_classes=2, num_features=20, topic_words=5).x
    assert np.allclose(feature_rows(x).toarray(), feature_rows(x.to_dense()))


def test_ids_match_as_text():
    assert numbers_of(["7", "3"], [3, 7], "--of").tolist() == [1, 0]
    with pytest.raises(InputError, match=r"^--of x: no such node; the ids are 3, 7$"):
        numbers_of(["3", "x"], [3, 7], "--of")


def test_labels_by_id_and_in_row_order(tmp_path):
    (tmp_path / "l.csv").write_text("id,label\n2,4\n1,9\n")
    assert labels_by_id(tmp_path / "l.csv", [1, 2, 3]) == ["9", "4", None]
    np.save(tmp_path / "l.npy", [1, 0, -1])
    assert labels_by_id(tmp_path / "l.npy", ["a", "b", "c"]) == ["1", "0", None]


def test_labels_of_an_ingested_graph(tmp_path):
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([1, -1, 0]))
    data.node_ids, data.label_names = np.array(["a", "b", "c"], dtype=object), ["red", "blue"]
    OnDiskGraph.write(data, tmp_path / "g")
    assert labels_by_id(tmp_path / "g", ["c", "a", "b", "new"]) == ["red", "blue", None, None]
    with pytest.raises(InputError, match="g: none of its nodes has an embedding; give the graph of the embedding"):
        labels_by_id(tmp_path / "g", ["x", "y"])
    del data.y, data.label_names
    OnDiskGraph.write(data, tmp_path / "h")
    with pytest.raises(InputError, match="h: the graph has no labels; ingest it with labels, or give a table of them"):
        labels_by_id(tmp_path / "h", ["a"])


@pytest.mark.parametrize("sparse", [False, True])
def test_a_graph_in_the_order_of_the_embedding(sparse):
    x = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    ids = np.array(["a", "b", "c"], dtype=object)
    data = Data(x=x.to_sparse_csr() if sparse else x, edge_index=torch.tensor([[0, 1], [1, 2]]), node_ids=ids)
    edges, features = graph_by_row(data, ["c", "a", "b"], "e.csv")
    assert edges.tolist() == [[1, 2], [2, 0]]
    assert features.to_dense().tolist() == [[0, 3], [1, 0], [2, 0]]


def test_graphs_of_other_nodes_are_rejected():
    data = Data(x=torch.eye(2), edge_index=torch.tensor([[0], [1]]), node_ids=np.array(["a", "b"], dtype=object))
    with pytest.raises(InputError, match=r"^e.csv: 1 node without an embedding \(b\); embed this graph, or give"):
        graph_by_row(data, ["a", "x"], "e.csv")
    with pytest.raises(InputError, match=r"^e.csv: 2 nodes for 3 embeddings; give the same nodes$"):
        graph_by_row(data, ["a", "b", "c"], "e.csv")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_tables_restore_float32(suffix, tmp_path):
    table = pd.DataFrame({"id": ["a", "b"], "score": np.array([0.1, 1 / 3], np.float32)})
    path = tmp_path / f"t{suffix}"
    write_table(table, path)
    read = pd.read_parquet(path) if suffix == ".parquet" else pd.read_csv(path, sep="\t" if suffix == ".tsv" else ",")
    assert read["score"].to_numpy(np.float32).tolist() == table["score"].tolist()


def test_output_is_checked_before_the_work(tmp_path):
    check_table(None)
    with pytest.raises(InputError, match=r"z.npy: cannot write .npy; use .csv, .tsv, .parquet$"):
        check_table(tmp_path / "z.npy")


def test_a_text_that_is_the_id_of_two_nodes_is_refused():
    """Ids of a NetworkX graph may be 7 and "7"."""
    ids = ["a", 7, "7", "b"]
    assert numbers_of(["b", "a"], ids, "of=").tolist() == [3, 0]
    with pytest.raises(InputError, match=r"^of= 7: two nodes have this id as text; rename one$"):
        numbers_of([7], ids, "of=")
