import numpy as np
import pytest

from epagcl.core.errors import TrainingError
from epagcl.paper.sensitivity import crossed
from epagcl.paper.sensitivity.crossed import crossed_runs, measure_crossed
from epagcl.paper.sensitivity.settings import sweep_rows
from epagcl.study import jobs
from epagcl.study.design import cells


@pytest.fixture
def request_(request_of):
    return request_of(protocols=("strict",))


def invented(monkeypatch, calls, failing=()):
    """Replace training by a score that is known."""

    def observe(run, request):
        calls.append(run.seed)
        if run.seed in failing:
            raise TrainingError("too bad")
        scores = [run.seed / 10 + split / 100 for split in range(run.splits)]
        return {"accuracy": scores, "seconds": 1.0, "hardware": {"device": "cpu"}}

    monkeypatch.setattr(crossed, "observe", observe)


@pytest.mark.slow
def test_the_diagonal_is_the_strict_score_of_the_study(request_):
    runs = crossed_runs(request_, seeds=2, number=3)
    (table,) = measure_crossed(runs, request_)
    assert (table["row"], table["seeds"], table["splits"]) == ("EPAGCL", [0, 1], 3)
    assert [len(scores) for scores in table["accuracy"]] == [3, 3]
    (default, *_) = sweep_rows("demo", request_.methods, request_.settings)
    own = cells(request_.graphs["demo"], "demo", [default], seeds=2, protocols=["strict"], settings=request_.settings)
    (cell,) = request_.runs_of(own)["cells"]
    diagonal = [table["accuracy"][seed][seed] for seed in range(2)]
    assert cell["protocols"]["strict"]["accuracy"]["runs"] == pytest.approx(diagonal)


def test_finished_runs_are_kept_and_failed_ones_are_tried_again(request_, monkeypatch, caplog):
    calls = []
    runs = crossed_runs(request_, seeds=3, number=2)
    invented(monkeypatch, calls, failing=[1])
    (table,) = measure_crossed(runs, request_)
    assert calls == [0, 1, 2]
    assert "seed 1: left out (too bad)" in caplog.text
    assert (table["seeds"], table["hardware"]) == ([0, 2], ["cpu"])
    assert np.array(table["accuracy"]) == pytest.approx(np.array([[0.0, 0.01], [0.2, 0.21]]))
    invented(monkeypatch, calls)
    (table,) = measure_crossed(crossed_runs(request_, seeds=3, number=2), request_)
    assert calls == [0, 1, 2, 1]
    assert table["seeds"] == [0, 1, 2]


def test_a_damaged_record_is_computed_again(request_, monkeypatch):
    calls = []
    runs = crossed_runs(request_, seeds=3, number=2)
    invented(monkeypatch, calls)
    measure_crossed(runs, request_)
    request_.store.write(runs[0].key, {})
    request_.store.write(runs[2].key, {**request_.store.read(runs[2].key), "accuracy": [0.1, float("nan")]})
    (table,) = measure_crossed(runs, request_)
    assert calls == [0, 1, 2, 0, 2]
    assert np.array(table["accuracy"]) == pytest.approx(np.array([[0.0, 0.01], [0.1, 0.11], [0.2, 0.21]]))


def test_a_run_that_another_process_computes_is_waited_for(request_, monkeypatch):
    calls, naps = [], []
    runs = crossed_runs(request_, seeds=2, number=2)
    invented(monkeypatch, calls)
    with request_.store.claim([runs[0].key]) as claimed:  # as another process would hold it
        assert len(claimed) == 1

        def other_process_finishes(seconds):
            naps.append(seconds)
            request_.store.write(runs[0].key, {"accuracy": [0.5, 0.5], "seconds": 1.0, "hardware": {"device": "b"}})

        monkeypatch.setattr(jobs.time, "sleep", other_process_finishes)
        (table,) = measure_crossed(runs, request_)
    assert calls == [1]
    assert len(naps) == 1
    assert table["accuracy"][0] == [0.5, 0.5]
    assert table["hardware"] == ["b", "cpu"]


def test_keys_depend_on_seed_splits_and_settings(request_, request_of):
    one, other = crossed_runs(request_, seeds=2, number=2)
    (more, _) = crossed_runs(request_, seeds=2, number=3)
    (wider, _) = crossed_runs(request_of(settings={"dim": 4, "device": "cpu"}), seeds=2, number=2)
    paths = {request_.store.path(run.key) for run in (one, other, more, wider)}
    assert len(paths) == 4
