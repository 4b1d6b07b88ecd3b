import math

import pytest
import torch

from epagcl.core import sparse
from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix, StackedMatrix
from epagcl.data.graph import Graph
from epagcl.diffusion import heat, neighbours, power, ppr, relation_mean, relation_ppr, truncated_ppr
from epagcl.distributed.group import Ranks
from epagcl.distributed.partition import Part
from tests.conftest import random_edges
from tests.ranks import on_ranks


def graph_of(pairs, num_nodes):
    return Graph(x=torch.zeros(num_nodes, 1), pairs=pairs, num_nodes=num_nodes)


def random_graph(seed, n=14, isolated=2):
    return graph_of(random_edges(n - isolated, 0.1 + 0.15 * (seed % 4), seed), n)


def adjacency_of(graph):
    a = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    a[graph.pairs[0], graph.pairs[1]] = a[graph.pairs[1], graph.pairs[0]] = 1
    return a


def dense_ppr(graph, alpha):
    a = adjacency_of(graph) + torch.eye(graph.num_nodes, dtype=torch.float64)
    scale = a.sum(1).rsqrt()
    eye = torch.eye(graph.num_nodes, dtype=torch.float64)
    return alpha * torch.linalg.inv(eye - (1 - alpha) * scale[:, None] * a * scale)


def dense_heat(graph, t):
    a = adjacency_of(graph)
    degree = a.sum(0)
    walk = a / degree.clamp(min=1) + torch.diag((degree == 0).double())
    return torch.matrix_exp(t * (walk - torch.eye(graph.num_nodes, dtype=torch.float64)))


def dense_power(graph, k):
    a = adjacency_of(graph) + torch.eye(graph.num_nodes, dtype=torch.float64)
    scale = a.sum(1).rsqrt()
    return torch.linalg.matrix_power(scale[:, None] * a * scale, k)


def dense_neighbours(graph, k):
    a = adjacency_of(graph)
    scale = a.sum(1).clamp(min=1).rsqrt()
    return torch.linalg.matrix_power(scale[:, None] * a * scale, k)


KINDS = [
    (ppr, dense_ppr, 0.2),
    (ppr, dense_ppr, 0.05),
    (ppr, dense_ppr, 0.9),
    (heat, dense_heat, 5.0),
    (heat, dense_heat, 0.3),
]


POWERS = [(power, dense_power, k) for k in range(4)]
NEIGHBOURS = [(neighbours, dense_neighbours, k) for k in range(4)]


@pytest.mark.parametrize(("ours", "dense", "setting"), KINDS + POWERS + NEIGHBOURS)
@pytest.mark.parametrize("seed", range(4))
def test_diffusion_and_its_gradient_equal_the_dense_matrix(ours, dense, setting, seed):
    graph = random_graph(seed)
    y = torch.randn(14, 5, generator=torch.Generator().manual_seed(seed), requires_grad=True)
    s = dense(graph, setting)
    z = ours(graph, setting)(y)
    torch.testing.assert_close(z.double(), s @ y.double(), rtol=0, atol=1e-4)
    grad = torch.randn(14, 5, generator=torch.Generator().manual_seed(seed + 50))
    (gradient,) = torch.autograd.grad(z, y, grad)
    torch.testing.assert_close(gradient.double(), s.T @ grad.double(), rtol=0, atol=1e-4)


@pytest.mark.parametrize(("ours", "dense", "setting"), KINDS)
@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-5])
def test_the_error_is_below_the_tolerance(ours, dense, setting, tolerance):
    graph = random_graph(1, n=30)
    y = torch.eye(30)
    error = ours(graph, setting, tolerance)(y).double() - dense(graph, setting)
    # PageRank is symmetric, the heat kernel is column-stochastic.
    norm = torch.linalg.matrix_norm(error, 2 if ours is ppr else 1)
    assert norm < tolerance + 2e-6


