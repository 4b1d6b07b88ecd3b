from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl import EPAGCL
from epagcl.core.hardware import force_bf16
from epagcl.core.sparse import SparseMatrix
from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.training.precision import (
    LOSS_SCALE,
    MIN_WIDTH,
    Bf16Products,
    half_activations,
    has_half_activations,
    loss_scaler,
    matmul_precision,
    skipped_steps,
)
from tests.training.common import Stop, same_weights, stop_at

CPU = torch.device("cpu")
WIDE = {"hidden": 64, "dim": 32, "projection": 32, "device": "cpu"}


@pytest.mark.parametrize(
    ("precision", "expected"), [("fp32", "highest"), ("tf32", "high"), ("fp16", "high"), ("auto", "high")]
)
def test_matmul_precision_follows_the_setting_and_is_restored(monkeypatch, precision, expected):
    before = torch.get_float32_matmul_precision()
    for triton in (True, False, True):
        monkeypatch.setattr("epagcl.training.precision.has_triton", lambda _, triton=triton: triton)
        with matmul_precision(precision, torch.device("cuda")):
            assert torch.get_float32_matmul_precision() == (expected if triton else "highest")
        assert torch.get_float32_matmul_precision() == before


def test_matmul_precision_restores_the_newer_setting_of_torch(monkeypatch):
    matmul = torch.backends.cuda.matmul
    if not hasattr(matmul, "fp32_precision"):
        return  # torch before 2.9 has one way to say it
    monkeypatch.setattr("epagcl.training.precision.has_triton", lambda _: True)
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = "tf32"
        for _ in range(3):
            with matmul_precision("fp32", torch.device("cuda")):
                assert matmul.fp32_precision == "ieee"
            assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before


def matrices(*shapes, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=dtype, requires_grad=True) for shape in shapes]


def rounded(t):
    return t.detach().bfloat16().double()


