"""Every method satisfies the protocol of the training loop, and embeddings are computed in evaluation mode."""

import inspect

import pytest
import torch

import epagcl
from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.training.protocol import Step, Trainable, embedding_of

every_method = pytest.mark.parametrize("name", epagcl.methods())
SETTINGS = sorted(Trainable.__annotations__)
PROPERTIES = sorted(name for name, member in vars(Trainable).items() if isinstance(member, property))
FUNCTIONS = sorted(
    name for name, member in vars(Trainable).items() if inspect.isfunction(member) and not name.startswith("_")
)


def untrained(name, data):
    """Return a narrow method with initial weights."""
    cls = epagcl.method(name)
    narrow = {"epochs": 0, "hidden": 8, "dim": 8, "projection": 8, "predictor": 8, "gate_hidden": 8, "heads": 2, "k": 3}
    settings = {field.name for field in cls.setting_fields()}
    model = cls(device="cpu", **{key: value for key, value in narrow.items() if key in settings})
    return model.fit(data)


def test_the_protocol_has_settings_properties_and_functions():
    assert {"epochs", "lr", "seed"} <= set(SETTINGS)
    assert PROPERTIES == ["decoupled_decay", "half_activations", "has_validation_loss", "supervised"]
    assert {"prepare", "steps", "represent"} <= set(FUNCTIONS)


@every_method
def test_methods_satisfy_the_protocol(name):
    model = epagcl.method(name)()
    for setting in SETTINGS:
        assert type(getattr(model, setting)) is Trainable.__annotations__[setting], setting
    for property_ in PROPERTIES:
        assert type(getattr(model, property_)) is bool, property_
    for function in FUNCTIONS:
        expected = list(inspect.signature(getattr(Trainable, function)).parameters)[1:]
        assert list(inspect.signature(getattr(model, function)).parameters) == expected, function
    assert all(isinstance(step, Step) and callable(step.loss) for step in model.steps())


@every_method
def test_embeddings_have_no_gradient_and_leave_evaluation_mode(name, small_graph):
    model = untrained(name, small_graph)
    graph = Graph.from_data(check(small_graph, quiet=True))
    network = model.network_.train()
    z = embedding_of(model, network, graph)
    assert len(z) == small_graph.num_nodes
    assert not z.requires_grad
    assert not any(module.training for module in network.modules())
    assert torch.equal(z, embedding_of(model, network, graph))  # no dropout
