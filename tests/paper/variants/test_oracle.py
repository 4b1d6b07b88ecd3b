import pytest
import torch

import epagcl
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.methods import names
from epagcl.paper.variants.oracle import Oracle
from tests.paper.conftest import SMALL


def test_edges_between_classes_are_dropped_at_085_and_others_at_015():
    data = epagcl.load("demo")
    model = Oracle(**SMALL).fit(data)
    graph = Graph.from_data(check(data, quiet=True))
    wrong = data.y[graph.pairs[0]] != data.y[graph.pairs[1]]
    samplers = list(model.prepare(graph).views)
    assert [sampler.view for sampler in samplers] == [0, 1]
    for sampler in samplers:
        torch.testing.assert_close(1 - sampler.keep, torch.where(wrong, 0.85, 0.15))
        kept = torch.stack([sampler.kept(epoch) for epoch in range(40)]).double().mean(0)
        assert kept[wrong].mean() == pytest.approx(0.15, abs=0.02)
        assert kept[~wrong].mean() == pytest.approx(0.85, abs=0.02)


def test_training_depends_on_the_labels():
    data = epagcl.load("demo")
    embedding = Oracle(**SMALL).fit_embed(data)
    assert torch.equal(Oracle(**SMALL).fit_embed(data), embedding)
    data.y = data.y.sort().values
    assert not torch.equal(Oracle(**SMALL).fit_embed(data), embedding)


def test_the_oracle_is_not_registered():
    assert "oracle" not in names()
    assert epagcl.method("epagcl") is epagcl.EPAGCL