PRODUCTS = {
    "operator": (lambda a, b: a @ b, [(40, 64), (64, 48)]),
    "mm": (torch.mm, [(40, 64), (64, 48)]),
    "method": (Tensor.mm, [(40, 64), (64, 48)]),
    "bmm": (torch.bmm, [(3, 40, 64), (3, 64, 48)]),
    "linear": (F.linear, [(40, 64), (48, 64)]),
    "linear with bias": (F.linear, [(40, 64), (48, 64), (48,)]),
    "addmm": (torch.addmm, [(48,), (40, 64), (64, 48)]),
    "baddbmm": (torch.baddbmm, [(3, 1, 48), (3, 40, 64), (3, 64, 48)]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_round_operands_results_and_gradients_once(name):
    function, shapes = PRODUCTS[name]
    arguments = matrices(*shapes)
    with Bf16Products():
        result = function(*arguments)
        g = torch.ones_like(result)
        gradients = torch.autograd.grad(result, arguments, g)
    summand = {"linear with bias": 2, "addmm": 0, "baddbmm": 0}.get(name)  # not rounded
    exact_arguments = [
        (t.detach().double() if i == summand else rounded(t)).requires_grad_() for i, t in enumerate(arguments)
    ]
    exact = function(*exact_arguments)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.double(), exact, rtol=2**-7, atol=2**-7)
    assert not torch.equal(result, function(*arguments))
    for ours, expected in zip(gradients, torch.autograd.grad(exact, exact_arguments, g.double()), strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.double(), expected, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize(
    ("shapes", "dtype"),
    [
        ([(40, 64), (64, 48)], torch.float64),
        ([(40, MIN_WIDTH - 1), (MIN_WIDTH - 1, 48)], torch.float32),
        ([(40, 64), (64,)], torch.float32),
        ([(2, 40, 64), (64, 48)], torch.float32),
    ],
)
def test_other_products_stay_exact(shapes, dtype):
    a, b = matrices(*shapes, dtype=dtype)
    with Bf16Products():
        product = a @ b
    assert torch.equal(product, a @ b)


def test_products_without_gradient_and_sparse_products_stay_exact():
    a, b = matrices((64, 64), (64, 48))
    sparse = SparseMatrix.from_torch(a.detach().to_sparse())
    expected = sparse @ b, a @ b
    with Bf16Products():
        assert torch.equal(sparse @ b, expected[0])
        with torch.no_grad():
            assert torch.equal(a @ b, expected[1])
    assert torch.equal(a @ b, expected[1])  # after the context as before


def test_products_with_constant_features_stay_exact():
    """Rounding would remove what distinguishes features with a large offset, such as years."""
    x = 2000 + torch.rand(64, 64, generator=torch.Generator().manual_seed(0))
    weight = torch.randn(64, 64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    with Bf16Products():
        product = x @ weight
    assert torch.equal(product, x @ weight)


def test_an_error_ends_the_context():
    a, b = matrices((64, 64), (64, 48))

    def fail():
        with force_bf16(True), matmul_precision("bf16", CPU):
            raise RuntimeError

    expected = a @ b
    with pytest.raises(RuntimeError):
        fail()
    assert torch.equal(a @ b, expected)


@pytest.mark.parametrize(
    ("precision", "instructions", "exact"),
    [("fp32", True, True), ("tf32", True, True), ("fp16", True, True), ("bf16", True, False), ("auto", True, False),
     ("bf16", False, True), ("auto", False, True)],
)  # fmt: skip
def test_a_cpu_uses_bf16_if_it_has_it_and_the_setting_allows_it(precision, instructions, exact):
    a, b = matrices((64, 64), (64, 48))
    with force_bf16(instructions), matmul_precision(precision, CPU):
        product = a @ b
    assert torch.equal(product, a @ b) == exact


def test_training_in_bf16_is_reproducible_and_close_to_float32(small_graph, use_bf16):
    first, again = (EPAGCL(epochs=6, precision="bf16", **WIDE).fit(small_graph) for _ in range(2))
    auto, exact = (EPAGCL(epochs=6, precision=name, **WIDE).fit(small_graph) for name in ("auto", "fp32"))
    assert same_weights(first, again)
    assert same_weights(first, auto)
    assert not same_weights(first, exact)
    assert [r["loss"] for r in first.history_] == pytest.approx([r["loss"] for r in exact.history_], abs=0.01)


def test_training_in_bf16_resumes_with_the_same_bits(small_graph, tmp_path, use_bf16):
    settings = {**WIDE, "epochs": 8, "precision": "bf16"}
    whole = EPAGCL(**settings).fit(small_graph)
    with pytest.raises(Stop):
        EPAGCL(**settings).fit(small_graph, checkpoint=tmp_path / "c.pt", callback=stop_at(5))
    resumed = EPAGCL(**settings).fit(small_graph, checkpoint=tmp_path / "c.pt", resume=True)
    assert same_weights(resumed, whole)
    assert [row["loss"] for row in resumed.history_] == [row["loss"] for row in whole.history_]


def test_embedding_stays_float32(small_graph, use_bf16):
    model = EPAGCL(epochs=2, precision="bf16", **WIDE).fit(small_graph)
    z = model.embed(small_graph)
    with force_bf16(False):
        assert torch.equal(model.embed(small_graph), z)


def test_preparation_stays_float32(small_graph, use_bf16):
    products = []

    class Prepares(EPAGCL):
        def prepare(self, graph):
            a, b = matrices((64, 64), (64, 48))
            products.append((a @ b, a, b))
            return super().prepare(graph)

    Prepares(epochs=1, precision="bf16", **WIDE).fit(small_graph)
    ((product, a, b),) = products
    assert torch.equal(product, a @ b)


class Half(EPAGCL):
    half_activations = True


@pytest.mark.usefixtures("half_on_small_graphs")
def test_activations_are_fp16_for_methods_and_features_that_allow_it(small_graph, use_triton):
    graph = Graph.from_data(check(small_graph))
    assert not has_half_activations(Half(), graph)  # without Triton
    use_triton(True)
    assert {p: has_half_activations(Half(precision=p), graph) for p in ("auto", "fp16", "bf16", "tf32", "fp32")} == {
        "auto": True,
        "fp16": True,
        "bf16": False,
        "tf32": False,
        "fp32": False,
    }
    other = type("Other", (EPAGCL,), {"half_activations": False})
    assert not has_half_activations(other(), graph)
    x = torch.nn.functional.normalize(graph.x.to_dense(), dim=1)
    for length, expected in ((2.0**-7, False), (2.0**-5, True), (2.0**7, True), (2.0**9, False), (0.0, False)):
        assert has_half_activations(Half(), replace(graph, x=x * length)) == expected
    some = torch.ones(60, 1)
    some[:10] = 2.0**-9  # a few short rows
    assert has_half_activations(Half(), replace(graph, x=x * some))
    some[:10] = 2.0**9  # one long row is enough
    assert not has_half_activations(Half(), replace(graph, x=x * some))


def test_autocast_to_fp16_ends_with_its_context():
    with half_activations(CPU):
        assert torch.is_autocast_enabled("cpu")
        assert torch.get_autocast_dtype("cpu") == torch.float16
        assert not torch.is_autocast_cache_enabled()
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float16
    assert not torch.is_autocast_enabled("cpu")


def test_products_of_fp16_have_float32_sums_and_the_setting_is_restored(monkeypatch):
    monkeypatch.setattr("epagcl.training.precision.has_triton", lambda _: True)
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_fp16_reduced_precision_reduction
    with matmul_precision("auto", torch.device("cuda")):
        assert not matmul.allow_fp16_reduced_precision_reduction
    assert matmul.allow_fp16_reduced_precision_reduction == before


@pytest.mark.usefixtures("half_on_small_graphs")
def test_early_stopping_subgraphs_and_ranks_keep_activations_in_float32(small_graph, use_triton, monkeypatch):
    use_triton(True)
    graph = Graph.from_data(check(small_graph))
    assert has_half_activations(Half(), graph)
    assert not has_half_activations(Half(patience=3), graph)
    assert not has_half_activations(Half(), replace(graph, part=object()))
    monkeypatch.setattr(Graph, "origin", (torch.arange(60), 100))
    assert not has_half_activations(Half(), graph)


def test_autocast_of_the_caller_changes_no_sparse_product(use_triton, device):
    use_triton(True)
    matrix, ones = SparseMatrix.from_torch(torch.eye(3, device=device).to_sparse()), torch.ones(3, 2, device=device)
    with torch.autocast(device.type, torch.float16):
        assert (matrix @ ones).dtype == torch.float32
        with half_activations(device):
            assert (matrix @ ones).dtype == torch.float16


def test_steps_are_counted_down_to_a_scale_of_0():
    scaler = loss_scaler(CPU)
    for scale, skipped in ((LOSS_SCALE, 0), (LOSS_SCALE / 8, 3), (1.0, 12), (0.0, 162)):
        scaler.load_state_dict({**scaler.state_dict(), "scale": scale})
        assert skipped_steps(scaler) == skipped


def test_small_graphs_keep_activations_in_float32(small_graph, use_triton, monkeypatch):
    use_triton(True)
    graph = Graph.from_data(check(small_graph))
    for least, expected in ((60, True), (61, False)):
        monkeypatch.setattr("epagcl.training.precision.MIN_NODES", least)
        assert has_half_activations(Half(), graph) == expected
