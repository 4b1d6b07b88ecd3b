import json
from dataclasses import replace

import pytest
import torch

import epagcl
from epagcl.core.cost import cost, machine
from epagcl.core.errors import InputError
from epagcl.data import block_model, check
from epagcl.data.large import Arrays
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
    with pytest.raises(InputError, match="dgi: trains on the whole graph, and its cost is not modelled"):
        plan(**MILLION, method="dgi", device="h200")


def test_the_graph_gives_its_own_sizes():
    data = block_model(60, num_features=40, topic_words=10)
    assert plan(data, device="h200").sizes.nodes == 60
    with pytest.raises(InputError, match=r"plan: graph= has its own sizes; leave out nodes="):
        plan(data, nodes=60, device="h200")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("auto", ["whole", "ranks", "subgraphs"]),
        ("off", ["whole", "ranks"]),
        ("neighbours", ["subgraphs"]),
        ("partitions", ["subgraphs"]),
    ],
)
def test_a_plan_has_the_modes_that_the_setting_allows(kind, expected):
    model = epagcl.EPAGCL(subgraphs=kind, subgraph_nodes=1000)
    found = plan(**MILLION, method=model, device="h200", gpus=2, memory=1)
    assert [mode.name for mode in found.modes] == expected
    assert found.choice.name == (expected[-1])


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
    assert cost_note(epagcl.method("propagated")(), data) is None
    monkeypatch.setattr(module, "LITTLE_WORK", 0.0)
    assert cost_note(epagcl.EPAGCL(epochs=1, device="cpu"), data) is None
    monkeypatch.setattr(module, "LONG", 0.0)
    assert "EPAGCL will take about" in cost_note(epagcl.EPAGCL(epochs=1, device="cpu"), data)


def test_the_note_is_on_the_mode_of_the_setting(monkeypatch):
    data = check(block_model(600), quiet=True)
    monkeypatch.setattr(module, "LITTLE_WORK", 0.0)
    monkeypatch.setattr(module, "LONG", 0.0)
    model = epagcl.EPAGCL(epochs=7, subgraph_nodes=64, device="cpu")
    for graph, kind, mode in (
        (data, "off", "whole"),
        (data, "neighbours", "subgraphs"),
        (Arrays.from_data(data), "auto", "subgraphs"),
    ):
        model.set_params(subgraphs=kind)
        modes = {found.name: found.epoch.seconds for found in plan(graph, method=model, device="cpu").modes}
        assert f"(7 epochs of {modes[mode]:.2g} s)" in cost_note(model, graph)
    monkeypatch.setattr(module, "LITTLE_WORK", 1e9)  # the whole graph is above it, a subgraph is not
    assert cost_note(model.set_params(subgraphs="off"), data) is not None
    assert cost_note(model.set_params(subgraphs="neighbours"), data) is None


def test_the_edges_of_a_subgraph():
    assert subgraph_sizes(Sizes(100, 1000, 5), 1000) == Sizes(100, 1000, 5)


@pytest.mark.parametrize(("nodes", "columns"), [(10**6, 53), (10**7, 16), (10**9, 1)])
def test_subgraphs_on_a_cpu_need_memory_for_the_columns_of_the_embedding(monkeypatch, nodes, columns):
    slow = replace(machine("h200"), kind="cpu")
    monkeypatch.setattr(module, "machine", lambda name: slow)
    model = epagcl.EPAGCL(subgraphs="neighbours")
    sizes = {"nodes": nodes, "edges": nodes, "features": 8}
    (mode,) = plan(**sizes, method=model, device="cpu", memory=120).modes
    part = cost(work_of(model, subgraph_sizes(Sizes(**sizes), 8192)), slow).bytes
    assert mode.epoch.bytes - part == pytest.approx((40 + 20 * columns) * nodes)
