"""Columns that the user names: of edges, features and labels."""

import pytest

from epagcl.core.errors import InputError
from epagcl.data import from_tables, read_graph
from epagcl.data.io.roles import OPTION, Roles, find_column
from epagcl.data.io.tables.frame import FrameTable
from tests.data.io.helpers import EDGES, ENDS, FEATURES, PATH, TABLE, from_tables_error, pairs, read_error, rows


def test_arguments_are_written_for_the_caller():
    assert Roles().write(source="a b", target="c") == "source='a b', target='c'"
    assert Roles(argument=OPTION).write(source="a", target="c") == "--source a --target c"
    assert (Roles().name_of("columns_as"), Roles(argument=OPTION).name_of("columns_as")) == (
        *("columns_as=", "--columns-as"),
    )


def test_what_was_named_is_recorded():
    roles = Roles("a", "b", label="y", bipartite=True, columns_as={"c": "text"})
    assert roles.record() == {"source": "a", "target": "b", "label": "y", "bipartite": True, "columns_as": "c=text"}
    assert Roles().record() == {}


def test_one_end_alone_is_refused():
    with pytest.raises(InputError, match=r"^source= is given without target=; give both"):
        Roles(source="a")
    with pytest.raises(InputError, match=r"^--target is given without --source; give both"):
        Roles(target="a", argument=OPTION)


def test_names_match_exactly_before_they_match_loosely():
    table = FrameTable(TABLE.set_axis(["Node ID", "node_id", "b"], axis=1), "f")
    assert find_column(table, "node_id") == 1
    assert find_column(table, "NODE-ID") == 0
    assert find_column(table, "other") is None
    assert find_column(table, None) is None


def test_named_ends_of_edges(files):
    text = "tx_id,payer,payee,amount\n1,x,y,0.5\n2,y,z,0.7\n"
    names = files(edges=("e.csv", text), features=("f.csv", FEATURES))
    assert pairs(read_graph(**names, source="payer", target="payee")) == PATH
    assert read_error(names | {"source": "payer", "target": "pay"}) == (
        "e.csv: no column 'pay' for target=; its columns are tx_id, payer, payee, amount"
    )
    assert read_error(names | {"source": "payer", "target": "payer"}).startswith("e.csv: both ends are column 'payer';")


def test_columns_of_a_table_without_header_have_numbers(files):
    names = files(edges=("e.csv", "1,x,y\n2,y,z\n"), features=("f.csv", FEATURES))
    assert pairs(read_graph(**names, source="2", target="3")) == PATH


def test_a_named_id_column_may_follow_others(files):
    table = "id,a,customer\n7,1,x\n8,3,y\n9,5,z\n"
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", table)), id="customer")
    assert rows(data) == {"x": [7, 1], "y": [8, 3], "z": [9, 5]}
    assert from_tables_error(ENDS, TABLE, id="who") == (
        "id= who: no table has this column; the columns of features are id, a, b"
    )


def test_the_label_may_be_a_column_of_the_features(files):
    table = "id,a,kind\nx,1,p\ny,3,NA\nz,5,q\n"
    data = read_graph(**files(edges=("e.csv", EDGES), features=("f.csv", table)), label="kind")
    assert data.y.tolist() == [0, -1, 1]
    assert data.label_names == ["p", "q"]
    assert data.feature_names == ["a"]
    assert from_tables_error(ENDS, TABLE.to_numpy()[:, 1:].astype(float), label="kind") == (
        "label= kind: no table has labels; give the labels as labels=, or features with this column"
    )


def test_a_named_label_column_of_the_labels():
    labels = TABLE.assign(other=list("pqr"))
    data = from_tables(ENDS, TABLE, labels, label="other", id="id")
    assert data.label_names == ["p", "q", "r"]
    assert from_tables_error(ENDS, TABLE, labels) == (
        "labels: the labels may be in a, b, other; name their column, such as label='a'"
    )


def test_a_feature_that_may_be_the_label_is_reported(caplog):
    from_tables(ENDS, TABLE.assign(label=["p", "q", "p"]))
    assert "features: column 'label' is used as a feature; if it is the label, give label='label'" in caplog.messages
