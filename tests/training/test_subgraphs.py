import threading

import pytest
import torch

import epagcl
from epagcl.data import block_model, check
from epagcl.data.large import Arrays, LargeGraph
from epagcl.data.subgraphs import Subgraphs
from epagcl.training.loop import adam
from epagcl.training.subgraphs import SubgraphRunner
from tests.conftest import interpreted


def test_an_epoch_is_one_step_on_the_subgraph_of_its_number():
    data = check(block_model(300, num_features=20, topic_words=5, seed=0), quiet=True)
    subgraphs = Subgraphs(LargeGraph(Arrays.from_data(data)), "neighbours", 120, seed=0)
    method = epagcl.GRACE(hidden=8, dim=4, projection=4, device="cpu")
    torch.manual_seed(0)
    network = method.build(20)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    graph = subgraphs.at(2)
    with torch.no_grad():
        expected = float(method.loss(network, graph, method.prepare(graph), 2))
    optimiser = adam(method, network, torch.device("cpu"))
    runner = SubgraphRunner(method, network, subgraphs.at(0), optimiser, subgraphs)
    assert runner.run(2, 3) == [(expected,)]
    assert runner.fingerprint == subgraphs.graph.fingerprint
    assert any(not torch.equal(value, before[key]) for key, value in network.state_dict().items())
    assert torch.equal(runner.graph.nodes, graph.nodes)
    runner.close()


@pytest.mark.parametrize("fails", [False, True])
def test_the_thread_that_reads_subgraphs_ends_with_the_training(fails):
    data = check(block_model(300, num_features=20, topic_words=5, seed=0), quiet=True)
    settings = {"hidden": 8, "dim": 4, "projection": 4, "device": "cpu", "subgraphs": "neighbours"}
    model = epagcl.GRACE(**settings, subgraph_nodes=120, epochs=3)
    before = set(threading.enumerate())

    def stop(row):
        raise ValueError("stopped")

    if fails:
        with pytest.raises(ValueError, match="stopped"):
            model.fit(data, callback=stop)
    else:
        model.fit(data)
    assert set(threading.enumerate()) <= before


@interpreted
@pytest.mark.usefixtures("half_on_small_graphs")
def test_activations_of_subgraphs_are_float32(use_triton, monkeypatch):
    """Their views have matrices of their own, for which there are no kernels in fp16."""
    use_triton(True)
    data = check(block_model(60, num_features=20, topic_words=5, seed=0), quiet=True)
    subgraphs = Subgraphs(LargeGraph(Arrays.from_data(data)), "neighbours", 30, seed=0)
    monkeypatch.setattr(epagcl.GRACE, "half_activations", True)
    method = epagcl.GRACE(hidden=8, dim=4, projection=4, device="cpu")
    network = method.build(20)
    runner = SubgraphRunner(method, network, subgraphs.at(0), adam(method, network, torch.device("cpu")), subgraphs)
    assert runner.scaler is None
    assert len(runner.run(0, 2)) == 2
    runner.close()
