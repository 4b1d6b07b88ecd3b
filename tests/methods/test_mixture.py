import numpy as np
import pytest
import torch
import torch.nn.functional as F

from epagcl import EPAGCLPlus
from epagcl.data import block_model
from epagcl.methods import mixture
from epagcl.methods.mixture import block_weights
from tests.methods.test_epagcl_plus import SMALL, graph_of


@pytest.fixture
def model(small_graph):
    return EPAGCLPlus(**SMALL, members=2).fit(small_graph)


def test_the_embedding_is_the_pca_of_the_weighted_blocks(small_graph, model):
    network, graph = model.network_, graph_of(small_graph)
    network.weights.copy_(torch.tensor([0.8] * 4 + [0.6, 0.7, 0.7, 0.0, 0.2, 0.3]))
    network.fit_propagated(graph)
    with torch.no_grad():
        model.calibrate(network, graph)
        blocks = [block if block is None else block.double() for block in network.blocks(graph)]
    widths = [None if block is None else block.shape[1] for block in blocks]
    assert widths == [4, 4, 8, 8, 8, 256, 256, None, 256, 256]  # a block of weight 0 is not computed
    blocks[7] = torch.ones(60, 1, dtype=torch.float64)
    parts, rho = [], 60 / 560
    for block, weight in zip(blocks, network.weights.double(), strict=True):
        centred = block - block.mean(0)
        length = centred.norm(dim=1, keepdim=True).clamp(min=1e-12)
        parts.append(weight * centred / (length**rho * length.square().mean() ** ((1 - rho) / 2)))
    together = torch.cat(parts, 1).numpy()
    together -= together.mean(0)
    u, sigma, _ = np.linalg.svd(together, full_matrices=False)
    scores = u[:, :12] * sigma[:12] * (sigma[:12] / sigma[0]) ** (1 - rho)
    z = model.embed(small_graph).double().numpy()
    np.testing.assert_allclose(np.abs(z), np.abs(scores), rtol=1e-3, atol=1e-3)


def test_calibrating_again_changes_nothing(small_graph, model):
    before = model.embed(small_graph)
    with torch.no_grad():
        model.calibrate(model.network_, graph_of(small_graph))
    assert torch.equal(model.embed(small_graph), before)


def weights_of(agreement, advantage, similarity, monkeypatch):
    monkeypatch.setattr(mixture, "neighbourhood_agreement", lambda *_: agreement)
    monkeypatch.setattr(mixture, "own_advantage", lambda *_: advantage)
    monkeypatch.setattr(mixture, "edge_similarity", lambda *_: similarity)
    data = block_model(100, num_features=20, topic_words=2, words_per_node=3)
    return block_weights(graph_of(data), torch.zeros(data.num_nodes, 2))


@pytest.mark.parametrize(
    ("agreement", "advantage", "similarity", "expected"),
    [
        (0.95, 0.5, 0.0, (1.0, 1.0, 0.0)),
        (0.95, 0.5, 0.5, (1.0, 0.0, 0.0)),
        (0.95, 0.5, 0.1, (1.0, 0.7, 0.0)),
        (0.85, 0.5, 0.0, (0.5, 0.5, 0.5)),
        (0.50, 0.5, 0.1, (0.0, 0.0, 1.0)),
        (0.50, 0.2, 0.0, (0.5, 0.5, 0.5)),
        (0.50, 0.0, -0.1, (1.0, 1.0, 0.0)),
    ],
)
def test_the_mixture_depends_on_neighbourhoods_and_features(agreement, advantage, similarity, expected, monkeypatch):
    weights = weights_of(agreement, advantage, similarity, monkeypatch)
    propagated, neighbours, own = expected
    trained = 1 / 6  # 100 nodes
    assert weights == pytest.approx(
        dict.fromkeys(("residual", "scales"), trained)
        | {"infomax": trained * propagated, "two_hops": propagated, "joined": propagated}
        | {"neighbours": neighbours, "neighbours_2": neighbours, "own": own}
    )


