"""Methods tuned with one budget, on test nodes that no search has seen."""

import pytest
import torch

import epagcl
from epagcl.core.errors import TrainingError
from epagcl.methods import method
from epagcl.methods.recipes import recipe
from epagcl.paper.tuned import artefact as tuned
from epagcl.paper.tuned import budget as tuned_budget
from epagcl.paper.tuned import tables as tuned_tables
from epagcl.paper.tuned.artefact import ARTEFACT
from epagcl.paper.tuned.budget import budget
from epagcl.study.tuning.criterion import STRICT_RATIOS, splits_with_one_test


@pytest.fixture
def small(monkeypatch):
    """A budget of two trials and two final seeds on two outer test sets."""
    for module in (tuned, tuned_tables, tuned_budget):
        for name, value in {"TRIALS": 2, "SEEDS": 2, "EPOCHS": 4, "WIDTH": 8}.items():
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(tuned, "outer_sets", lambda graph: range(2))


@pytest.mark.slow
def test_searches_are_journaled_and_final_models_scored_on_outer_test_sets(small, request_of, tmp_path):
    pytest.importorskip("optuna")
    request = request_of(methods=("grace",), protocols=("strict",))
    made = ARTEFACT.make(request, "epagcl paper tuned")
    cells = {cell["row"]: cell for cell in made["cells"]}
    assert list(cells) == ["raw features", "propagated", "GRACE"]
    assert cells["GRACE"]["protocols"]["strict"]["seeds"] == [0, 1, 2, 3]
    assert [search["outer"] for search in cells["GRACE"]["searches"]] == [0, 1]
    assert {len(search["trials"]) for search in cells["GRACE"]["searches"]} == {2}
    assert {search["processes"] for search in cells["GRACE"]["searches"]} == {1}
    journals = sorted(path.parent.name for path in (request.store.folder / "tuning" / "demo").rglob("study.journal"))
    assert [name.rsplit("--", 1)[0] for name in journals] == ["tuned-grace--0", "tuned-grace--1"]
    data = epagcl.load("demo")
    splits = splits_with_one_test(data, "strict", STRICT_RATIOS, 1, 2)
    raw = epagcl.linear_evaluation([data.x, data.x], data.y, splits=splits).runs
    assert cells["raw features"]["protocols"]["strict"]["accuracy"]["runs"][2:] == pytest.approx(raw)
    assert ARTEFACT.make(request_of(methods=("grace",), protocols=("strict",), train=False, store=request.store), "")
    assert {"tuned.csv", "tuned.png", "tuned-runs.csv"} <= {path.name for path in ARTEFACT.write(made, tmp_path / "o")}


def test_other_settings_are_other_searches(small, request_of):
    data = epagcl.load("demo")
    plain, wide = request_of(), request_of(settings={"device": "cpu", "hidden": 99})
    keys = [tuned._key(request, "demo", data, "grace", 0) for request in (plain, wide)]
    assert keys[0] != keys[1]
    assert keys[1]["fixed"]["hidden"] == 99
    assert "device" not in keys[0]["fixed"]
    assert len({tuned._journal_folder(plain.store, key) for key in keys}) == 2
    assert tuned._key(plain, "Cora", data, "grace", 0)["start"]["lr"] == recipe("Cora", "grace")["lr"]


def test_a_method_that_fails_is_left_out(small, request_of, monkeypatch, caplog):
    def fail(*_, **__):
        raise TrainingError("collapsed")

    monkeypatch.setattr(tuned, "tune", fail)
    made = ARTEFACT.make(request_of(methods=("grace",), protocols=("strict",)), "epagcl paper tuned")
    assert [cell["row"] for cell in made["cells"]] == ["raw features", "propagated"]
    assert "grace on demo, outer split 0: left out (collapsed)" in caplog.messages


def test_damaged_records_are_computed_again(small, request_of, monkeypatch):
    def observe(request, name, data, row, outer):
        record = {"accuracy": [0.5, 0.6], "hardware": {"device": "cpu"}, "commit": None}
        return record if row != "grace" else {**record, "untrained": [0.4, 0.4], **found}

    found = {"settings": {"epochs": 3}, "trials": [{"validation": 0.5, "settings": {}}]}
    monkeypatch.setattr(tuned, "observe", observe)
    request = request_of(methods=("grace",), protocols=("strict",))
    whole = tuned.measure(request)
    reference, *_, search = (tuned.job_of(request, one) for one in tuned.searches(request))
    record = request.store.read(search.key)
    for damaged in ({"accuracy": [float("nan")]}, {"trials": []}, {"settings": {}}, {"untrained": None}):
        request.store.write(search.key, {**record, **damaged})
        request.store.write(reference.key, {})
        assert [job.record(request.store) for job in (reference, search)] == [None, None]
        assert tuned.measure(request) == whole


def test_a_search_that_was_killed_at_once_is_started_and_a_damaged_one_left_out(small, request_of, caplog):
    pytest.importorskip("optuna")
    request = request_of(methods=("grace",), protocols=("strict",))
    folders = []
    for outer in range(2):
        key = tuned._key(request, "demo", request.graphs["demo"], "grace", outer)
        folders.append(tuned._journal_folder(request.store, key))
        folders[outer].mkdir(parents=True)
    (folders[0] / "study.journal").write_text("garbage\n")
    (folders[1] / "0123456789ab.lock").touch()
    made = tuned.collected_cells(
        request,
        {
            search: request.records_of([tuned.job_of(request, search)], tuned.LEFT_OUT)[0]
            for search in tuned.searches(request)
            if search.row == "grace"
        },
    )
    assert [[search["outer"] for search in cell["searches"]] for cell in made] == [[1]]
    (left_out,) = [message for message in caplog.messages if "left out" in message]
    assert left_out.startswith("grace on demo, outer split 0: left out (")
    assert f"{folders[0]}/study.journal: is damaged; delete it to start over" in left_out.replace("\\", "/")


@pytest.mark.parametrize("name", tuned_tables.METHODS)
def test_every_embedding_has_the_same_width(name):
    data = epagcl.data.block_model(40, num_classes=2, num_features=12, topic_words=5, words_per_node=4)
    settings = {**budget(name), "epochs": 0, "device": "cpu"}
    assert method(name)(**settings).fit_embed(data).shape[1] == tuned_tables.WIDTH


def test_outer_test_sets_are_disjoint_from_all_nodes_of_their_searches():
    y = torch.arange(60) % 3
    data = epagcl.data.block_model(60, num_classes=3, num_features=9, topic_words=3, words_per_node=2)
    data.y = y
    splits = splits_with_one_test(data, "strict", STRICT_RATIOS, 0, 5)
    test = set(splits[0].test.tolist())
    for split in splits:
        assert set(split.test.tolist()) == test
        assert not test & {*split.train.tolist(), *split.val.tolist()}
