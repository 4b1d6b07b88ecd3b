import itertools
import math
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from epagcl.core.errors import InputError
from epagcl.epr import rate
from epagcl.epr.rate import check_edge_index, error_passing_rate
from tests.conftest import random_edges
from tests.epr.conftest import (
    BUSY,
    K2,
    NUM_GRAPHS,
    STAR,
    TRIANGLE,
    adjacency_of,
    all_pairs,
    dense_epr,
    edges,
    messy_copy,
    nan_or,
    random_graph,
    real_graph,
)

# The paper's table (Appendix F), for the graphs in the data folder.
PER_NODE = {
    "Cora": 0.168,
    "CiteSeer": 0.286,
    "PubMed": 0.207,
    "ogbn-arxiv": 0.352,
    "Coauthor-CS": 0.160,
    "Coauthor-Physics": 0.081,
    "Amazon-Computers": 0.171,
    "Amazon-Photo": 0.132,
}
PER_EDGE = {"Cora": 0.1702, "CiteSeer": 0.2865, "PubMed": 0.2080}


@pytest.mark.slow
def test_rate_agrees_with_the_dense_definition():
    forms = list(itertools.product(("node", "edge"), (False, True), (1, 2, 3, 4)))
    for seed in range(NUM_GRAPHS):
        edge_index, y = random_graph(seed)
        adjacency = adjacency_of(edge_index, y.numel())
        for per, self_loops, hops in forms:
            got = error_passing_rate(edge_index, y, per=per, self_loops=self_loops, hops=hops)
            want = dense_epr(adjacency, y.numpy(), per, self_loops, hops)
            assert got == nan_or(want), (seed, per, self_loops, hops)


def test_row_blocks_do_not_change_the_diagonal(monkeypatch):
    edge_index, y = random_graph(BUSY)
    want = [error_passing_rate(edge_index, y, hops=k) for k in (2, 3, 4, 5)]
    monkeypatch.setattr(rate, "_MAX_ENTRIES", 3)  # blocks of about one row and one class
    assert [error_passing_rate(edge_index, y, hops=k) for k in (2, 3, 4, 5)] == pytest.approx(want, abs=1e-14)


def test_row_blocks_end_where_the_next_row_would_exceed_the_limit(monkeypatch):
    monkeypatch.setattr(rate, "_MAX_ENTRIES", 3)
    blocks = rate._row_blocks(sp.csr_array(np.eye(10)), power=1)  # 1, 2, ..., 10 entries so far
    assert [(block.start, block.stop) for block in blocks] == [(0, 2), (2, 5), (5, 8), (8, 10)]


@pytest.mark.parametrize(("hops", "power"), [(3, 2), (4, 2), (5, 3)])
def test_row_blocks_are_as_small_as_the_higher_of_the_two_powers_needs(monkeypatch, hops, power):
    powers = []
    blocks = rate._row_blocks
    monkeypatch.setattr(rate, "_row_blocks", lambda matrix, power: powers.append(power) or blocks(matrix, power))
    error_passing_rate(*random_graph(BUSY), hops=hops)
    assert set(powers) == {power}


def test_path_by_hand():
    # 0–1–2 with classes 0, 0, 1: Â = 1/√2 on both edges.
    edge_index, y = edges([(0, 1), (1, 2)]), torch.tensor([0, 0, 1])
    assert error_passing_rate(edge_index, y, per="edge") == pytest.approx(1 / 2)
    assert error_passing_rate(edge_index, y) == pytest.approx((0 + 1 / 2 + 1) / 3)
    # Two hops: 0–2 both ways, wrong; node 1 only comes back to itself.
    assert error_passing_rate(edge_index, y, hops=2) == pytest.approx(1.0)
    # Three hops: Â³ = Â, since Â² is a projection here.
    assert error_passing_rate(edge_index, y, hops=3) == pytest.approx((0 + 1 / 2 + 1) / 3)