@pytest.mark.parametrize("seed", range(4))
def test_pagerank_is_symmetric_nonnegative_and_keeps_the_leading_eigenvector(seed):
    graph, alpha = random_graph(seed), 0.2
    s = ppr(graph, alpha)(torch.eye(14)).double()
    torch.testing.assert_close(s, s.T, rtol=0, atol=1e-6)
    assert s.min() > -1e-5
    root = (adjacency_of(graph).sum(1) + 1).sqrt()
    torch.testing.assert_close(s @ root, root, rtol=1e-4, atol=0)
    values = torch.linalg.eigvalsh((s + s.T) / 2)
    assert alpha / (2 - alpha) - 1e-5 < values.min()
    assert values.max() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("t", [0.3, 5.0])
def test_heat_is_preserved(t):
    graph = random_graph(2)
    s = heat(graph, t)(torch.eye(14)).double()
    torch.testing.assert_close(s.sum(0), torch.ones(14, dtype=torch.float64), rtol=0, atol=2e-5)
    assert s.min() >= 0
    degree = adjacency_of(graph).sum(0)
    connected = degree.clone()
    torch.testing.assert_close(s @ connected, connected, rtol=1e-4, atol=1e-4)  # the stationary distribution


def test_an_isolated_node_keeps_its_value():
    graph = graph_of(torch.tensor([[0, 1], [1, 2]]), 5)
    y = torch.randn(5, 3)
    for diffuse in (ppr(graph), heat(graph)):
        torch.testing.assert_close(diffuse(y)[3:], y[3:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [ppr, heat])
def test_components_do_not_mix(kind):
    first, second = random_edges(6, 0.6, 0), random_edges(8, 0.5, 1) + 6
    s = kind(graph_of(torch.cat([first, second], 1), 14))(torch.eye(14))
    assert (s[:6, 6:] == 0).all()
    assert (s[6:, :6] == 0).all()
    alone = kind(graph_of(first, 6))(torch.eye(6))
    torch.testing.assert_close(s[:6, :6], alone)


@pytest.mark.parametrize(("diffusion_of", "limit"), [(lambda g: ppr(g, 0.2), 18), (lambda g: heat(g, 5.0), 17)])
def test_few_products_suffice(monkeypatch, diffusion_of, limit):
    calls, multiply = [], sparse.multiply
    monkeypatch.setattr(sparse, "multiply", lambda *args: calls.append(1) or multiply(*args))
    y = torch.randn(14, 2, requires_grad=True)
    z = diffusion_of(random_graph(0))(y)
    assert 10 < len(calls) <= limit  # Z ← 0.8 ÂZ + 0.2 Y would take log 1e-5 / log 0.8 = 52
    forward = len(calls)
    z.sum().backward()
    assert len(calls) == 2 * forward


@pytest.mark.parametrize(("ours", "dense", "setting"), [(ppr, dense_ppr, 0.5), (heat, dense_heat, 0.5)])
@pytest.mark.parametrize("longest", [3, 64])
def test_diffusion_by_kernels_equals_plain_torch_and_the_dense_matrix(
    device, use_triton, monkeypatch, ours, dense, setting, longest
):
    launch = pytest.importorskip("epagcl.core.kernels.launch")
    monkeypatch.setattr(launch, "MAX_CHUNK", longest)  # with 3, most rows are cut
    graph, s = random_graph(1), dense(random_graph(1), setting)
    on_device = Graph(x=graph.x.to(device), pairs=graph.pairs.to(device), num_nodes=14)
    generator = torch.Generator().manual_seed(0)
    wide, grad = (torch.randn(14, 8, generator=generator).to(device) for _ in range(2))
    results = []
    for on in (False, True):
        use_triton(on)
        y = wide.clone().requires_grad_()
        z = ours(on_device, setting, 1e-3)(y[:, 2:7])  # columns of a wider matrix, which are not contiguous
        results.append((z, *torch.autograd.grad(z, y, grad[:, :5])))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-6)
    z, gradient = (t.detach().double().cpu() for t in results[1])
    torch.testing.assert_close(z, s @ wide[:, 2:7].double().cpu(), rtol=0, atol=1e-2)
    torch.testing.assert_close(gradient[:, 2:7], s.T @ grad[:, :5].double().cpu(), rtol=0, atol=1e-2)


