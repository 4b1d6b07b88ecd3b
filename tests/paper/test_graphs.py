from itertools import combinations
from math import comb

import pytest
import torch

import epagcl
from epagcl.methods.gca import GCA
from epagcl.methods.inputs import input_graph
from epagcl.paper.graphs import ARTEFACT, P_DROP, compare_drops, drop_correlations, repeated_nodes


def test_repeated_nodes_have_the_same_neighbours_and_class():
    # 2, 3 and 4 hang on 0 and 1; 5 is like them but of another class; 6 and 7 are leaves of 0
    pairs = torch.tensor([[0, 2], [1, 2], [0, 3], [1, 3], [0, 4], [1, 4], [0, 5], [1, 5], [0, 6], [0, 7]]).t()
    y = torch.tensor([0, 1, 2, 2, 2, 0, 1, 1])
    found = repeated_nodes(pairs, y)
    assert (found["nodes"], found["in_groups"]) == (2, 3)
    assert found["twin_in_training"] == 0.0  # a tenth of eight nodes is none


@pytest.mark.parametrize("size", [2, 3])
def test_probability_of_a_twin_in_training_by_brute_force(size):
    nodes, train = 20, 2
    twins = range(2, 2 + size)
    pairs = torch.tensor([[hub, twin] for twin in twins for hub in (0, 1)]).t()
    expected = sum(
        any(other in drawn for other in twins if other != node)
        for node in twins
        for drawn in combinations([k for k in range(nodes) if k != node], train)
    ) / comb(nodes - 1, train)
    y = torch.zeros(nodes).long()
    y[1] = 1  # the hubs have the same neighbours, too
    assert repeated_nodes(pairs, y)["twin_in_training"] == pytest.approx(expected / nodes)


def test_drop_probabilities_are_those_of_the_methods():
    data = epagcl.load("demo")
    compared = compare_drops(data)
    assert set(compared) == {"degree", "pagerank", "eigenvector"}
    graph = input_graph(GCA(epochs=0), data, "cpu")
    for name, found in compared.items():
        views = GCA(epochs=0, centrality=name, p_drop_1=P_DROP).prepare(graph).views
        theirs = 1 - views.samplers[0].keep.double()
        ours = epagcl.edge_probabilities(data.edge_index, data.num_nodes, p_drop=P_DROP, p_add=0.0).drop
        ranks = torch.stack([values.argsort().argsort().double() for values in (ours, theirs)])
        assert found["spearman"] == pytest.approx(float(torch.corrcoef(ranks)[0, 1]), abs=0.05)
        assert 0 < found["ratio"] < 4


def test_measurement_and_reading(request_of, tmp_path):
    made = ARTEFACT.make(request_of(protocols=("strict",)), "epagcl paper graphs")
    assert {path.name for path in ARTEFACT.write(made, tmp_path)} >= {"graphs.json", "graphs.png", "graphs-drops.csv"}
    repeated, drops = ARTEFACT.reading(made)
    assert repeated == "No graph repeats more than a tenth of its nodes."
    assert "it is positive on" in drops
    made["graphs"]["demo"]["repeated"] |= {"nodes": 300, "twin_in_training": 0.25}
    made["graphs"]["demo"]["nodes"] = 1000
    made["graphs"]["demo"]["drops"]["degree"]["spearman"] = 0.5
    repeated, drops = ARTEFACT.reading(made)
    assert "demo 300 of 1,000 nodes (a test node has a twin in training with probability 25%)" in repeated
    assert "positive on 1 of 1 graphs, between +0.50 and +0.50" in drops
    assert drop_correlations(made) == {"demo": 0.5}
    assert ARTEFACT.reading(made | {"graphs": {}}) == []
