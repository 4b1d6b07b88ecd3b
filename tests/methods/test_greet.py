import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data

import epagcl
from epagcl.core.errors import InputError
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.losses.neighbours import neighbour_nce
from epagcl.methods import greet
from epagcl.methods.greet import GREET, filters, join_channels, propagate
from epagcl.training.epoch import EpochRunner
from epagcl.training.loop import adam
from tests.conftest import random_edges

SMALL = {"dim": 16, "gate_hidden": 12, "k": 4, "device": "cpu"}


def start(data, device="cpu", **settings):
    method = GREET(**{**SMALL, **settings})
    graph = Graph.from_data(check(data), device)
    method.num_features_ = graph.num_features
    return method, graph, method.prepare(graph), method.initial_network().to(device)


def graph_of(pairs, num_nodes):
    return Graph.from_data(check(Data(x=torch.eye(num_nodes), edge_index=pairs)))


def dense(graph, value):
    return graph.pattern.matrix(value).to_dense()


# The filters.


def test_an_open_or_closed_gate_gives_the_filter_of_a_gcn(small_graph):
    _, graph, _, _ = start(small_graph)
    adjacency, eye = graph.adjacency.to_dense(), torch.eye(graph.num_nodes)
    off_diagonal = adjacency - adjacency.diagonal().diag()
    one = torch.ones(graph.pattern.col.numel())
    low, high = (dense(graph, value) for value in filters(graph.pattern, one, 0.3))
    torch.testing.assert_close(low, adjacency)
    assert torch.equal(high, eye)
    low, high = (dense(graph, value) for value in filters(graph.pattern, 0 * one, 0.3))
    assert torch.equal(low, eye)
    torch.testing.assert_close(high, eye - 0.3 * off_diagonal)


def test_filters_are_the_normalised_matrices_of_the_weights(small_graph):
    method, graph, prepared, network = start(small_graph)
    n = graph.num_nodes
    w = method.noisy_weights(network.gate, graph, prepared, 3, 0).detach()
    full = dense(graph, w).fill_diagonal_(0)
    present = (graph.adjacency.to_dense() > 0).float().fill_diagonal_(0)
    low, high = (dense(graph, value) for value in filters(graph.pattern, w, 0.4))
    for weight, ours, sign in ((full, low, None), (present - full, high, -0.4)):
        r = (weight + torch.eye(n)).sum(1).rsqrt()
        expected = r[:, None] * (weight + torch.eye(n)) * r
        if sign is not None:
            expected = sign * expected.fill_diagonal_(0) + torch.eye(n)
        torch.testing.assert_close(ours, expected)


def test_without_alpha_the_second_channel_is_a_perceptron(small_graph):
    method, graph, _, network = start(small_graph, alpha=0.0)
    second = method.represent(network, graph)[:, 16:]
    encoder = network.channels.encoders[1]
    expected = (small_graph.x.to_dense() @ encoder.weight.T + encoder.bias).relu()
    torch.testing.assert_close(F.normalize(second, dim=1), F.normalize(expected, dim=1))


# The gate.


def test_the_gate_is_symmetric_and_equals_its_formula(small_graph):
    _, graph, prepared, network = start(small_graph)
    gate = network.gate
    theta = gate(graph, prepared.codes)
    u, v = graph.pairs
    torch.testing.assert_close(dense(graph, theta), dense(graph, theta).T, rtol=0, atol=0)
    g = gate.embed(torch.cat([small_graph.x.to_dense(), prepared.codes], 1)).relu()
    expected = (gate.score(torch.cat([g[u], g[v]], 1)) + gate.score(torch.cat([g[v], g[u]], 1))) / 2
    torch.testing.assert_close(dense(graph, theta)[u, v], expected[:, 0])


def test_noise_depends_on_entry_turn_and_epoch_and_not_in_the_embedding(small_graph):
    method, graph, prepared, network = start(small_graph)
    draws = [
        method.noisy_weights(network.gate, graph, prepared, epoch, turn) for epoch, turn in ((0, 0), (0, 1), (1, 0))
    ]
    differs = dense(graph, draws[0])[*graph.pairs] != dense(graph, draws[0]).T[*graph.pairs]
    assert differs.all()  # each direction has its own noise
    assert not torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    w = network.gate(graph, prepared.codes).sigmoid()
    expected = join_channels(propagate(graph.pattern, filters(graph.pattern, w, 0.5), network.channels.hidden(graph.x)))
    assert torch.equal(method.represent(network, graph), expected)
    torch.testing.assert_close(expected.norm(dim=1), torch.ones(60))


