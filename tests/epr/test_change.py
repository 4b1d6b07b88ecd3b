import math

import numpy as np
import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.epr.alpha import alpha_add, alpha_drop
from epagcl.epr.change import epr_change, epr_change_predicted, theorem_3_3_conditions
from epagcl.epr.rate import error_passing_rate
from tests.epr.conftest import (
    BUSY,
    COUNTEREXAMPLE,
    K2,
    NUM_GRAPHS,
    STAR,
    TRIANGLE,
    adjacency_of,
    all_pairs,
    dense_a_hat,
    dense_epr,
    edges,
    messy_copy,
    random_graph,
    real_graph,
    toggled,
)

REAL_GRAPHS = (
    "Cora",
    "CiteSeer",
    "PubMed",
    "ogbn-arxiv",
    "Coauthor-CS",
    "Coauthor-Physics",
    "Amazon-Computers",
    "Amazon-Photo",
)
# Blocks for `blow_up`: edges between copies, classes of the copies, share k of errors.
TWO_WAYS = ([[1, 1], [1, 1]], [0, 1], 1 / 2)
ONE_IN_THREE = ([[1, 1, 1, 0], [1, 1, 0, 1], [1, 0, 1, 1], [0, 1, 1, 1]], [0, 0, 1, 1], 1 / 3)
IRREGULAR = [(0, 1), (0, 2), (0, 3), (1, 2), (3, 4)]  # degrees 3, 2, 2, 2, 1


@pytest.mark.parametrize("self_loops", [False, True])
def test_change_agrees_with_building_the_other_graph(self_loops):
    kinds = {True: 0, False: 0}
    for seed in range(NUM_GRAPHS):
        edge_index, y = random_graph(seed)
        adjacency, labels = adjacency_of(edge_index, y.numel()), y.numpy()
        pairs = all_pairs(y.numel())
        before = dense_epr(adjacency, labels, self_loops=self_loops)
        after = [dense_epr(toggled(adjacency, i, j), labels, self_loops=self_loops) for i, j in pairs.T.tolist()]
        change = epr_change(edge_index, y, pairs, self_loops=self_loops)
        assert change.dtype == torch.float64
        np.testing.assert_allclose(change.numpy(), np.array(after) - before, rtol=1e-9, atol=1e-13)
        for i, j in pairs.T.tolist():
            kinds[bool(adjacency[i, j])] += 1
    assert min(kinds.values()) > 1000


@pytest.mark.slow
def test_adding_then_dropping_cancels():
    for seed in range(60):
        edge_index, y = random_graph(seed)
        if edge_index.shape[1] == 0:
            continue
        present = {tuple(p) for p in edge_index.T.tolist()}
        for pair in all_pairs(y.numel()).T.tolist():
            if tuple(pair) in present:
                continue
            pair = torch.tensor(pair)[:, None]
            bigger = torch.cat([edge_index, pair], dim=1)
            for self_loops in (False, True):
                there = epr_change(edge_index, y, pair, self_loops)
                back = epr_change(bigger, y, pair, self_loops)
                assert float(there + back) == pytest.approx(0.0, abs=1e-14)


def test_changes_of_a_star_by_hand():
    # Centre 0 of class 0; leaves 1, 2 of class 0 and 3, 4 of class 1.
    edge_index, y = edges(STAR), torch.tensor([0, 0, 0, 1, 1])
    # Dropping 0–3 leaves a star with one wrong leaf of three. Adding 1–2 makes a triangle with two tails.
    assert epr_change(edge_index, y, edges([(0, 3)])).tolist() == pytest.approx([1 / 3 - 1 / 2])
    wrong, right = 2 / math.sqrt(4), 2 / math.sqrt(8) + 1 / 2
    assert epr_change(edge_index, y, edges([(1, 2)])).tolist() == pytest.approx([wrong / (wrong + right) - 1 / 2])


