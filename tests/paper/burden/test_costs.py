"""FLOPs against formulas, and peak memory."""

import pytest
import torch

from epagcl.core.sparse import SparseMatrix
from epagcl.data.graph import Graph
from epagcl.methods import method
from epagcl.paper.burden.artefact import ARTEFACT, costs

SMALL = {"hidden": 16, "dim": 8, "projection": 12, "batch_size": 0}


def test_flops_of_products_are_counted():
    a, b, batch = torch.rand(5, 7), torch.rand(7, 3), torch.rand(2, 5, 7)
    sparse = SparseMatrix.from_torch(torch.eye(7).to_sparse_csr())
    for flops, product in (
        (2 * 5 * 7 * 3, lambda: a @ b),
        (2 * 5 * 7 * 3, lambda: torch.zeros(5, 3).addmm_(a, b)),
        (2 * 5 * 7 * 3, lambda: torch.nn.functional.linear(a, b.T.contiguous(), torch.zeros(3))),
        (2 * 5 * 7, lambda: a @ b[:, 0]),
        (2 * 2 * 5 * 7 * 5, lambda: torch.bmm(batch, batch.transpose(1, 2))),
        (2 * 7 * 3, lambda: sparse @ b),  # seven entries
        (0, lambda: (a * a).sum()),
    ):
        with costs.FlopCounter() as counter:
            product()
        assert counter.flops == flops


def test_flops_of_an_epoch_of_grace_equal_the_formula(small_graph):
    settings = {**SMALL, "p_drop_1": 0.0, "p_drop_2": 0.0, "p_mask_1": 0.0, "p_mask_2": 0.0}
    graph = Graph.from_data(small_graph)
    n, features, h, d, p = graph.num_nodes, graph.num_features, 16, 8, 12
    assert isinstance(graph.x, torch.Tensor)
    links = 2 * graph.pairs.shape[1] + n
    first = 2 * (2 * n * features * h)  # XW once for both views, and the gradient of W; X has none
    spread = 2 * 2 * (2 * links * (h + d))  # two views, forward and backward, after each layer
    second = 3 * (2 * 2 * n * h * d)  # rows of both views; gradients of H and W
    head = 3 * 2 * (2 * 2 * n * d * p)
    loss = 2 * (2 * (2 * n) ** 2 * d)  # one tile of all similarities, and its product with Z
    assert costs.flops(method("grace"), settings, small_graph) == first + spread + second + head + loss


def test_a_shorter_preparation_changes_no_product(small_graph, monkeypatch):
    quick = costs.flops(method("greet"), {"k": 5}, small_graph)
    monkeypatch.setattr(costs, "QUICK", {})
    assert quick == costs.flops(method("greet"), {"k": 5}, small_graph) > 0


@pytest.mark.parametrize("name", ARTEFACT.methods)
def test_flops_of_every_method_are_counted(name, small_graph):
    assert costs.flops(method(name), {}, small_graph) > 0


def test_out_of_memory_is_a_result(monkeypatch, small_graph):
    def fails(error: Exception):
        def raise_it(*_):
            raise error

        monkeypatch.setattr(costs, "_burden", raise_it)
        return costs.burden(method("grace"), {}, small_graph, torch.device("cpu"))

    assert fails(torch.OutOfMemoryError("CUDA out of memory")) == {"out_of_memory": True}
    assert fails(RuntimeError("DefaultCPUAllocator: can't allocate memory")) == {"out_of_memory": True}
    with pytest.raises(RuntimeError, match="other"):
        fails(RuntimeError("other"))


def test_peak_memory_includes_a_short_allocation():
    with costs.PeakMemory(torch.device("cpu")) as memory:
        block = torch.ones(2**26)  # 256 MiB
        torch.mm(torch.ones(1500, 1500), torch.ones(1500, 1500))  # takes long enough for a sample
        del block
    assert 0.2 < memory.gib < 0.5
