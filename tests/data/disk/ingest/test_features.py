import numpy as np
import pandas as pd
import pytest

import epagcl
from epagcl.core.errors import InputError
from epagcl.data.disk.ingest import features as module
from epagcl.data.disk.ingest.run import ingest


def graph_of(tmp_path, edges, features):
    (tmp_path / "e.csv").write_text(edges)
    return ingest(tmp_path / "e.csv", tmp_path / "graph", features=tmp_path / features, overwrite=True)


def test_the_encoding_of_a_large_table_is_fitted_to_rows_that_are_spread_evenly(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")
    n = 5000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": np.arange(n), "age": rng.lognormal(size=n), "city": rng.choice(["a", "b", "c"], n)})
    frame.to_csv(tmp_path / "f.csv", index=False)
    monkeypatch.setattr(module, "FIT_CELLS", 4000)
    graph = graph_of(tmp_path, "0,1\n1,4999\n", "f.csv")
    assert any("judged by 1,250 of 5,000 rows" in record.message for record in caplog.records)
    whole = epagcl.read_graph(edges=tmp_path / "e.csv", features=tmp_path / "f.csv")
    assert set(graph.feature_names) == set(whole.feature_names)
    x = whole.x.to_dense().numpy()[:, [whole.feature_names.index(name) for name in graph.feature_names]]
    assert np.array_equal(graph.features[:, 1:] > 0, x[:, 1:] > 0)  # categories do not depend on the sample
    assert np.corrcoef(graph.features[:, 0], x[:, 0])[0, 1] > 0.999


def test_columns_of_ids_are_found_by_the_first_block_of_a_large_graph(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_IDS", 2)
    frame = pd.DataFrame({"person_id": [f"k{k}" for k in range(6)], "order_id": range(6), "v": [1.0, 2, 3, 4, 5, 6]})
    frame.to_csv(tmp_path / "f.csv", index=False)
    graph = graph_of(tmp_path, "source,target\nk0,k1\nk1,k2\nk5,k3\nk4,k0\n", "f.csv")
    assert graph.ids.tolist() == [f"k{k}" for k in range(6)]
    assert graph.manifest["source"]["features"].endswith("f.csv")


@pytest.mark.parametrize("rows", [2, 10**6])
def test_arrays_are_checked_and_copied_in_parts(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(module, "ROWS_AT_ONCE", rows)
    x = np.arange(10.0).reshape(5, 2)
    np.save(tmp_path / "f.npy", x)
    assert np.array_equal(graph_of(tmp_path, "0,1\n1,4\n", "f.npy").features, x.astype(np.float32))
    x[3, 1] = np.nan
    np.save(tmp_path / "f.npy", x)
    with pytest.raises(InputError, match=r"1 missing, NaN or infinite feature value, the first in row 3, column 1"):
        graph_of(tmp_path, "0,1\n1,4\n", "f.npy")
    np.save(tmp_path / "f.npy", x[0])
    with pytest.raises(InputError, match=r"features have shape \(2,\); they must be nodes × columns"):
        graph_of(tmp_path, "0,1\n1,4\n", "f.npy")
    (tmp_path / "f.npy").write_bytes(b"no array")
    with pytest.raises(InputError, match="contains Python objects or is not a NumPy file"):
        graph_of(tmp_path, "0,1\n1,4\n", "f.npy")


def test_equal_features_are_told(tmp_path, caplog):
    np.save(tmp_path / "f.npy", np.ones((3, 2)))
    graph_of(tmp_path, "0,1\n1,2\n", "f.npy")
    assert any("all nodes have the same features" in record.message for record in caplog.records)