@pytest.mark.parametrize(
    ("homophily", "topic_share", "words", "own"),
    [(0.8, 0.15, 18, 0.0), (0.8, 0.4, 60, 0.0), (0.15, 0.4, 60, 1.0)],
)
def test_own_features_replace_propagated_ones_only_if_they_say_more(homophily, topic_share, words, own):
    """Weak features are propagated, however small the graph; so are strong ones if neighbours are of the same class."""
    graph = graph_of(block_model(200, homophily=homophily, topic_share=topic_share, words_per_node=words))
    assert block_weights(graph, graph.x.to_dense())["own"] == pytest.approx(own, abs=0.1)


def test_weights_of_the_blocks_are_stored_with_the_model(small_graph, model, monkeypatch):
    weights = model.network_.weights
    trained, (infomax, two_hops, joined, neighbours, neighbours_2, own) = weights[:4], weights[4:].tolist()
    assert trained.tolist() == pytest.approx([60 / 560] * 4)
    assert (joined, neighbours, infomax) == pytest.approx((two_hops, neighbours_2, joined * 60 / 560))
    assert joined + own == pytest.approx(1.0)
    monkeypatch.setattr(mixture, "block_weights", None)  # not called again for an unseen graph
    model.embed(block_model(30, num_features=40, topic_words=4, words_per_node=3))


def test_pagerank_is_on_the_graph_joined_with_nearest_neighbours(small_graph, model):
    network, graph = model.network_, graph_of(small_graph)
    scores = F.normalize(network.propagated["two_hops"](graph), dim=1)
    cosine = (scores @ scores.T).fill_diagonal_(-2)
    expected = torch.zeros(60, 60, dtype=torch.bool)
    expected[torch.arange(60)[:, None], cosine.topk(3).indices] = True
    expected[graph.pairs[0], graph.pairs[1]] = True
    expected = (expected | expected.T).triu(1).nonzero().T
    joined = network.joined(graph)
    assert torch.equal(joined.pairs, expected)
    assert network.joined(graph) is joined
    names = list(network.propagated)
    blocks = list(network.blocks(graph))[5:]
    adjacency = joined.adjacency.to_dense().double()
    pagerank = 0.15 * torch.linalg.inv(torch.eye(60).double() - 0.85 * adjacency) @ graph.x.to_dense().double()
    gram = (pagerank - pagerank.mean(0)) @ (pagerank - pagerank.mean(0)).T
    z = blocks[names.index("joined")].double()
    torch.testing.assert_close(z @ z.T, gram, rtol=1e-3, atol=1e-3)


def test_own_features_are_smoothed_among_nodes_with_similar_features(small_graph, model):
    network, graph = model.network_, graph_of(small_graph)
    x = graph.x.to_dense().double()
    centred = F.normalize(x - x.mean(0), dim=1)  # the components of the features keep all cosines
    cosine = (centred @ centred.T).fill_diagonal_(-2)
    expected = torch.zeros(60, 60, dtype=torch.bool)
    expected[torch.arange(60)[:, None], cosine.topk(2).indices] = True
    assert torch.equal(network.alike(graph).pairs, (expected | expected.T).triu(1).nonzero().T)
    network.weights.fill_(1.0)
    network.fit_propagated(graph)
    own = list(network.blocks(graph))[-1].double()
    adjacency = network.alike(graph).adjacency.to_dense().double()
    smooth = 0.5 * torch.linalg.inv(torch.eye(60).double() - 0.5 * adjacency) @ x
    gram = (smooth - smooth.mean(0)) @ (smooth - smooth.mean(0)).T
    torch.testing.assert_close(own @ own.T, gram, rtol=1e-3, atol=1e-3)


def test_without_nearest_neighbours_the_graph_stays_as_it_is(small_graph):
    model = EPAGCLPlus(**SMALL | {"k": 0}).fit(small_graph)
    graph = graph_of(small_graph)
    assert torch.equal(model.network_.joined(graph).pairs, graph.pairs)
    assert model.network_.alike(graph).pairs.numel() == 0
    assert model.prepare(graph).views.samplers[0].keep.numel() == graph.pairs.shape[1]
