import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data

import epagcl
from epagcl.core.randomness import Stream, uniform64
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.evaluation import retention
from epagcl.evaluation.retention import (
    INFORMATIVE_EDGES,
    INFORMATIVE_FEATURES,
    Recovery,
    Retention,
    _cosines,
    edge_auc,
    explained_variance,
    judge_retention,
    measure_retention,
)

#: Features that tell the class, so that columns predict each other.
INFORMATIVE = {"num_classes": 4, "num_features": 120, "topic_words": 20, "words_per_node": 30, "topic_share": 0.9}


@pytest.fixture(scope="module")
def data():
    return block_model(500, average_degree=6, **INFORMATIVE)


@pytest.fixture(scope="module")
def graph(data):
    return Graph.from_data(data)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_explained_variance_equals_the_share_of_signal():
    z, noise = normal(6000, 5), normal(6000, 2, seed=1)
    targets = z @ normal(5, 2, seed=2)
    signal = targets.square().mean()
    scaled = noise * (signal / 3).sqrt()  # three quarters of the variance can be explained
    assert explained_variance(z, targets + scaled) == pytest.approx(0.75, abs=0.02)
    assert explained_variance(noise, targets) == pytest.approx(0.0, abs=0.01)


def test_explained_variance_does_not_overfit_with_more_columns_than_nodes():
    assert explained_variance(normal(60, 200), normal(60, 3, seed=1)) <= 0.1
    assert 0 <= explained_variance(1e6 * normal(60, 200), normal(60, 3, seed=1)) <= 0.1


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_explained_variance_does_not_depend_on_the_scale_of_the_embedding(scale):
    z, targets = normal(200, 3).double(), normal(200, 2, seed=1).double()
    targets += z[:, :2]
    assert explained_variance(scale * z, targets) == pytest.approx(explained_variance(z, targets), rel=1e-9)


def test_targets_that_do_not_vary_give_none():
    assert explained_variance(normal(50, 3), torch.full((50, 2), 3.0)) is None
    scored = uniform64(torch.arange(50), 0, Stream.HEALTH, 4).argsort()[-1]
    for size, varies in ((1e-12, False), (1.01e-12, True)):  # the limit belongs to the targets that do not vary
        targets = torch.zeros(50, 1, dtype=torch.float64).index_fill(0, scored, size)
        assert (explained_variance(normal(50, 3), targets) is not None) == varies


def test_auc_equals_counting_all_pairs_of_pairs():
    z, hidden = normal(30, 4), torch.randint(30, (2, 40), generator=torch.Generator().manual_seed(3))
    hidden = hidden[:, hidden[0] != hidden[1]]
    assert edge_auc(torch.ones(30, 4), hidden) == 0.5
    labels = torch.arange(30) % 3
    z = z * 0.1 + torch.eye(4)[labels]
    same = hidden[:, labels[hidden[0]] == labels[hidden[1]]]
    other = hidden[:, labels[hidden[0]] != labels[hidden[1]]]
    assert edge_auc(z, same) > 0.7
    assert edge_auc(z, other) < 0.5
    assert edge_auc(z, torch.empty(2, 0, dtype=torch.long)) is None


def test_an_embedding_that_is_the_reference_keeps_as_much(data, graph):
    model = epagcl.Propagated(dim=120, device="cpu").fit(data)
    kept = measure_retention(lambda rest: model.represent(model.network_, rest), graph)
    assert kept.embedding.edges == pytest.approx(kept.propagated.edges, abs=0.05)
    assert kept.embedding.features == pytest.approx(kept.propagated.features, abs=0.05)
    assert {finding.verdict for finding in judge_retention(kept)} == {"good"}


def test_noise_keeps_nothing_and_is_called_poor(graph):
    kept = measure_retention(lambda rest: normal(rest.num_nodes, 64), graph)
    assert kept.embedding.features == pytest.approx(0, abs=0.02)
    assert kept.embedding.edges == pytest.approx(0.5, abs=0.1)
    assert kept.propagated.edges > 0.7
    assert [finding.verdict for finding in judge_retention(kept)] == ["poor", "poor"]


def test_a_gcn_that_drowns_own_features_is_called_poor():
    """Random edges of high degree: neighbours say nothing, and a GCN gives a node's own features little weight."""
    data = block_model(500, average_degree=80, homophily=0.25, degree_exponent=4.0, **INFORMATIVE)
    model = epagcl.EPAGCL(epochs=0, device="cpu").fit(data)
    kept = measure_retention(lambda rest: model.represent(model.network_, rest), Graph.from_data(data))
    assert kept.raw.features > 0.1
    assert kept.embedding.features < 0.45 * kept.raw.features
    (finding,) = judge_retention(kept)  # random edges cannot be recovered
    assert (finding.name, finding.verdict) == ("kept features", "poor")


def test_measures_without_a_reference_are_left_out():
    nothing = Recovery(0.01, 0.52)
    assert judge_retention(Retention(nothing, nothing, nothing)) == []
    unknown = Recovery(None, None)
    assert judge_retention(Retention(unknown, unknown, unknown)) == []


