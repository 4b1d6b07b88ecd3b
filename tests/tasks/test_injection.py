import numpy as np
import pytest
import torch

import epagcl
from epagcl.core.errors import InputError
from epagcl.data import block_model, check
from epagcl.tasks import anomaly_evaluation, inject_anomalies


@pytest.fixture(scope="module")
def graph():
    options = {"num_features": 60, "topic_words": 15, "average_degree": 8, "topic_share": 0.5, "degree_exponent": 3}
    return block_model(400, num_classes=4, seed=0, **options)


@pytest.mark.parametrize("dense", [False, True])
def test_features_come_from_other_nodes(graph, dense):
    data = graph.clone()
    if dense:
        data.x = data.x.to_dense()
    injected, anomalous = inject_anomalies(data, "features", share=0.1)
    before, after = data.x.to_dense(), injected.x.to_dense()
    assert anomalous.sum() == 40
    assert (before == after).all(1)[~torch.from_numpy(anomalous)].all()
    assert not (before == after).all(1)[torch.from_numpy(anomalous)].any()
    rows = {tuple(row) for row in before.tolist()}
    assert all(tuple(row) in rows for row in after.tolist())
    assert injected.x.layout == data.x.layout


def test_rewiring_changes_the_edges_of_the_chosen_nodes_only(graph):
    injected, anomalous = inject_anomalies(graph, "edges", share=0.05, seed=2)
    before = set(map(tuple, check(graph, quiet=True).edge_index.T.tolist()))
    after = set(map(tuple, injected.edge_index.T.tolist()))
    for i, j in before - after:
        assert anomalous[i] or anomalous[j]
    degree = [np.bincount([i for i, _ in edges], minlength=400)[anomalous].sum() for edges in (before, after)]
    assert degree[1] == pytest.approx(degree[0], rel=0.1)


def test_rewiring_keeps_weights(graph):
    weighted = graph.clone()
    weighted.edge_weight = torch.rand(graph.edge_index.shape[1], generator=torch.Generator().manual_seed(0)) + 0.5
    injected, _ = inject_anomalies(weighted, "edges")
    assert injected.edge_weight.shape == (injected.edge_index.shape[1],)
    assert injected.edge_weight.mean().item() == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["features", "edges"])
def test_scores_find_anomalies_better_than_the_degree(graph, kind):
    aucs = [anomaly_evaluation(graph, epagcl.Propagated(dim=32), kind, seed=seed) for seed in range(3)]
    score, degree = (np.mean([auc[name] for auc in aucs]) for name in ("score", "degree"))
    assert score > degree + 0.1
    assert set(aucs[0]) == {"score", "neighbourhood", "features", "density", "degree"}


def test_wrong_arguments(graph):
    with pytest.raises(InputError, match=r"^kind='nodes': choose one of features, edges$"):
        inject_anomalies(graph, "nodes")
    with pytest.raises(InputError, match=r"^share=0.5: must lie between 0 and 0.5$"):
        inject_anomalies(graph, share=0.5)


def test_rewiring_keeps_kinds_and_directions(graph):
    once = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    directed = graph.clone()
    directed.edge_index, directed.directed = once, "both"
    injected, _ = inject_anomalies(directed, "edges")
    before = check(directed, quiet=True)
    assert injected.relation_names == ["out", "in"]
    out, into = injected.edge_relation.T
    assert out.sum() == into.sum() == pytest.approx(before.edge_relation[:, 0].sum().item(), rel=0.02)
    assert ((out + into) >= 1).all()