def test_noise_is_logistic(monkeypatch, small_graph):
    method, graph, prepared, network = start(small_graph)
    theta = network.gate(graph, prepared.codes)
    for noise, epsilon in ((0.5, 0.5), (0.0, 1e-4), (1 - 2**-24, 1 - 1e-4)):
        monkeypatch.setattr(greet, "uniform", lambda counter, *_, noise=noise: torch.full(counter.shape, noise))
        expected = (theta + torch.tensor(epsilon).logit()).sigmoid()
        torch.testing.assert_close(method.noisy_weights(network.gate, graph, prepared, 0, 0), expected)


# The steps.


def test_the_loss_of_the_channels_is_that_of_their_views(small_graph):
    method, graph, prepared, network = start(small_graph, p_mask_1=0.5, p_mask_2=0.25, projection_layers=2)
    with torch.no_grad():
        w = method.noisy_weights(network.gate, graph, prepared, 3, 1)
        views = []
        for view, (p_drop, p_mask) in enumerate(((0.5, 0.5), (0.1, 0.25))):
            kept = greet.uniform(prepared.entries, 0, greet.Stream.DROPOUT, 3, 2 + view) >= p_drop
            filtered = dense(graph, filters(graph.pattern, w, 0.5)[view] * kept / (1 - p_drop))
            assert ((filtered == 0) != (filtered.T == 0)).any()  # the two directions are dropped independently
            assert 0 < (filtered.diagonal() == 0).sum() < 60  # self-loops are dropped too
            columns = greet.permutation(40, 0, greet.Stream.FEATURES, 3, 2 + view)
            x = small_graph.x.to_dense().clone()
            x[:, columns[: int(40 * p_mask)]] = 0
            h = network.channels.encoders[view](x).relu()
            views.append(network.channels.projections[view](filtered @ filtered @ h))
        expected = neighbour_nce(*views, prepared.positives, 0.2)
        torch.testing.assert_close(method.loss(network, graph, prepared, 3, turn=1), expected)
        assert method.loss(network, graph, prepared, 3) != expected


def test_the_number_of_hidden_columns_is_exact(monkeypatch, small_graph):
    method, graph, prepared, network = start(small_graph, p_mask_1=0.33, p_mask_2=1.0)
    seen = []
    hidden = network.channels.hidden
    monkeypatch.setattr(network.channels, "hidden", lambda x, masks=None: (seen.append(masks), hidden(x, masks))[1])
    for step in method.steps():
        step.loss(network, graph, prepared, 0)
    method.loss(network, graph, prepared, 1)
    first, second, intact, later = seen
    for masks in (first, second, later):
        assert (masks == 0).sum(1).tolist() == [13, 40]
        assert ((masks == 0) | (masks == 1)).all()
    assert not torch.equal(first, second)
    assert not torch.equal(first, later)
    assert intact is None


