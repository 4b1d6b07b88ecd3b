import pandas as pd
import pytest

from epagcl.data.io.columns.encoding import RawTable, TableEncoding
from epagcl.data.io.columns.unseen import unseen, warn_of_unseen

TRAINED = pd.DataFrame(
    {
        "age": [30, 41, 52, 63],
        "city": ["Rome", "Oslo", "Rome", "Bern"],
        "active": ["yes", "no", "no", "yes"],
        "since": ["2020-01-01", "2021-06-01", "2022-12-31", None],
        "note": ["same"] * 4,
    }
)
ENCODING = TableEncoding.fit(RawTable("f.csv", TRAINED))


def test_the_training_table_itself_has_nothing_new():
    assert unseen(ENCODING, RawTable("f.csv", TRAINED)) == []


@pytest.mark.parametrize(
    ("changed", "sentences"),
    [
        ({"loyal": 1, "points": 2}, ["not used, since the model was trained without: loyal, points"]),
        (
            {"city": ["Lima", "Lima", "Oslo", "Kiel"]},
            ["values that the model has not seen become 0: city (Lima, Kiel in 3 rows)"],
        ),
        (
            {"active": ["maybe", "NO", "Yes", "1"]},
            ["values that the model has not seen become 0: active (maybe in 1 row)"],
        ),
        ({"age": [None, 1, 2, 3]}, ["gaps, of which training had none here, become the median or 0: age (1 row)"]),
        ({"since": [None] * 4, "note": "another"}, []),  # gaps were there in training; a skipped column says nothing
    ],
)
def test_new_columns_values_and_gaps_are_named(changed, sentences):
    assert unseen(ENCODING, RawTable("f.csv", TRAINED.assign(**changed))) == sentences


def test_values_that_share_the_feature_of_rare_ones_are_not_named():
    table = pd.DataFrame({"city": [f"c{k % 200}" for k in range(400)]})
    encoding = TableEncoding.fit(RawTable("f.csv", table))
    assert encoding.columns[0].slots == 64
    assert unseen(encoding, RawTable("f.csv", pd.DataFrame({"city": ["new", "c1"]}))) == []


def test_warnings_name_the_table(caplog):
    warn_of_unseen(ENCODING, RawTable("today.csv", TRAINED.assign(loyal=1)))
    assert caplog.messages == ["today.csv: not used, since the model was trained without: loyal"]
