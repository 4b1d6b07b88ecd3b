import pytest

from epagcl.paper.equal_settings import OTHERS, PAIRS, equal_sentence, equal_table, equal_tests, without_others
from epagcl.paper.heterophily import ARTEFACT
from epagcl.paper.page import judges
from tests.paper.conftest import cell, result


@pytest.fixture
def made():
    runs = {
        "GCA": [60, 61, 62.2],
        "EPAGCL": [64, 65, 66.3],
        "EPAGCL, settings of GCA": [60.1, 60.9, 62.3],
        "GCA, settings of EPAGCL": [70, 71.2, 72],
    }
    cells = [cell(title, "Texas", values, "paper") for title, values in runs.items()]
    return result(cells, datasets=("texas",), protocols=("paper",))


def test_every_pair_has_the_settings_of_one_method():
    assert {title for pair in PAIRS.values() for title in pair} - {"EPAGCL", "GCA"} == set(OTHERS)
    assert all(pair[0].startswith("EPAGCL") and pair[1].startswith("GCA") for pair in PAIRS.values())


def test_differences_are_tested_in_both_directions(made):
    tests = equal_tests(made, "paper")
    assert tests["GCA", "Texas"].mean == pytest.approx((0.1 - 0.1 + 0.1) / 3)
    assert tests["EPAGCL", "Texas"].mean == pytest.approx(-17.9 / 3)
    assert [test.verdict for test in tests.values()] == ["undecided", "worse"]
    verdict = judges.over_gca(made)
    assert "0 decide for it, 1 against it, 1 are undecided" in verdict.evidence
    assert "settings of EPAGCL and of GCA for both" in verdict.evidence


def test_the_table_and_the_sentence(made):
    table = equal_table(made, "paper")
    assert [str(row[0]) for row in table.rows] == ["EPAGCL", "GCA", "difference"] * 2
    assert [str(row[1]) for row in table.rows] == ["GCA"] * 3 + ["EPAGCL"] * 3
    assert str(table.rows[5][2]) == "-6.0 (worse)"
    text = equal_sentence(made, "paper")
    assert "With the settings of GCA for both methods, EPAGCL is better on 0 of 1 graph and worse on 0." in text
    assert "With the settings of EPAGCL for both methods, EPAGCL is better on 0 of 1 graph and worse on 1." in text
    assert table.title in [one.title for one in ARTEFACT.tables(made)]
    assert text in ARTEFACT.reading(made)


def test_rows_with_settings_of_another_method_are_not_ranked(made):
    own = without_others(made)
    assert {one["row"] for one in own["cells"]} == {"GCA", "EPAGCL"}
    assert equal_tests(own, "paper") == {}
    assert (equal_table(own, "paper"), equal_sentence(own, "paper")) == (None, "")
    first = ARTEFACT.tables(made)[0]
    assert not {str(row[0]) for row in first.rows} & set(OTHERS)
