import json
import multiprocessing
import os
import signal
import time

import pytest

from epagcl.core.errors import InputError
from epagcl.study.store import Store, holding


def key(seed=0, **more):
    return {"what": "run", "graph": {"name": "My Graph"}, "seed": seed, **more}


def test_a_record_is_found_by_its_key(tmp_path):
    store = Store(tmp_path)
    assert store.read(key()) is None
    written = store.write(key(), {"value": (1, 2.5)})
    assert written == {"key": key(), "value": [1, 2.5]}  # as JSON gives it back
    assert store.read(key()) == written
    assert store.path(key()).parent == tmp_path / "my-graph" / "run"
    for other in (key(1), key(code="b"), {**key(), "graph": {"name": "My Graph", "fingerprint": "x"}}):
        assert store.read(other) is None


def test_a_broken_file_or_one_of_another_key_is_ignored(tmp_path):
    store = Store(tmp_path)
    store.write(key(), {"value": 1})
    for text in ("{", "[]", "{}", "null", '"text"', "[" * 100_000, json.dumps({"key": key(1)})):
        store.path(key()).write_text(text)
        assert store.read(key()) is None
        assert store.similar(key(), free="seed") == ([{"key": key(1)}] if "key" in text else [])


def test_a_record_of_another_shape_is_computed_again(tmp_path):
    store = Store(tmp_path)
    for damaged in ({}, {"value": "1"}, {"value": float("nan")}):
        store.write(key(), damaged)
        numbers = holding(store, {"value": float})
        assert numbers.read(key()) is None
        assert numbers.similar(key(), free="seed") == []
        assert numbers.remember(key(), lambda: {"value": 2.5})["value"] == 2.5
        assert [record["value"] for record in numbers.similar(key(), free="seed")] == [2.5]


def test_a_record_is_computed_once(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return {"value": len(calls)}

    for _ in range(2):
        assert Store(tmp_path).remember(key(), compute)["value"] == 1
    assert not list(tmp_path.rglob("*.lock"))
    with pytest.raises(ZeroDivisionError):
        Store(tmp_path).remember(key(1), lambda: 1 / 0)
    assert Store(tmp_path).remember(key(1), compute)["value"] == 2  # a failure leaves neither a record nor a claim


def test_a_claim_is_exclusive_and_takes_at_most_the_requested_number(tmp_path):
    store = Store(tmp_path)
    keys = [key(seed) for seed in range(4)]
    with store.claim(keys, most=2) as first:
        assert first == keys[:2]
        with Store(tmp_path).claim(keys, most=4) as second:
            assert second == keys[2:]
            with Store(tmp_path).claim(keys) as third:
                assert third == []
    with store.claim(keys, most=4) as again:
        assert again == keys


def _fill(folder, total):
    """Claim and write missing records until all are there; every computation writes a line."""
    store = Store(folder)
    keys = [key(seed) for seed in range(total)]
    while missing := [k for k in keys if store.read(k) is None]:
        with store.claim(missing) as mine:
            for k in mine:
                if store.read(k) is None:
                    with (folder / "log").open("a") as log:
                        log.write(f"{k['seed']}\n")
                    time.sleep(0.002)
                    store.write(k, {"value": k["seed"]})


def test_several_processes_share_the_work(tmp_path):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_fill, args=(tmp_path, 40)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert sorted(map(int, (tmp_path / "log").read_text().split())) == list(range(40))  # each once


def _hold(folder, ready):
    with Store(folder).claim([key()]):
        ready.set()
        time.sleep(60)


def test_a_claim_ends_with_its_process(tmp_path):
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, ready))
    holder.start()
    assert ready.wait(30)
    with Store(tmp_path).claim([key()]) as mine:
        assert mine == []
    os.kill(holder.pid, signal.SIGKILL)
    holder.join(30)
    with Store(tmp_path).claim([key()]) as mine:
        assert mine == [key()]


def test_a_folder_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file/my-graph/run: cannot be created"):
        Store(tmp_path / "file").write(key(), {})


@pytest.mark.parametrize("name", ["..", "...", "../..", "/etc", ".", "", "..-", "a/../../b"])
def test_no_name_leaves_the_store(tmp_path, name):
    path = Store(tmp_path).path({**key(), "graph": {"name": name}})
    assert path.resolve().is_relative_to(tmp_path.resolve())
    assert len(path.relative_to(tmp_path).parts) == 3
