"""The declared types of the metrics against the metrics of real runs."""

import types
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from epagcl import EPAGCL, SupervisedGCN
from epagcl.report.metrics import RunMetrics, SeedsMetrics, lost_to, untrained_name, untrained_note
from epagcl.runs.evaluation import Plan
from epagcl.runs.execute import run, run_seeds, trained_metrics

SMALL = {"epochs": 2, "hidden": 8, "dim": 4, "projection": 4, "device": "cpu"}


def check_type(value: Any, declared: Any, path: str = "metrics") -> None:
    """Assert that a value has a declared type, and that a typed dictionary has exactly the declared keys."""
    origin, arguments = get_origin(declared), get_args(declared)
    if declared is Any:
        return
    if origin is NotRequired:
        check_type(value, arguments[0], path)
    elif is_typeddict(declared):
        assert declared.__required_keys__ <= value.keys() <= get_type_hints(declared).keys(), path
        for key, hint in get_type_hints(declared).items():
            if key in value:
                check_type(value[key], hint, f"{path}[{key!r}]")
    elif origin in (Union, types.UnionType):
        assert any(has_type(value, option) for option in arguments), f"{path}: {value!r} is no {declared}"
    elif origin is list:
        assert type(value) is list, path
        for place, item in enumerate(value):
            check_type(item, arguments[0], f"{path}[{place}]")
    elif origin is dict:
        assert type(value) is dict, path
        for key, item in value.items():
            check_type(key, arguments[0], path)
            check_type(item, arguments[1], f"{path}[{key!r}]")
    else:
        accepted = (int, float) if declared is float else declared
        assert isinstance(value, accepted), f"{path}: {value!r} is no {declared}"
        assert declared is bool or not isinstance(value, bool), path


def has_type(value: Any, declared: Any) -> bool:
    """Return whether a value has a declared type."""
    try:
        check_type(value, declared)
    except AssertionError:
        return False
    return True


def optional_keys(metrics: type) -> set[str]:
    return set(get_type_hints(metrics)) - set(metrics.__required_keys__)


def test_only_an_untrained_method_has_a_note():
    assert untrained_note("EPAGCL", ["raw features", "untrained encoder", "propagated"]) is None
    assert untrained_note("EPAGCL+", []) is None
    note = untrained_note("EPAGCL+", {"raw features": 1, untrained_name("EPAGCL+"): 2})
    assert note == "untrained EPAGCL+: encoders with initial weights, and everything that it computes without training"


def test_losing_to_references_is_said_in_words():
    def scores(mean):
        return {"accuracy": {"mean": mean, "std": 0.0}}

    references = {"raw features": scores(0.5), "untrained encoder": scores(0.8), "propagated": scores(0.9)}
    lost = lost_to("EPAGCL", scores(0.75), references)
    assert lost.startswith(
        "EPAGCL (75.0%) loses to propagated (90.0%) and untrained encoder (80.0%): it does not pay off"
    )
    assert lost.endswith("try --method auto")
    assert lost_to("EPAGCL+", scores(0.75), references).endswith("use what scores best, or train longer")
    assert lost_to("EPAGCL", scores(0.9), references) is None
    assert lost_to("EPAGCL", scores(0.1), {}) is None


@pytest.mark.parametrize("settings", [{}, {"epochs": 0}])
def test_metrics_of_a_trained_model(small_graph, settings):
    metrics = trained_metrics(small_graph, EPAGCL(**{**SMALL, **settings}).fit(small_graph), "g")
    check_type(metrics, RunMetrics)
    assert metrics.keys() == RunMetrics.__required_keys__  # scores and the total time belong to whole runs
    assert metrics["health"]


def test_a_supervised_model_has_no_health(small_graph):
    metrics = trained_metrics(small_graph, SupervisedGCN(epochs=1, hidden=8, device="cpu").fit(small_graph), "g")
    check_type(metrics, RunMetrics)
    assert metrics["health"] == []


def test_a_graph_without_labels(small_graph):
    del small_graph.y
    metrics = trained_metrics(small_graph, EPAGCL(**SMALL).fit(small_graph), "g")
    check_type(metrics, RunMetrics)
    assert metrics["graph"]["classes"] is None


@pytest.mark.slow
def test_an_evaluated_run_has_every_declared_key(small_graph, tmp_path):
    metrics = run(small_graph, EPAGCL(**SMALL), tmp_path, plan=Plan(runs=2, references=True), map_kind="none")
    check_type(metrics, RunMetrics)
    assert metrics.keys() - RunMetrics.__required_keys__ == optional_keys(RunMetrics)


@pytest.mark.slow
def test_metrics_of_several_seeds_have_every_declared_key(small_graph, tmp_path):
    methods = [EPAGCL(seed=seed, **SMALL) for seed in (0, 1)]
    metrics = run_seeds(small_graph, methods, tmp_path, plan=Plan(references=True), map_kind="none")
    check_type(metrics, SeedsMetrics)
    assert metrics.keys() - SeedsMetrics.__required_keys__ == optional_keys(SeedsMetrics)
    assert metrics["training"].keys() == RunMetrics.__annotations__["training"].__annotations__.keys()
    assert all(len(values) == 2 for values in metrics["training"].values())


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        ("1", float),
        (True, int),
        ([1, "2"], list[int]),
        ({"a": "b"}, dict[str, int]),
        ("x", int | None),
        ({}, RunMetrics),
    ],
)
def test_the_check_finds_wrong_types(value, declared):
    assert not has_type(value, declared)
