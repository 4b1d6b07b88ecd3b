import math

import numpy as np
import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.epr.alpha import alpha_add, alpha_drop
from epagcl.epr.change import (
    epr_change,
    epr_change_predicted,
    theorem_3_3_conditions,
    theorem_3_3_repaired,
)
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


def follows_theorem_3_3(edge_index, y, pairs, self_loops):
    """Return for each absent pair whether it changes EPR as Theorem 3.3 states, or not at all."""
    change = epr_change(edge_index, y, pairs, self_loops=self_loops)
    return torch.where(y[pairs[0]] != y[pairs[1]], change > -1e-14, change < 1e-14)


def absent(edge_index, num_nodes):
    return edges(set(map(tuple, all_pairs(num_nodes).T.tolist())) - set(map(tuple, edge_index.sort(0)[0].T.tolist())))


def copies(pairs, num_nodes, times):
    return torch.cat([edges(pairs) + num_nodes * copy for copy in range(times)], dim=1)


@pytest.mark.parametrize("self_loops", [False, True])
def test_repaired_theorem_holds_where_the_edge_raises_the_sum_of_messages(self_loops):
    unmet = 0
    for seed in range(NUM_GRAPHS):
        edge_index, y = random_graph(seed)
        adjacency, pairs = adjacency_of(edge_index, y.numel()), all_pairs(y.numel())
        met = theorem_3_3_repaired(edge_index, y.numel(), pairs, self_loops=self_loops)
        sign = torch.tensor([1 - 2 * adjacency[i, j] for i, j in pairs.T.tolist()])
        sums = [dense_a_hat(toggled(adjacency, i, j), self_loops).sum() for i, j in pairs.T.tolist()]
        growth = sign * (torch.tensor(sums) - dense_a_hat(adjacency, self_loops).sum())
        assert torch.equal(met, growth > 1e-12)
        rises = sign * epr_change(edge_index, y, pairs, self_loops=self_loops)
        differs = y[pairs[0]] != y[pairs[1]]
        assert (rises[met & differs].nan_to_num() > -1e-14).all()
        assert (rises[met & ~differs].nan_to_num() < 1e-14).all()
        if 0 < error_passing_rate(edge_index, y, per="edge") < 1:  # then an addition changes it
            assert (rises[met & (sign > 0)] != 0).all()
        unmet += int((~met).sum())
    assert unmet > (1 if self_loops else 500)


@pytest.mark.parametrize("degree", [2, 4, 8])
def test_nearly_regular_graphs_have_no_exception_with_self_loops(degree):
    # A circulant graph and a partial matching: the degrees are d and d + 1.
    rng, n = np.random.default_rng(degree), 40
    ring = [tuple(sorted((i, (i + step) % n))) for i in range(n) for step in range(1, degree // 2 + 1)]
    for size in (0, 3, 8):
        ends = rng.permutation(20)[:size]  # the matching joins opposite nodes
        edge_index = edges([*ring, *((int(i), int(i) + 20) for i in ends)])
        pairs = absent(edge_index, n)
        assert theorem_3_3_repaired(edge_index, n, pairs, self_loops=True).all()
        if size == 0:
            assert not theorem_3_3_repaired(edge_index, n, pairs).any()
        for classes in (2, 3):
            y = torch.from_numpy(rng.integers(classes, size=n))
            assert follows_theorem_3_3(edge_index, y, pairs, True).all()


@pytest.mark.parametrize("d", [1, 2, 3, 6, 15])
def test_bounds_of_the_repaired_theorem_are_sharp(d):
    # With d + 1: d_max = d_min + 2 in three complete bipartite graphs. With d: regular graphs, three complete ones.
    bipartite = [(i, d + j) for i in range(d) for j in range(d + 2)]
    complete = [(i, j) for j in range(d + 1) for i in range(j)]
    for pairs, size, self_loops in ((bipartite, 2 * d + 2, True), (complete, d + 1, False)):
        edge_index, added = copies(pairs, size, 3), torch.tensor([[0], [size]])
        within, between = torch.zeros(3 * size, dtype=torch.long), torch.full((3 * size,), 2)
        within[2 * size] = 1
        between[0], between[size] = 0, 1
        assert not theorem_3_3_repaired(edge_index, 3 * size, added, self_loops=self_loops).any()
        assert float(epr_change(edge_index, within, added, self_loops=self_loops)) > 0
        assert float(epr_change(edge_index, between, added, self_loops=self_loops)) < 0


def test_ends_below_all_neighbours_meet_the_repaired_condition():
    for d in range(1, 8):
        # Two nodes of degree d whose neighbours have degree d + 1, and then degree d.
        for hub, expected in ((d + 1, True), (d, False)):
            star = [(0, 1 + u) for u in range(d)]
            leaves = [(1 + u, 1 + d + u * (hub - 1) + k) for u in range(d) for k in range(hub - 1)]
            size = 1 + d * hub
            edge_index = copies([*star, *leaves], size, 2)
            assert theorem_3_3_repaired(edge_index, 2 * size, [(0, size)]).tolist() == [expected]


def test_the_papers_conditions_are_enough_if_the_ends_are_at_most_twice_as_right():
    exceptions = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = 24
        ring = {tuple(sorted((i, (i + step) % n))) for i in range(n) for step in (1, 2)}
        extra = {tuple(sorted(pair)) for pair in rng.integers(n, size=(30, 2)).tolist() if pair[0] != pair[1]}
        edge_index, y = edges(ring | extra), torch.from_numpy(rng.integers(2 + seed % 2, size=n))
        if not theorem_3_3_conditions(edge_index, n).holds:
            continue
        pairs = absent(edge_index, n)
        a_hat = dense_a_hat(adjacency_of(edge_index, n), False)
        rate = torch.from_numpy((a_hat * (y[:, None] != y[None, :]).numpy()).sum(1) / a_hat.sum(1))[pairs]
        r = error_passing_rate(edge_index, y, per="edge")
        differs = y[pairs[0]] != y[pairs[1]]
        enough = torch.where(differs, (1 - rate >= (1 - r) / 2).all(0), (rate >= r / 2).all(0))
        follows = follows_theorem_3_3(edge_index, y, pairs, False)
        assert follows[enough].all()
        exceptions += int((~follows).sum())
    assert exceptions > 0


def test_repaired_condition_of_special_graphs():
    ring = edges([(i, (i + 1) % 6) for i in range(6)])
    assert theorem_3_3_repaired(ring, 8, [(6, 7), (0, 6), (0, 2)]).tolist() == [True, True, False]
    counterexample = edges(COUNTEREXAMPLE)
    assert [bool(theorem_3_3_repaired(counterexample, 12, [(0, 3)], self_loops=s)) for s in (False, True)] == [
        False,
        True,
    ]
    # A path of two edges and a single edge joined to a path of four: m = 2 + 2√2 before and after.
    tie = edges([(0, 1), (1, 2), (3, 4)])
    assert theorem_3_3_repaired(tie, 5, [(2, 3), (1, 3)]).tolist()[0] is False
    assert theorem_3_3_repaired(messy_copy(ring), 6, ring).equal(theorem_3_3_repaired(ring, 6, ring))
    assert theorem_3_3_repaired(ring, 6, torch.empty(2, 0, dtype=torch.long)).shape == (0,)
    with pytest.raises(InputError, match="at least one node"):
        theorem_3_3_repaired(ring, 0, [(0, 1)])


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
            # The assumption holds with the edge: the exact value is that of the docstring, not that of Eq. (6).
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
