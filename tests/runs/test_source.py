"""The graph of a run, loaded again from its record."""

import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.runs.source import load_source


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.csv").write_text("payer,payee,amount\na,b,1\nb,c,2\n")
    (tmp_path / "f.csv").write_text("who,age,zone\na,30,1\nb,40,2\nc,50,1\n")


def test_named_graphs_and_graphs_of_python():
    assert load_source({"name": "Demo"}).num_nodes == 2700
    with pytest.raises(InputError, match="the run: its graph was made in Python; give it as data="):
        load_source({"name": "mine"})


@pytest.mark.usefixtures("files")
def test_tables_with_the_columns_that_the_user_named():
    source = {"name": "e", "edges": "e.csv", "features": "f.csv", "source": "payer", "target": "payee", "id": "who"}
    data = load_source({**source, "columns_as": "zone=category"})
    assert data.node_ids.tolist() == ["a", "b", "c"]
    assert "zone=1" in data.feature_names
    computed = load_source({**source, "features": "structure,f.csv"})
    assert computed.x.shape[1] > data.x.shape[1]
    both = load_source({"edges": "e.csv", "features": "structure", "source": "payer", "target": "payee"})
    assert torch.equal(both.edge_index, data.edge_index)


@pytest.mark.usefixtures("files")
def test_a_file_that_has_moved_is_named():
    for source in (
        {"edges": "e.csv", "features": "gone.csv"},
        {"file": "gone.csv"},
        {"edges": "e.csv", "features": "structure,gone.csv"},
    ):
        with pytest.raises(InputError, match=r"gone\.csv: no such file; repeat the run in the folder in which it was"):
            load_source(source)
