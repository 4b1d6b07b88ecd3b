"""Several processes compute the records of a list of jobs, each record once."""

import multiprocessing
from dataclasses import replace

import pytest

from epagcl.core.progress import CountedProgress, SilentProgress
from epagcl.study import jobs
from epagcl.study.jobs import Job, fill_jobs
from epagcl.study.store import Store


def job(number, compute, cost=1.0):
    return Job(f"job {number}", {"what": "test", "graph": {"name": "demo"}, "number": number}, compute, cost)


def test_missing_records_are_computed_in_order(tmp_path):
    calls = []
    store, work = Store(tmp_path), CountedProgress()
    wanted = [job(k, lambda k=k: calls.append(k) or {"value": k}) for k in range(4)]
    store.write(wanted[1].key, {"value": "stored"})
    fill_jobs(wanted, store, work)
    assert calls == [0, 2, 3]
    assert [store.read(one.key)["value"] for one in wanted] == [0, "stored", 2, 3]
    assert (work.runs, work.done) == (3, 3)


def test_errors_stop_the_list_unless_they_are_left_out(tmp_path, caplog):
    store = Store(tmp_path)

    def fail():
        raise ValueError("no luck")

    wanted = [job(0, fail), job(1, lambda: {"value": 1})]
    with pytest.raises(ValueError, match="no luck"):
        fill_jobs(wanted, store, SilentProgress())
    assert store.read(wanted[1].key) is None
    fill_jobs(wanted, store, SilentProgress(), left_out=(ValueError,))
    assert "job 0: left out (no luck)" in caplog.messages
    assert [store.read(one.key) is None for one in wanted] == [True, False]


def test_a_record_that_another_process_just_wrote_is_not_computed(tmp_path, monkeypatch):
    store, work = Store(tmp_path), CountedProgress()
    late = job(0, lambda: pytest.fail("computed again"))
    claim = store.claim

    def claim_after_the_other_process(keys, most=1):
        store.write(late.key, {"value": "other"})
        return claim(keys, most)

    monkeypatch.setattr(store, "claim", claim_after_the_other_process)
    fill_jobs([late], store, work)
    assert (work.runs, work.done) == (1, 1)


def test_claimed_jobs_are_skipped_and_checked_again(tmp_path, monkeypatch):
    calls, store = [], Store(tmp_path)
    wanted = [job(k, lambda k=k: calls.append(k) or {"value": k}) for k in range(3)]
    monkeypatch.setattr(jobs.time, "sleep", lambda _: store.write(wanted[0].key, {"value": "other"}))
    with store.claim([wanted[0].key]):
        fill_jobs(wanted, store, SilentProgress())
    assert calls == [1, 2]
    assert store.read(wanted[0].key)["value"] == "other"


def test_a_damaged_record_is_computed_again(tmp_path):
    store, work = Store(tmp_path), CountedProgress()
    wanted = [replace(job(k, lambda k=k: {"value": k}), shape={"value": int}) for k in range(3)]
    for one, record in zip(wanted, ({"value": 7}, {}, {"value": "1"}), strict=True):
        store.write(one.key, record)
    assert [one.record(store) for one in wanted[1:]] == [None, None]
    fill_jobs(wanted, store, work)
    assert [one.record(store)["value"] for one in wanted] == [7, 1, 2]
    assert (work.runs, work.done) == (2, 2)


def _work(folder, log):
    def compute(number):
        with open(log, "a") as file:
            file.write(f"{number}\n")
        return {"value": number}

    fill_jobs([job(k, lambda k=k: compute(k)) for k in range(20)], Store(folder), SilentProgress())


def test_two_processes_compute_each_record_once(tmp_path):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_work, args=(tmp_path / "store", tmp_path / "log")) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert sorted(map(int, (tmp_path / "log").read_text().split())) == list(range(20))