@pytest.mark.parametrize("y", [[0, 0], [0, 1]])
def test_dropping_the_only_edge_leaves_no_rate(y):
    y = torch.tensor(y)
    for self_loops in (False, True):
        assert epr_change(edges(K2), y, edges(K2), self_loops).isnan().all()
    assert epr_change_predicted(edges(K2), y, edges(K2)).isnan().all()


def test_change_without_edges_is_nan():
    none, y = torch.empty(2, 0, dtype=torch.long), torch.tensor([0, 1, 1])
    assert epr_change(none, y, edges(K2)).isnan().all()
    assert epr_change_predicted(none, y, edges(K2)).isnan().all()
    assert epr_change(edges(K2), y, none).shape == (0,)


def test_direction_duplicates_and_loops_do_not_change_the_change():
    edge_index, y = random_graph(BUSY)
    pairs = all_pairs(y.numel())
    assert torch.equal(epr_change(messy_copy(edge_index), y, pairs.flip(0)), epr_change(edge_index, y, pairs))


def test_pairs_as_columns_as_rows_and_as_a_list():
    edges, y = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), torch.tensor([0, 0, 1, 1])
    columns = torch.tensor([[0, 0, 1], [2, 1, 3]])
    expected = epr_change(edges, y, columns)
    assert torch.equal(epr_change(edges, y, columns.T), expected)
    assert torch.equal(epr_change(edges, y, [(0, 2), (0, 1), (1, 3)]), expected)
    assert torch.equal(epr_change(edges, y, [(0, 2)]), expected[:1])
    assert torch.equal(epr_change(edges, y, columns.tolist()), expected)
    assert torch.equal(epr_change(edges, y, columns.numpy().T), expected)
    assert torch.equal(epr_change(edges, y, [(0, 2), (0, 1)]), expected[:2])


@pytest.mark.parametrize("function", [epr_change, epr_change_predicted])
@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([[0, 1], [2, 1]], r"pairs\[:, 1\] is node 1 twice"),
        ([[0, 1], [2, 3]], r"pairs\[:, 1\] is \(1, 3\)"),
        ([[0, 1, 2], [1, 2, 0], [0, 2, 1]], r"pairs has shape \(3, 3\); pass \[2, P\]"),
    ],
)
def test_errors_name_the_wrong_pair(function, pairs, message):
    with pytest.raises(InputError, match=message):
        function(edges(TRIANGLE), torch.tensor([0, 0, 1]), torch.tensor(pairs))


def test_change_on_a_real_graph():
    edge_index, y = real_graph("Cora")
    pairs = edge_index[:, edge_index[0] < edge_index[1]].long()
    before = error_passing_rate(pairs, y, per="edge")
    change = epr_change(pairs, y, pairs)
    for place in range(0, pairs.shape[1], 97):
        rest = torch.cat([pairs[:, :place], pairs[:, place + 1 :]], dim=1)
        after = error_passing_rate(rest, y, per="edge")
        assert float(change[place]) == pytest.approx(after - before, abs=1e-13)


def test_theorem_3_3_has_a_counterexample():
    edge_index, y = edges(COUNTEREXAMPLE), torch.zeros(12, dtype=torch.long)
    y[6] = 1
    added = torch.tensor([[0], [3]])
    assert theorem_3_3_conditions(edge_index, 12).holds
    before = error_passing_rate(edge_index, y, per="edge")
    after = error_passing_rate(torch.cat([edge_index, added], dim=1), y, per="edge")
    assert (round(before, 5), round(after, 5)) == (0.16667, 0.16698)
    assert float(epr_change(edge_index, y, added)) == pytest.approx(after - before)
    assert float(epr_change_predicted(edge_index, y, added)) < 0  # the theory has the other sign


