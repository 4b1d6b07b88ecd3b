from epagcl.paper import ARTEFACTS
from epagcl.paper.page.verdicts import CLAIMS, verdicts
from epagcl.paper.paired import DETECTABLE
from tests.paper.conftest import cell, result


def test_every_claim_belongs_to_an_artefact():
    assert {claim.artefact for claim in CLAIMS} <= set(ARTEFACTS)
    assert verdicts({}).rows == []


def test_a_line_has_verdict_evidence_and_the_smallest_detectable_difference():
    cells = [cell("GCA", "Texas", [60, 61, 62], "paper"), cell("EPAGCL", "Texas", [59, 62, 61.5], "paper")]
    (row,) = verdicts({"heterophily": result(cells, datasets=("texas",), protocols=("paper",))}).rows
    assert row[:3] == ["EPAGCL is better than GCA on heterophilous graphs", "Appendix G", "undecided"]
    assert row[3] == "of 1 graphs, 0 decide for it, 1 are undecided (paper's protocol)"
    assert float(row[4]) > 1
    assert DETECTABLE in verdicts({}).note


def test_claims_without_data_are_not_measured():
    empty = result([])
    measured = {
        **dict.fromkeys(("accuracy", "ablation", "heterophily", "add-vs-drop"), empty),
        "burden": {"cells": [], "graphs": {}},
        "graphs": {"graphs": {}},
        "significance": {"comparisons": [], "protocols": ["strict"]},
    }
    assert {row[2] for row in verdicts(measured).rows} == {"not measured"}
