from types import SimpleNamespace

import pytest
import torch

from epagcl import EPAGCL, capture
from epagcl.capture import Epochs, products_in
from epagcl.data import block_model, check
from epagcl.data.graph import Graph

SMALL = {"hidden": 32, "dim": 16, "projection": 16}

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


class Peeks(EPAGCL):
    """A loss that looks at its own value, which a CUDA graph cannot."""

    def loss(self, *args):
        loss = super().loss(*args)
        return loss if loss.item() < 1e9 else loss.detach()


def start(method, data, device):
    graph = Graph.from_data(check(data), device)
    method.num_features_ = graph.num_features
    network = method._initial_network().to(device)
    on_cuda = device.type == "cuda"
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01, fused=True, capturable=on_cuda)
    return Epochs(method, network, graph, optimiser)


def test_epochs_on_a_cpu_are_a_loop_written_out(small_graph):
    cpu = torch.device("cpu")
    epochs = start(EPAGCL(**SMALL), small_graph, cpu)
    assert epochs.reason == "no CUDA graphs on cpu"
    losses = epochs.run(0, 2) + epochs.run(2, 5)
    assert epochs.captured is None

    method, twin = EPAGCL(**SMALL), start(EPAGCL(**SMALL), small_graph, cpu)
    prepared = method.prepare(twin.graph)
    expected = []
    for epoch in range(5):
        twin.optimiser.zero_grad()
        loss = method.loss(twin.network, twin.graph, prepared, epoch)
        loss.backward()
        twin.optimiser.step()
        expected.append((loss.item(),))
    assert losses == expected
    assert all(map(torch.equal, epochs.network.parameters(), twin.network.parameters()))


def test_an_epoch_depends_on_its_number_alone(small_graph):
    epochs = start(EPAGCL(**SMALL), small_graph, torch.device("cpu"))
    epochs.optimiser.param_groups[0]["lr"] = 0.0  # weights stay, so that only the views differ
    forwards, again = epochs.run(0, 4), [epochs.run(e, e + 1)[0] for e in (3, 2, 1, 0)]
    assert forwards == again[::-1]
    assert len(set(forwards)) == 4


@pytest.mark.parametrize(
    ("setting", "device", "num_nodes", "reason"),
    [
        ("on", "cpu", 10, "no CUDA graphs on cpu"),
        ("off", "cuda", 10, "capture = off"),
        ("auto", "cuda", capture.SMALL, ""),
        ("auto", "cuda", capture.SMALL + 1, "more than 32,768 nodes"),
        ("on", "cuda", capture.SMALL + 1, ""),
    ],
)
def test_why_epochs_are_not_captured(monkeypatch, setting, device, num_nodes, reason):
    monkeypatch.setattr("epagcl.capture.has_triton", lambda device: device.type == "cuda")
    graph = SimpleNamespace(device=torch.device(device), num_nodes=num_nodes)
    answer = capture._why_not(EPAGCL(capture=setting), graph)
    assert answer.startswith(reason)
    assert bool(answer) == bool(reason)


def test_without_triton_nothing_is_captured(monkeypatch):
    monkeypatch.setattr("epagcl.capture.has_triton", lambda _: False)
    graph = SimpleNamespace(device=torch.device("cuda"), num_nodes=10)
    assert capture._why_not(EPAGCL(capture="on"), graph).startswith("without Triton")


@pytest.mark.parametrize(
    ("precision", "expected"), [("fp32", "highest"), ("tf32", "high"), ("fp16", "high"), ("auto", "high")]
)
def test_products_of_the_network_follow_the_precision_and_are_put_back(monkeypatch, precision, expected):
    before = torch.get_float32_matmul_precision()
    for triton in (True, False, True):
        monkeypatch.setattr("epagcl.capture.has_triton", lambda _, triton=triton: triton)
        with products_in(precision, torch.device("cuda")):
            assert torch.get_float32_matmul_precision() == (expected if triton else "highest")
        assert torch.get_float32_matmul_precision() == before


def test_products_follow_the_precision_also_where_the_user_has_torchs_newer_setting(monkeypatch):
    matmul = torch.backends.cuda.matmul
    if not hasattr(matmul, "fp32_precision"):
        return  # torch before 2.9 has one way to say it
    monkeypatch.setattr("epagcl.capture.has_triton", lambda _: True)
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = "tf32"
        for _ in range(3):
            with products_in("fp32", torch.device("cuda")):
                assert matmul.fp32_precision == "ieee"
            assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before


def test_callback_gets_one_row_per_epoch_in_order(device, small_graph, untimed_tiles):
    rows = []
    model = EPAGCL(epochs=30, device=device.type, **SMALL).fit(small_graph, callback=rows.append)
    assert [row["epoch"] for row in rows] == list(range(1, 31))
    assert rows == model.history_
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)
    assert [row["epoch"] for row in rows if row["effective_rank"] is not None] == [25, 30]


@needs_gpu
@pytest.mark.parametrize("batch_size", [0, 64])
@pytest.mark.parametrize("precision", ["fp32", "auto"])
def test_captured_epochs_are_bit_identical(device, untimed_tiles, batch_size, precision):
    data = block_model(300, num_classes=3, num_features=80, topic_words=20, seed=1)
    results = []
    for setting in ("off", "on"):
        method = EPAGCL(capture=setting, batch_size=batch_size, precision=precision, **SMALL)
        epochs = start(method, data, device)
        losses = epochs.run(0, 5) + epochs.run(5, 12)
        assert (epochs.captured is not None) == (setting == "on")
        assert epochs.reason == ("" if setting == "on" else "capture = off")
        results.append((losses, [p.detach().clone() for p in epochs.network.parameters()]))
    (losses, weights), (captured_losses, captured_weights) = results
    assert captured_losses == losses
    assert len(set(losses)) == 12
    assert all(map(torch.equal, captured_weights, weights))


@needs_gpu
def test_a_loss_that_cannot_be_captured_trains_without(device, untimed_tiles):
    data = block_model(300, num_classes=3, num_features=80, topic_words=20, seed=1)
    epochs = start(Peeks(capture="on", **SMALL), data, device)
    losses = epochs.run(0, 12)
    assert epochs.captured is None
    assert epochs.reason
    assert losses == start(EPAGCL(capture="off", **SMALL), data, device).run(0, 12)


@needs_gpu
def test_training_is_the_same_with_and_without_capture(device, untimed_tiles):
    data = block_model(300, num_classes=3, num_features=80, topic_words=20, seed=1)
    off, on = (EPAGCL(epochs=12, capture=setting, device="cuda", **SMALL).fit(data) for setting in ("off", "on"))
    assert [row["loss"] for row in on.history_] == [row["loss"] for row in off.history_]
    assert torch.equal(on.embed(data), off.embed(data))
