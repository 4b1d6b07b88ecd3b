import pytest
import torch

from epagcl.core.sparse import SparseMatrix
from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.diffusion import power, ppr, relation_mean
from epagcl.nn.propagation import PropagatedPCA, SideBySidePCA
from tests.conftest import random_edges


def graph_of(seed=0, n=40, f=25, sparse=False):
    x = torch.randn(n, f, generator=torch.Generator().manual_seed(seed)).relu()
    x[3] = 0
    pairs = random_edges(n, 0.1, seed)
    return Graph(SparseMatrix.from_torch(x.to_sparse()) if sparse else x, pairs, n)


def diffused(graph, diffusion):
    """Return S·X̂ in float64."""
    x = (graph.x.to_dense() if isinstance(graph.x, SparseMatrix) else graph.x).double()
    unit = x / x.norm(dim=1, keepdim=True).clamp(min=1e-30)
    return diffusion(torch.eye(graph.num_nodes)).double() @ unit


DIFFUSIONS = [lambda g: ppr(g, 0.15), *(lambda g, k=k: power(g, k) for k in range(3))]


@pytest.mark.parametrize("diffuse", DIFFUSIONS)
@pytest.mark.parametrize("sparse", [False, True])
def test_scores_are_the_principal_components_of_the_diffused_unit_rows(diffuse, sparse):
    graph = graph_of(sparse=sparse)
    module = PropagatedPCA(25, 6, diffuse)
    module.fit(graph)
    matrix = diffused(graph, diffuse(graph))
    mean = matrix.mean(0)
    expected = (matrix - mean) @ module.components.double()
    scores = module(graph)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores.double(), expected, rtol=0, atol=1e-5)
    values = torch.linalg.svdvals(matrix - mean)
    torch.testing.assert_close(scores.double().norm(dim=0), values[:6], rtol=1e-4, atol=0)
    torch.testing.assert_close(scores.mean(0), torch.zeros(6), rtol=0, atol=1e-6)


def test_an_unseen_graph_is_scored_with_the_mean_and_the_components_of_the_first():
    module = PropagatedPCA(25, 6, DIFFUSIONS[0])
    module.fit(graph_of())
    other = graph_of(seed=1, n=17)
    matrix = diffused(graph_of(), DIFFUSIONS[0](graph_of()))
    expected = (diffused(other, DIFFUSIONS[0](other)) - matrix.mean(0)) @ module.components.double()
    torch.testing.assert_close(module(other).double(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_length_of_a_row_does_not_matter(sparse):
    graph = graph_of(sparse=sparse)
    scale = 10.0 ** torch.linspace(-20, 20, 40)
    if isinstance(graph.x, SparseMatrix):
        x = SparseMatrix(graph.x.rowptr, graph.x.col, graph.x.value * scale[graph.x.row], graph.x.shape)
    else:
        x = graph.x * scale[:, None]
    scores = []
    for features in (graph.x, x):
        module = PropagatedPCA(25, 6, DIFFUSIONS[0])
        module.fit(Graph(features, graph.pairs, 40))
        scores.append(module(Graph(features, graph.pairs, 40)))
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=1e-5)


def test_features_are_not_changed_and_buffers_are_the_state():
    graph = graph_of()
    before = graph.x.clone()
    module = PropagatedPCA(25, 6, DIFFUSIONS[1])
    module.fit(graph)
    module(graph)
    assert torch.equal(graph.x, before)
    assert {name: tuple(value.shape) for name, value in module.state_dict().items()} == {
        "components": (25, 6),
        "mean": (6,),
    }
    assert not list(module.parameters())


def test_two_fits_agree_bit_for_bit(small_graph):
    graph = Graph.from_data(check(small_graph))
    modules = [PropagatedPCA(graph.num_features, 16, DIFFUSIONS[0]) for _ in range(2)]
    for module in modules:
        module.fit(graph)
    assert torch.equal(modules[0](graph), modules[1](graph))


def test_one_node_and_more_dimensions_than_features_give_zeros():
    graph = Graph(torch.tensor([[2.0, 1.0]]), torch.empty(2, 0, dtype=torch.long), 1)
    module = PropagatedPCA(2, 5, DIFFUSIONS[0])
    module.fit(graph)
    assert torch.equal(module(graph), torch.zeros(1, 5))


def test_several_diffusions_side_by_side():
    graph = graph_of()
    weight = torch.rand(1, 2, graph.pairs.shape[1], generator=torch.Generator().manual_seed(0)).round()
    graph = Graph(graph.x, graph.pairs, 40, relations=weight, relation_names=("out",))
    diffusions = [lambda g: ppr(g, 0.15), lambda g: relation_mean(g, 0)]
    module = SideBySidePCA(25, 6, diffusions, [1.0, 0.5])
    module.fit(graph)
    parts = [diffused(graph, diffuse(graph)) for diffuse in diffusions]
    matrix = torch.cat([parts[0], 0.5 * parts[1]], dim=1)
    matrix -= matrix.mean(0)
    values = torch.linalg.svdvals(matrix)
    torch.testing.assert_close(module(graph).double().norm(dim=0), values[:6], rtol=1e-4, atol=0)
    torch.testing.assert_close(module(graph).double(), matrix @ module.components.double(), rtol=0, atol=1e-5)
