import pytest
import torch

from epagcl.core import streamed
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.data.large import Arrays, LargeGraph
from epagcl.diffusion import neighbours, power, ppr
from epagcl.nn import layerwise
from epagcl.nn.encoders import GCN, build_encoder
from epagcl.nn.layerwise import encode, propagate
from epagcl.nn.propagation import PropagatedPCA


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(streamed, "CHUNK_BYTES", 1 << 12)
    monkeypatch.setattr(streamed, "ENTRIES", 100)
    monkeypatch.setattr(layerwise, "columns_at_once", lambda *_: 5)


def example(sparse=True):
    data = check(block_model(200, num_features=24, topic_words=6, average_degree=7, seed=0), quiet=True)
    if not sparse:
        data.x = data.x.to_dense()
    return Graph.from_data(data), LargeGraph(Arrays.from_data(data))


@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
@pytest.mark.parametrize("name", ["gcn", "residual", "pagerank", "scales"])
@pytest.mark.parametrize("members", [1, 3])
def test_every_encoder_gives_the_output_of_the_whole_graph(name, members, sparse):
    torch.manual_seed(0)
    graph, large = example(sparse)
    encoder = build_encoder(name, 24, 17, 9, members=members).eval()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        expected = encoder(graph.x, graph.adjacency).chunk(members)
    for member in range(members):
        with encode(encoder, large, member) as z:
            torch.testing.assert_close(z @ torch.eye(9), expected[member], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("widths", [[24, 40, 6], [24, 6, 12]], ids=["wider", "narrower"])
def test_layers_of_any_width_and_without_a_last_activation(widths):
    graph, large = example(sparse=False)
    encoder = GCN(widths, "relu", last=False).eval()
    with encode(encoder, large) as z, torch.no_grad():
        torch.testing.assert_close(z @ torch.eye(widths[-1]), encoder(graph.x, graph.adjacency), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("diffuse", [lambda g: ppr(g, 0.15, 1e-3), lambda g: power(g, 2), lambda g: neighbours(g, 2)])
def test_propagated_features_are_fitted_and_computed_as_in_memory(diffuse):
    graph, large = example()
    in_memory, on_disk = PropagatedPCA(24, 6, diffuse), PropagatedPCA(24, 6, diffuse)
    in_memory.fit(graph)
    on_disk.fit(large)
    torch.testing.assert_close(on_disk.components, in_memory.components, atol=1e-4, rtol=1e-3)
    with propagate(in_memory, large) as z:
        torch.testing.assert_close(z @ torch.eye(6), in_memory(graph), atol=1e-5, rtol=1e-4)
