import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.data import block_model
from epagcl.data.graph import Graph
from epagcl.diffusion import power, ppr
from epagcl.epr import chance_epr, operator_epr
from epagcl.methods import method
from epagcl.nn.encoders import GCN
from epagcl.runs.operators import OPERATORS, first_layers, operator_report

SMALL = {"epochs": 2, "hidden": 8, "dim": 8, "projection": 8, "device": "cpu"}


@pytest.fixture(scope="module")
def data():
    return block_model(120, num_classes=3, num_features=30, topic_words=10, words_per_node=6, seed=1)


def test_report_has_exact_and_estimated_rates(data):
    report = operator_report(data)
    assert [row.name for row in report.rows] == list(OPERATORS)
    raw, one_hop, *others = report.rows
    assert (raw.per_node, raw.estimate, raw.messages, raw.gain) == pytest.approx((0, 0, 1, 1), abs=1e-5)
    graph = Graph.from_data(data)
    assert one_hop.per_node == operator_epr(power(graph, 1), data.y)
    assert one_hop.per_edge == operator_epr(power(graph, 1), data.y, per="edge")
    assert one_hop.relative == one_hop.per_node / chance_epr(data.y)
    assert one_hop.gain == pytest.approx((1 - one_hop.relative) ** 2 * one_hop.messages)
    assert others[2].per_node == operator_epr(ppr(graph, 0.15), data.y)
    assert report.structure == pytest.approx(0.5, abs=0.1)  # few and noisy features


def test_labels_and_features_are_optional(data):
    unlabelled, plain = data.clone(), data.clone()
    unlabelled.y, plain.x = None, None
    complete, estimated, exact = (operator_report(graph) for graph in (data, unlabelled, plain))
    assert [row.estimate for row in estimated.rows] == [row.estimate for row in complete.rows]
    assert {row.per_node for row in estimated.rows} == {row.gain for row in estimated.rows} == {None}
    assert estimated.structure == complete.structure
    assert [row.per_node for row in exact.rows] == [row.per_node for row in complete.rows]
    assert {row.estimate for row in exact.rows} == {row.estimated_gain for row in exact.rows} == {None}
    assert exact.structure is None
    one_class = data.clone()
    one_class.y = torch.zeros_like(data.y)
    assert {row.relative for row in operator_report(one_class).rows} == {None}  # chance is 0


def test_first_layer_of_a_gcn(data):
    model = method("epagcl")(**SMALL, feature_scaling="row-sum").fit(data)
    ((name, operator),) = first_layers(model, data)
    assert name == "EPAGCL, first layer"
    x = data.x.to_dense()
    norm = (x / x.sum(dim=1, keepdim=True) @ model.network_.encoder.layers[0].weight).norm(dim=1).detach()
    expected = Graph.from_data(data).adjacency.to_dense() * norm
    assert torch.allclose(operator(torch.eye(120)), expected, atol=1e-5)


def test_root_weights_make_the_own_message_larger(data):
    rates = {}
    for encoder in ("gcn", "residual"):
        model = method("epagcl")(**SMALL, encoder=encoder).fit(data)
        ((_, operator),) = first_layers(model, data)
        rates[encoder] = operator_epr(operator, data.y)
    assert rates["residual"] < rates["gcn"]
    layer, x, graph = model.network_.encoder.layers[0], data.x.to_dense(), Graph.from_data(data)
    loop = graph.adjacency.to_dense().diagonal()[:, None]
    own = (loop * (x @ layer.weight) + x @ layer.root).norm(dim=1).detach()
    assert torch.allclose(operator(torch.eye(120)).diagonal(), own, atol=1e-5)


@pytest.mark.parametrize("encoder", ["pagerank", "scales"])
@pytest.mark.parametrize("name", ["epagcl", "cca-ssg", "bgrl"])
def test_scales_are_summed(data, name, encoder):
    settings = SMALL if name == "epagcl" else {"epochs": 1, "dim": 8, "layers": 1, "device": "cpu"}
    model = method(name)(**settings, encoder=encoder).fit(data)
    ((_, operator),) = first_layers(model, data)
    graph = Graph.from_data(data)
    weight = (model.network_.encoder.layers[0].gcn if name == "bgrl" else model.network_.encoder).weight.detach()
    scales = [ppr(graph, 0.15)] if encoder == "pagerank" else [*(power(graph, k) for k in range(3)), ppr(graph, 0.15)]
    expected = sum(
        scale(torch.eye(120)) * (data.x.to_dense() @ part).norm(dim=1)
        for scale, part in zip(scales, weight.chunk(len(scales), dim=1), strict=True)
    )
    assert torch.allclose(operator(torch.eye(120)), expected, atol=1e-4)


def test_convolution_inside_a_layer_with_a_norm(data):
    model = method("bgrl")(epochs=1, hidden=8, dim=8, device="cpu").fit(data)
    rows = operator_report(data, model).rows[len(OPERATORS) :]
    assert [row.name for row in rows] == ["BGRL, first layer"]
    assert 0 < rows[0].per_node < rows[0].per_edge + 1


def test_models_side_by_side_are_summed(data):
    model = method("epagcl")(**SMALL).fit(data)
    model.network_.encoder = GCN([30, 8, 8], root=True, members=2)
    ((_, operator),) = first_layers(model, data)
    layer, x = model.network_.encoder.layers[0], data.x.to_dense()
    norm = sum((x @ weight).norm(dim=1) for weight in layer.weight.detach())
    expected = Graph.from_data(data).adjacency.to_dense() * norm
    other = ~torch.eye(120, dtype=torch.bool)
    assert torch.allclose(operator(torch.eye(120))[other], expected[other], atol=1e-4)


def test_encoders_are_named_by_their_place(data):
    model = method("epagcl")(**SMALL).fit(data)
    model.network_.branch = torch.nn.ModuleDict({"encoder": GCN([30, 8])})
    assert [name for name, _ in first_layers(model, data)] == ["EPAGCL, first layer", "EPAGCL, branch, first layer"]


def test_models_without_a_convolution_are_an_error(data):
    model = method("mvgrl")(epochs=1, dim=8, device="cpu").fit(data)
    with pytest.raises(InputError, match="model= is MVGRL, whose first layer has no known messages; pass a model"):
        operator_report(data, model)
    plain = data.clone()
    plain.x = None
    with pytest.raises(InputError, match="no features"):
        operator_report(plain, model)
