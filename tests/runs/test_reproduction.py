"""Repeated runs: equal bits, and what is said if a result, the graph or the machine is another."""

import json
import math
import re

import numpy as np
import pytest
import torch

import epagcl
from epagcl import EPAGCL
from epagcl.core.errors import InputError
from epagcl.data import block_model
from epagcl.report.files import runs_in
from epagcl.runs import Plan, compare_runs, run, run_seeds
from epagcl.runs.record import provenance
from epagcl.runs.reproduction import (
    BOUNDS,
    VERDICTS,
    Difference,
    Reproduction,
    _array_difference,
    reasons_for,
    with_signs_of,
)

SMALL = {"epochs": 2, "hidden": 8, "dim": 4, "projection": 4, "device": "cpu"}


@pytest.fixture(scope="module")
def data():
    return block_model(60, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=3)


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """Return the folder of a run that is not changed."""
    folder = tmp_path_factory.mktemp("runs") / "one"
    run(data, EPAGCL(**SMALL), folder, plan=Plan(runs=1), map_kind="none")
    return folder


def damaged_copy(folder, target, change):
    """Copy a run, with ``change`` made to one of its files: a pair of the name and a function of its text."""
    target.mkdir()
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    name, function = change
    (target / name).write_text(function((target / name).read_text()))
    return target


def test_a_repeated_run_is_bit_equal_and_the_folder_unchanged(finished, data, tmp_path):
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    [result] = epagcl.reproduce(finished, data, out=tmp_path / "again")
    assert (result.verdict, result.reasons, result.folder) == ("bit-equal", [], finished)
    assert [row.what for row in result.differences] == ["embeddings", "losses", "scores"]
    assert {path.name: path.read_bytes() for path in finished.iterdir()} == before
    assert (tmp_path / "again" / "one" / "embeddings.npy").read_bytes() == before["embeddings.npy"]
    with pytest.raises(InputError, match=r"again/one: already exists; give another out="):
        epagcl.reproduce(finished, data, out=tmp_path / "again")


def test_the_number_of_threads_is_that_of_the_run(finished, data, tmp_path):
    def threads(text):
        metrics = json.loads(text)
        metrics["hardware"]["threads"] = 3
        return json.dumps(metrics)

    here = torch.get_num_threads()
    folder = damaged_copy(finished, tmp_path / "one", ("metrics.json", threads))
    [result] = epagcl.reproduce(folder, data)
    assert result.reasons == []  # it ran with three threads
    assert torch.get_num_threads() == here


@pytest.mark.slow
def test_several_seeds_are_compared_one_by_one(data, tmp_path):
    run_seeds(data, [EPAGCL(**SMALL, seed=seed) for seed in (0, 1)], tmp_path / "two", plan=None, map_kind="none")
    said = []
    results = epagcl.reproduce(tmp_path / "two", data, say=said.append)
    assert said == [str(folder) for folder in runs_in(tmp_path / "two")]
    assert [result.verdict for result in results] == ["bit-equal"] * 2
    assert [row.what for row in results[0].differences] == ["embeddings", "losses"]  # not evaluated


def test_another_graph_is_refused(finished, data):
    other = data.clone()
    other.y = other.y.flip(0)
    with pytest.raises(InputError, match=r"one: its graph has changed \(edges, features, labels"):
        epagcl.reproduce(finished, other)
    with pytest.raises(InputError, match=r"one: its graph was made in Python; give it as data="):
        epagcl.reproduce(finished)


def test_a_folder_without_a_finished_run_is_refused(finished, data, tmp_path):
    with pytest.raises(InputError, match="no finished run; give the folder of a finished run"):
        epagcl.reproduce(tmp_path, data)
    folder = damaged_copy(finished, tmp_path / "one", ("metrics.json", lambda text: "{}"))
    with pytest.raises(InputError, match=r"one: damaged \('versions' is missing\)"):
        epagcl.reproduce(folder, data)


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, "bit-equal"), (1 + BOUNDS["embeddings"] / 2, "within bounds"), (2.0, "different")]
)
def test_the_verdict_follows_the_largest_difference(finished, tmp_path, factor, verdict):
    other = damaged_copy(finished, tmp_path / "one", ("history.csv", str))
    z = np.load(other / "embeddings.npy")
    place = np.unravel_index(np.abs(z).argmax(), z.shape)
    z[place] *= np.float32(factor)
    np.save(other / "embeddings.npy", z)
    rows = compare_runs(finished, other)
    assert rows[0].verdict == verdict
    assert rows[0].largest == pytest.approx(factor - 1, rel=1e-4)
    assert rows[0].where == ("" if factor == 1 else f"row {place[0]} (counted from 0)")
    assert Reproduction(finished, rows).verdict == verdict


def test_a_zero_of_the_other_sign_is_not_bit_equal(finished, tmp_path):
    one, two = (damaged_copy(finished, tmp_path / name, ("history.csv", str)) for name in "ab")
    np.save(one / "embeddings.npy", np.zeros((2, 2), np.float32))
    np.save(two / "embeddings.npy", -np.zeros((2, 2), np.float32))
    assert compare_runs(one, two)[0].verdict == "within bounds"
    np.save(two / "embeddings.npy", np.zeros((2, 3), np.float32))
    assert compare_runs(one, two)[0] == Difference(
        "embeddings", math.inf, BOUNDS["embeddings"], "(2, 2) of float32, now (2, 3) of float32"
    )


