import pytest

from epagcl.paper import ARTEFACTS
from epagcl.paper.ablation import variants
from epagcl.paper.verdicts import CLAIMS, _share_verdict, verdicts
from tests.paper.conftest import cell, result
from tests.paper.theory_demo import theory_of_demo


def judged(**results):
    return {row[0]: row[2:] for row in verdicts(results).rows}


def test_every_claim_belongs_to_an_artefact():
    assert {claim.artefact for claim in CLAIMS} <= set(ARTEFACTS)
    assert verdicts({}).rows == []


@pytest.mark.parametrize(
    ("count", "total", "word"),
    [(3, 3, "holds"), (2, 3, "in part"), (1, 2, "in part"), (1, 3, "no"), (0, 0, "not measured")],
)
def test_claims_hold_in_all_cases_in_half_of_them_or_in_fewer(count, total, word):
    assert _share_verdict(count, total, "graphs") == (word, f"{count} of {total} graphs")


def test_accuracy():
    cells = [cell("GRACE", "Cora", [80, 82], "paper"), cell("EPAGCL", "Cora", [84, 86], "paper")]
    judgements = judged(accuracy=result(cells, protocols=("paper",)))
    assert judgements["EPAGCL has the best mean rank"] == ["holds", "place 1 of 2 by mean rank, paper protocol"]
    word, evidence = judgements["EPAGCL reaches the reported accuracy"]
    assert word == "no"
    assert evidence.startswith("-1.1 points")  # 86.07 is reported


def test_ablation_and_rates():
    titles = [row.title for row in variants()]
    worse = [cell(title, "Cora", [80 - place]) for place, title in enumerate(titles)]
    judgements = judged(ablation=result(worse))
    assert judgements["EPAGCL is the best of six augmentations"] == ["no", "0 of 1 graphs"]
    assert judgements["Drop Only is better than Add Only"] == ["holds", "1 of 1 graphs"]
    rates = [cell("add 0.1", "Cora", [70, 71]), cell("drop 0.1", "Cora", [72, 70.5])]
    ((word, evidence),) = judged(**{"add-vs-drop": result(rates, rates=[0.1])}).values()
    assert word == "holds"
    assert evidence == (
        "1 of 1 pairs of graph and rate with at least 2 runs each; the 95% interval excludes 0 in 0 (Cora)"
    )


def test_epr_and_heterophily():
    graphs = {"A": {"per_node": 0.2}, "B": {"per_node": 0.7}, "C": {"per_node": 0.3}}
    assert judged(epr={"graphs": graphs})["The EPR of most graphs is below 0.5"] == ["holds", "2 of 3 graphs; not B"]
    cells = [cell("GCA", "Texas", [60], "paper"), cell("EPAGCL", "Texas", [59], "paper")]
    ((word, evidence),) = judged(heterophily=result(cells, datasets=("texas",), protocols=("paper",))).values()
    assert (word, evidence) == ("no", "0 of 1 graphs, paper's protocol")


def test_theorem_3_3_is_judged_in_both_readings():
    demo = theory_of_demo()
    (claim,) = (claim for claim in CLAIMS if claim.text == "Theorem 3.3")
    word, evidence = claim.judge(demo)
    assert word == "no"
    assert evidence.count("by family") == 2
    assert "with its proof's d, by" in evidence
    assert evidence.endswith("with d+1; repaired, it is proved and has no exceptions")
    for row in demo["random_graphs"]:
        for counts in row["added"]["d"].values():
            counts[1] = 0
    demo["random_graphs"][0]["added"]["d1"]["within"][1] = 1  # one exception in one reading is enough
    assert claim.judge(demo).word == "no"
    demo["random_graphs"] = []
    assert claim.judge(demo).word == "not measured"


def test_claims_without_data_are_not_measured():
    empty = result([])
    judgements = judged(accuracy=empty, ablation=empty, heterophily=empty, burden={"cells": [], "graphs": {}})
    assert {word for word, _ in judgements.values()} == {"not measured"}
