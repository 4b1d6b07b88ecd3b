import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, uniform
from epagcl.data import load
from epagcl.epr import structure
from epagcl.epr.structure import edge_similarity, neighbour_sums, neighbourhood_agreement, structure_score


def random_graph(num_nodes, num_edges, seed=0):
    return torch.randint(num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(seed))


def gaussian(num_nodes, dim, seed=0):
    return torch.randn(num_nodes, dim, generator=torch.Generator().manual_seed(seed))


def cliques(count, size):
    clique = torch.combinations(torch.arange(size)).T
    return torch.cat([clique + k * size for k in range(count)], dim=1)


def blocks(num_nodes, classes, seed=0):
    """Return a block model: three of four edges stay within a class."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (num_nodes,), generator=generator)
    source, target = torch.randint(num_nodes, (2, 60 * num_nodes), generator=generator)
    same = y[source] == y[target]
    keep = torch.rand(len(same), generator=generator) < torch.where(same, 0.5, 0.5 / 3 / (classes - 1))
    return torch.stack([source, target])[:, keep], y


def brute_force(edge_index, num_nodes, features):
    """Return the score by loops over nodes, neighbours and walks."""
    neighbours = [set() for _ in range(num_nodes)]
    for i, j in edge_index.T.tolist():
        if i != j:
            neighbours[i].add(j)
            neighbours[j].add(i)
    x = features.double()
    scores = []
    for halving in range(min(max(structure.MAX_NODES // num_nodes, 1), structure.MAX_HALVINGS)):
        half = uniform(torch.arange(num_nodes), 0, Stream.STRUCTURE, 0, halving) < 0.5
        for a in (half, ~half):
            u, v = [], []
            for i in range(num_nodes):
                near = [x[j] for j in neighbours[i] if a[j]]
                far = [
                    (x[k], 1 / len(neighbours[j])) for j in neighbours[i] for k in neighbours[j] if k != i and not a[k]
                ]
                if near and far:
                    u.append(sum(near) / len(near))
                    v.append(sum(row * weight for row, weight in far) / sum(weight for _, weight in far))
            if len(u) < 2:
                continue
            u, v = (F.normalize(torch.stack(part) - torch.stack(part).mean(0)) for part in (u, v))
            cosine = u @ v.T
            gaps = [float(cosine[i, i] - cosine[i, j]) for i in range(len(u)) for j in range(len(u)) if i != j]
            scores.append(sum(0.5 if abs(gap) < 1e-6 else gap > 0 for gap in gaps) / len(gaps))
    return sum(scores) / len(scores)


@pytest.mark.parametrize("seed", range(3))
def test_score_equals_brute_force(seed):
    edges, features = random_graph(40, 70, seed), gaussian(40, 5, seed)
    assert structure_score(edges, 40, features) == pytest.approx(brute_force(edges, 40, features), abs=5e-4)


def test_score_of_cliques_with_their_own_features():
    # Of two nodes, one half are in the same clique, where all means are equal: a tie. The others compare as 1.
    features = torch.tensor([[1.0]] * 64 + [[-1.0]] * 64)
    assert structure_score(cliques(2, 64), 128, features) == pytest.approx(0.75, abs=0.01)
    many = structure_score(cliques(32, 8), 256, torch.eye(32).repeat_interleave(8, dim=0))
    assert many == pytest.approx(1 - 7 / 255 / 2, abs=0.005)


@pytest.mark.slow
def test_score_of_independent_features_is_one_half():
    for edges, num_nodes in ((random_graph(3000, 9000), 3000), (cliques(300, 10), 3000)):
        scores = [structure_score(edges, num_nodes, gaussian(num_nodes, 32, seed)) for seed in range(3)]
        assert sum(scores) / 3 == pytest.approx(0.5, abs=0.02)


def test_triangles_alone_do_not_raise_the_score():
    # Nodes in one clique share all 2-hop neighbours. Only disjoint halves keep independent features at 0.5.
    node = torch.arange(1200)
    ring = torch.cat([torch.stack([node, (node + step) % 1200]) for step in (1, 2, 3)], dim=1)
    assert structure_score(ring, 1200, gaussian(1200, 16)) == pytest.approx(0.5, abs=0.03)


def test_score_of_block_models_is_high():
    edges, y = blocks(1000, 10)
    features = F.one_hot(y, 10).float() + gaussian(1000, 10) / 2
    assert structure_score(edges, 1000, features) > 0.85


def test_neighbours_that_differ_from_2_hop_neighbours_have_a_low_score():
    # Every edge joins the two classes, so that the 2-hop neighbours of a node are unlike its neighbours.
    edges = random_graph(500, 2000)
    edges = edges + torch.tensor([[0], [500]])
    features = torch.where(torch.arange(1000) < 500, 1.0, -1.0)[:, None] + gaussian(1000, 4) / 4
    assert structure_score(edges, 1000, features) < 0.3


def test_score_does_not_depend_on_the_form_of_the_edges_or_shifts_of_features():
    edges, features = random_graph(200, 500), gaussian(200, 8)
    score = structure_score(edges, 200, features)
    loops = torch.arange(200).expand(2, -1)
    assert structure_score(torch.cat([edges.flip(0), edges, loops], dim=1), 200, features) == score
    assert structure_score(edges, 200, features.double()) == score
    assert structure_score(edges, 200, 2 * features + 0.5) == pytest.approx(score, abs=1e-3)


def test_nothing_to_compare_gives_one_half():
    none = torch.empty(2, 0, dtype=torch.long)
    assert structure_score(none, 4, torch.eye(4)) == 0.5
    assert structure_score(none, 0, torch.empty(0, 3)) == 0.5
    assert structure_score(torch.tensor([[0], [1]]), 3, torch.eye(3)) == 0.5  # no walk of two steps ends elsewhere
    assert structure_score(random_graph(50, 200), 50, torch.ones(50, 2)) == 0.5  # equal features: all ties


def test_large_graphs_are_sampled(monkeypatch):
    edges, y = blocks(600, 6)
    features = F.one_hot(y, 6).float() + gaussian(600, 6) / 2
    full = structure_score(edges, 600, features)
    monkeypatch.setattr(structure, "MAX_NODES", 200)
    one = structure_score(edges, 600, features)  # with one halving, the least number
    assert one == pytest.approx(full, abs=0.05)
    monkeypatch.setattr(structure, "MAX_HALVINGS", 1)
    assert structure_score(edges, 600, features) == one
    assert one != full


@pytest.mark.parametrize("measure", [structure_score, neighbourhood_agreement, edge_similarity])
def test_wrong_shapes_are_errors(measure):
    with pytest.raises(InputError, match=r"features= has shape \(3, 2\); pass one row per node, \[4, d\]"):
        measure(torch.tensor([[0], [1]]), 4, torch.ones(3, 2))
    with pytest.raises(InputError, match="nodes go from 0 to 3"):
        measure(torch.tensor([[0], [4]]), 4, torch.ones(4, 2))


def dense_graph(edge_index, num_nodes):
    """Return D^-½ A D^-½ without self-loops as a dense matrix, and the degrees."""
    a = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    a[edge_index[0], edge_index[1]] = a[edge_index[1], edge_index[0]] = 1
    a.fill_diagonal_(0)
    degree = a.sum(1)
    scale = degree.clamp(min=1).rsqrt()
    return scale[:, None] * a * scale, degree


def agreement_by_loops(edge_index, num_nodes, features):
    """Return the neighbourhood agreement by loops over pairs of nodes."""
    a, degree = dense_graph(edge_index, num_nodes)
    two = a @ a
    two.fill_diagonal_(0)
    connected = degree > 0
    x = features.double()
    u, v = (part[connected] - part[connected].mean(0) for part in (a @ x, two @ x))
    wins = []
    for i in range(len(u)):
        for j in range(len(u)):
            if i != j:
                gap = float(F.cosine_similarity(u[i], v[i], dim=0) - F.cosine_similarity(u[i], v[j], dim=0))
                wins.append(0.5 if abs(gap) < 1e-6 else gap > 0)
    return sum(wins) / len(wins)


@pytest.mark.parametrize("seed", range(3))
def test_neighbourhood_agreement_equals_brute_force(seed):
    edges, features = random_graph(24, 40, seed), gaussian(24, 5, seed)
    expected = agreement_by_loops(edges, 24, features)
    assert neighbourhood_agreement(edges, 24, features) == pytest.approx(expected, abs=4e-3)


@pytest.mark.parametrize("seed", range(3))
def test_neighbour_sums_equal_dense_matrices(seed):
    edges, features = random_graph(24, 30, seed), gaussian(24, 5, seed)
    a, _ = dense_graph(edges, 24)
    two = a @ a
    two.fill_diagonal_(0)
    for ours, expected in zip(neighbour_sums(edges, 24, features), (a, two), strict=True):
        torch.testing.assert_close(ours.double(), expected @ features.double(), rtol=1e-4, atol=1e-6)


def test_dense_communities_agree_even_if_features_are_independent_of_them():
    # Propagated features tell the cliques apart, although no clique has features of its own.
    edges, features = cliques(30, 10), gaussian(300, 16)
    assert neighbourhood_agreement(edges, 300, features) > 0.95
    assert structure_score(edges, 300, features) == pytest.approx(0.5, abs=0.05)
    sparse = torch.stack([torch.arange(300), torch.arange(300).roll(7)])  # a ring: two neighbours each
    assert neighbourhood_agreement(sparse, 300, features) < 0.7


@pytest.mark.parametrize("seed", range(3))
def test_edge_similarity_is_the_mean_cosine_of_centred_features(seed):
    edges, features = random_graph(24, 40, seed), gaussian(24, 5, seed)
    x = features.double() - features.double().mean(0)
    pairs = {(min(i, j), max(i, j)) for i, j in edges.T.tolist() if i != j}
    expected = sum(float(F.cosine_similarity(x[i], x[j], dim=0)) for i, j in pairs) / len(pairs)
    assert edge_similarity(edges, 24, features) == pytest.approx(expected, abs=1e-5)


def test_edge_similarity_of_equal_and_of_opposite_neighbours():
    features = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]])
    assert edge_similarity(torch.tensor([[0, 2], [1, 3]]), 4, features) == pytest.approx(1)
    assert edge_similarity(torch.tensor([[0, 1], [2, 3]]), 4, features) == pytest.approx(-1)
    assert edge_similarity(torch.tensor([[0, 1], [2, 3]]), 4, torch.ones(4, 2)) == 0  # all features are the mean


def test_agreement_and_similarity_without_edges():
    none = torch.empty(2, 0, dtype=torch.long)
    assert neighbourhood_agreement(none, 4, torch.eye(4)) == 0.5
    assert edge_similarity(none, 4, torch.eye(4)) == 0.0
    loops = torch.arange(4).expand(2, -1)
    assert neighbourhood_agreement(loops, 4, torch.eye(4)) == 0.5
    assert edge_similarity(loops, 4, torch.eye(4)) == 0.0


@pytest.mark.parametrize("measure", [neighbourhood_agreement, edge_similarity])
def test_agreement_and_similarity_do_not_depend_on_the_form_of_the_edges(measure):
    edges, features = random_graph(200, 500), gaussian(200, 8)
    loops = torch.arange(200).expand(2, -1)
    value = measure(edges, 200, features)
    assert measure(torch.cat([edges.flip(0), edges, loops], dim=1), 200, features) == value
    assert measure(edges, 200, 3 * features) == pytest.approx(value, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "low", "high"), [("Cora", 0.88, 0.95), ("Actor", 0.45, 0.55)])
def test_scores_of_real_graphs(name, low, high):
    root = os.environ.get("EPAGCL_DATA")
    if not root or not (Path(root) / f"{name}.npz").exists():
        pytest.skip(f"{name}.npz is not in EPAGCL_DATA")
    data = load(name)
    x = F.normalize(data.x.to_dense() if data.x.layout != torch.strided else data.x)
    u, s, _ = torch.svd_lowrank(x - x.mean(0), q=64, niter=2)
    assert low < structure_score(data.edge_index, data.num_nodes, u * s) < high


def test_sampled_nodes_are_always_the_same():
    assert structure.sampled_nodes(torch.arange(12), 12, most=5).tolist() == [0, 6, 8, 3, 4]
    assert sorted(structure.sampled_nodes(torch.arange(3, 9), 12).tolist()) == [3, 4, 5, 6, 7, 8]


def test_two_nodes_are_enough_for_an_auc():
    rows = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])  # the last column is the weight
    assert structure._auc(rows, rows) == 1.0
    assert structure._auc(rows, rows.flip(0)) == 0.0
    assert structure._auc(rows[:1], rows[:1]) is None
    assert structure._auc(rows, torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])) is None


def test_edge_similarity_is_summed_in_float64():
    features = torch.randn(400, 30, generator=torch.Generator().manual_seed(0))
    edges = torch.randint(400, (2, 3000), generator=torch.Generator().manual_seed(1))
    pairs = structure.undirected_pairs(edges[:, edges[0] != edges[1]], 400)
    x = F.normalize(features - features.mean(0)).double()
    expected = float((x[pairs[0]] * x[pairs[1]]).sum() / pairs.shape[1])
    assert edge_similarity(edges, 400, features) == pytest.approx(expected, abs=2e-9)
