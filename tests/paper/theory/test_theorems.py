import itertools
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from epagcl.data import load
from epagcl.data.checking import undirected_pairs
from epagcl.epr.change import theorem_3_3_conditions, theorem_3_3_repaired
from epagcl.epr.rate import error_passing_rate
from epagcl.paper.theory import theorems
from epagcl.paper.theory.tables import AUGMENTATIONS
from epagcl.paper.theory.theorems import (
    ADD_CUTOFF,
    P_ADD,
    absent_pairs,
    at_count,
    augmentations,
    contradictions,
    random_graph,
    theorem_3_5,
    view_rates,
)
from epagcl.views.probabilities import edge_weights

# circulant_graph(12, [1, 2]) with only node 6 in another class: an exception to Theorem 3.3.
CIRCULANT = torch.tensor(sorted((min(i, j), max(i, j)) for i in range(12) for s in (1, 2) for j in [(i + s) % 12])).T
ONE_OTHER = (torch.arange(12) == 6).long()


@pytest.fixture
def few(monkeypatch):
    """Measure few and small random graphs."""
    monkeypatch.setattr(theorems, "SIZES", (30,))
    monkeypatch.setattr(theorems, "REPEATS", 1)


def keys(pairs, num_nodes):
    return set((pairs[0] * num_nodes + pairs[1]).tolist())


@pytest.mark.parametrize(("low", "high"), theorems.FAMILIES.values())
def test_random_graphs_have_the_given_degrees(low, high):
    rng = np.random.default_rng(1)
    degree, y = rng.integers(low, high + 1, 60), rng.integers(3, size=60)
    degree[0] += degree.sum() % 2 if low < high else 0
    shares = []
    for stay in (0.0, 0.8):
        pairs = random_graph(degree, y, stay, rng)
        assert torch.bincount(pairs.flatten(), minlength=60).tolist() == degree.tolist()
        assert len(keys(pairs, 60)) == pairs.shape[1] == degree.sum() // 2
        assert (pairs[0] < pairs[1]).all()
        shares.append(float((y[pairs[0]] == y[pairs[1]]).mean()))
    assert shares[1] > shares[0] + 0.2


def test_many_draws_find_every_absent_pair_once():
    pairs = absent_pairs(CIRCULANT, 12, 5000, np.random.default_rng(0))
    every = {i * 12 + j for i, j in itertools.combinations(range(12), 2)}
    assert keys(pairs, 12) == every - keys(CIRCULANT, 12)
    assert pairs.shape[1] == 66 - 24


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("self_loops", [False, True])
def test_contradictions_agree_with_building_each_graph(dropped, self_loops):
    before = error_passing_rate(CIRCULANT, ONE_OTHER, per="edge", self_loops=self_loops)
    absent = absent_pairs(CIRCULANT, 12, 5000, np.random.default_rng(0))
    changed = CIRCULANT if dropped else absent
    repaired = theorem_3_3_repaired(CIRCULANT, 12, changed, self_loops=self_loops).tolist()
    want = {"within": [0, 0, 0.0, 0.0, 0, 0], "between": [0, 0, 0.0, 0.0, 0, 0]}
    for place, (i, j) in enumerate(changed.T.tolist()):
        rest = CIRCULANT[:, torch.arange(24) != place]
        graph = rest if dropped else torch.cat([CIRCULANT, torch.tensor([[i], [j]])], dim=1)
        change = error_passing_rate(graph, ONE_OTHER, per="edge", self_loops=self_loops) - before
        differs = ONE_OTHER[i] != ONE_OTHER[j]
        should_rise = bool(differs) != dropped
        against = abs(change) > 1e-14 and (change > 0) != should_rise
        row = want["between" if differs else "within"]
        covered = repaired[place]
        amounts = (1, against, abs(change), against * abs(change), covered, covered and against)
        for k, amount in enumerate(amounts):
            row[k] += amount
    got = contradictions(CIRCULANT, ONE_OTHER, changed, dropped=dropped, self_loops=self_loops)
    for where, row in want.items():
        assert got[where] == pytest.approx(row, abs=1e-12)


