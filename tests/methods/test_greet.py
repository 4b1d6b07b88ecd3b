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
from epagcl.methods.greet import GREET, filters, joined, spread, structural_codes
from epagcl.training.epoch import EpochRunner
from epagcl.training.loop import adam
from tests.conftest import Largest, random_edges

SMALL = {"dim": 16, "gate_hidden": 12, "k": 4, "device": "cpu"}


def start(data, device="cpu", **settings):
    method = GREET(**{**SMALL, **settings})
    graph = Graph.from_data(check(data), device)
    method.num_features_ = graph.num_features
    return method, graph, method.prepare(graph), method._initial_network().to(device)


def graph_of(pairs, num_nodes):
    return Graph.from_data(check(Data(x=torch.eye(num_nodes), edge_index=pairs)))


def dense(graph, value):
    return graph.pattern.matrix(value).to_dense()


# The filters.


def test_a_gate_that_is_open_or_shut_gives_the_gcns_filter(small_graph):
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


def test_the_gate_scores_a_pair_alike_from_both_ends_and_as_the_formula_says(small_graph):
    _, graph, prepared, network = start(small_graph)
    gate = network.gate
    theta = gate(graph, prepared.codes)
    u, v = graph.pairs
    torch.testing.assert_close(dense(graph, theta), dense(graph, theta).T, rtol=0, atol=0)
    g = gate.embed(torch.cat([small_graph.x.to_dense(), prepared.codes], 1)).relu()
    expected = (gate.score(torch.cat([g[u], g[v]], 1)) + gate.score(torch.cat([g[v], g[u]], 1))) / 2
    torch.testing.assert_close(dense(graph, theta)[u, v], expected[:, 0])


def test_noise_is_of_an_entry_a_turn_and_an_epoch_and_absent_from_the_embedding(small_graph):
    method, graph, prepared, network = start(small_graph)
    draws = [
        method.noisy_weights(network.gate, graph, prepared, epoch, turn) for epoch, turn in ((0, 0), (0, 1), (1, 0))
    ]
    apart = dense(graph, draws[0])[*graph.pairs] != dense(graph, draws[0]).T[*graph.pairs]
    assert apart.all()  # each direction has its own
    assert not torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    w = network.gate(graph, prepared.codes).sigmoid()
    expected = joined(spread(graph.pattern, filters(graph.pattern, w, 0.5), network.channels.hidden(graph.x)))
    assert torch.equal(method.represent(network, graph), expected)
    torch.testing.assert_close(expected.norm(dim=1), torch.ones(60))


def test_noise_is_logistic(monkeypatch, small_graph):
    method, graph, prepared, network = start(small_graph)
    theta = network.gate(graph, prepared.codes)
    for noise, epsilon in ((0.5, 0.5), (0.0, 1e-4), (1 - 2**-24, 1 - 1e-4)):
        monkeypatch.setattr(greet, "uniform", lambda counter, *_, noise=noise: torch.full(counter.shape, noise))
        expected = (theta + torch.tensor(epsilon).logit()).sigmoid()
        torch.testing.assert_close(method.noisy_weights(network.gate, graph, prepared, 0, 0), expected)


# What is prepared.


def walk_codes(graph):
    """diag(R^k) in float64, by dense powers."""
    a = (graph.adjacency.to_dense() > 0).double().fill_diagonal_(0)
    r = a / a.sum(0).clamp(min=1)
    return torch.stack([torch.linalg.matrix_power(r, k).diagonal() for k in range(1, 17)], 1)


def test_codes_of_a_tree_and_of_a_triangle():
    tree = structural_codes(graph_of(torch.tensor([[0, 0, 1, 1, 4], [1, 2, 3, 4, 5]]), 6))
    assert torch.equal(tree[:, 0::2], torch.zeros(6, 8))  # no way back in an odd number of steps
    assert (tree[:, 1::2] > 0).all()
    triangle = structural_codes(graph_of(torch.tensor([[0, 0, 1], [1, 2, 2]]), 3))
    torch.testing.assert_close(triangle[:, :3], torch.tensor([0.0, 0.5, 0.25]).expand(3, 3))


@pytest.mark.parametrize("block", [1, 50, 2**24])
@pytest.mark.parametrize("seed", range(3))
def test_codes_are_the_diagonals_of_the_walks_powers(monkeypatch, seed, block):
    monkeypatch.setattr(greet, "BLOCK", block)
    graph = graph_of(random_edges(14, 0.15, seed), 14)  # some nodes have no edges
    torch.testing.assert_close(structural_codes(graph), walk_codes(graph).float(), rtol=1e-5, atol=1e-6)


def test_probes_estimate_the_codes():
    graph = graph_of(random_edges(30, 0.2, 1), 30)
    exact = structural_codes(graph)
    errors = [(structural_codes(graph, probes) - exact).square().mean().sqrt() for probes in (64, 4096)]
    assert errors[1] < 0.01
    assert 4 < errors[0] / errors[1] < 16  # a 64th of the variance
    assert not torch.equal(structural_codes(graph, 8, seed=1), structural_codes(graph, 8, seed=2))


def test_codes_are_computed_once_for_a_graph(monkeypatch, small_graph):
    method, graph, prepared, network = start(small_graph)
    monkeypatch.setattr(greet, "structural_codes", None)
    method.represent(network, graph)
    assert method.codes(graph) is prepared.codes
    with pytest.raises(TypeError):
        method.codes(Graph.from_data(check(small_graph)))


