import pytest

from epagcl.paper.planning.run_times import estimate
from epagcl.study.design import cells, expected_cost, rows
from tests.paper.conftest import demo, stored


def test_times_are_scaled_from_the_nearest_graph_and_the_gpu():
    (wanted,) = cells(*demo(), rows(["grace"])[3:], seeds=1, settings={"epochs": 50})
    assert estimate(wanted, [], []) == (None, "no stored run")
    half = {**wanted.about, "name": "half", "nodes": 10, "edges": 10}
    far = {**wanted.about, "name": "far", "nodes": 10**6, "edges": 10**6}
    there = stored(wanted, 1, seconds=3.0) | {"graph": half}
    others = [there, stored(wanted, 1, seconds=99.0) | {"graph": far}]
    seconds, basis = estimate(wanted, [], others)
    assert basis == "the same row on half"
    assert seconds == pytest.approx(3.0 * wanted.cost / expected_cost(50, 10, 10))
    on_cpu = stored(wanted, 1, seconds=500.0, hardware=["cpu"])
    assert estimate(wanted, [on_cpu], [on_cpu, *others])[1] == "the same row on half"  # slower, and not comparable
    assert estimate(wanted, [on_cpu], [on_cpu]) == (500.0, "the same cell")


def test_a_run_that_shared_the_gpu_is_scaled_to_the_processes_that_will():
    (wanted,) = cells(*demo(), rows(["grace"])[3:], seeds=2, settings={"epochs": 50})
    one = stored(wanted, 2, seconds=6.0)
    assert estimate(wanted, [one], [one], 4) == (6.0, "the same cell")  # how many have shared it is unknown
    one["training"]["processes"] = [None, 3]
    assert estimate(wanted, [one], [one], 4) == (6.0, "the same cell")  # three may not have filled the GPU
    assert estimate(wanted, [one], [one]) == (2.0, "the same cell")
    there = one | {"graph": {**wanted.about, "name": "half", "nodes": 10, "edges": 10}}
    alone, shared = (estimate(wanted, [], [there], processes)[0] for processes in (1, 3))
    assert shared == pytest.approx(3 * alone)