@pytest.mark.parametrize("triton", [False, True])
@pytest.mark.parametrize("kind", [ppr, heat])
def test_diffusion_leaves_its_input_and_the_gradient_of_its_output_unchanged(use_triton, device, kind, triton):
    if triton:
        pytest.importorskip("triton")
    use_triton(triton)
    graph = random_graph(0)
    diffuse = kind(Graph(x=graph.x.to(device), pairs=graph.pairs.to(device), num_nodes=14), tolerance=0.1)
    y, grad = (torch.randn(14, 3, device=device) for _ in range(2))
    copies = y.clone(), grad.clone()
    diffuse(y.requires_grad_()).backward(grad)
    assert torch.equal(y, copies[0])
    assert torch.equal(grad, copies[1])


def test_a_path_of_two_by_hand():
    graph = graph_of(torch.tensor([[0], [1]]), 2)
    # Â has eigenvalues 1 and 0, S has 1 and α; A D⁻¹ has 1 and −1, the heat kernel 1 and e^{−2t}.
    for diffuse, low in ((ppr(graph, 0.3), 0.3), (heat(graph, 0.7), math.exp(-1.4))):
        expected = torch.tensor([[1 + low, 1 - low], [1 - low, 1 + low]]) / 2
        torch.testing.assert_close(diffuse(torch.eye(2)), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, 1e-30])
def test_pagerank_raises_unless_alpha_is_between_0_and_1(alpha):
    with pytest.raises(InputError, match=f"alpha={alpha}: must lie between 0 and 1"):
        ppr(random_graph(0), alpha)


@pytest.mark.parametrize("t", [0, -1.0, 800])
def test_heat_raises_unless_time_is_in_range(t):
    with pytest.raises(InputError, match=f"t={t}: must be above 0 and at most 100"):
        heat(random_graph(0), t)


def test_powers_compose_and_the_power_0_is_the_identity():
    graph = random_graph(3)
    y = torch.randn(14, 2)
    assert power(graph, 0)(y) is y
    assert torch.equal(power(graph, 1)(power(graph, 2)(y)), power(graph, 3)(y))


@pytest.mark.parametrize("kind", [power, neighbours])
def test_a_negative_power_raises(kind):
    with pytest.raises(InputError, match="k=-1: must be at least 0"):
        kind(random_graph(0), -1)


def test_isolated_nodes_receive_nothing_from_neighbours():
    graph = graph_of(torch.tensor([[0, 1], [1, 2]]), 5)
    y = torch.randn(5, 3)
    assert (neighbours(graph, 1)(y)[3:] == 0).all()
    # Node 1 is the only neighbour of nodes 0 and 2, and has degree 2.
    torch.testing.assert_close(neighbours(graph, 1)(y)[0], y[1] / 2**0.5)
    torch.testing.assert_close(neighbours(graph, 2)(y)[0], (y[0] + y[2]) / 2)


def views_of(n=14):
    """Return Â of three graphs on the same nodes."""
    return StackedMatrix([random_graph(seed, n).adjacency for seed in range(3)])


