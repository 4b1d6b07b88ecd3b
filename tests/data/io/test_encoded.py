"""Feature tables: unchanged if they are numbers of similar size, else encoded; and models that encode alike."""

import numpy as np
import pandas as pd
import pytest
import torch

import epagcl
from epagcl.data import block_model, from_tables, read_graph, write_npz
from epagcl.data.io.columns.encoding import TableEncoding
from tests.data.io.helpers import EDGES, ENDS, FEATURES, TABLE, X, from_tables_error, logged, rows

MIXED = TABLE.assign(city=["Rome", None, "Oslo"], since=["2020-01-01", "2021-06-01", "2022-12-31"])


def test_numbers_of_similar_size_are_bit_for_bit_unchanged():
    rng = np.random.default_rng(0)
    for x in (rng.random((40, 5)), (rng.random((40, 300)) < 0.05) * 1.0, rng.poisson(0.3, (40, 50)) * 1.0):
        data = from_tables([(k, k + 1) for k in range(39)], pd.DataFrame(x).add_prefix("c"))
        assert torch.equal(data.x, torch.from_numpy(x.astype(np.float32)))
        assert "encoding" not in data
        assert "raw_features" not in data


def test_mixed_tables_are_encoded_from_every_source(files):
    polars = pytest.importorskip("polars")
    names = files(edges=("e.csv", EDGES), f=("f.parquet", MIXED))
    MIXED.to_csv("f.csv", index=False)
    graphs = [from_tables(ENDS, MIXED), from_tables(ENDS, polars.from_pandas(MIXED))]
    graphs += [read_graph(edges=names["edges"], features=name) for name in ("f.csv", "f.parquet")]
    for data in graphs:
        assert data.feature_names[:5] == ["a", "b", "city=Oslo", "city=Rome", "city=missing"]
        assert torch.equal(data.x, graphs[0].x)
        assert isinstance(data.encoding, TableEncoding)
        assert data.raw_features.frame["city"].isna().tolist() == [False, True, False]


def test_a_table_without_header_is_encoded(files):
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", "x,1,p\ny,3,q\nz,5,p\n")))
    assert data.feature_names == ["column 2", "column 3=p", "column 3=q"]


def test_a_table_of_text_keeps_its_header(files):
    table = "customer_id,country,bio\nx,it,likes long walks at night\ny,no,\nz,it,likes graphs and long texts\n"
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", table)))
    assert data.node_ids.tolist() == ["x", "y", "z"]
    assert data.feature_names[:2] == ["country=it", "country=no"]
    by_ids = table.replace("customer_id", "customer")  # recognised by the ids below it
    assert read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", by_ids))).feature_names == data.feature_names


def test_equal_names_are_allowed_for_numbers_only():
    data = from_tables(ENDS, TABLE.set_axis(["id", "a", "a"], axis=1))
    assert rows(data) == dict(zip("xyz", X, strict=True))
    twice = from_tables_error(ENDS, MIXED[["id", "city", "city"]])
    assert twice == "features: two columns are named 'city'; rename one"


def test_columns_as_is_refused_for_arrays():
    assert from_tables_error(ENDS, np.eye(3), columns_as={"a": "text"}) == (
        "features: an array has no named columns; leave out columns_as=, or give a table"
    )


def test_the_encoding_survives_copies_and_files(tmp_path):
    data = from_tables(ENDS, MIXED)
    write_npz(data, tmp_path / "g.npz")
    again = read_graph(tmp_path / "g.npz")
    assert again.encoding == data.encoding == data.clone().to("cpu").encoding
    assert torch.equal(again.x.to_dense(), data.x.to_dense())


def people(balance: float = 1.0) -> tuple[torch.Tensor, pd.DataFrame]:
    """Return the edges and the mixed table of a graph of 60 people."""
    graph = block_model(60, num_classes=3, num_features=20, topic_words=5, words_per_node=3, seed=2)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": np.arange(60), "city": [["Rome", "Oslo", "Bern"][k] for k in graph.y]})
    return graph.edge_index, frame.assign(balance=balance * rng.lognormal(8, 1, 60), age=rng.integers(18, 80, 60))