def test_theorem_3_3_conditions():
    ring = edges([(i, (i + 1) % 6) for i in range(6)])
    conditions = theorem_3_3_conditions(ring, 6)
    assert (conditions.d_min, conditions.d_max, conditions.holds) == (2, 2, True)
    conditions = theorem_3_3_conditions(ring, 7)  # an isolated node
    assert (conditions.d_min, conditions.d_max, conditions.holds) == (0, 2, False)
    # d_min = 1 allows d_max = 3, not 4.
    assert theorem_3_3_conditions(edges(STAR[:3]), 4).holds
    assert not theorem_3_3_conditions(edges(STAR), 5).holds
    with pytest.raises(InputError, match="at least one node"):
        theorem_3_3_conditions(ring, 0)


@pytest.mark.parametrize("name", REAL_GRAPHS)
def test_no_real_graph_meets_the_conditions(name):
    edge_index, y = real_graph(name)
    assert not theorem_3_3_conditions(edge_index, y.numel()).holds


def blow_up(base, num_nodes, block, classes):
    """Replace each node of ``base`` by copies of the given ``classes``, and each edge by ``block`` between the copies.

    The copies of a node have the same degree, so that each node receives messages from the classes in the proportions
    of its row of ``block``. Assumption 3.4 holds for any ``base`` if all rows have the same share of errors.
    """
    adjacency = np.kron(adjacency_of(base, num_nodes), np.array(block))
    return torch.from_numpy(np.argwhere(np.triu(adjacency))).T.contiguous(), torch.tensor(classes).repeat(num_nodes)


@pytest.mark.parametrize(("block", "classes", "k"), [TWO_WAYS, ONE_IN_THREE])
@pytest.mark.parametrize("base", [TRIANGLE, IRREGULAR], ids=["regular", "irregular"])
def test_theorem_3_5_is_exact_under_assumption_3_4(base, block, classes, k):
    num_nodes = max(map(max, base)) + 1
    edge_index, y = blow_up(edges(base), num_nodes, block, classes)
    assert error_passing_rate(edge_index, y) == pytest.approx(k)
    assert error_passing_rate(edge_index, y, per="edge") == pytest.approx(k)
    present = adjacency_of(edge_index, y.numel()) > 0
    degree = torch.from_numpy(present.sum(1))
    for pair in all_pairs(y.numel()).T:
        column = pair[:, None]
        i, j = pair.tolist()
        exact = float(epr_change(edge_index, y, column))
        if not present[i, j]:
            assert exact == pytest.approx(float(epr_change_predicted(edge_index, y, column)), abs=1e-14)
            # Dropping it again: exact with k of the graph without the edge; the default gives 1 − α/m' of it.
            bigger = torch.cat([edge_index, column], dim=1)
            m = dense_a_hat(adjacency_of(bigger, y.numel()), False).sum()
            factor = 1 - float(alpha_add(degree, column)) / m
            assert float(epr_change(bigger, y, column)) == pytest.approx(
                float(epr_change_predicted(bigger, y, column, k=k)), abs=1e-14
            )
            assert float(epr_change_predicted(bigger, y, column)) == pytest.approx(-exact * factor, abs=1e-14)
        else:
            # The assumption holds with the edge: the exact value is that of the docstring, not that of Eq. 6.
            xi, d_i, d_j = float(y[i] != y[j]), int(degree[i]), int(degree[j])
            m = dense_a_hat(toggled(present.astype(float), i, j), False).sum()
            stretch = math.sqrt(d_i / (d_i - 1)) + math.sqrt(d_j / (d_j - 1)) - 1
            assert exact == pytest.approx((k - xi) * float(alpha_drop(degree, column)) * stretch / m, abs=1e-14)
            assert abs(exact - float(epr_change_predicted(edge_index, y, column))) > 1e-5


def test_theorem_3_5_is_not_exact_without_the_assumption():
    off = []
    for seed in range(20):
        edge_index, y = random_graph(seed)
        pairs = all_pairs(y.numel())
        off.append((epr_change(edge_index, y, pairs) - epr_change_predicted(edge_index, y, pairs)).abs())
    off = torch.cat(off)
    assert float(off[~off.isnan()].max()) > 0.05
