"""The loss that EPAGCL, GRACE and GCA share."""

import torch

import epagcl
from epagcl import EPAGCL
from epagcl.data import check
from epagcl.data.graph import Graph

SMALL = {"hidden": 32, "dim": 16, "projection": 16, "device": "cpu"}


def prepared(data, **settings):
    method = EPAGCL(**{**SMALL, **settings})
    graph = Graph.from_data(check(data))
    return method, graph, method.prepare(graph)


def test_loss_is_info_nce_of_the_two_projected_views(small_graph):
    method, graph, views = prepared(small_graph, p_mask_1=0.0, p_mask_2=0.0, temperature=0.2)
    network = method.build(graph.num_features)
    z1, z2 = (network.head(network.encoder(graph.x, view.adjacency(3))) for view in views.views)
    expected = epagcl.info_nce(z1, z2, 0.2, impl="dense")
    torch.testing.assert_close(method.loss(network, graph, views, 3), expected)


def test_one_batch_of_all_nodes_is_the_full_loss(small_graph):
    method, graph, views = prepared(small_graph)
    network = method.build(graph.num_features)
    batched = EPAGCL(**SMALL, batch_size=60).loss(network, graph, views, 2)
    torch.testing.assert_close(batched, method.loss(network, graph, views, 2))
    assert EPAGCL(**SMALL, batch_size=7).loss(network, graph, views, 2) < batched  # log 2B for log 2N
