"""The graph of a run, loaded again from its record."""

from dataclasses import fields

import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.data.io.roles import NAMED, Roles
from epagcl.runs.folder import GraphSource
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


@pytest.mark.usefixtures("files")
def test_weights_kinds_and_directions_are_those_of_the_run(tmp_path):
    lines = "from_,to,flow,how\na,b,1,card\nb,c,3,cash\nc,a,2,card\n"
    (tmp_path / "e.csv").write_text(lines)
    roles = {"source": "from_", "target": "to", "weight": "flow", "type": "how", "directed": "both"}
    data = load_source({"edges": "e.csv", "features": "f.csv", "id": "who", **roles})
    assert data.relation_names == ["card:out", "cash:out", "card:in", "cash:in"]
    assert sorted(data.edge_weight.tolist()) == [0.5, 0.5, 1, 1, 1.5, 1.5]  # relative to their mean
    merged = load_source({"edges": "e.csv", "features": "f.csv", "id": "who", **roles, "type": "none"})
    assert merged.relation_names == ["out", "in"]


def test_every_role_that_a_record_may_have_is_read_back():
    """A role that is added to the record without its reading would change the graph of `epagcl reproduce`."""
    roles = Roles(**{name: name for name in NAMED if name != "directed"}, directed="in", bipartite=True)
    assert Roles.from_record(roles.record()) == roles
    # The time changes no graph, and is not recorded.
    assert {field.name for field in fields(Roles)} == {*NAMED, "bipartite", "columns_as", "encoding", "argument", "time"}
    assert set(roles.record()) <= set(GraphSource.__annotations__)
