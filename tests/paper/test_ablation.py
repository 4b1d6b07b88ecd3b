import pytest

from epagcl.methods import names
from epagcl.paper.ablation import (
    ADD_ONLY,
    ARTEFACT,
    BASE,
    BOTH,
    DROP_ONLY,
    ORACLE,
    PAPERS,
    claim_tests,
    gains,
    variants,
)
from epagcl.study.paired_test import paired_test
from tests.paper.conftest import cell, result


@pytest.mark.slow
def test_small_measurement_has_every_variant(request_of, tmp_path):
    made = ARTEFACT.make(request_of(protocols=("strict",), runs=1), "epagcl paper ablation")
    assert [c["row"] for c in made["cells"]] == [row.title for row in variants()]
    assert all(c["settings"]["p_mask_1"] == c["settings"]["p_mask_2"] == 0 for c in made["cells"])
    files = {path.name for path in ARTEFACT.write(made, tmp_path / "out")}
    assert {"ablation.csv", "ablation.svg", "ablation.png", "ablation.tex"} <= files
    assert len(ARTEFACT.reading(made)) == 6


def test_variants_have_the_settings_of_the_paper():
    rows = {row.title: row.settings for row in variants()}
    assert rows[BASE] | {"add": "uniform", "drop": "uniform"} == rows[BASE]
    assert rows[BOTH]["add_to"] == "both"
    assert rows[DROP_ONLY]["p_add"] == 0
    assert rows[ADD_ONLY]["p_drop_1"] == rows[ADD_ONLY]["p_drop_2"] == 0
    assert set(rows[PAPERS]) == {"p_mask_1", "p_mask_2"}


def test_variants_register_no_method():
    assert names().count("epagcl") == 1
    assert ORACLE not in names()


def test_gains_are_paired_by_seed():
    made = result(
        [cell(BASE, "Cora", [80, 90, 85]), cell(PAPERS, "Cora", [83, 91, 87, 99]), cell(ORACLE, "CiteSeer", [70])]
    )
    gain = gains(made, "strict", "Cora")[PAPERS]
    assert gain.test.mean == pytest.approx(2.0)
    assert gain.test.interval == paired_test([3, 1, 2]).interval
    assert gain.n == 3  # the mean is over the seeds that all variants have, so that means can be compared
    assert gain.mean == pytest.approx(87.0)
    assert gains(made, "strict", "Cora")[BASE].test is None
    assert str(gains(made, "strict", "CiteSeer")[ORACLE]) == ""  # no common seed, no gain


def test_other_numbers_of_seeds_are_named():
    made = result([cell(BASE, "Cora", [80, 90, 85]), cell(PAPERS, "Cora", [83, 91, 87]), cell(ORACLE, "Cora", [70])])
    assert str(gains(made, "strict", "Cora")[PAPERS]).endswith(" [3 seeds]")
    assert "[" not in str(gains(made, "strict", "Cora")[ORACLE])


def test_reading_decides_each_claim():
    titles = [row.title for row in variants()]
    made = result(
        [
            cell(title, "Cora", [80 + 2 * place + k + 0.001 * place * k**2 for k in range(3)])
            for place, title in enumerate(titles)
        ]
    )
    words = ARTEFACT.reading(made)
    assert "better in 2 of 5 pairs, worse in 3, undecided in 0." in words[0]  # EPAGCL is third
    assert "Cora -4.0 (-4.0 to -4.0), worse, detectable 0.0" in words[1]  # Drop Only is fourth, Add Only sixth
    assert "Cora +2.0 (+2.0 to +2.0), better, detectable 0.0" in words[2]
    assert len(claim_tests(made, "strict", PAPERS, [BASE, DROP_ONLY])) == 2
    assert claim_tests(made, "strict", PAPERS, ["unknown"]) == {}
