import pytest
import torch

import epagcl
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.methods import names
from epagcl.paper.ablation import ADD_ONLY, ARTEFACT, BASE, BOTH, DROP_ONLY, ORACLE, OURS, gains, variants
from epagcl.paper.oracle import Oracle
from tests.paper.conftest import SMALL, cell, result


def test_every_variant_small_and_whole(request_of, tmp_path):
    made = ARTEFACT.make(request_of(protocols=("strict",)), "epagcl paper ablation")
    assert [c["row"] for c in made["cells"]] == [row.title for row in variants()]
    assert all(c["settings"]["p_mask_1"] == c["settings"]["p_mask_2"] == 0 for c in made["cells"])
    names_of = {path.name for path in ARTEFACT.write(made, tmp_path / "out")}
    assert {"ablation.csv", "ablation.svg", "ablation.png", "ablation.tex"} <= names_of
    assert len(ARTEFACT.reading(made)) == 5


def test_variants_are_what_the_paper_says():
    rows = {row.title: row.settings for row in variants()}
    assert rows[BASE] | {"add": "uniform", "drop": "uniform"} == rows[BASE]
    assert rows[BOTH]["add_to"] == "both"
    assert rows[DROP_ONLY]["p_add"] == 0
    assert rows[ADD_ONLY]["p_drop_1"] == rows[ADD_ONLY]["p_drop_2"] == 0
    assert set(rows[OURS]) == {"p_mask_1", "p_mask_2"}


def test_the_oracle_drops_edges_between_classes_at_085_and_others_at_015():
    data = epagcl.load("demo")
    model = Oracle(**SMALL)
    model._classes = data.y
    graph = Graph.from_data(check(data, quiet=True))
    wrong = data.y[graph.pairs[0]] != data.y[graph.pairs[1]]
    for sampler in model.prepare(graph).views:
        torch.testing.assert_close(1 - sampler.keep, torch.where(wrong, 0.85, 0.15))
        kept = torch.stack([sampler.kept(epoch) for epoch in range(40)]).double().mean(0)
        assert kept[wrong].mean() == pytest.approx(0.15, abs=0.02)
        assert kept[~wrong].mean() == pytest.approx(0.85, abs=0.02)


def test_the_oracle_is_no_method_to_choose():
    assert "oracle" not in names()
    assert names().count("epagcl") == 1
    assert epagcl.method("epagcl") is epagcl.EPAGCL


def test_gains_are_of_the_same_seeds():
    made = result([cell(BASE, "Cora", [80, 90]), cell(OURS, "Cora", [83, 91, 99]), cell(ORACLE, "CiteSeer", [70])])
    gain = gains(made, "strict", "Cora")[OURS]
    assert gain.gain == pytest.approx(2.0)
    assert (gain.low, gain.high) == pytest.approx((1.0, 3.0))
    assert gain.n == 3
    assert gains(made, "strict", "Cora")[BASE].gain is None
    assert str(gains(made, "strict", "CiteSeer")[ORACLE]) == ""  # no common seed, no gain


def test_the_words_count_the_graphs_where_a_claim_holds():
    titles = [row.title for row in variants()]
    made = result([cell(title, "Cora", [80 + place, 81 + place]) for place, title in enumerate(titles)])
    words = ARTEFACT.reading(made)
    assert "holds on 0 of 1 graphs" in words[0]
    assert "Cora -2.0 (-2.0 to -2.0)" in words[1]  # Drop Only is third, Add Only fifth
    assert "Cora +1.0 (+1.0 to +1.0)" in words[2]
