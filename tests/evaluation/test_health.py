import json
from operator import truediv
from pathlib import Path
from statistics import fmean

import pytest
import torch
import torch.nn.functional as F

import epagcl
from benchmarks.health import SPOILT, summary
from epagcl.core.errors import InputError
from epagcl.evaluation import health
from epagcl.evaluation.health import (
    Finding,
    Measures,
    alignment,
    distance_between_nodes,
    effective_rank,
    judge,
    judge_agreement,
    neighbour_agreement,
    overall,
    sample,
    shared_neighbours,
    uniformity,
)

RESULTS = Path(__file__).parents[2] / "results"


def rows(n=40, d=6, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def test_one_direction_has_rank_1_and_orthonormal_rows_full_rank():
    assert effective_rank(torch.ones(50, 8) * torch.rand(50, 1)) == pytest.approx(1, abs=1e-3)
    assert effective_rank(torch.eye(8).repeat(3, 1)) == pytest.approx(8)


def test_two_equal_directions_among_eight():
    z = torch.zeros(10, 8)
    z[:5, 0] = z[5:, 3] = 2.0
    assert effective_rank(z) == pytest.approx(2)


def test_alignment_is_0_for_the_same_directions_2_for_orthogonal_and_4_for_opposite_ones():
    z = rows()
    assert alignment(z, 3 * z) == pytest.approx(0, abs=1e-6)
    assert alignment(z, -z) == pytest.approx(4, abs=1e-5)
    one, other = torch.eye(6)[:3], torch.eye(6)[3:]
    assert alignment(one, other) == pytest.approx(2)


def test_uniformity_is_the_formula(monkeypatch):
    z = rows()
    u = F.normalize(z, dim=1).double()
    off = ~torch.eye(40, dtype=torch.bool)
    expected = torch.exp(-2 * torch.cdist(u, u).square())[off].mean().log().item()
    assert uniformity(z) == pytest.approx(expected, abs=1e-5)
    monkeypatch.setattr(health, "ROWS", 7)  # blocks that do not divide 40
    assert uniformity(z) == pytest.approx(expected, abs=1e-5)
    assert uniformity(torch.ones(30, 4)) == pytest.approx(0, abs=1e-6)
    assert uniformity(torch.eye(300)) == pytest.approx(-4, abs=1e-4)


def test_distance_between_nodes_is_that_of_different_nodes():
    z = rows()
    u = F.normalize(z, dim=1).double()
    expected = torch.cdist(u, u).square().sum().item() / (40 * 39)
    assert distance_between_nodes(z) == pytest.approx(expected, rel=1e-5)


def test_a_sample_is_always_the_same_and_sorted():
    assert sample(5).tolist() == [0, 1, 2, 3, 4]
    some = sample(10_000, 50)
    assert some.tolist() == sorted(set(some.tolist()))
    assert len(some) == 50
    assert torch.equal(some, sample(10_000, 50))
    assert some[-1] > 9_000  # not just the first nodes


def test_agreement_counts_common_neighbours():
    assert shared_neighbours(torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([[3, 2, 9], [7, 8, 9]])) == 2 / 6
    z = rows(200)
    rotation = torch.linalg.qr(rows(6, 6, seed=1)).Q
    matrix = neighbour_agreement([z, z @ rotation, rows(200, seed=5)], k=10)
    assert matrix[0][1] == matrix[1][0] == 1  # a rotation preserves neighbours
    assert matrix[0][2] == pytest.approx(10 / 199, abs=0.03)  # chance
    assert [matrix[k][k] for k in range(3)] == [1, 1, 1]


def measures(**changes):
    return {"effective_rank": 100.0, "alignment": 0.1, "uniformity": -2.0, "distance": 1.0, **changes}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["good", "good", "good"]),
        ({"effective_rank": 15.0}, ["fair", "good", "good"]),
        ({"effective_rank": 1.2, "uniformity": 0.0, "alignment": 0.0, "distance": 0.0}, ["poor", "poor", "good"]),
        ({"alignment": 0.4}, ["good", "good", "fair"]),
        ({"alignment": 1.2}, ["good", "good", "poor"]),
        ({"uniformity": -0.3}, ["good", "fair", "good"]),
    ],
)
def test_verdicts(changes, expected):
    assert [finding.verdict for finding in judge(measures(**changes), 1000, 256)] == expected


def test_the_rank_is_judged_relative_to_its_upper_bound():
    """A rank of 19 is high with 40 feature columns and low with 500."""
    assert judge(measures(effective_rank=19.0), 1000, 256, 40)[0].verdict == "good"
    assert judge(measures(effective_rank=19.0), 1000, 256, 500)[0].verdict == "fair"
    assert judge(measures(distance=1e-12), 1000, 256)[2].shown == "> 1000%"


def test_words_explain_the_measure_and_the_remedy():
    rank, spread, moved = judge(measures(effective_rank=1.0, uniformity=0.0, alignment=0.3), 1000, 256)
    assert rank.shown == "1 of 256"
    assert "lower the learning rate" in rank.words
    assert "same embedding" in spread.words
    assert moved.shown == "30%"
    assert overall([rank, spread, moved]) == "training went wrong: see effective rank and uniformity"
    assert overall(judge(measures(), 1000, 256)) == "no sign that training went wrong"
    assert "worth a look" in overall([moved])


