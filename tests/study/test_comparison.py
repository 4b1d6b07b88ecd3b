import json
import multiprocessing

import pytest
import torch

from epagcl.core.errors import TrainingError
from epagcl.evaluation.linear import linear_evaluation
from epagcl.study import scoring
from epagcl.study.comparison import collect, fill
from epagcl.study.design import Row, cells, rows
from epagcl.study.store import Store
from tests.study.conftest import SMALL, compare, row


@pytest.mark.slow
def test_each_run_is_computed_once(tmp_path, data, monkeypatch):
    trained = []
    fit = scoring._fit
    monkeypatch.setattr(
        scoring, "_fit", lambda model, *rest, **options: trained.append(model.seed) or fit(model, *rest, **options)
    )
    first = compare(data, "g", row("dgi"), tmp_path, seeds=2, protocols=["strict"], settings=SMALL)
    assert trained == [0, 1]
    assert compare(data, "g", row("dgi"), tmp_path, seeds=2, protocols=["strict"], settings=SMALL) == first
    assert trained == [0, 1]
    more = compare(data, "g", row("dgi"), tmp_path, seeds=3, protocols=["strict"], settings=SMALL)
    assert trained == [0, 1, 2]  # the seed that is new
    assert more["protocols"]["strict"]["accuracy"]["runs"][:2] == first["protocols"]["strict"]["accuracy"]["runs"]
    for change in ({"settings": {**SMALL, "epochs": 3}}, {"protocols": ["strict", "public"]}):
        trained.clear()
        compare(data, "g", row("dgi"), tmp_path, **{"seeds": 1, "protocols": ["strict"], "settings": SMALL, **change})
        assert trained == [0]


def test_rows_of_the_same_settings_share_their_runs(tmp_path, data, monkeypatch):
    compare(data, "g", row("epagcl*"), tmp_path, seeds=1, protocols=["strict"], settings=SMALL)
    monkeypatch.setattr(scoring, "provenance", lambda *_: pytest.fail("trained again"))
    same = Row("EPAGCL without masks", "epagcl", {"p_mask_1": 0.0, "p_mask_2": 0.0})
    result = compare(data, "g", same, tmp_path, seeds=1, protocols=["strict"], settings=SMALL)
    assert result["row"] == "EPAGCL without masks"


def test_an_interrupted_comparison_keeps_finished_runs(tmp_path, data, monkeypatch):
    store, all_cells = Store(tmp_path), cells(data, "g", rows(["dgi"]), seeds=3, protocols=["strict"], settings=SMALL)
    fit = scoring._fit

    def interrupted(model, *rest, **options):
        if model.name == "dgi" and model.seed == 2:
            raise KeyboardInterrupt
        return fit(model, *rest, **options)

    monkeypatch.setattr(scoring, "_fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fill(all_cells, store)
    assert [cell.missing(store) for cell in all_cells] == [[], [], [], [2]]
    assert collect(all_cells[-1], store)["seeds"] == [0, 1]  # results of the finished seeds
    monkeypatch.setattr(scoring, "_fit", fit)
    fill(all_cells, store)
    assert [cell.missing(store) for cell in all_cells] == [[], [], [], []]


@pytest.mark.parametrize(
    ("name", "error"),
    [("dgi", TrainingError("too bad")), ("gcn", TrainingError("too bad")), ("dgi", torch.OutOfMemoryError("too bad"))],
)
def test_a_failed_training_is_left_out(tmp_path, data, monkeypatch, caplog, name, error):
    store, all_cells = Store(tmp_path), cells(data, "g", rows([name]), seeds=3, protocols=["strict"], settings=SMALL)
    fit = scoring._fit

    def failing(model, *rest, **options):
        if model.name == name and model.seed == 1:
            raise error
        return fit(model, *rest, **options)

    monkeypatch.setattr(scoring, "_fit", failing)
    fill(all_cells, store)
    assert collect(all_cells[-1], store)["seeds"] == [0, 2]
    assert "seed 1: left out (too bad)" in caplog.text
    assert all_cells[-1].missing(store) == [1]  # another call tries again


def _fill_all(folder, graph):
    torch.set_num_threads(1)
    fill(cells(graph, "g", rows(["dgi", "grace"]), seeds=3, protocols=["strict"], settings=SMALL), Store(folder))


@pytest.mark.long
def test_processes_that_share_a_store_compute_each_run_once(tmp_path, data):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_fill_all, args=(tmp_path, data)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    all_cells = cells(data, "g", rows(["dgi", "grace"]), seeds=3, protocols=["strict"], settings=SMALL)
    assert [cell.missing(Store(tmp_path)) for cell in all_cells] == [[]] * 5
    assert len(list(tmp_path.rglob("*.json"))) == 5 * 3
    assert not list(tmp_path.rglob("*.lock"))


def test_stored_protocols_are_kept_when_another_is_added(tmp_path, data):
    for protocols in (["strict"], ["public"]):
        result = compare(data, "g", rows(["dgi"])[0], tmp_path, seeds=1, protocols=protocols)
        assert list(result["protocols"]) == protocols
    (cell,) = cells(data, "g", [rows(["dgi"])[0]], seeds=1, protocols=["strict", "public"])
    assert cell.missing(Store(tmp_path)) == []


@pytest.mark.parametrize("part", ["protocols", "hardware", "training"])
def test_a_record_without_a_part_is_computed_again(tmp_path, data, part):
    def damage(record):
        del record[part]

    _check_repair(tmp_path, data, damage)


@pytest.mark.parametrize("value", [float("nan"), None, "0.5"])
@pytest.mark.parametrize("score", ["accuracy", "macro_f1", "validation_accuracy"])
def test_a_record_with_a_score_that_is_no_number_is_computed_again(tmp_path, data, score, value):
    def damage(record):
        record["protocols"]["strict"][score] = value

    _check_repair(tmp_path, data, damage)


def _check_repair(folder, data, damage):
    """Damage one of two records, and check that it counts as missing and that the other one is kept."""
    store, (cell,) = Store(folder), cells(data, "g", rows()[:1], seeds=2, protocols=["strict"])
    fill([cell], store)
    whole, record = collect(cell, store), store.read(cell.key(1))
    damage(record)
    store.path(cell.key(1)).write_text(json.dumps(record))
    assert cell.missing(store) == [1]
    assert collect(cell, store)["seeds"] == [0]
    fill([cell], store)
    assert cell.missing(store) == []
    assert collect(cell, store)["protocols"] == whole["protocols"]


def test_results_are_plain_json(tmp_path, data):
    result = compare(data, "g", row("dgi"), tmp_path, seeds=1, protocols=["strict"], settings=SMALL)
    assert json.loads(json.dumps(result)) == result
    assert result["hardware"] == ["cpu"]
    assert result["training"]["epochs"] == [2]


def test_validation_accuracies_are_those_of_the_chosen_classifiers(tmp_path, data):
    result = compare(data, "g", rows(["dgi"])[0], tmp_path, seeds=2, protocols=["strict"])
    chosen = linear_evaluation(data.x, data.y, seed=[0, 1]).chosen
    runs = result["protocols"]["strict"]["validation"]["runs"]
    assert runs == pytest.approx([one["validation_accuracy"] for one in chosen])
