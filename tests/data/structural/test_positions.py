import networkx as nx
import numpy as np
import torch

from epagcl.data.structural.positions import leading_eigenvectors, random_projection
from tests.data.structural.test_roles import neighbours


def test_leading_eigenvectors_span_those_of_the_laplacian():
    graph = nx.connected_caveman_graph(6, 8)
    laplacian = nx.normalized_laplacian_matrix(graph, nodelist=sorted(graph), weight=None).toarray()
    _, vectors = np.linalg.eigh(laplacian)
    found = leading_eigenvectors(neighbours(graph), dim=6).double().numpy() / len(graph) ** 0.5
    # Equal eigenvalues leave the axes open, so the subspaces are compared.
    np.testing.assert_allclose(found @ found.T, vectors[:, :6] @ vectors[:, :6].T, atol=1e-3)


def test_random_projection_is_closer_within_communities():
    graph = neighbours(nx.connected_caveman_graph(6, 8))
    z = torch.nn.functional.normalize(random_projection(graph, dim=64))
    clique = torch.arange(48) // 8
    same = clique[:, None] == clique
    cosine = z @ z.T
    assert cosine[same].mean() > 0.8
    assert cosine[~same].mean() < 0.2


def test_random_projection_depends_on_the_seed():
    graph = neighbours(nx.karate_club_graph())
    assert torch.equal(random_projection(graph, 8, seed=1), random_projection(graph, 8, seed=1))
    assert not torch.equal(random_projection(graph, 8, seed=1), random_projection(graph, 8, seed=2))
