import json

import pytest

import epagcl
from epagcl.core.errors import InputError
from epagcl.paper.accuracy import ARTEFACT
from epagcl.paper.tables import BEST, SECOND
from tests.paper.conftest import cell, result


@pytest.mark.slow
def test_small_measurement_has_all_rows_and_files(request_of, tmp_path):
    request = request_of(methods=("gcn", "grace", "gca*", "epagcl"))
    made = ARTEFACT.make(request, "epagcl paper accuracy")
    assert [c["row"] for c in made["cells"]] == [
        *("raw features", "untrained encoder", "propagated", "GCN", "GRACE", "GCA*", "EPAGCL")
    ]
    expected = epagcl.linear_evaluation(epagcl.load("demo").x, epagcl.load("demo").y, runs=2)
    assert made["cells"][0]["protocols"]["strict"]["accuracy"]["runs"] == pytest.approx(expected.runs, abs=1e-6)
    files = {path.name for path in ARTEFACT.write(made, tmp_path / "out")}
    assert files == {
        *("accuracy.json", "accuracy.md", "accuracy.tex", "accuracy.svg", "accuracy.png"),
        *("accuracy.csv", "accuracy-paper.csv", "accuracy-provenance.csv", "accuracy-runs.csv"),
        *("accuracy-ours.csv", "accuracy-propagated.csv", "accuracy-untrained.csv"),
    }
    assert json.loads((tmp_path / "out" / "accuracy.json").read_text()) == made
    assert "| EPAGCL |" in (tmp_path / "out" / "accuracy.md").read_text()
    assert made["asked"]["settings"] == {"hidden": 8, "dim": 8, "projection": 8, "epochs": 2}
    assert ARTEFACT.reading(made)


@pytest.mark.slow
def test_stored_runs_make_a_table_without_training(request_of, monkeypatch):
    with pytest.raises(InputError, match="store: no stored results for this request; compute them first"):
        ARTEFACT.make(request_of(train=False), "c")
    ARTEFACT.make(request_of(runs=1), "c")
    monkeypatch.setattr("epagcl.study.comparison.score_seeds", lambda *_: pytest.fail("trained"))
    made = ARTEFACT.make(request_of(runs=2, train=False), "c")
    assert [c["seeds"] for c in made["cells"]] == [[0]] * 4


def invented():
    """Return a table with an incomplete cell and an absent graph."""
    return result(
        [
            cell("raw features", "Cora", [60, 62] * 3),
            cell("untrained encoder", "Cora", [84, 84] * 3),
            cell("GCN", "Cora", [99, 99] * 3),
            cell("GRACE", "Cora", [85, 87] * 3),
            cell("MVGRL", "Cora", [83]),
            cell("EPAGCL", "Cora", [84, 86] * 3),
        ],
        absent={"WikiCS": "data are absent"},
        datasets=("Cora", "WikiCS"),
    )


def test_cells_have_measured_and_reported_accuracy_and_unusual_numbers_of_runs():
    table = ARTEFACT.tables(invented())[0]
    assert table.columns == ["method", "Cora", "WikiCS", "rank", "reported rank"]
    rows = {row[0]: row for row in table.rows}
    assert str(rows["GRACE"][1]) == "86.0 ± 1.1 (85.3)"
    assert str(rows["MVGRL"][1]) == "83.0 [1 run] (81.5)"
    assert str(rows["EPAGCL"][2]) == "absent (81.2)"
    assert str(rows["raw features"][2]) == "absent"
    assert [rows[title][1].mark for title in ("GCN", "GRACE", "EPAGCL", "MVGRL")] == ["", BEST, SECOND, ""]
    assert [str(cell) for cell in rows["EPAGCL"][3:]] == ["2.0", "1.0"]
    assert str(rows["MVGRL"][3]) == "–"  # it has too few runs to be ranked
    assert str(rows["raw features"][3]) == ""
    assert "Runs: Cora 6" in table.note
    assert "WikiCS: data are absent here." in table.note


def test_methods_without_a_finished_run_keep_their_row():
    made = invented()
    made["asked"]["methods"] = ["dgi", "epagcl"]
    rows = {row[0]: row for row in ARTEFACT.tables(made)[0].rows}
    assert str(rows["DGI"][1]) == "– (82.5)"
    assert "DGI on Cora (no run)" in ARTEFACT.reading(made)[-1]


def test_graphs_without_published_splits_are_absent_from_the_public_table(request_of):
    made = ARTEFACT.measure(request_of(protocols=("public",)))
    assert made == {"cells": [], "absent": {"demo": "there are no published splits"}}


def test_public_splits_are_compared_with_other_publications():
    made = result([cell("GRACE", "Cora", [81, 83], "public")], protocols=("public",))
    table = ARTEFACT.tables(made)[0]
    assert table.columns == ["method", "Cora", "rank"]
    assert str(table.rows[0][1]) == "82.0 ± 1.4 (81.9)"