def test_agreement_is_judged():
    finding = judge_agreement([[1, 0.7, 0.8], [0.7, 1, 0.6], [0.8, 0.6, 1]])
    assert (finding.value, finding.shown, finding.verdict) == (pytest.approx(0.7), "70%", "good")
    assert judge_agreement([[1, 0.2], [0.2, 1]]).verdict == "poor"


def test_health_of_a_model_equals_the_last_measures_of_its_history(small_graph):
    model = epagcl.EPAGCL(epochs=30, hidden=32, dim=16, projection=16, device="cpu").fit(small_graph)
    findings = model.health(small_graph)
    assert [type(one) for one in findings] == [Finding] * 3
    last = model.history_[-1]
    assert findings[0].value == pytest.approx(last["effective_rank"], rel=1e-5)
    assert findings[1].value == pytest.approx(last["uniformity"], rel=1e-4)
    assert findings[2].value == pytest.approx(last["alignment"], rel=1e-4)


def test_the_verdicts_separate_failed_from_successful_training_in_the_measured_results():
    verdicts = summary(json.loads((RESULTS / "benchmarks" / "health.json").read_text()))
    whole, untrained, bad, less = (verdicts[kind] for kind in row_kinds(verdicts))
    assert len(whole) >= 50
    assert whole.count("good") / len(whole) > 0.7
    assert whole.count("poor") / len(whole) < 0.1
    assert "good" not in untrained + bad + less
    assert bad.count("poor") / len(bad) > 0.7


def row_kinds(verdicts):
    order = ("with its recipe", "not trained", "5 points or more", "less than 5 points")
    return [next(kind for kind in verdicts if words in kind) for words in order]


def test_claims_about_trained_and_untrained_encoders_hold_in_the_measured_results():
    """Checks the text of a fair alignment and the claims in docs/report.md."""
    rows = json.loads((RESULTS / "benchmarks" / "health.json").read_text())["rows"]
    rows = [row for row in rows if row["row"] not in SPOILT]
    moved = {(row["graph"], row["row"]): fmean(map(truediv, row["alignment"], row["distance"])) for row in rows}
    accuracy = {(row["graph"], row["row"]): 100 * fmean(row["accuracy"]) for row in rows}
    trained = [moved[row["graph"], row["row"]] for row in rows if not row["changes"]]
    assert min(value for (_, kind), value in moved.items() if kind == "untrained") > 0.3
    assert sum(value < 0.25 for value in trained) / len(trained) > 0.75

    assert accuracy["texas", "GMI"] == pytest.approx(46.7, abs=0.05)
    raw = next(row["raw"] for row in rows if row["graph"] == "texas")
    assert 100 * fmean(raw) == pytest.approx(66.2, abs=0.05)
    others = [value for (graph, _), value in accuracy.items() if graph == "amazon-photo" and value > 90]
    for name in ("DGI", "GMI", "MVGRL"):
        assert 0.6 <= moved["amazon-photo", name] <= 0.85
        assert accuracy["amazon-photo", name] > min(others) - 1


def test_a_change_of_ten_distances_is_still_shown():
    values = {"effective_rank": 100.0, "distance": 1.0, "uniformity": -2.0}
    shown = [judge(Measures(alignment=change, **values), nodes=1000, dim=256)[2].shown for change in (10.0, 10.1)]
    assert shown == ["1000%", "> 1000%"]


@pytest.mark.parametrize(("value", "verdict"), [(0.29, "poor"), (0.3, "fair"), (0.49, "fair"), (0.5, "good")])
def test_verdicts_on_agreement(value, verdict):
    assert judge_agreement([[1.0, value], [value, 1.0]]).verdict == verdict


@pytest.mark.parametrize("missing", ["effective_rank", "uniformity", "alignment", "distance"])
def test_every_measure_is_needed(missing):
    measures = {"effective_rank": 100.0, "alignment": 0.1, "distance": 1.0, "uniformity": -2.0, missing: None}
    with pytest.raises(ValueError, match="are all needed"):
        judge(measures, nodes=1000, dim=256)


def test_embeddings_of_odd_types_have_the_measures_of_their_numbers():
    z = torch.eye(4).repeat(2, 1)
    for other in (z.to_sparse_csr(), z.bool(), z.half(), z.double(), z.clone().requires_grad_()):
        assert effective_rank(other) == pytest.approx(4)
        assert uniformity(other) == pytest.approx(uniformity(z))
    for wrong, message in (
        (z.numpy(), "z is a ndarray; give a tensor"),
        (z[0], r"z: shape \(4,\)"),
        (z / 0, "z has NaN"),
    ):
        with pytest.raises(InputError, match=message):
            effective_rank(wrong)


@pytest.mark.parametrize(
    ("rank", "spread", "expected"),
    [
        (100.0, -0.1, ("good", "fair")),
        (100.0, -0.09, ("good", "poor")),
        (100.0, -0.5, ("good", "good")),
        (2.0, -1.0, ("fair", "good")),
        (1.99, -1.0, ("poor", "good")),
        (3.0, -1.0, ("good", "good")),
    ],
)
def test_verdicts_at_their_limits(rank, spread, expected):
    measures = Measures(effective_rank=rank, alignment=0.1, distance=1.0, uniformity=spread)
    found = judge(measures, nodes=1000, dim=256 if rank == 100 else 30)
    assert tuple(finding.verdict for finding in found[:2]) == expected
