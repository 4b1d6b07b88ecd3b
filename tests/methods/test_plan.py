import json

import pytest
import torch

import epagcl
from epagcl.core.cost import cost, machine
from epagcl.core.errors import InputError
from epagcl.data import block_model
from epagcl.methods import plan as module
from epagcl.methods.plan import cost_note, memory_of, plan, subgraph_sizes, too_large
from epagcl.methods.work import Sizes, work_of

MILLION = {"nodes": 1_000_000, "edges": 10_000_000, "features": 128}
PAPERS = {"nodes": 111_059_956, "edges": 1_615_685_872, "features": 128}


def test_a_million_nodes_fit_on_an_h200_as_measured():
    found = plan(**MILLION, method="epagcl", device="h200")
    assert found.choice.name == "whole"
    whole = found.modes[0]
    assert whole.epoch == cost(work_of(epagcl.EPAGCL(), Sizes(**MILLION)), machine("h200"))
    assert whole.epoch.seconds == pytest.approx(9.07, rel=0.2)  # results/benchmarks/gpu.json
    assert whole.epoch.bytes / 2**30 == pytest.approx(23.7, rel=0.2)


def test_exact_training_is_chosen_before_subgraphs_and_ranks_if_they_are_faster():
    one = plan(**MILLION, method="epagcl", device="h200", memory=16)
    assert [mode.fits for mode in one.modes] == [False, True]
    assert one.choice.name == "subgraphs"
    four = plan(**MILLION, method="epagcl", device="h200", gpus=4)
    assert four.choice.name == "ranks"
    assert four.choice.epoch.seconds < four.modes[0].epoch.seconds / 3
    assert plan(**PAPERS, method="epagcl", device="h200", gpus=8).choice.name == "subgraphs"


def test_the_smallest_mode_is_named_if_none_fits():
    found = plan(**MILLION, method="epagcl", device="h200", memory=0.01)
    assert not found.choice.fits
    assert found.choice.name == "subgraphs"


def test_a_plan_is_plain_json():
    found = json.loads(json.dumps(plan(**MILLION, method="epagcl+", device="h200").to_dict()))
    assert found["graph"]["nodes"] == 1_000_000
    assert {mode["mode"] for mode in found["modes"]} == {"whole", "subgraphs"}
    assert plan(**MILLION, method="propagated", device="h200").choice.name == "whole"


def test_wrong_sizes_are_refused():
    with pytest.raises(InputError, match="give graph="):
        plan(nodes=5)
    with pytest.raises(InputError, match="give positive numbers"):
        plan(nodes=0, edges=1, features=1, device="h200")


def test_the_graph_gives_its_own_sizes():
    data = block_model(60, num_features=40, topic_words=10)
    assert plan(data, device="h200").sizes.nodes == 60


def test_a_note_is_written_only_if_memory_lacks(monkeypatch):
    data, model = block_model(60), epagcl.EPAGCL()
    assert too_large(model, data, torch.device("cpu")) is None
    monkeypatch.setattr(module, "available_memory", lambda device: 1000)
    assert "GiB are available" in too_large(model, data, torch.device("cpu"))
    assert too_large(model, data, torch.device("cpu"), training=False).startswith("embedding all 60 nodes")
    assert too_large(epagcl.DGI(), data, torch.device("cpu")) is None
    assert memory_of(model, Sizes(60, 100, 10), "cpu") > 0


def test_a_long_training_is_announced(monkeypatch):
    data = block_model(60)
    assert cost_note(epagcl.EPAGCL(), data) is None
    assert cost_note(epagcl.DGI(), data) is None
    monkeypatch.setattr(module, "LITTLE_WORK", 0.0)
    assert cost_note(epagcl.EPAGCL(epochs=1, device="cpu"), data) is None
    monkeypatch.setattr(module, "LONG", 0.0)
    assert "EPAGCL will take about" in cost_note(epagcl.EPAGCL(epochs=1, device="cpu"), data)


def test_the_edges_of_a_subgraph():
    assert subgraph_sizes(Sizes(100, 1000, 5), 1000) == Sizes(100, 1000, 5)
