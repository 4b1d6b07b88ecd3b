import pytest
import torch

from epagcl import BGRL, EPAGCL
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.training.epoch import EpochRunner
from epagcl.training.loop import adam
from epagcl.training.precision import LOSS_SCALE
from epagcl.training.protocol import Step
from tests.training.common import Squares

SMALL = {"hidden": 32, "dim": 16, "projection": 16}

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


class Peeks(EPAGCL):
    """A loss that reads its own value, which a CUDA graph cannot do."""

    def loss(self, *args):
        loss = super().loss(*args)
        return loss if loss.item() < 1e9 else loss.detach()


def start(method, data, device):
    graph = Graph.from_data(check(data), device)
    method.num_features_ = graph.num_features
    network = method.initial_network().to(device)
    on_cuda = device.type == "cuda"
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01, fused=True, capturable=on_cuda)
    return EpochRunner(method, network, graph, optimiser)


def test_epochs_on_a_cpu_equal_an_explicit_loop(small_graph):
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


def test_an_epoch_depends_only_on_its_number(small_graph):
    epochs = start(EPAGCL(**SMALL), small_graph, torch.device("cpu"))
    epochs.optimiser.param_groups[0]["lr"] = 0.0  # the weights do not change, so that only the views differ
    forwards, again = epochs.run(0, 4), [epochs.run(e, e + 1)[0] for e in (3, 2, 1, 0)]
    assert forwards == again[::-1]
    assert len(set(forwards)) == 4


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
def test_a_loss_that_cannot_be_captured_trains_without_capture(device, untimed_tiles):
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


def fresh(method, data, device="cpu"):
    """Return a runner with initial weights and the optimiser of training."""
    graph = Graph.from_data(check(data), device)
    method.num_features_ = graph.num_features
    network = method.initial_network().to(device)
    return EpochRunner(method, network, graph, adam(method, network, graph.device))


def weights_of(module):
    return [p.detach().clone() for p in module.parameters()]


class Turns(EPAGCL):
    """Trains encoder and head alternately, each by its own step."""

    order = (0, 1)

    def parameters(self, network):
        return [{"params": list(network.encoder.parameters())}, {"params": list(network.head.parameters()), "lr": 0.1}]

    def steps(self):
        return [Step(self.loss, group) for group in self.order]


@pytest.mark.parametrize("group", [0, 1])
def test_a_step_updates_only_its_group(small_graph, group):
    method = Turns(**SMALL)
    method.order = (group,)
    epochs = fresh(method, small_graph)
    parts = epochs.network.encoder, epochs.network.head
    before = [weights_of(part) for part in parts]
    epochs.run(0, 1)
    after = [weights_of(part) for part in parts]
    assert all(map(torch.equal, before[1 - group], after[1 - group]))
    assert not any(map(torch.equal, before[group], after[group]))


def test_several_steps_equal_an_explicit_loop(small_graph):
    epochs = fresh(Turns(**SMALL), small_graph)
    losses = epochs.run(0, 3)
    twin, method = fresh(Turns(**SMALL), small_graph), Turns(**SMALL)
    expected = []
    optimisers = [
        torch.optim.Adam(part.parameters(), lr=lr, weight_decay=1e-4, fused=True)
        for part, lr in ((twin.network.encoder, 1e-3), (twin.network.head, 0.1))
    ]
    for epoch in range(3):
        for number, optimiser in enumerate(optimisers):
            twin.network.zero_grad()
            loss = method.loss(twin.network, twin.graph, twin.prepared, epoch)
            loss.backward()
            optimiser.step()
            if number == 0:
                expected.append((loss.item(),))  # the history records the loss of the first step
    assert losses == expected
    assert all(map(torch.equal, weights_of(epochs.network), weights_of(twin.network)))


class Scheduled(Turns):
    """Multiplies the learning rate of each group by 0, then 1/2, then 1."""

    order = (None,)

    def lr_factor(self, epoch):
        return epoch / 2


def test_the_schedule_sets_the_rate_of_every_group(small_graph):
    epochs = fresh(Scheduled(**SMALL), small_graph)
    rates, before = [], weights_of(epochs.network)
    epochs.run(0, 1)
    assert all(map(torch.equal, before, weights_of(epochs.network)))  # a rate of 0 changes nothing
    for epoch in range(3):
        epochs.run(epoch, epoch + 1)
        rates.append([group["lr"] for group in epochs.optimiser.param_groups])
    assert rates == [pytest.approx([1e-3 * f, 0.1 * f]) for f in (0, 0.5, 1)]


def test_a_schedule_equals_an_explicit_loop(small_graph):
    epochs, twin = (fresh(Scheduled(**SMALL), small_graph) for _ in range(2))
    losses = epochs.run(0, 3)
    groups = [{"params": list(part.parameters())} for part in (twin.network.encoder, twin.network.head)]
    optimiser = torch.optim.Adam(groups, weight_decay=1e-4, fused=True)
    expected = []
    for epoch in range(3):
        for group, rate in zip(optimiser.param_groups, (1e-3, 0.1), strict=True):
            group["lr"] = rate * epoch / 2
        optimiser.zero_grad()
        loss = twin.method.loss(twin.network, twin.graph, twin.prepared, epoch)
        loss.backward()
        optimiser.step()
        expected.append((loss.item(),))
    assert losses == expected
    for a, b in zip(weights_of(epochs.network), weights_of(twin.network), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)  # the learning rate was rounded to float32


