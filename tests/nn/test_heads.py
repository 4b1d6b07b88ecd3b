import pytest
import torch
from torch import nn

from epagcl.nn.heads import BlockLinear, Linear, ProjectionHead


def test_a_head_has_two_linear_layers_and_an_activation():
    assert [tuple(p.shape) for p in ProjectionHead(256, 64).parameters()] == [(64, 256), (64,), (256, 64), (256,)]
    torch.manual_seed(0)
    head, z = ProjectionHead(8, 4, torch.nn.ELU), torch.randn(5, 8)
    first, _, second = head
    torch.testing.assert_close(head(z), second(torch.nn.functional.elu(first(z))))


def test_the_default_activation_is_relu():
    assert isinstance(ProjectionHead(8, 4)[1], torch.nn.ReLU)


def test_the_output_may_be_narrower():
    assert [tuple(p.shape) for p in ProjectionHead(8, 4, out=3).parameters()] == [(4, 8), (4,), (3, 4), (3,)]
    assert ProjectionHead(8, 4, out=3, members=2)(torch.zeros(6, 8)).shape == (6, 3)


def separate(block):
    """Return the layers of a block as linear layers of their own."""
    layers = []
    for weight, bias in zip(block.weight, block.bias, strict=True):
        layer = nn.Linear(*weight.shape, dtype=weight.dtype)
        with torch.no_grad():
            layer.weight.copy_(weight.T)
            layer.bias.copy_(bias)
        layers.append(layer)
    return layers


@pytest.mark.parametrize("members", [1, 3])
def test_a_block_layer_equals_separate_linear_layers(members):
    block, x = BlockLinear(8, 5, members).double(), torch.randn(4 * members, 8, dtype=torch.float64)
    layers = separate(block)
    out = block(x)
    expected = torch.cat([layer(rows) for layer, rows in zip(layers, x.chunk(members), strict=True)])
    torch.testing.assert_close(out, expected)
    grad = torch.randn_like(out)
    weight, bias = torch.autograd.grad(out, (block.weight, block.bias), grad)
    for k, layer in enumerate(layers):
        weight_k, bias_k = torch.autograd.grad(layer(x.chunk(members)[k]), layer.parameters(), grad.chunk(members)[k])
        torch.testing.assert_close((weight[k].T, bias[k]), (weight_k, bias_k))


def test_initial_weights_of_a_block_layer_have_the_distribution_of_linear_layers():
    torch.manual_seed(0)
    block, bound = BlockLinear(400, 50, members=3), 1 / 20
    for weight, bias in zip(block.weight, block.bias, strict=True):
        assert weight.abs().max() <= bound
        assert bias.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)  # uniform
    assert not torch.equal(block.weight[0], block.weight[1])
    torch.manual_seed(0)
    assert torch.equal(BlockLinear(400, 50, members=1).weight[0], block.weight[0])  # drawn one after the other


@pytest.mark.parametrize("activation", [nn.ReLU, nn.ELU])
def test_heads_of_several_members_equal_separate_heads(activation):
    head = ProjectionHead(8, 6, activation, out=5, members=3).double()
    z = torch.randn(12, 8, dtype=torch.float64)
    pairs = zip(separate(head[0]), separate(head[2]), z.chunk(3), strict=True)
    expected = torch.cat([second(activation()(first(rows))) for first, second, rows in pairs])
    torch.testing.assert_close(head(z), expected)


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 8)])
def test_linear_equals_that_of_torch(use_triton, shape):
    torch.manual_seed(0)
    ours, theirs = Linear(8, 4), torch.nn.Linear(8, 4)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(shape)
    for on in (False, True):
        use_triton(on)
        torch.testing.assert_close(ours(x), theirs(x))