@pytest.mark.parametrize("alpha", [0.05, 0.15, 0.5])
@pytest.mark.parametrize("blocks", [1, 2])
def test_truncated_pagerank_converges_to_the_dense_matrix_with_its_gradient(alpha, blocks):
    graph = random_graph(1)
    y = torch.randn(14 * blocks, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    s = torch.block_diag(*[dense_ppr(graph, alpha)] * blocks)
    z = truncated_ppr(graph.adjacency, y, alpha, products=60)
    torch.testing.assert_close(z.double(), s @ y.double(), rtol=0, atol=1e-4)
    grad = torch.randn(14 * blocks, 5, generator=torch.Generator().manual_seed(1))
    (gradient,) = torch.autograd.grad(z, y, grad)
    torch.testing.assert_close(gradient.double(), s @ grad.double(), rtol=0, atol=1e-4)


def test_truncated_pagerank_of_several_views_is_that_of_each_view():
    adjacency = views_of()
    y = torch.randn(42, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    parts = [truncated_ppr(a, rows, 0.15, 6) for a, rows in zip(adjacency.parts, y.split(14), strict=True)]
    outputs = truncated_ppr(adjacency, y, 0.15, 6), torch.cat(parts)
    torch.testing.assert_close(*outputs)
    grad = torch.randn(42, 5, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(*(torch.autograd.grad(z, y, grad) for z in outputs))


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("products", [0, 1, 2, 5])
def test_truncated_pagerank_of_several_views_by_kernels_equals_plain_torch(device, use_triton, products, stacked):
    pytest.importorskip("triton")
    first = random_graph(1).adjacency.to(device)
    values = torch.stack([first.value, 0.5 * first.value])  # of two views with one pattern
    y, grad = (torch.randn(28, 5, generator=torch.Generator().manual_seed(k)).to(device) for k in range(2))
    results = []
    for on in (False, True):
        use_triton(on)
        parts = [SparseMatrix(first.rowptr, first.col, value, first.shape, symmetric=True) for value in values]
        together = SparseMatrix(first.rowptr, first.col, values, first.shape, symmetric=True)
        leaf = y.clone().requires_grad_()
        z = truncated_ppr(StackedMatrix(parts) if stacked else together, leaf, 0.15, products)
        results.append((z, *torch.autograd.grad(z, leaf, grad)))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("products", [0, 1, 3, 6, 12])
def test_the_error_of_truncated_pagerank_falls_with_the_rate_of_chebyshev(products):
    graph, alpha = random_graph(1, n=30), 0.15
    rho = 1 - alpha
    rate = rho / (1 + math.sqrt(1 - rho**2))
    truncated = truncated_ppr(graph.adjacency, torch.eye(30), alpha, products).double()
    assert torch.linalg.matrix_norm(truncated - dense_ppr(graph, alpha), 2) < 2 * rate**products + 1e-5


def test_truncated_pagerank_with_the_products_of_ppr_is_ppr():
    graph, y = random_graph(2), torch.randn(14, 3)
    rate = 0.8 / (1 + math.sqrt(1 - 0.8**2))
    products = math.ceil(math.log(1e-3 / 2) / math.log(rate))
    assert torch.equal(truncated_ppr(graph.adjacency, y, 0.2, products), ppr(graph, 0.2, 1e-3)(y))


@pytest.mark.parametrize("alpha", [0, 1])
def test_truncated_pagerank_raises_unless_alpha_is_between_0_and_1(alpha):
    with pytest.raises(InputError, match=f"alpha={alpha}: must lie between 0 and 1"):
        truncated_ppr(random_graph(0).adjacency, torch.ones(14, 1), alpha, 6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("diffuse", "dense", "value"), [*KINDS, (power, dense_power, 2), (neighbours, dense_neighbours, 2)]
)
def test_weighted_graphs(diffuse, dense, value, seed, monkeypatch):
    plain = random_graph(seed)
    weight = torch.rand(plain.pairs.shape[1], generator=torch.Generator().manual_seed(seed)) + 0.2
    graph = Graph(plain.x, plain.pairs, plain.num_nodes, weight)

    def adjacency(graph):
        a = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
        a[graph.pairs[0], graph.pairs[1]] = a[graph.pairs[1], graph.pairs[0]] = weight.double()
        return a

    monkeypatch.setitem(globals(), "adjacency_of", adjacency)
    if dense in (dense_heat, dense_neighbours):  # which replace degrees of isolated nodes by 1, not those below 1
        monkeypatch.setattr(torch.Tensor, "clamp", lambda degree, min: torch.where(degree > 0, degree, min))
    expected = dense(graph, value)
    monkeypatch.undo()
    actual = diffuse(graph, value)(torch.eye(graph.num_nodes))
    torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=3e-5)


def directed_graph(seed, n=12):
    """Return a graph with one weighted directed relation, and its matrix: row i has what node i receives."""
    generator = torch.Generator().manual_seed(seed)
    pairs = random_edges(n - 2, 0.4, seed)
    weight = torch.rand(1, 2, pairs.shape[1], generator=generator)
    weight *= torch.rand(weight.shape, generator=generator) < 0.6
    graph = Graph(torch.zeros(n, 1), pairs, n, relations=weight, relation_names=("out",))
    matrix = torch.zeros(n, n, dtype=torch.float64)
    matrix[pairs[0], pairs[1]], matrix[pairs[1], pairs[0]] = weight[0].double()
    return graph, matrix


@pytest.mark.parametrize("seed", range(4))
def test_the_mean_of_a_relation_equals_a_dense_product(seed):
    graph, matrix = directed_graph(seed)
    dense = matrix / matrix.sum(1, keepdim=True).where(matrix.sum(1, keepdim=True) > 0, 1)
    y = torch.randn(12, 3, generator=torch.Generator().manual_seed(seed))
    walk = relation_mean(graph, 0)
    torch.testing.assert_close(walk(y).double(), dense @ y.double(), atol=1e-6, rtol=0)
    torch.testing.assert_close(walk.T(y).double(), dense.T @ y.double(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("products", [0, 1, 7])
def test_pagerank_of_a_relation_equals_a_dense_sum(seed, products):
    graph, matrix = directed_graph(seed)
    looped = matrix + torch.eye(12, dtype=torch.float64)
    step = 0.7 * looped / looped.sum(1, keepdim=True)
    terms = [torch.linalg.matrix_power(step, k) for k in range(products + 1)]
    dense = terms[-1] + 0.3 * sum(terms[:-1], torch.zeros_like(step))
    walk = relation_ppr(graph, 0, alpha=0.3, products=products)
    eye = torch.eye(12)
    torch.testing.assert_close(walk(eye).double(), dense, atol=1e-6, rtol=0)
    torch.testing.assert_close(walk.T(eye).double(), dense.T, atol=1e-6, rtol=0)
    torch.testing.assert_close(walk(torch.ones(12, 1)), torch.ones(12, 1))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_only_rank_has_the_operators_of_one_process(weighted):
    pairs = random_edges(20, 0.2, 3)
    weight = torch.arange(1.0, pairs.shape[1] + 1) if weighted else None
    x = torch.eye(20)
    alone = Graph(x=x, pairs=pairs, num_nodes=20, weight=weight)
    rank = Graph(x=x, pairs=pairs, num_nodes=20, weight=weight, part=Part(Ranks(0, 1), 20))
    for k in (1, 2):
        torch.testing.assert_close(neighbours(rank, k)(x), neighbours(alone, k)(x))


def test_pagerank_of_a_relation_takes_ten_products():
    graph = Graph(torch.eye(3), torch.tensor([[0, 1], [1, 2]]), 3, relations=torch.ones(1, 2, 2), relation_names=("r",))
    default = relation_ppr(graph, 0)(torch.eye(3))
    assert default.equal(relation_ppr(graph, 0, products=10)(torch.eye(3)))
    assert not default.equal(relation_ppr(graph, 0, products=11)(torch.eye(3)))


def neighbours_of_a_rank(ranks, pairs, weight):
    part = Part(ranks, 20)
    x = torch.eye(20)[part.rows]
    graph = Graph(x=x, pairs=pairs, num_nodes=20, weight=weight, part=part)
    return [neighbours(graph, k)(x) for k in (1, 2)]


def test_three_ranks_have_the_operators_of_one_process():
    pairs = random_edges(20, 0.2, 3)
    weight = torch.arange(1.0, pairs.shape[1] + 1)
    alone = Graph(x=torch.eye(20), pairs=pairs, num_nodes=20, weight=weight)
    for k, parts in enumerate(zip(*on_ranks(3, neighbours_of_a_rank, pairs, weight), strict=True), start=1):
        torch.testing.assert_close(torch.cat(parts), neighbours(alone, k)(torch.eye(20)))


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_pagerank_of_a_relation_raises_unless_alpha_is_between_0_and_1(alpha):
    relations = torch.ones(1, 2, 1)
    graph = Graph(torch.ones(2, 1), torch.tensor([[0], [1]]), 2, relations=relations, relation_names=("r",))
    with pytest.raises(InputError, match="must lie between 0 and 1"):
        relation_ppr(graph, 0, alpha=alpha)