def test_the_known_exception_is_counted():
    assert theorem_3_3_conditions(CIRCULANT, 12).holds
    added = torch.tensor([[0], [3]])
    counts = contradictions(CIRCULANT, ONE_OTHER, added, dropped=False, self_loops=False)["within"]
    total, against, size, size_against, covered, _ = counts
    assert (total, against, covered) == (1, 1, 0)
    assert size == size_against == pytest.approx(0.16698 - 1 / 6, abs=5e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_random_graphs_are_counted_by_family():
    rows = theorems.random_graphs()["rows"]
    assert len(rows) == 2 * len(theorems.FAMILIES)
    assert all(row["graphs"] == len(theorems.CLASSES) for row in rows)
    for row in rows:
        for counts in row["added"]["d"].values():
            assert 0 <= counts[1] <= counts[0]
            assert 0 <= counts[3] <= counts[2]
        for form in ("d", "d1"):
            assert all(0 == counts[5] <= counts[4] <= counts[0] for counts in row["added"][form].values())
    assert sum(row["added"]["d"]["within"][1] for row in rows) > 0  # the theorem has exceptions
    assert theorems.random_graphs()["rows"] == rows


def test_predictions_are_exact_under_the_assumption():
    # A cycle whose classes go 0 0 1 1: each node has one neighbour of its class, k = 1/2 everywhere.
    n = 40
    cycle = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n]).sort(0).values
    y = torch.arange(n) % 4 // 2
    record = theorem_3_5(undirected_pairs(cycle, n), y)
    assert record["added"]["sign"] == 1
    assert record["added"]["pearson"] == pytest.approx(1)
    assert record["added"]["ratio"] == pytest.approx(1)
    assert len(record["added"]["points"]) == theorems.POINTS
    assert record["dropped"]["pairs"] == n


def test_probabilities_keep_their_sum_under_a_cutoff():
    share = torch.tensor([0.0, 0.5, 1.0, 6.5]).double()
    assert at_count(share, 1.0).tolist() == pytest.approx([0, 0.0625, 0.125, 0.8125])  # no value reaches the cut-off
    assert at_count(share, 1.6).tolist() == pytest.approx([0, 0.2, 0.4, 1.0])
    assert at_count(share, 1.5, cutoff=0.9).tolist() == pytest.approx([0, 0.2, 0.4, 0.9])
    assert at_count(torch.ones(4).double(), 1.0).tolist() == [0.25] * 4
    assert at_count(torch.empty(0).double(), 1.0).shape == (0,)  # a complete graph has no candidates
    assert at_count(torch.zeros(3).double(), 1.0).tolist() == [0, 0, 0]


@pytest.mark.parametrize("rate", theorems.RATES)
def test_augmentations_change_the_same_expected_number_of_edges(rate):
    data = load("demo", features=False)
    pairs = undirected_pairs(data.edge_index, data.num_nodes)
    weights = edge_weights(pairs, data.num_nodes), edge_weights(pairs, data.num_nodes, add="uniform")
    probabilities = augmentations(*weights, data.y, rate)
    assert list(probabilities) == list(AUGMENTATIONS)
    for name, p in probabilities.items():
        extra = P_ADD if name == "second_view" else 0
        assert float(p.drop.sum() + p.add.sum()) == pytest.approx((rate + extra) * pairs.shape[1])
        assert float(p.add.max() if p.add.numel() else 0) <= (1 if name == "uniform_add" else ADD_CUTOFF)
    differs = data.y[pairs[0]] != data.y[pairs[1]]
    oracle = probabilities["oracle_drop"].drop
    ratio = float(oracle[differs].mean() / oracle[~differs].mean())
    assert ratio == pytest.approx(0.85 / 0.15) or float(oracle.max()) == 1


def test_dropping_cannot_change_the_rate_of_a_bipartite_graph():
    # Two classes and no edge within one: dropping cannot change EPR = 1, adding within a class lowers it.
    i, j = torch.meshgrid(torch.arange(20), torch.arange(20, 40), indexing="ij")
    keep = (i + j) % 3 == 0
    y = (torch.arange(40) >= 20).long()
    record = view_rates(undirected_pairs(torch.stack([i[keep], j[keep]]), 40), y)
    assert record["epr"] == {"edge": 1, "node": 1}
    cells = record["rates"]["0.3"]
    for name in ("uniform_drop", "eq7_drop", "text_drop", "oracle_drop"):
        assert cells[name]["edge"] == cells[name]["node"] == [0, 0]
        assert cells[name]["wrong"] == pytest.approx(1)
    assert cells["uniform_add"]["edge"][0] < -0.05
    assert cells["uniform_add"]["changed"] == pytest.approx(0.3)


def test_no_real_graph_meets_the_conditions():
    root = os.environ.get("EPAGCL_DATA")
    if not root or not (Path(root) / "Cora.npz").exists():
        pytest.skip("Cora.npz is not in EPAGCL_DATA")
    cora = load("cora", root, features=False)
    pairs = undirected_pairs(cora.edge_index, cora.num_nodes)
    assert vars(theorem_3_3_conditions(pairs, cora.num_nodes)) == {"d_min": 1, "d_max": 168, "holds": False}
    cells = view_rates(pairs, cora.y)["rates"]["0.3"]
    assert cells["uniform_add"]["edge"][0] == pytest.approx(0.175, abs=0.01)
    assert abs(cells["text_drop"]["edge"][0]) < abs(cells["eq7_drop"]["edge"][0])