def test_loss_of_the_gate_is_the_formula(small_graph):
    method, graph, prepared, network = start(small_graph, margin_hom=0.3, margin_het=0.7)
    with torch.no_grad():
        w = method.noisy_weights(network.gate, graph, prepared, 2, method.rounds)
        z = join_channels(propagate(graph.pattern, filters(graph.pattern, w, 0.5), network.channels.hidden(graph.x)))
        row, col = graph.pattern.row, graph.pattern.col
        others = greet.other_nodes(60, -(-len(row) // 60), 0, greet.Stream.NEGATIVES, 2).flatten()[: len(row)]
        number = torch.arange(len(row)) % 60
        assert (others != number).all()
        edges = row != col
        c_e, c_r = ((z[u] * z[v]).sum(1)[edges] for u, v in ((row, col), (number, others)))
        w = w[edges]
        similar = ((w - 0.5).relu() * (0.3 - c_e + c_r).relu()).mean()
        dissimilar = ((0.5 - w).relu() * (0.7 - c_r + c_e).relu()).mean()
        torch.testing.assert_close(method.gate_loss(network, graph, prepared, 2), (similar + dissimilar) / 2)


def test_the_gradient_of_the_gate_flows_through_its_weights_and_the_embedding(monkeypatch, small_graph):
    method, graph, prepared, network = start(small_graph)
    parameters = list(network.gate.parameters())
    both = torch.autograd.grad(method.gate_loss(network, graph, prepared, 0), parameters)
    monkeypatch.setattr(greet, "filters", lambda pattern, w, alpha: filters(pattern, w.detach(), alpha))
    alone = torch.autograd.grad(method.gate_loss(network, graph, prepared, 0), parameters)
    for g, h in zip(both, alone, strict=True):
        assert h.abs().sum() > 0
        assert not torch.allclose(g, h)


def test_the_gradient_of_the_gate_loss_equals_finite_differences():
    pattern = graph_of(random_edges(9, 0.4, 1), 9).pattern
    generator = torch.Generator().manual_seed(0)
    w, h, g = (torch.rand(size, generator=generator).double() for size in (len(pattern.row), (18, 3), (9, 6)))

    def z(w):
        return (join_channels(propagate(pattern, filters(pattern, w, 0.5), h)) * g).sum()

    assert torch.autograd.gradcheck(z, w.requires_grad_())


@pytest.mark.parametrize("projection_layers", [1, 2])
def test_each_step_updates_all_of_its_own_parameters_only(small_graph, projection_layers):
    method, graph, _, network = start(small_graph, projection_layers=projection_layers, gate_lr=0.5, lr=0.25)
    optimiser = adam(method, network, graph.device)
    assert [group["lr"] for group in optimiser.param_groups] == [0.25, 0.5]
    assert sum(len(group["params"]) for group in optimiser.param_groups) == len(list(network.parameters()))
    assert [step.group for step in method.steps()] == [0, 0, 1]
    own = list(network.channels.parameters()), list(network.gate.parameters())
    epochs = EpochRunner(method, network, graph, optimiser)
    for number, step in enumerate(method.steps()):
        before = [[p.detach().clone() for p in group] for group in own]
        method.steps = lambda step=step: [step]
        epochs.run(number, number + 1)
        for place, (group, old) in enumerate(zip(own, before, strict=True)):
            moved = [not torch.equal(p, q) for p, q in zip(group, old, strict=True)]
            assert all(moved) if place == step.group else not any(moved)


def test_one_batch_of_all_nodes_is_the_full_loss(small_graph):
    method, graph, prepared, network = start(small_graph)
    full = method.loss(network, graph, prepared, 2)
    assert torch.equal(method.set_params(batch_size=60).loss(network, graph, prepared, 2), full)
    assert method.set_params(batch_size=25).loss(network, graph, prepared, 2) < full  # log B in place of log N


@pytest.mark.slow
def test_triton_and_torch_give_the_same_steps(device, use_triton):
    results = []
    data = Data(x=torch.eye(7), edge_index=random_edges(7, 0.3, 2))
    for on in (False, True):
        use_triton(on)
        method, graph, prepared, network = start(data, device, rounds=1, dim=4, gate_hidden=3)
        losses = [step.loss(network, graph, prepared, torch.tensor(3, device=device)) for step in method.steps()]
        gradients = [
            torch.autograd.grad(loss, group["params"])
            for loss, group in zip(losses, method.parameters(network), strict=True)
        ]
        results.append((losses, gradients, method.represent(network, graph)))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-6)


# The estimator.


def test_training_lowers_the_loss_and_keeps_a_high_rank():
    model = GREET(**SMALL, epochs=25, lr=0.01).fit(block_model(200, seed=5))
    losses = [row["loss"] for row in model.history_]
    assert losses[-1] < losses[0] - 0.3
    assert model.history_[-1]["effective_rank"] > 4


def test_the_seed_determines_the_result(small_graph):
    settings = {**SMALL, "epochs": 3, "batch_size": 25, "code_probes": 32}
    a, b, c = (GREET(**settings, seed=seed).fit_embed(small_graph) for seed in (3, 3, 4))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_labels_are_not_read(small_graph):
    scrambled = small_graph.clone()
    scrambled.y = scrambled.y.flip(0)
    assert torch.equal(*(GREET(**SMALL, epochs=2).fit_embed(data) for data in (small_graph, scrambled)))


def test_a_dead_feature_column_changes_nothing(small_graph):
    wide = small_graph.clone()
    wide.x = torch.cat([small_graph.x.to_dense(), torch.zeros(60, 1)], 1)
    method, graph, prepared, network = start(small_graph, p_mask_1=0.0, p_mask_2=0.0)
    _, wide_graph, wide_prepared, wider = start(wide)
    with torch.no_grad():
        for name, p in network.named_parameters():
            q = wider.get_parameter(name)
            # Weights of features precede those of codes.
            q.copy_(p if q.shape == p.shape else torch.cat([p[:, :40], torch.ones(len(p), 1), p[:, 40:]], 1))
    for step in method.steps():
        results = step.loss(wider, wide_graph, wide_prepared, 1), step.loss(network, graph, prepared, 1)
        torch.testing.assert_close(*results, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(method.represent(wider, wide_graph), method.represent(network, graph))


def test_isolated_nodes_empty_rows_and_tiny_graphs_train():
    x = torch.eye(6)
    x[4:] = 0
    isolated = Data(x=x, edge_index=torch.tensor([[0, 1], [1, 2]]))
    complete = Data(x=torch.eye(5), edge_index=torch.triu_indices(5, 5, 1))
    two = Data(x=torch.eye(2), edge_index=torch.tensor([[0], [1]]))
    for data in (isolated, complete, two):
        for settings in ({}, {"k": 0, "batch_size": 1}, {"p_mask_1": 1.0, "p_drop_1": 0.9, "temperature": 0.03}):
            model = GREET(**{**SMALL, "epochs": 3, **settings}).fit(data)
            assert torch.isfinite(model.embed(data)).all()
            assert all(torch.isfinite(p).all() for p in model.network_.parameters())


def test_save_load_and_unseen_graphs(tmp_path, small_graph):
    model = GREET(**SMALL, epochs=2, projection_layers=2).fit(small_graph)
    model.save(tmp_path)
    loaded = epagcl.load_model(tmp_path, device="cpu")
    assert isinstance(loaded, GREET)
    assert loaded.get_params() == model.get_params()
    assert torch.equal(loaded.embed(small_graph), model.embed(small_graph))
    other = block_model(80, num_classes=3, num_features=40, topic_words=10, seed=9)
    z = loaded.embed(other)
    assert z.shape == (80, 32)
    torch.testing.assert_close(z.norm(dim=1), torch.ones(80))


def test_embedding_does_not_depend_on_dense_or_sparse_features(small_graph):
    model = GREET(**SMALL, epochs=1).fit(small_graph)
    other = small_graph.clone()
    other.x = small_graph.x.to_dense()
    torch.testing.assert_close(model.embed(other), model.embed(small_graph))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p_drop_2": 1.0}, "p_drop_2=1.0: must be below 1"),
        ({"p_mask_1": 1.5}, "p_mask_1=1.5: a probability lies between 0 and 1"),
        ({"temperature": 0.01}, "temperature=0.01: must be at least 0.03"),
        ({"projection_layers": 3}, "projection_layers=3.*must be 1 or 2"),
        ({"gate_lr": 0.0}, "gate_lr must be positive"),
        ({"rounds": 0}, "rounds=0: must be at least 1"),
        ({"k": -1}, "k=-1: must be at least 0"),
    ],
)
def test_invalid_settings_are_rejected(settings, message):
    with pytest.raises(InputError, match=message):
        GREET(**settings)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
@pytest.mark.parametrize("batch_size", [0, 64])
def test_captured_epochs_are_bit_identical(device, batch_size):
    data = block_model(300, num_classes=3, num_features=80, topic_words=20, seed=1)
    results = []
    for capture in ("off", "on"):
        method, graph, _, network = start(data, device, batch_size=batch_size, capture=capture)
        epochs = EpochRunner(method, network, graph, adam(method, network, device))
        losses = epochs.run(0, 5) + epochs.run(5, 12)
        assert (epochs.captured is not None) == (capture == "on"), epochs.reason
        results.append((losses, [p.tolist() for p in network.parameters()]))
    assert results[0] == results[1]