def test_a_model_encodes_a_later_table_as_in_training(tmp_path):
    edges, table = people()
    data = from_tables(edges, table)
    model = epagcl.method("propagated")(dim=8, device="cpu").fit(data)
    z = model.embed(data)
    model.save(tmp_path / "m")
    assert (tmp_path / "m" / "columns.json").is_file()
    model = epagcl.load_model(tmp_path / "m", device="cpu")
    assert torch.equal(model.embed(data), z)
    # Ten times the balance, shuffled columns and no Oslo would be another encoding by themselves.
    later = table.assign(balance=10 * table["balance"]).replace({"city": {"Oslo": "Paris"}})[
        ["age", "id", "city", "balance"]
    ]
    other = from_tables(edges, later)
    assert other.encoding != data.encoding
    expected = data.clone()
    expected.x = data.encoding.transform(other.raw_features)
    assert torch.equal(model.embed(other), model.embed(expected))
    assert not torch.allclose(model.embed(other), z, atol=1e-3)


def test_a_model_of_plain_numbers_gets_plain_numbers():
    edges, table = people()
    numbers = table[["id", "age"]]
    model = epagcl.method("propagated")(dim=2, device="cpu").fit(from_tables(edges, numbers))
    assert model.encoding_ is None
    mixed = from_tables(edges, table)  # age is standardised beside other columns
    assert torch.equal(model.embed(mixed), model.embed(from_tables(edges, numbers)))
    gap = from_tables(edges, numbers.assign(age=numbers["age"].where(numbers["id"] > 3)))
    with pytest.raises(epagcl.core.errors.InputError, match=r"row 0 \(counted from 0\): column 'age' is missing"):
        model.embed(gap)


def test_a_model_of_a_table_refuses_an_array():
    edges, table = people()
    data = from_tables(edges, table)
    model = epagcl.method("propagated")(dim=2, device="cpu").fit(data)
    with pytest.raises(epagcl.core.errors.InputError, match=r"^the model was trained on encoded columns of a table; "):
        model.embed(from_tables(edges, data.x.numpy()))


def test_one_column_of_large_numbers_does_not_drown_the_rest():
    graph = block_model(300, num_classes=3, num_features=60, topic_words=15, words_per_node=6, seed=1)
    words = pd.DataFrame(graph.x.to_dense().numpy()).add_prefix("w")
    balance = np.random.default_rng(0).lognormal(8, 2, 300)
    scores = []
    for table in (words, words.assign(balance=balance)):
        data = from_tables(graph.edge_index, table, labels=graph.y)
        z = epagcl.method("propagated")(dim=16, device="cpu").fit_embed(data)
        scores.append(epagcl.linear_evaluation(z, data.y, runs=1, seed=0).mean)
    assert scores[1] > scores[0] - 0.05


def test_what_is_used_is_logged(caplog, files):
    caplog.set_level("INFO")
    read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", FEATURES)))
    assert caplog.messages[:3] == [
        "f.csv: ids in id",
        "f.csv: 2 columns of numbers are used as they are",
        "e.csv: edges join source and target",
    ]
    assert logged(caplog) == []


def test_two_columns_of_one_name(caplog):
    edges = [(0, 1), (1, 2)]
    numbers = pd.DataFrame([[0, 1, 2], [1, 3, 5], [2, 3, 1]], columns=["id", "a", "a"])
    assert epagcl.from_tables(edges, numbers).x.tolist() == [[1, 2], [3, 5], [3, 1]]
    assert "features: two columns are named 'a'; a model matches the columns by their order" in caplog.messages


def test_periods_are_dates():
    table = pd.DataFrame({"id": range(30), "month": pd.period_range("2020-01", periods=30, freq="M")})
    data = epagcl.from_tables([(k, (k + 1) % 30) for k in range(30)], table)
    assert data.encoding.summary()[0]["kind"] == "date"


def test_a_model_says_what_it_does_not_know_of_a_later_table(caplog):
    model = epagcl.Propagated(dim=2, device="cpu").fit(from_tables(ENDS, MIXED))
    caplog.clear()
    later = MIXED.assign(city=["Lima", None, "Oslo"], loyal=["a", "b", "a"])
    for _ in range(2):  # said once
        model.embed(from_tables(ENDS, later))
    assert [message for message in caplog.messages if "model" in message] == [
        "features: not used, since the model was trained without: loyal",
        "features: values that the model has not seen become 0: city (Lima in 1 row)",
    ]
