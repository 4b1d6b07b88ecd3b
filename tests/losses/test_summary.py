import math

import pytest
import torch

from epagcl.distributed.group import Ranks
from epagcl.distributed.partition import Part
from epagcl.losses.summary import Bilinear, summary, summary_loss


def rows(n=9, dim=4, seed=0):
    return torch.randn(n, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, requires_grad=True)


def discriminator(dim=4):
    torch.manual_seed(0)
    scores = Bilinear(dim, dim).double()
    with torch.no_grad():
        scores.bias.fill_(0.3)
    return scores


def test_the_score_is_the_bilinear_form():
    h, scores, s = rows(), discriminator(), summary(rows(seed=1))
    expected = torch.stack([x @ scores.weight @ s + scores.bias[0] for x in h])
    torch.testing.assert_close(scores(h, s), expected)
    assert not torch.allclose(scores.weight, scores.weight.T)  # so hᵀWs and sᵀWh differ


def test_initial_weights_are_uniform_as_in_the_authors_code():
    """The Glorot bound of a [1, left, right] weight is √(6/(right + left·right)), as torch counts left·right inputs."""
    torch.manual_seed(0)
    scores = Bilinear(40, 60)
    bound = math.sqrt(6 / (40 * 60 + 60))
    module = torch.nn.Bilinear(40, 60, 1)  # as in the authors' code; its weight is [1, left, right]
    torch.nn.init.xavier_uniform_(module.weight)
    for weight in (scores.weight, module.weight):
        assert 0.99 * bound < weight.abs().max() <= bound
        assert weight.var().item() == pytest.approx(bound**2 / 3, rel=0.05)
    assert scores.weight.shape == (40, 60)
    assert scores.bias.tolist() == [0]


def test_the_summary_is_between_0_and_1_and_independent_of_the_order():
    h = 5 * rows()
    s = summary(h)
    torch.testing.assert_close(s, 1 / (1 + torch.exp(-h.sum(0) / 9)))
    assert ((s > 0) & (s < 1)).all()
    torch.testing.assert_close(summary(h[torch.randperm(9, generator=torch.Generator().manual_seed(0))]), s)


def test_the_loss_is_log_2_if_all_scores_are_0():
    scores = discriminator()
    with torch.no_grad():
        scores.weight.zero_()
        scores.bias.zero_()
    s = summary(rows())
    assert summary_loss(scores(rows(), s), scores(rows(seed=1), s)).item() == pytest.approx(math.log(2))


def test_the_loss_is_the_cross_entropy_of_all_scores():
    positive, negative = rows(7, 1)[:, 0], rows(7, 1, seed=1)[:, 0]
    logits, targets = torch.cat([positive, negative]), torch.cat([torch.ones(7), torch.zeros(7)]).double()
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, targets)
    torch.testing.assert_close(summary_loss(positive, negative), expected)
    torch.testing.assert_close(summary_loss(-negative, -positive), expected)  # swapping roles and signs changes nothing


def test_large_scores_do_not_overflow():
    large = torch.tensor([1e4, 1e4])
    assert summary_loss(large, -large) == 0
    assert summary_loss(-large, large) == 1e4


def test_gradient_by_finite_differences():
    scores = discriminator()

    def loss(h, corrupted, weight, bias):
        s = summary(h)
        positive = torch.func.functional_call(scores, {"weight": weight, "bias": bias}, (h, s))
        return summary_loss(
            positive, torch.func.functional_call(scores, {"weight": weight, "bias": bias}, (corrupted, s))
        )

    assert torch.autograd.gradcheck(loss, (rows(), rows(seed=1), scores.weight, scores.bias))


def test_the_only_rank_has_the_summary_and_the_loss_of_one_process():
    h, part = torch.randn(7, 3, generator=torch.Generator().manual_seed(0)), Part(Ranks(0, 1), 7)
    torch.testing.assert_close(summary(h, part), summary(h))
    torch.testing.assert_close(summary_loss(h[:, 0], h[:, 1], part), summary_loss(h[:, 0], h[:, 1]))
