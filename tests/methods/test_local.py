"""Embeddings of a few nodes from their neighbourhood agree with those from the whole graph."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

import epagcl
from epagcl.core.errors import InputError
from epagcl.core.streamed import FeatureRows
from epagcl.data.disk.graph import OnDiskGraph
from epagcl.data.neighbourhood import neighbourhood as whole
from epagcl.methods import local as local_module
from epagcl.methods.local import embed_nodes, estimate_error, node_numbers, receptive_field
from epagcl.nn.encoders import build_encoder

NODES = [5, 100, 41]
SETTINGS = {
    "epagcl": {"hidden": 8, "dim": 4, "projection": 4},
    "bgrl": {"hidden": 8, "dim": 4, "predictor": 4, "layers": 3},
    "cca-ssg": {"dim": 4},
    "dgi": {"dim": 4},
    "gmi": {"dim": 4},
    "gcn": {"hidden": 4},
    "gat": {"hidden": 4, "heads": 2},
}
HOPS = {"epagcl": 2, "bgrl": 3, "cca-ssg": 2, "dgi": 1, "gmi": 2, "gcn": 2, "gat": 2}


@pytest.fixture(scope="module")
def data():
    return epagcl.data.block_model(300, num_classes=3, num_features=60, topic_words=15, words_per_node=8)


@pytest.fixture(scope="module")
def propagated(data):
    return epagcl.Propagated(dim=8, device="cpu").fit(data)


def weighted(data):
    graph = data.clone()
    graph.edge_weight = 1.0 + (graph.edge_index[0] + graph.edge_index[1]) % 5
    return graph


@pytest.mark.parametrize("name", SETTINGS)
def test_encoders_with_layers_are_exact(data, name):
    graph = data if name == "gat" else weighted(data)
    model = epagcl.method(name)(epochs=1, device="cpu", **SETTINGS[name]).fit(graph)
    local = embed_nodes(model, graph, NODES)
    assert (local.hops, local.exact, local.error) == (HOPS[name], True, 0.0)
    assert local.nodes_used < data.num_nodes
    torch.testing.assert_close(local.z, model.embed(graph)[NODES], rtol=1e-4, atol=1e-5)


def test_fewer_hops_than_layers_are_not_exact(data):
    model = epagcl.DGI(epochs=1, dim=4, device="cpu").fit(data)
    local = embed_nodes(model, data, NODES, hops=0)
    assert not local.exact
    assert (local.z - model.embed(data)[NODES]).abs().max() > 1e-3


def relative_errors(model, data, hops):
    z = model.embed(data)
    spread = (z - z.mean(0)).square().sum(1).mean().sqrt()
    nodes = list(range(0, 300, 30))
    return (model.embed(data, nodes=nodes, hops=hops) - z[nodes]).norm(dim=1) / spread


def test_the_error_of_pagerank_falls_with_the_hops(data, propagated):
    medians = [float(relative_errors(propagated, data, hops).median()) for hops in (1, 2, 3)]
    assert medians == sorted(medians, reverse=True)
    assert medians[1] < 0.15
    assert medians[2] < 0.05
    # What differs are walks that leave the part, at most a share 0.85^(hops + 1) of all.
    assert all(float(relative_errors(propagated, data, hops).max()) < 2 * 0.85 ** (hops + 1) for hops in (1, 2, 3))


def test_new_nodes_of_a_grown_graph_by_epagcl_plus(data):
    dense = data.clone()
    dense.x = data.x.to_dense()
    old = dense.subgraph(torch.arange(270))
    settings = {"epochs": 1, "hidden": 8, "projection": 4, "dim": 8, "members": 1}
    model = epagcl.EPAGCLPlus(**settings, device="cpu").fit(old)
    z = model.embed(data)
    spread = (z - z.mean(0)).square().sum(1).mean().sqrt()
    local = embed_nodes(model, data, range(270, 300))
    assert (local.hops, local.exact) == (2, False)
    assert float(((local.z - z[270:]).norm(dim=1) / spread).median()) < 0.25


def test_the_whole_graph_as_neighbourhood_is_exact(data, propagated):
    local = embed_nodes(propagated, data, range(300), hops=1, estimate=True)
    assert local.exact
    torch.testing.assert_close(local.z, propagated.embed(data))


def test_the_estimate_is_close_to_the_error(data, propagated):
    local = embed_nodes(propagated, data, list(range(0, 300, 30)), hops=2, estimate=True)
    error = float(relative_errors(propagated, data, 2).median())
    assert error / 3 < local.error < 3 * error
    graph, few = propagated._checked_graph(data, quiet=True), torch.arange(0, 300, 38)
    represent = partial(propagated.represent, propagated.network_)
    assert estimate_error(represent, graph, few, represent(graph)[few], 20, 300) < 1e-5  # nothing is left to add


def test_the_estimate_takes_fewer_nodes_if_their_neighbourhoods_are_large(data, propagated, monkeypatch):
    sizes = []
    monkeypatch.setattr(
        local_module, "neighbourhood", lambda graph, nodes, hops: sizes.append(len(nodes)) or whole(graph, nodes, hops)
    )
    monkeypatch.setattr(local_module, "SMALL", 0)
    graph, few = propagated._checked_graph(data, quiet=True), torch.arange(0, 300, 38)
    represent = partial(propagated.represent, propagated.network_)
    assert estimate_error(represent, graph, few, represent(graph)[few], 1, most=1) > 0
    assert sizes == [8, 4, 3]


@pytest.mark.parametrize("name", ["epagcl", "dgi", "propagated"])
def test_of_a_graph_on_disk_only_the_neighbourhood_is_read(data, name, tmp_path, monkeypatch):
    graph = weighted(data)
    model = epagcl.method(name)(device="cpu", **({"dim": 4} if name != "epagcl" else SETTINGS["epagcl"]))
    model = (model.set_params(epochs=1) if name != "propagated" else model).fit(graph)
    folder = OnDiskGraph.write(graph, tmp_path / "graph")
    monkeypatch.setattr(OnDiskGraph, "to_data", None)
    read, take = [], FeatureRows.take
    monkeypatch.setattr(FeatureRows, "take", lambda self, nodes: read.append(len(nodes)) or take(self, nodes))
    on_disk, local = (embed_nodes(model, source, NODES, hops=2, estimate=True) for source in (folder, graph))
    torch.testing.assert_close(on_disk.z, local.z)
    assert (on_disk.nodes_used, on_disk.exact) == (local.nodes_used, local.exact)
    assert on_disk.error == pytest.approx(local.error, rel=1e-3)
    assert read[0] == local.nodes_used < data.num_nodes
    assert max(read) < data.num_nodes
    assert model.embed(folder, nodes=NODES).shape == (3, 4)


def test_a_graph_on_disk_must_be_encoded_as_in_training(tmp_path):
    ages, edges = pd.DataFrame({"age": [20.0, 30.0, None, 90.0], "city": list("aabb")}), [(0, 1), (1, 2), (2, 3)]
    model = epagcl.Propagated(dim=2, device="cpu").fit(epagcl.from_tables(edges, ages))
    other = OnDiskGraph.write(epagcl.from_tables(edges, ages.assign(age=[1.0, 2.0, None, 4.0])), tmp_path / "graph")
    for embed in (model.embed, lambda graph: model.embed(graph, nodes=[0])):
        with pytest.raises(InputError, match=r"columns were encoded otherwise .* \(`epagcl ingest --model`\)"):
            embed(other)


def test_nodes_may_be_numbers_arrays_or_a_mask(data, propagated):
    mask = torch.zeros(300, dtype=torch.bool)
    mask[[5, 41]] = True
    by_mask = propagated.embed(data, nodes=mask)
    assert by_mask.equal(propagated.embed(data, nodes=np.array([5, 41])))
    torch.testing.assert_close(by_mask.flip(0), propagated.embed(data, nodes=[41, 5]))


def test_a_rotation_applies_to_all_embeddings(data):
    model = epagcl.Propagated(dim=2, device="cpu").fit(data)
    plain, local = model.embed(data), model.embed(data, nodes=NODES)
    model.rotation_ = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    torch.testing.assert_close(model.embed(data), torch.stack([-plain[:, 1], plain[:, 0]], 1))
    torch.testing.assert_close(model.embed(data, nodes=NODES), torch.stack([-local[:, 1], local[:, 0]], 1))


def test_receptive_fields():
    assert receptive_field(build_encoder("residual", 5, 8, 4)) == 2
    assert receptive_field(build_encoder("gcn", 5, None, 4)) == 1
    assert receptive_field(build_encoder("pagerank", 5, 8, 4)) == math.inf
    assert receptive_field(torch.nn.Linear(2, 2)) == math.inf


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([300], "300 is no node; nodes are 0 to 299"),
        ([-1], "-1 is no node"),
        ([], "names no node; give at least one"),
        ([0.5], "give a list"),
    ],
    ids=["high", "negative", "empty", "fraction"],
)
def test_wrong_nodes_are_refused(nodes, message):
    with pytest.raises(InputError, match=message):
        node_numbers(nodes, 300)


def test_a_negative_number_of_hops_is_refused(data, propagated):
    with pytest.raises(InputError, match="hops=-1: must be at least 0"):
        propagated.embed(data, nodes=[0], hops=-1)


def test_relations_follow_their_edges(data):
    graph = data.clone()
    graph.edge_type = (graph.edge_index[0] + graph.edge_index[1]) % 2
    graph.relation_names = ["even", "odd"]
    model = epagcl.Propagated(dim=8, device="cpu").fit(graph)
    whole = model.embed(graph)[NODES]
    torch.testing.assert_close(model.embed(graph, nodes=NODES, hops=20), whole, rtol=1e-4, atol=1e-5)
    near = model.embed(graph, nodes=NODES, hops=2)
    assert (near - whole).norm() < 0.5 * whole.norm()