def test_messages_are_weighted_by_degree():
    # A triangle 0, 1, 2 with 3 of another class at 0: 0 hears 3 with weight 1, and 1 and 2 with 1/√2 each.
    edge_index, y = edges([*TRIANGLE, (0, 3)]), torch.tensor([0, 0, 0, 1])
    assert error_passing_rate(edge_index, y) == pytest.approx((1 / (1 + 2 / math.sqrt(2)) + 0 + 0 + 1) / 4)
    wrong, right = 1 / math.sqrt(3), 2 / math.sqrt(6) + 1 / 2
    assert error_passing_rate(edge_index, y, per="edge") == pytest.approx(wrong / (wrong + right))
    wrong, right = 1 / math.sqrt(4 * 2), 2 / math.sqrt(4 * 3) + 1 / 3
    assert error_passing_rate(edge_index, y, per="edge", self_loops=True) == pytest.approx(wrong / (wrong + right))


def test_star_by_hand():
    # Centre 0 of class 0; leaves 1, 2 of class 0 and 3, 4 of class 1.
    edge_index, y = edges(STAR), torch.tensor([0, 0, 0, 1, 1])
    for self_loops in (False, True):
        assert error_passing_rate(edge_index, y, per="edge", self_loops=self_loops) == pytest.approx(1 / 2)
        assert error_passing_rate(edge_index, y, self_loops=self_loops) == pytest.approx((1 / 2 + 0 + 0 + 1 + 1) / 5)
        # Two hops: each leaf hears the three others, two of them wrong; the centre hears none.
        assert error_passing_rate(edge_index, y, hops=2, self_loops=self_loops) == pytest.approx(2 / 3)


def test_complete_graph_counts_edges():
    y = torch.tensor([0, 0, 0, 1, 1])  # 6 of the 10 pairs are wrong
    for per, want in (("edge", 6 / 10), ("node", (3 * 2 / 4 + 2 * 3 / 4) / 5)):
        for self_loops, hops in itertools.product((False, True), (1, 2, 3)):
            got = error_passing_rate(all_pairs(5), y, per=per, self_loops=self_loops, hops=hops)
            assert got == pytest.approx(want)


@pytest.mark.parametrize(("y", "want"), [([0, 0], 0.0), ([0, 1], 1.0)])
def test_rate_of_a_single_edge(y, want):
    y = torch.tensor(y)
    for per, self_loops, hops in itertools.product(("node", "edge"), (False, True), (1, 3, 5)):
        assert error_passing_rate(edges(K2), y, per=per, self_loops=self_loops, hops=hops) == want
    assert math.isnan(error_passing_rate(edges(K2), y, hops=2))  # every walk of two edges returns


def test_rate_without_edges_is_nan():
    none, y = torch.empty(2, 0, dtype=torch.long), torch.tensor([0, 1, 1])
    for per, hops in itertools.product(("node", "edge"), (1, 2, 3)):
        assert math.isnan(error_passing_rate(none, y, per=per, hops=hops))


def test_isolated_nodes_do_not_count():
    edge_index = edges(STAR)
    y, more = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 0, 0, 1, 1, 7, 7])
    for per, hops in itertools.product(("node", "edge"), (1, 2, 3, 4)):
        assert error_passing_rate(edge_index, y, per, hops=hops) == error_passing_rate(edge_index, more, per, hops=hops)


def test_components_add_up():
    # Two triangles far apart: one pure, one with a node of another class (4 of 6 directed edges wrong).
    pairs = [*TRIANGLE, *((i + 3, j + 3) for i, j in TRIANGLE)]
    y = torch.tensor([0, 0, 0, 0, 0, 1])
    assert error_passing_rate(edges(pairs), y, per="edge") == pytest.approx((0 + 4) / 12)
    assert error_passing_rate(edges(pairs), y) == pytest.approx((0 + 1 / 2 + 1 / 2 + 1) / 6)


def test_heterophilous_ring_is_right_at_two_hops():
    ring = edges([(i, (i + 1) % 8) for i in range(8)])
    y = torch.arange(8) % 2
    rates = [error_passing_rate(ring, y, per=per, hops=k) for per in ("node", "edge") for k in (1, 2, 3, 4)]
    assert rates == [1.0, 0.0, 1.0, 0.0] * 2


def test_direction_duplicates_and_loops_do_not_change_the_rate():
    edge_index, y = random_graph(BUSY)
    messy = messy_copy(edge_index)
    for per, hops in itertools.product(("node", "edge"), (1, 2, 3)):
        assert error_passing_rate(messy, y, per, hops=hops) == error_passing_rate(edge_index, y, per, hops=hops)