@pytest.mark.parametrize(("share", "verdict"), [(0.7, "good"), (0.5, "fair"), (0.2, "poor")])
def test_verdicts_are_relative_to_the_better_reference(share, verdict):
    best = Recovery(0.4, 0.9)
    kept = Retention(Recovery(0.4 * share, 0.5 + 0.4 * share), Recovery(0.2, 0.6), best)
    features, edges = judge_retention(kept)
    assert (features.verdict, edges.verdict) == (verdict, verdict)
    assert features.shown == f"{40 * share:.0f}% (raw 20%, propagated 40%)"
    assert edges.shown == f"AUC {0.5 + 0.4 * share:.2f} (raw 0.60, propagated 0.90)"


def test_one_column_leaves_nothing_to_hide():
    data = block_model(60, num_classes=2, num_features=3, topic_words=1, words_per_node=2)
    data.x = 1 + data.y[:, None].float()
    kept = measure_retention(lambda rest: torch.ones(rest.num_nodes, 2), Graph.from_data(data))
    assert kept.embedding.features is None


def test_the_auc_of_three_pairs_by_hand():
    z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.1], [-0.7, -0.6], [0.1, -1.0], [0.2, 0.9]])
    hidden = torch.tensor([[0, 2, 4], [1, 3, 5]])
    unit = F.normalize(z - z.mean(0), dim=1)
    order = uniform64(torch.arange(3), 0, Stream.HEALTH, 5).argsort()
    other = hidden[1].roll(1)[order]
    keep = hidden[0] != other
    positive = (unit[hidden[0]] * unit[hidden[1]]).sum(1)
    negative = (unit[hidden[0]] * unit[other]).sum(1)[keep]
    wins = (positive[:, None] > negative).double() + (positive[:, None] == negative).double() / 2
    assert edge_auc(z, hidden) == pytest.approx(float(wins.mean()))
    assert edge_auc(z, hidden[:, :2]) == 1.0  # two pairs: each end with the other pair's


def test_the_reference_that_recovers_just_enough_counts():
    best = Recovery(INFORMATIVE_FEATURES, INFORMATIVE_EDGES)
    assert len(judge_retention(Retention(best, best, best))) == 2
    less = Recovery(INFORMATIVE_FEATURES * 0.999, INFORMATIVE_EDGES * 0.999)
    assert judge_retention(Retention(best, less, less)) == []


def test_cosines_are_sums_over_the_columns():
    unit = F.normalize(normal(6, 3), dim=1)
    assert _cosines(unit, torch.tensor([[0, 1], [0, 2]])).tolist() == pytest.approx([1.0, float(unit[1] @ unit[2])])


def test_the_settings_of_the_measure_are_those_of_the_stored_results():
    names = ("HIDDEN", "VIEW", "NODES", "TARGETS", "COMPONENTS", "GOOD", "POOR")
    assert [getattr(retention, name) for name in names] == [0.2, 3, 8192, 32, 64, 0.6, 0.45]


def test_random_pairs_join_the_kinds_that_edges_join():
    """Users and items lie apart. Against pairs of any kinds, each edge between them would lose."""
    generator = torch.Generator().manual_seed(0)
    kinds = torch.randperm(60, generator=generator) % 2  # numbered by first appearance
    taste = torch.randint(2, (60,), generator=generator)
    z = torch.stack([kinds * 6.0 - 3, taste * 2.0 - 1], dim=1) + 0.1 * normal(60, 2)
    pairs = torch.combinations(torch.arange(60)).T
    i, j = pairs
    edges = pairs[:, (kinds[i] != kinds[j]) & (taste[i] == taste[j])]
    edges = edges[:, torch.randperm(edges.shape[1], generator=generator)[:200]]
    assert edge_auc(z, edges) < 0.7
    found = edge_auc(z, edges, kinds)
    # Of the pairs of a user and an item that are no edges here, those of the same taste tie, and others lose.
    assert 0.7 < found < 0.95
    swapped = edge_auc(z, edges.flip(0), kinds)
    assert swapped == pytest.approx(found)


def test_kinds_that_only_one_edge_joins_have_no_random_pair():
    z, kinds = torch.eye(6), torch.tensor([0, 0, 1, 1, 2, 2])
    assert edge_auc(z, torch.tensor([[0, 2], [2, 4]]), kinds) is None
    assert edge_auc(z, torch.tensor([[0, 1], [2, 3]]), kinds) == 0.5
    assert edge_auc(z, torch.empty(2, 0, dtype=torch.long), kinds) is None


def test_the_health_of_a_bipartite_graph_compares_users_with_items(monkeypatch):
    generator = torch.Generator().manual_seed(1)
    edges = torch.stack([torch.randint(40, (300,), generator=generator), 40 + torch.randint(30, (300,))])
    data = Data(x=normal(70, 8), edge_index=edges, num_nodes=70, node_type=(torch.arange(70) >= 40).long())
    graph, seen = Graph.from_data(check(data, quiet=True)), []
    monkeypatch.setattr(retention, "_cosines", lambda unit, pairs: seen.append(pairs) or torch.zeros(pairs.shape[1]))
    measure_retention(lambda rest: normal(70, 4), graph)
    assert len(seen) == 6
    assert all((graph.kinds[pairs[0]] != graph.kinds[pairs[1]]).all() for pairs in seen)
