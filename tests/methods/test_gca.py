import math

import pytest
import torch
from torch_geometric.data import Data

import epagcl
from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix
from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.methods import gca
from tests.conftest import random_edges

GCA, GRACE = epagcl.method("gca"), epagcl.method("grace")
SMALL = {"hidden": 16, "dim": 8, "projection": 8, "device": "cpu"}
CENTRALITIES = ["degree", "pagerank", "eigenvector"]


def circulant(n, steps, x=None):
    """Return a circulant graph: node i is connected to i + s for each step, so all nodes are equivalent."""
    nodes = torch.arange(n)
    edge_index = torch.cat([torch.stack([nodes, (nodes + s) % n]) for s in steps], 1)
    return Data(x=torch.eye(n) if x is None else x, edge_index=edge_index)


def graph_of(pairs, n, x=None):
    return Graph(x=torch.eye(n) if x is None else x, pairs=pairs, num_nodes=n)


def edges_of(graph):
    """Return the adjacency matrix in float64."""
    edges = graph.edges
    return SparseMatrix(edges.rowptr, edges.col, edges.value.double(), edges.shape, symmetric=True)


def dense_adjacency(graph):
    a = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    a[graph.pairs[0], graph.pairs[1]] = a[graph.pairs[1], graph.pairs[0]] = 1
    return a


def connected(n, density, seed):
    """Return a random graph with a path through all nodes."""
    path = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    return graph_of(torch.unique(torch.cat([path, random_edges(n, density, seed)], 1), dim=1), n)


def drop_rates(method, graph):
    return [1 - sampler.keep.double() for sampler in method.prepare(graph).views]


@pytest.mark.parametrize("centrality", CENTRALITIES)
@pytest.mark.parametrize(("n", "steps"), [(12, (1, 2)), (15, (1, 3, 4)), (9, (1,))])
def test_equal_centralities_give_the_drop_probabilities_of_grace(centrality, n, steps):
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(0))
    settings = {**SMALL, "epochs": 3, "p_mask_1": 0.0, "p_mask_2": 0.0, "seed": 2}
    data = circulant(n, steps, x)
    assert torch.equal(GCA(centrality=centrality, **settings).fit_embed(data), GRACE(**settings).fit_embed(data))


def test_equal_columns_give_the_mask_probabilities_of_grace():
    data, settings = circulant(12, (1, 2)), {**SMALL, "epochs": 3, "p_mask_1": 0.3, "p_mask_2": 0.4}
    assert torch.equal(GCA(**settings).fit_embed(data), GRACE(**settings).fit_embed(data))


@pytest.mark.parametrize("centrality", CENTRALITIES)
@pytest.mark.parametrize("seed", range(4))
def test_drop_probabilities_equal_an_explicit_computation(centrality, seed):
    graph = graph_of(random_edges(14, 0.2, seed), 17)
    phi = gca.CENTRALITIES[centrality](edges_of(graph)).tolist()
    score = [math.log((phi[i] + phi[j]) / 2) for i, j in graph.pairs.T.tolist()]
    top, mean = max(score), math.fsum(score) / len(score)
    for rate, p in zip(
        (0.2, 0.5), drop_rates(GCA(centrality=centrality, p_drop_1=0.2, p_drop_2=0.5), graph), strict=True
    ):
        expected = [min((top - s) / (top - mean) * rate, 0.7) for s in score]
        torch.testing.assert_close(p, torch.tensor(expected, dtype=torch.float64), rtol=1e-4, atol=1e-6)


def test_mean_rate_before_the_cutoff_and_the_most_central_edge_is_never_dropped():
    graph = graph_of(random_edges(20, 0.25, 3), 20)
    degree = torch.bincount(graph.pairs.flatten(), minlength=20)
    most = degree[graph.pairs].sum(0).argmax()
    p = drop_rates(GCA(p_drop_1=0.1, p_drop_2=0.25, cutoff=1.0), graph)
    assert [rate.mean().item() for rate in p] == pytest.approx([0.1, 0.25], rel=1e-4)
    assert [rate[most].item() for rate in p] == [0, 0]
    assert drop_rates(GCA(p_drop_1=0.9, cutoff=0.35), graph)[0].max().item() == pytest.approx(0.35)


def test_edges_are_dropped_with_their_probability():
    graph = graph_of(random_edges(20, 0.25, 3), 20)
    sampler, _ = GCA(p_drop_1=0.3).prepare(graph).views
    kept = torch.stack([sampler.kept(epoch) for epoch in range(1500)]).double().mean(0)
    p = sampler.keep.double()
    assert ((kept - p).abs() <= 5 * (p * (1 - p) / 1500).sqrt() + 1e-12).all()
    assert p.min() < 0.6 < p.max()