@pytest.mark.parametrize("block", [1, 300, 2**24])
@pytest.mark.parametrize("sparse", [True, False])
def test_positives_are_the_node_and_its_nearest_by_cosine(monkeypatch, sparse, block):
    monkeypatch.setattr(greet, "BLOCK", block)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(40, 100, generator=generator) * (torch.rand(40, 100, generator=generator) < 0.04)
    x = x if sparse else x + torch.randn(40, 100, generator=generator)
    x[7] = 0
    graph = Graph.from_data(check(Data(x=x, edge_index=torch.tensor([[0], [1]]))))
    assert isinstance(graph.x, torch.Tensor) != sparse
    positives = GREET(k=5).prepare(graph).positives
    assert torch.equal(positives[:, 0], torch.arange(40))
    assert all(len(set(row)) == 6 for row in positives.tolist())
    unit = F.normalize(x, dim=1)
    cosine = unit @ unit.T
    best = cosine.clone().fill_diagonal_(-2).topk(5).values
    found = cosine.gather(1, positives[:, 1:]).sort(1, descending=True).values
    torch.testing.assert_close(found, best)


def test_neighbours_leave_a_negative_where_there_can_be_one():
    for n, k, expected in ((2, 20, 1), (3, 20, 2), (6, 20, 5), (6, 2, 3), (6, 0, 1)):
        graph = graph_of(torch.tensor([[0], [1]]), n)
        assert GREET(k=k).prepare(graph).positives.shape == (n, expected)


def test_nothing_of_size_n_squared_is_allocated(monkeypatch):
    n, block = 1200, 2**15
    data = block_model(n, num_features=60, topic_words=20, seed=1)
    for name in ("losses.neighbours.PANEL", "methods.greet.BLOCK"):
        monkeypatch.setattr(f"epagcl.{name}", block)
    with Largest() as largest:
        method, graph, prepared, network = start(data)
        for step in method.steps():
            step.loss(network, graph, prepared, 0).backward()
        method.represent(network, graph)
    assert largest.bytes < n**2  # a quarter of an N×N matrix


# The steps.


def test_loss_of_the_channels_is_that_of_the_views(small_graph):
    method, graph, prepared, network = start(small_graph, p_mask_1=0.5, p_mask_2=0.25, projection_layers=2)
    with torch.no_grad():
        w = method.noisy_weights(network.gate, graph, prepared, 3, 1)
        views = []
        for view, (p_drop, p_mask) in enumerate(((0.5, 0.5), (0.1, 0.25))):
            kept = greet.uniform(prepared.entries, 0, greet.Stream.DROPOUT, 3, 2 + view) >= p_drop
            filtered = dense(graph, filters(graph.pattern, w, 0.5)[view] * kept / (1 - p_drop))
            assert ((filtered == 0) != (filtered.T == 0)).any()  # directions are dropped apart
            assert 0 < (filtered.diagonal() == 0).sum() < 60  # loops are dropped too
            columns = greet.permutation(40, 0, greet.Stream.FEATURES, 3, 2 + view)
            x = small_graph.x.to_dense().clone()
            x[:, columns[: int(40 * p_mask)]] = 0
            h = network.channels.encoders[view](x).relu()
            views.append(network.channels.projections[view](filtered @ filtered @ h))
        expected = neighbour_nce(*views, prepared.positives, 0.2)
        torch.testing.assert_close(method.loss(network, graph, prepared, 3, turn=1), expected)
        assert method.loss(network, graph, prepared, 3) != expected


def test_exactly_so_many_columns_are_hidden(monkeypatch, small_graph):
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
        z = joined(spread(graph.pattern, filters(graph.pattern, w, 0.5), network.channels.hidden(graph.x)))
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


def test_the_gates_gradient_goes_through_its_weights_and_through_the_embedding(monkeypatch, small_graph):
    method, graph, prepared, network = start(small_graph)
    parameters = list(network.gate.parameters())
    both = torch.autograd.grad(method.gate_loss(network, graph, prepared, 0), parameters)
    monkeypatch.setattr(greet, "filters", lambda pattern, w, alpha: filters(pattern, w.detach(), alpha))
    alone = torch.autograd.grad(method.gate_loss(network, graph, prepared, 0), parameters)
    for g, h in zip(both, alone, strict=True):
        assert h.abs().sum() > 0
        assert not torch.allclose(g, h)


def test_gradient_of_the_gates_loss_by_finite_differences():
    pattern = graph_of(random_edges(9, 0.4, 1), 9).pattern
    generator = torch.Generator().manual_seed(0)
    w, h, g = (torch.rand(size, generator=generator).double() for size in (len(pattern.row), (18, 3), (9, 6)))

    def z(w):
        return (joined(spread(pattern, filters(pattern, w, 0.5), h)) * g).sum()

    assert torch.autograd.gradcheck(z, w.requires_grad_())


@pytest.mark.parametrize("projection_layers", [1, 2])
def test_each_step_moves_its_own_parameters_and_all_of_them(small_graph, projection_layers):
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
    assert method.set_params(batch_size=25).loss(network, graph, prepared, 2) < full  # log B for log N


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


def test_training_lowers_the_loss_and_keeps_many_directions():
    model = GREET(**SMALL, epochs=25, lr=0.01).fit(block_model(200, seed=5))
    losses = [row["loss"] for row in model.history_]
    assert losses[-1] < losses[0] - 0.3
    assert model.history_[-1]["effective_rank"] > 4


def test_seed_decides_everything(small_graph):
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
            # Features stand before the codes.
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
        ({"projection_layers": 3}, "projection_layers=3.*there are 1 or 2 layers"),
        ({"gate_lr": 0.0}, "the rate must be positive"),
        ({"rounds": 0}, "rounds=0: must be at least 1"),
        ({"k": -1}, "k=-1: must be at least 0"),
    ],
)
def test_wrong_settings_name_the_fix(settings, message):
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