def test_relabelling_classes_does_not_change_the_rate():
    edge_index, y = random_graph(BUSY)
    assert error_passing_rate(edge_index, y, hops=3) == pytest.approx(error_passing_rate(edge_index, 10**9 - y, hops=3))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"per": "graph"}, "pass 'node' or 'edge'"),
        ({"hops": 0}, "hops=0: give a whole number of at least 1"),
        ({"hops": 1.5}, "hops=1.5: give a whole number"),
        ({"y": torch.tensor([0, -1, 1])}, "1 of 3 nodes have no class.*keep the labelled part"),
        ({"y": torch.tensor([0, 1])}, "pass a class for every node"),
        ({"y": torch.zeros(3, 2)}, "one class number per node"),
        ({"y": torch.tensor([])}, "one class number per node"),
        ({"edge_index": torch.tensor([0, 1])}, r"pass \[2, P\]"),
        ({"edge_index": torch.tensor([[0.0], [1.0]])}, "must be integers"),
        ({"edge_index": torch.tensor([[0], [-1]])}, r"edge_index\[:, 0\] is \(0, -1\)"),
    ],
)
def test_errors_name_the_argument_and_the_fix(keywords, message):
    with pytest.raises(InputError, match=message):
        error_passing_rate(**({"edge_index": edges(TRIANGLE), "y": torch.tensor([0, 0, 1])} | keywords))


@pytest.mark.parametrize("name", PER_NODE)
def test_the_paper_reports_epr_per_node(name):
    edge_index, y = real_graph(name)
    assert round(error_passing_rate(edge_index, y), 3) == PER_NODE[name]


@pytest.mark.parametrize("name", PER_EDGE)
def test_epr_per_edge_of_real_graphs(name):
    assert round(error_passing_rate(*real_graph(name), per="edge"), 4) == PER_EDGE[name]


@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_weighted_rates_equal_a_dense_computation(seed, self_loops):
    generator = torch.Generator().manual_seed(seed)
    edges = random_edges(9, 0.4, seed)
    weight = torch.rand(edges.shape[1], generator=generator, dtype=torch.float64) + 0.1
    y = torch.randint(3, (9,), generator=generator)
    a = torch.zeros(9, 9, dtype=torch.float64)
    a[edges[0], edges[1]] = a[edges[1], edges[0]] = weight / weight.mean()
    q = a.sum(1) + int(self_loops)
    a_hat = torch.where(a > 0, a / (q[:, None] * q).sqrt(), 0.0)
    wrong = a_hat * (y[:, None] != y)
    rate = partial(error_passing_rate, edges, y, self_loops=self_loops, edge_weight=weight)
    assert rate(per="edge") == pytest.approx(float(wrong.sum() / a_hat.sum()))
    receives = a_hat.sum(1) > 0
    assert rate(per="node") == pytest.approx(float((wrong.sum(1) / a_hat.sum(1))[receives].mean()))
    two = (a_hat @ a_hat).fill_diagonal_(0)
    assert rate(per="edge", hops=2) == pytest.approx(float((two * (y[:, None] != y)).sum() / two.sum()))


def test_equal_weights_change_no_bit_and_wrong_ones_are_refused():
    edges, y = random_edges(12, 0.3, 0), torch.arange(12) % 3
    assert error_passing_rate(edges, y, edge_weight=torch.full((edges.shape[1],), 3.0)) == error_passing_rate(edges, y)
    with pytest.raises(InputError, match="edge_weight has shape \\(2,\\); pass one per edge"):
        error_passing_rate(edges, y, edge_weight=torch.ones(2))
    with pytest.raises(InputError, match="weights must be finite and positive"):
        error_passing_rate(edges, y, edge_weight=torch.zeros(edges.shape[1]))


@pytest.mark.parametrize("num_nodes", [1.5, -1, 2**62])
def test_the_number_of_nodes_is_checked(num_nodes):
    with pytest.raises(InputError, match=r"^num_nodes=.*: give a whole number"):
        check_edge_index(torch.tensor([[0], [1]]), num_nodes)
