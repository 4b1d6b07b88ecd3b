"""The graph that a method works on."""

import pytest
import torch

import epagcl
from epagcl.methods.inputs import input_graph


@pytest.mark.parametrize("scaling", ["given", "row-sum", "row-max", "row-norm"])
def test_rows_are_scaled_as_the_setting_says(scaling):
    data = epagcl.data.check(epagcl.data.block_model(30, num_features=8, topic_words=3, words_per_node=3))
    data.x = data.x.to_dense() * 2 if data.x.layout != torch.strided else data.x * 2
    x = input_graph(epagcl.EPAGCL(feature_scaling=scaling), data, torch.device("cpu")).x
    x = x if isinstance(x, torch.Tensor) else x.csr.to_dense()
    measure = {"given": x.sum(1) / data.x.sum(1), "row-sum": x.sum(1), "row-max": x.amax(1), "row-norm": x.norm(dim=1)}
    used = data.x.sum(1) > 0
    torch.testing.assert_close(measure[scaling][used], torch.ones(int(used.sum())))
