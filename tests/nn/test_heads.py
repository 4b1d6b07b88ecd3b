import torch

from epagcl.nn.heads import ProjectionHead


def test_a_head_has_two_linear_layers_and_an_activation():
    assert [tuple(p.shape) for p in ProjectionHead(256, 64).parameters()] == [(64, 256), (64,), (256, 64), (256,)]
    torch.manual_seed(0)
    head, z = ProjectionHead(8, 4, torch.nn.ELU), torch.randn(5, 8)
    first, _, second = head
    torch.testing.assert_close(head(z), second(torch.nn.functional.elu(first(z))))


def test_the_default_activation_is_relu():
    assert isinstance(ProjectionHead(8, 4)[1], torch.nn.ReLU)