def test_losses_and_scores_are_compared(finished, tmp_path):
    def one_epoch_less(text):
        return "\n".join(text.splitlines()[:-1]) + "\n"

    def other_mean(text):
        metrics = json.loads(text)
        metrics["evaluation"]["accuracy"]["mean"] += 0.01
        return json.dumps(metrics)

    shorter = damaged_copy(finished, tmp_path / "a", ("history.csv", one_epoch_less))
    row = compare_runs(finished, shorter)[1]
    assert (row.what, row.largest, row.where) == ("losses", math.inf, "2 epochs, now 1")
    better = damaged_copy(finished, tmp_path / "b", ("metrics.json", other_mean))
    row = compare_runs(finished, better)[2]
    assert (row.what, row.verdict, row.where) == ("scores", "within bounds", "evaluation.accuracy.mean")
    assert row.largest == pytest.approx(0.01)
    without = damaged_copy(
        finished,
        tmp_path / "c",
        ("metrics.json", lambda text: json.dumps({k: v for k, v in json.loads(text).items() if k != "evaluation"})),
    )
    assert compare_runs(finished, without)[2].largest == math.inf


def test_the_worst_difference_decides():
    rows = [Difference("embeddings", 0.0, 1.0), Difference("losses", 2.0, 1.0), Difference("scores", 0.5, 1.0)]
    assert [row.verdict for row in rows] == ["bit-equal", "different", "within bounds"]
    assert Reproduction("x", rows).to_dict()["verdict"] == VERDICTS[-1]
    assert Reproduction("x", []).verdict == "bit-equal"


def test_reasons_name_versions_threads_and_device():
    record = provenance("cpu")
    assert reasons_for(record, record) == []
    other = {
        **record,
        "hardware": {**record["hardware"], "device": "NVIDIA H200", "threads": 99},
        "versions": {**record["versions"], "torch": "2.6.0"},
        "commit": "0123",
    }
    words = reasons_for(other, record)
    assert words[:2] == [f"torch 2.6.0, now {torch.__version__}", "device NVIDIA H200, now cpu"]
    assert words[2].startswith("threads 99, now ")
    assert words[3].startswith("commit 0123, now ")
    assert reasons_for(record, other)[-1] == "a GPU without --deterministic"
    assert "a GPU" not in str(reasons_for(other, {**other, "hardware": {**other["hardware"], "deterministic": True}}))


def test_another_number_of_ranks_is_a_reason(finished, data, tmp_path):
    def ranks(text):
        metrics = json.loads(text)
        metrics["training"]["ranks"] = 4
        return json.dumps(metrics)

    folder = damaged_copy(finished, tmp_path / "four", ("metrics.json", ranks))
    [result] = epagcl.reproduce(folder, data)
    assert result.reasons == ["ranks 4, now 1"]
    older = provenance("cpu")  # without the number, as in earlier versions
    assert reasons_for(older, older) == []


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("runs = 1\n", "runs = 1\nrounds = 3\n", "unexpected keyword argument 'rounds'"),
        ("dim = 4", "dmi = 4", "unexpected keyword argument 'dmi'"),
        ('name = "epagcl"', 'name = "epagl"', "no method 'epagl'"),
    ],
    ids=["evaluation", "setting", "method"],
)
def test_a_damaged_configuration_is_refused_in_one_line(finished, data, tmp_path, old, new, reason):
    folder = damaged_copy(finished, tmp_path / "one", ("config.toml", lambda text: text.replace(old, new, 1)))
    assert new in (folder / "config.toml").read_text()
    with pytest.raises(InputError, match=reason) as caught:
        epagcl.reproduce(folder, data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("threads", ["-5", "0", "1000000000000", "1.5", '"many"', "null"])
def test_an_impossible_number_of_threads_is_refused_in_one_line(finished, data, tmp_path, threads):
    change = ("metrics.json", lambda text: re.sub(r'"threads": \d+', f'"threads": {threads}', text))
    folder = damaged_copy(finished, tmp_path / "one", change)
    with pytest.raises(InputError, match=r"metrics\.json: threads=") as caught:
        epagcl.reproduce(folder, data)
    assert "\n" not in str(caught.value)


def test_ids_in_another_order_are_refused(finished, data, tmp_path):
    change = ("embeddings.ids.txt", lambda text: "".join(reversed(text.splitlines(keepends=True))))
    folder = damaged_copy(finished, tmp_path / "one", change)
    with pytest.raises(InputError, match=r"embeddings\.ids\.txt does not have the ids of the graph; was it edited\?"):
        epagcl.reproduce(folder, data)


def test_the_sign_of_a_column_does_not_count():
    z = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    flipped = z * np.array([1, -1, 1], np.float32)
    assert np.array_equal(with_signs_of(z, flipped), z)
    largest, bound, _ = _array_difference(z, flipped)
    assert 0 < largest < 1e-30 < bound  # not bit-equal, and within bounds
    flipped[4, 1] += 1
    assert _array_difference(z, flipped)[2].startswith("row 4")