class Watched(EPAGCL):
    """Records the calls of an epoch, and has a validation loss."""

    has_validation_loss = True

    def loss(self, network, graph, prepared, epoch):
        self.seen.append(("loss", epoch, network.training, torch.is_grad_enabled()))
        return super().loss(network, graph, prepared, epoch)

    def after_epoch(self, network, epoch):
        self.seen.append(("after", epoch, weights_of(network)[0]))

    def validation_loss(self, network, graph, prepared):
        self.seen.append(("validation", network.training, torch.is_grad_enabled()))
        return network.head[0].weight.sum()


def test_an_epoch_runs_steps_then_after_epoch_then_validation(small_graph):
    method = Watched(**SMALL)
    method.seen = []
    epochs = fresh(method, small_graph)
    before = weights_of(epochs.network)[0]
    values = epochs.run(4, 6)
    assert [call for call, *_ in method.seen] == ["loss", "after", "validation"] * 2
    assert [entry for entry in method.seen if entry[0] == "loss"] == [("loss", 4, True, True), ("loss", 5, True, True)]
    assert method.seen[2] == method.seen[5] == ("validation", False, False)
    assert not torch.equal(method.seen[1][2], before)  # after the step
    assert torch.equal(method.seen[4][2], weights_of(epochs.network)[0])
    assert epochs.network.training
    assert [len(value) for value in values] == [2, 2]
    assert values[-1][1] == epochs.network.head[0].weight.sum().item()


def test_without_validation_loss_the_best_weights_are_those_that_gave_the_loss(small_graph):
    epochs = fresh(EPAGCL(patience=5, **SMALL), small_graph)
    before = epochs.network.state_dict()["head.0.weight"].clone()
    ((loss,),) = epochs.run(0, 1)
    assert epochs.early_stopping.value == loss
    assert torch.equal(epochs.early_stopping.state["head.0.weight"], before)
    validated = Watched(patience=5, **SMALL)
    validated.seen = []
    epochs = fresh(validated, small_graph)
    ((_, validation),) = epochs.run(0, 1)
    assert epochs.early_stopping.value == validation
    assert torch.equal(
        epochs.early_stopping.state["head.0.weight"], epochs.network.head[0].weight
    )  # after the step, there
    assert fresh(EPAGCL(**SMALL), small_graph).early_stopping is None


def test_a_method_without_validation_loss_raises(small_graph):
    with pytest.raises(TypeError, match="EPAGCL has no validation loss"):
        EPAGCL(**SMALL).validation_loss(None, None, None)


@pytest.mark.usefixtures("half_on_small_graphs")
def test_half_precision_takes_the_steps_of_float32(small_graph, use_triton):
    results = []
    for precision in ("fp32", "fp16"):
        use_triton(True)
        epochs = fresh(Squares(lr=0.01, weight_decay=0.1, precision=precision, **SMALL), small_graph)
        assert (epochs.scaler is not None) == (precision == "fp16")
        losses = epochs.run(0, 3)
        assert epochs.method.seen == (torch.float16 if precision == "fp16" else torch.float32)
        results.append((losses, epochs.network.encoder.layers[0].weight.detach()))
    (losses, weight), (half_losses, half_weight) = results
    assert half_losses != losses
    assert [loss for (loss,) in half_losses] == pytest.approx([loss for (loss,) in losses], rel=1e-3)
    start = fresh(Squares(**SMALL), small_graph).network.encoder.layers[0].weight
    steps = [(w - start).norm().item() for w in (half_weight, weight)]
    assert steps[0] == pytest.approx(steps[1], rel=1e-2)
    torch.testing.assert_close(half_weight, weight, rtol=0, atol=2e-3)  # a step of Adam is about lr


@pytest.mark.usefixtures("half_on_small_graphs")
def test_a_step_whose_gradient_overflows_is_skipped(small_graph, use_triton):
    use_triton(True)
    epochs = fresh(Squares(lr=0.01, **SMALL), small_graph)
    epochs.method.overflow = 3
    epochs.run(0, 1)
    before, state = weights_of(epochs.network), epochs.optimiser.state_dict()["state"]
    steps = {key: float(value["step"]) for key, value in state.items()}
    [(loss,)] = epochs.run(3, 4)
    assert loss < float("inf")  # 10⁶ times as large, which only its scaled gradient cannot be
    assert all(map(torch.equal, epochs.network.parameters(), before))
    assert {key: float(value["step"]) for key, value in state.items()} == steps
    assert epochs.scaler.get_scale() == LOSS_SCALE / 2
    losses = epochs.run(4, 20)  # the scale is halved until the gradient fits
    assert losses[-1] < losses[0]
    assert not all(map(torch.equal, epochs.network.parameters(), before))


@needs_gpu
@pytest.mark.usefixtures("half_on_small_graphs")
def test_captured_epochs_in_half_precision_are_bit_identical(device):
    data = block_model(300, num_classes=3, num_features=80, topic_words=20, seed=1)
    results = []
    for setting in ("off", "on"):
        method = BGRL(capture=setting, hidden=32, dim=16, predictor=24)
        epochs = fresh(method, data, device)
        assert epochs.scaler is not None
        losses = epochs.run(0, 5) + epochs.run(5, 12)
        assert (epochs.captured is not None) == (setting == "on")
        results.append((losses, weights_of(epochs.network)))
    (losses, weights), (captured_losses, captured_weights) = results
    assert captured_losses == losses
    assert len(set(losses)) == 12
    assert all(map(torch.equal, captured_weights, weights))
