"""Generated graphs: their parameters, and that they are the same everywhere."""

import pytest
import torch

import epagcl
from epagcl.core.errors import InputError
from epagcl.data import block_model, check
from epagcl.data.generators import demo
from epagcl.epr.rate import error_passing_rate
from epagcl.evaluation.linear import linear_evaluation


def checksum(t: torch.Tensor) -> int:
    return int((t.flatten() * (torch.arange(t.numel()) % 9973 + 1)).sum())


def test_demo_is_the_same_graph_everywhere():
    data = demo()
    assert (data.num_nodes, data.edge_index.shape[1] // 2, data.x.shape[1], int(data.y.max()) + 1) == (
        2700,
        5016,
        1400,
        7,
    )
    assert checksum(data.edge_index) == 152949031045
    assert checksum(data.x.col_indices()) == 56466454042


def test_output_is_already_checked():
    data = block_model(500, seed=2)
    again = check(data)
    assert torch.equal(again.edge_index, data.edge_index)
    assert torch.equal(again.x.to_dense(), data.x.to_dense())
    assert set(data.x.values().tolist()) == {1.0}


@pytest.mark.parametrize("homophily", [0.2, 0.5, 0.9])
def test_homophily_and_degree_match_the_parameters(homophily):
    data = block_model(20_000, homophily=homophily, average_degree=8, seed=1)
    same = (data.y[data.edge_index[0]] == data.y[data.edge_index[1]]).double().mean()
    assert same.item() == pytest.approx(homophily, abs=0.03)
    assert data.edge_index.shape[1] / data.num_nodes == pytest.approx(8, rel=0.06)


def test_the_exponent_sets_the_tail_of_the_degrees():
    def share_of_top_percent(exponent):
        data = block_model(20_000, degree_exponent=exponent, average_degree=10, seed=0)
        d = torch.bincount(data.edge_index[0], minlength=20_000).sort(descending=True).values
        return (d[:200].sum() / d.sum()).item()

    assert share_of_top_percent(2.2) > 1.5 * share_of_top_percent(3.5)
    assert share_of_top_percent(2.5) > 0.05  # a Poisson graph has 0.02


@pytest.mark.slow
def test_topic_share_sets_how_well_words_predict_the_class():
    informative, blind = (block_model(1500, topic_share=share, seed=0) for share in (0.5, 0.0))
    assert linear_evaluation(informative.x, informative.y, runs=1).mean > 0.95
    assert linear_evaluation(blind.x, blind.y, runs=1).mean < 0.25


def test_seeds_differ_and_repeat():
    a, b, c = block_model(300, seed=1), block_model(300, seed=1), block_model(300, seed=2)
    assert torch.equal(a.edge_index, b.edge_index)
    assert not torch.equal(a.edge_index, c.edge_index)


def test_wrong_sizes_name_the_fix():
    with pytest.raises(InputError, match="at least 2 classes"):
        block_model(3, num_classes=2)
    with pytest.raises(InputError, match="degree_exponent"):
        block_model(100, degree_exponent=1.5)
    with pytest.raises(InputError, match="topic_words"):
        block_model(100, num_features=10, topic_words=20)


@pytest.mark.slow
def test_on_demo_training_beats_the_untrained_encoder_which_beats_raw_features():
    data = epagcl.load("demo")
    raw = linear_evaluation(data.x, data.y).mean
    narrow = {"hidden": 256, "dim": 128, "projection": 128, "batch_size": 300, "device": "cpu"}
    untrained = linear_evaluation(epagcl.EPAGCL(epochs=0, **narrow).fit_embed(data), data.y).mean
    trained = linear_evaluation(epagcl.EPAGCL(epochs=20, **narrow).fit_embed(data), data.y).mean
    assert untrained > raw + 0.05
    assert trained > untrained + 0.05
    assert 0.1 < error_passing_rate(data.edge_index, data.y) < 0.3