@pytest.mark.parametrize("factor", [1e-3, 7.3])
def test_the_scale_of_a_centrality_does_not_matter(monkeypatch, small_graph, factor):
    graph, method = Graph.from_data(check(small_graph)), GCA(p_mask_2=0.4)
    before = method.prepare(graph)
    degree = gca.degree
    monkeypatch.setitem(gca.CENTRALITIES, "degree", lambda edges: factor * degree(edges))
    after = method.prepare(graph)
    for a, b in zip(before.views, after.views, strict=True):
        torch.testing.assert_close(a.keep, b.keep)
    for a, b in zip(before.p_masks, after.p_masks, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("sparse", [False, True])
def test_feature_shares_equal_an_explicit_computation(sparse):
    x = torch.tensor([[1.0, 0, 2, 0], [0, 3, 1, 0], [0, 1, 0.5, 0]])
    phi = torch.tensor([2.0, 1.0, 5.0], dtype=torch.float64)
    score = [math.log(2), math.log(6), math.log(8)]  # non-zero entries count, not their values
    mean = sum(score) / 3
    expected = [(score[2] - s) / (score[2] - mean) for s in score]
    share = gca.feature_shares(SparseMatrix.from_torch(x.to_sparse()) if sparse else x, phi)
    assert share.tolist() == pytest.approx([*expected, 1.0])
    signed = x.clone()
    signed[0, 2] = -2  # signed features count by magnitude: 2·1, 1·3 + 5·1, 2·2 + 1·1 + 5·0.5
    score = [math.log(2), math.log(8), math.log(7.5)]
    expected = [(score[1] - s) / (score[1] - sum(score) / 3) for s in score]
    share = gca.feature_shares(SparseMatrix.from_torch(signed.to_sparse()) if sparse else signed, phi)
    assert share.tolist() == pytest.approx([*expected, 1.0])


@pytest.mark.parametrize("dense", [True, False])
def test_columns_without_entries_change_nothing(small_graph, dense):
    x = small_graph.x.to_dense()
    wide = torch.cat([x, torch.zeros(60, 3)], 1)
    pairs = Graph.from_data(check(small_graph)).pairs
    graphs = [graph_of(pairs, 60, y if dense else SparseMatrix.from_torch(y.to_sparse())) for y in (x, wide)]
    narrow, wider = (GCA(p_mask_1=0.3, p_mask_2=0.4).prepare(g).p_masks for g in graphs)
    for p, q in zip(narrow, wider, strict=True):
        assert torch.isfinite(q).all()
        torch.testing.assert_close(q[:40], p)
        assert 0 < p.mean() < 0.5
        assert p.min() == 0


def test_a_column_only_on_isolated_nodes_gives_finite_probabilities():
    x = torch.eye(5)
    graph = graph_of(torch.tensor([[0, 1, 0], [1, 2, 3]]), 5, x)  # node 4 has no edges, so its column has weight 0
    p, _ = GCA(p_mask_1=0.2).prepare(graph).p_masks
    assert torch.isfinite(p).all()
    assert p[4].item() == pytest.approx(0.2)
    assert p[0] == 0  # the column of the hub
    assert p[:4].mean().item() == pytest.approx(0.2)


def test_masks_follow_the_shares_and_the_cutoff(small_graph):
    graph = Graph.from_data(check(small_graph))
    share = gca.feature_shares(graph.x, gca.degree(edges_of(graph)))
    for p, rate in zip(GCA(p_mask_1=0.3, p_mask_2=0.6).prepare(graph).p_masks, (0.3, 0.6), strict=True):
        torch.testing.assert_close(p, (share * rate).clamp(max=0.7))
    assert GCA(p_mask_1=0.0, p_mask_2=0.0).prepare(graph).p_masks == (0.0, 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_pagerank_solves_its_equation(seed):
    graph = graph_of(random_edges(14, 0.2, seed), 17)
    a = dense_adjacency(graph)
    walk = a / a.sum(0).clamp(min=1)
    eye = torch.eye(17, dtype=torch.float64)
    expected = torch.linalg.solve(eye - 0.85 * walk, torch.full((17,), 0.15, dtype=torch.float64))
    torch.testing.assert_close(gca.pagerank(edges_of(graph)), expected, rtol=1e-9, atol=1e-12)


def test_pagerank_is_1_on_a_regular_graph_and_preserves_the_mass_of_a_component():
    regular = Graph.from_data(check(circulant(11, (1, 2))))
    torch.testing.assert_close(gca.pagerank(edges_of(regular)), torch.ones(11, dtype=torch.float64))
    first, second = connected(6, 0.3, 0).pairs, connected(8, 0.3, 1).pairs + 6
    x = gca.pagerank(edges_of(graph_of(torch.cat([first, second], 1), 15)))
    assert [part.sum().item() for part in x.split([6, 8, 1])] == pytest.approx([6, 8, 0.15])


@pytest.mark.parametrize("seed", range(4))
def test_eigenvector_is_the_leading_one(seed):
    graph = connected(12, 0.3, seed)
    values, vectors = torch.linalg.eigh(dense_adjacency(graph))
    assert values[-1] - values[-2] > 0.5
    torch.testing.assert_close(gca.eigenvector(edges_of(graph)), vectors[:, -1].abs(), rtol=1e-6, atol=1e-9)


def test_eigenvector_of_a_star_and_outside_the_leading_component():
    star = graph_of(torch.tensor([[0, 0, 0, 0, 5], [1, 2, 3, 4, 6]]), 8)
    x = gca.eigenvector(edges_of(star))
    # A bipartite graph also has the eigenvalue −λ. The value of the hub is √4 times that of a leaf.
    torch.testing.assert_close(x[:5], torch.tensor([2.0, 1, 1, 1, 1], dtype=torch.float64) / 8**0.5)
    assert x[5:].tolist() == [gca.FLOOR] * 3


def test_degree_counts_neighbours():
    graph = graph_of(torch.tensor([[0, 0, 0], [1, 2, 3]]), 5)
    assert gca.degree(edges_of(graph)).tolist() == [3, 1, 1, 1, 0]


@pytest.mark.parametrize("cutoff", [0.0, 1.2, -0.5])
def test_a_cutoff_that_is_not_a_probability_is_rejected(cutoff):
    with pytest.raises(InputError, match=f"cutoff={cutoff}: must be above 0 and at most 1"):
        GCA(cutoff=cutoff)
    with pytest.raises(InputError, match="centrality='pr': choose one of degree, pagerank, eigenvector"):
        GCA(centrality="pr")
