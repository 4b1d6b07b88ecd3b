import json

import pytest
import torch

from epagcl.epr.change import epr_change, epr_change_predicted
from epagcl.epr.rate import error_passing_rate
from epagcl.epr.summary import epr_summary
from tests.epr.conftest import BUSY, COUNTEREXAMPLE, STAR, edges, messy_copy, random_graph


def test_summary():
    edge_index, y = edges([*STAR, (1, 2)]), torch.tensor([0, 0, 0, 1, 1, 0])
    summary = epr_summary(edge_index, y, top=3)
    assert (summary.num_nodes, summary.num_edges, summary.num_classes, summary.isolated_nodes) == (6, 5, 2, 1)
    degrees = summary.degree_min, summary.degree_mean, summary.degree_median, summary.degree_max
    assert degrees == (0, 10 / 6, 1.5, 4)
    assert not summary.theorem_3_3.holds
    assert summary.edge_homophily == pytest.approx(3 / 5)
    assert summary.node_homophily == pytest.approx((1 / 2 + 1 + 1 + 0 + 0) / 5)
    for rates, keywords in (
        (summary.epr, {}),
        (summary.epr_self_loops, {"self_loops": True}),
        (summary.epr_2_hops, {"hops": 2}),
    ):
        assert rates.per_node == error_passing_rate(edge_index, y, per="node", **keywords)
        assert rates.per_edge == error_passing_rate(edge_index, y, per="edge", **keywords)


def test_summary_names_the_edges_that_hurt_most():
    for seed in range(30):
        edge_index, y = random_graph(seed)
        summary = epr_summary(edge_index, y, top=4)
        change = epr_change(edge_index, y, edge_index)
        assert [e.change for e in summary.most_harmful] == sorted(c for c in change.tolist() if c < 0)[:4]
        for edge in summary.most_harmful:
            pair = torch.tensor([[edge.i], [edge.j]])
            assert float(epr_change(edge_index, y, pair)) == edge.change
            assert float(epr_change_predicted(edge_index, y, pair)) == edge.predicted
    assert epr_summary(edges(COUNTEREXAMPLE), torch.arange(12) % 2, top=0).most_harmful == ()


def test_summary_is_json():
    plain = epr_summary(edges([*STAR, (1, 2)]), torch.tensor([0, 0, 0, 1, 1])).to_dict()
    read = json.loads(json.dumps(plain, allow_nan=False))
    assert read["theorem_3_3"] == {"d_min": 1, "d_max": 4, "holds": False}
    assert set(read["epr"]) == {"per_node", "per_edge"}
    assert set(read["most_harmful"][0]) == {"i", "j", "change", "predicted"}


def test_summary_without_edges():
    none, y = torch.empty(2, 0, dtype=torch.long), torch.tensor([0, 1, 1])
    summary = epr_summary(none, y)
    assert summary.isolated_nodes == 3
    assert summary.most_harmful == ()
    assert json.loads(json.dumps(summary.to_dict(), allow_nan=False))["epr"] == {"per_node": None, "per_edge": None}


def test_direction_duplicates_and_loops_do_not_change_the_summary():
    edge_index, y = random_graph(BUSY)
    assert epr_summary(messy_copy(edge_index), y[:, None]) == epr_summary(edge_index, y)


def test_weights_enter_the_rates_and_not_the_degrees():
    edges, y = torch.tensor([[0, 0, 0], [1, 2, 3]]), torch.tensor([0, 0, 0, 1])
    weight = torch.tensor([1.0, 1.0, 4.0])
    summary = epr_summary(edges, y, edge_weight=weight)
    assert summary.epr.per_edge == pytest.approx(error_passing_rate(edges, y, per="edge", edge_weight=weight))
    assert summary.epr.per_edge == pytest.approx(0.5)  # √4 of √1 + √1 + √4
    assert (summary.degree_max, summary.edge_homophily) == (3, pytest.approx(2 / 3))
    assert [(edge.i, edge.j) for edge in summary.most_harmful] == [(0, 3)]


def test_ten_edges_are_listed_by_default():
    star = torch.stack([torch.zeros(40, dtype=torch.long), torch.arange(1, 41)])
    edges = torch.cat([star, torch.stack([torch.arange(1, 40), torch.arange(2, 41)])], dim=1)
    y = torch.arange(41) % 2
    assert len(epr_summary(edges, y).most_harmful) == 10
    assert len(epr_summary(edges, y, top=3).most_harmful) == 3
