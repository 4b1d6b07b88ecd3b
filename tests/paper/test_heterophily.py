import pytest

from epagcl.paper.heterophily import ARTEFACT
from tests.paper.conftest import cell, result


@pytest.mark.slow
def test_small_measurement_has_all_files(request_of, tmp_path):
    made = ARTEFACT.make(request_of(methods=("gca", "epagcl")), "epagcl paper heterophily")
    assert {path.name for path in ARTEFACT.write(made, tmp_path / "out")} >= {"heterophily.csv", "heterophily.png"}
    assert len(ARTEFACT.reading(made)) == 4  # under the paper's protocol; demo has no published splits


def test_reading_compares_with_gca_and_with_the_raw_features():
    cells = [
        cell(title, "Texas", runs, "paper") for title, runs in (("GCA", [60]), ("EPAGCL", [64]), ("raw features", [70]))
    ]
    gca, raw, first, _ = ARTEFACT.reading(result(cells, datasets=("texas",), protocols=("paper",)))
    assert "ahead on 1 of 1 graphs (Texas +4.0 points)" in gca
    assert "below them on 1 of 1 graphs (Texas -6.0 points)" in raw
    assert first.endswith("raw features on Texas.")
    table = ARTEFACT.tables(result(cells, datasets=("texas",), protocols=("paper",)))[0]
    assert str({row[0]: row for row in table.rows}["EPAGCL"][1]) == "64.0 ± 0.0 (64.1)"
