import pytest
import torch

import epagcl
from epagcl import Propagated
from epagcl.core.errors import InputError
from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.evaluation.health import judge, overall


def diffused(data, alpha):
    """Return S·X̂ by a dense inverse in float64."""
    adjacency = Graph.from_data(check(data)).adjacency.to_dense().double()
    x = data.x.to_dense().double()
    unit = x / x.norm(dim=1, keepdim=True).clamp(min=1e-30)
    eye = torch.eye(len(x), dtype=torch.float64)
    return alpha * torch.linalg.solve(eye - (1 - alpha) * adjacency, unit)


@pytest.mark.parametrize("alpha", [0.15, 0.5])
def test_the_embedding_equals_a_dense_computation(small_graph, alpha):
    z = Propagated(dim=8, alpha=alpha, device="cpu").fit_embed(small_graph).double()
    matrix = diffused(small_graph, alpha)
    matrix = matrix - matrix.mean(0)
    left, values, _ = torch.linalg.svd(matrix, full_matrices=False)
    torch.testing.assert_close(z.norm(dim=0), values[:8], rtol=5e-3, atol=0)
    expected = left[:, :8] * values[:8]
    signs = (expected * z).sum(0).sign()
    torch.testing.assert_close(z, expected * signs, rtol=0, atol=2e-2 * float(values[0]) / 8)
    # Distances in the span do not depend on the rotation of directions with similar variance.
    torch.testing.assert_close(z @ z.T, expected @ expected.T, rtol=0, atol=1e-2 * float((matrix @ matrix.T).max()))


def test_width_beyond_the_rank_is_filled_with_zeros(small_graph):
    z = Propagated(dim=100, device="cpu").fit_embed(small_graph)
    assert z.shape == (60, 100)
    assert (z[:, 40:] == 0).all()
    narrow = Propagated(dim=8, device="cpu").fit_embed(small_graph)
    torch.testing.assert_close(z[:, :8], narrow, rtol=0, atol=1e-5)


def test_the_model_is_the_mean_and_the_components(tmp_path, small_graph):
    model = Propagated(dim=8, device="cpu").fit(small_graph)
    assert sorted(model.network_.state_dict()) == ["components", "mean"]
    model.save(tmp_path)
    text = (tmp_path / "config.toml").read_text()
    assert 'name = "propagated"' in text
    assert "epochs" not in text
    assert epagcl.load_model(tmp_path, device="cpu").settings() == {**model.settings(), "device": "cpu"}


@pytest.mark.parametrize(
    ("settings", "message"), [({"alpha": 0.0}, "alpha=0.0"), ({"alpha": 1.0}, "alpha=1.0"), ({"dim": 0}, "dim=0")]
)
def test_wrong_settings_raise(settings, message):
    with pytest.raises(InputError, match=message):
        Propagated(**settings)


def test_it_has_no_loss(small_graph):
    model = Propagated(dim=4, device="cpu").fit(small_graph)
    with pytest.raises(TypeError, match="propagated is not trained and has no loss"):
        model.loss(model.network_, None, None, 0)


def test_health_gives_no_advice_on_training(small_graph):
    findings = Propagated(dim=8, device="cpu").fit(small_graph).health(small_graph)
    assert [finding.name for finding in findings] == ["effective rank", "uniformity", "alignment"]
    for finding in findings:
        assert "learning rate" not in finding.words
        assert "train longer" not in finding.words
    poor = {"effective_rank": 1.0, "alignment": 2.0, "distance": 1.0, "uniformity": 0.0}
    for measures in (poor, {**poor, "alignment": 0.5, "uniformity": -0.3, "effective_rank": 15.0}):
        judged = judge(measures, 1000, 256, trained=False)
        assert not [finding for finding in judged if "learning rate" in finding.words or "loss" in finding.words]
    assert overall(judge(poor, 1000, 256, trained=False), trained=False).startswith("the computation went wrong: see")


@pytest.mark.slow
def test_it_beats_raw_features_on_the_demo_graph():
    data = epagcl.load("demo")
    z = Propagated(dim=32, device="cpu").fit_embed(data)
    raw, propagated = (epagcl.linear_evaluation(features, data.y, runs=2).mean for features in (data.x, z))
    assert propagated > raw + 0.1
