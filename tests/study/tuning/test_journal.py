import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.study.tuning import journal
from tests.study.tuning.conftest import by_lr, rows

optuna = pytest.importorskip("optuna")


def test_an_interrupted_study_continues_as_if_it_had_not_been(tune, judged, tmp_path):
    judged(by_lr)
    whole = tune(trials=14)
    calls = []

    def interrupted(model):
        calls.append(model.lr)
        if len(calls) in (1, 4, 13):
            raise KeyboardInterrupt
        return by_lr(model)

    judged(interrupted)
    folder = tmp_path / "study"
    for k in range(3):
        with pytest.raises(KeyboardInterrupt):
            tune(trials=14, folder=folder, resume=k > 0)
    result = tune(trials=14, folder=folder, resume=True)
    assert rows(result) == rows(whole)
    assert (calls[0], calls[3], calls[12]) == (calls[1], calls[4], calls[13])  # the same trials again


def test_a_folder_holds_one_study(tune, judged, tmp_path, graph):
    judged(by_lr)
    folder = tmp_path / "study"
    with pytest.raises(InputError, match="no study to resume"):
        tune(folder=folder, resume=True)
    tune(folder=folder)
    with pytest.raises(InputError, match="already exists; give another folder=, or resume=True"):
        tune(folder=folder)
    with pytest.raises(InputError, match=r"another start \(hidden=8, now hidden=9\)"):
        tune(folder=folder, resume=True, hidden=9)
    with pytest.raises(InputError, match=r"another seeds \(1, now 2\)"):
        tune(folder=folder, resume=True, seeds=2)
    with pytest.raises(InputError, match="another space"):
        tune(folder=folder, resume=True, space={"lr": (0.1, 0.2)})
    assert len(tune(folder=folder, resume=True, trials=6).trials) == 6


@pytest.mark.parametrize("journal_text", [None, b"", b'{"op_code": 0, "wor'])
@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_without_a_study_counts_as_new(tune, judged, tmp_path, journal_text, resume):
    judged(by_lr)
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "0123456789ab.lock").touch()  # of a process that was killed at once
    if journal_text is not None:
        (folder / journal.JOURNAL).write_bytes(journal_text)
    assert rows(tune(folder=folder, resume=resume)) == rows(tune())
    with pytest.raises(InputError, match="already exists; give another folder=, or resume=True"):
        tune(folder=folder)
    assert len(tune(folder=folder, resume=True, trials=5).trials) == 5


def test_a_folder_that_a_live_process_prepares_is_not_new(tune, judged, tmp_path):
    judged(by_lr)
    folder = tmp_path / "study"
    folder.mkdir()
    with journal.process_lock(folder) as name:
        with pytest.raises(InputError, match="already exists"):
            tune(folder=folder)
        assert [path.name for path in folder.iterdir()] == [f"{name}.lock"]
        assert len(tune(folder=folder, resume=True).trials) == 4  # it joins


def test_other_files_are_no_study(tune, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for resume in (False, True):
        with pytest.raises(InputError, match="holds other files and no study; give another folder="):
            tune(folder=tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("garbage", [b"garbage", b"[]", b"{}", b"null", b'{"op_code": 99}', b"\xff\xfe"])
@pytest.mark.parametrize("place", [0, 3, None])
def test_a_damaged_journal_is_named_and_can_be_deleted(tune, judged, tmp_path, garbage, place):
    judged(by_lr)
    folder = tmp_path / "study"
    tune(folder=folder)
    path = folder / journal.JOURNAL
    lines = path.read_bytes().splitlines()
    lines.insert(len(lines) if place is None else place, garbage)
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(InputError) as raised:
        tune(folder=folder, resume=True)
    assert str(raised.value) == f"{path}: is damaged; delete it to start over, or give another folder="
    path.unlink()
    assert rows(tune(folder=folder, resume=True)) == rows(tune())


def test_a_journal_with_another_identity_than_a_search_writes_is_damaged(tune, judged, tmp_path):
    judged(by_lr)
    folder = tmp_path / "study"
    tune(folder=folder)
    path = folder / journal.JOURNAL
    path.write_text(path.read_text().replace('"identity":{', '"identity":[1],"rest":{'))
    with pytest.raises(InputError, match=r"study\.journal: is damaged"):
        tune(folder=folder, resume=True)


def test_processes_share_a_study(tune, judged, tmp_path, monkeypatch, caplog):
    judged(by_lr)
    folder = tmp_path / "study"
    tune(folder=folder, trials=2)
    seen = optuna.load_study(
        study_name="epagcl",
        storage=optuna.storages.JournalStorage(
            optuna.storages.journal.JournalFileBackend(str(folder / journal.JOURNAL))
        ),
    )
    with journal.process_lock(folder) as name:
        seen.ask().set_user_attr("process", name)  # another process is running trial 2
        with caplog.at_level("INFO", logger="epagcl"):
            result = tune(folder=folder, trials=4, resume=True, test=True)
        assert [row["state"] for row in result.trials] == ["complete", "complete", "running", "complete"]
        assert result.scores is None
        assert "another process is still running a trial" in caplog.text
    again = tune(folder=folder, trials=4, resume=True)  # it has ended: its trial is run again
    assert [row["state"] for row in again.trials] == ["complete"] * 4
    assert not list(folder.glob("*.lock"))


def test_one_writer_of_the_journal_at_a_time(tmp_path, monkeypatch):
    one, two = (journal.JournalLock(tmp_path / "study.journal") for _ in range(2))
    one.acquire()
    monkeypatch.setattr(journal, "LOCK_SECONDS", 0.01)
    with pytest.raises(InputError, match="another process has locked it"):
        two.acquire()
    one.release()
    assert two.acquire()
    two.release()
    assert [path.name for path in tmp_path.iterdir()] == ["study.journal"]


@pytest.mark.parametrize("tail", [3, 1 << 16])
def test_a_line_that_was_cut_short_is_removed_before_the_next_one(tmp_path, monkeypatch, tail):
    monkeypatch.setattr(journal, "_TAIL_BYTES", tail)
    file = tmp_path / "study.journal"
    for content, kept in ((b"", b""), (b"{}\n", b"{}\n"), (b"{}\n[1]\n{half", b"{}\n[1]\n"), (b"{half", b"")):
        file.write_bytes(content)
        lock = journal.JournalLock(file)
        lock.acquire()
        lock.release()
        assert file.read_bytes() == kept


def test_optuna_is_silent_during_a_search_only(tune, judged, capfd):
    judged(by_lr)
    before = optuna.logging.get_verbosity()
    tune()
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")


def test_a_study_of_an_earlier_version_can_be_resumed(tune, judged, tmp_path):
    judged(by_lr)
    tune(folder=tmp_path / "study", trials=1)
    path = tmp_path / "study" / journal.JOURNAL
    text = path.read_text()
    assert '"feature_scaling"' in text
    path.write_text(text.replace('"feature_scaling"', '"features"'))
    assert len(tune(folder=tmp_path / "study", trials=2, resume=True).trials) == 2


def test_a_study_with_the_former_name_of_a_searched_setting_continues(tune, judged, tmp_path):
    judged(lambda model: by_lr(model) + (model.feature_scaling == "row-sum"))
    options = {"space": {"lr": (1e-3, 1e-1, "log"), "feature_scaling": ["given", "row-sum"]}, "test": True}
    folder = tmp_path / "study"
    whole = tune(trials=12, **options)
    tune(trials=6, folder=folder, **options)
    path = folder / journal.JOURNAL
    path.write_text(path.read_text().replace('"feature_scaling"', '"features"'))
    result = tune(trials=12, folder=folder, resume=True, **options)
    assert rows(result) == rows(whole)
    assert result.best == whole.best
    assert result.importance == whole.importance
    assert set(result.importance) == {"lr", "feature_scaling"}
    for which in ("default", "tuned"):
        assert result.scores[which]["settings"] == whole.scores[which]["settings"]
    assert '"feature_scaling"' in (folder / "metrics.json").read_text()
    assert '"features"' not in (folder / "metrics.json").read_text().split('"best"')[1]
    with pytest.raises(InputError, match="another space"):
        tune(trials=12, folder=folder, resume=True, space={"lr": (1e-3, 1e-1, "log")})


@pytest.mark.parametrize("trials_before", [0, 6])
def test_a_study_with_former_values_of_a_searched_setting_continues(tune, judged, tmp_path, trials_before):
    judged(lambda model: by_lr(model) + (model.drop == "eq9"))
    options = {"space": {"lr": (1e-3, 1e-1, "log"), "drop": ["text", "eq9"]}, "test": True}
    folder = tmp_path / "study"
    whole = tune(trials=8, **options)
    tune(trials=max(trials_before, 1), folder=folder, **options)
    path = folder / journal.JOURNAL
    lines = path.read_text().replace("eq9", "eq7").splitlines(keepends=True)
    if trials_before == 0:  # the study was interrupted before its first trial: keep its creation and its identity
        lines = lines[: next(k for k, line in enumerate(lines) if '"identity"' in line) + 1]
    path.write_text("".join(lines))
    result = tune(trials=8, folder=folder, resume=True, **options)
    assert rows(result) == rows(whole)
    assert result.trials[0]["settings"]["drop"] == "eq9"
    assert result.best == whole.best
    with pytest.raises(InputError, match="another space"):
        tune(trials=8, folder=folder, resume=True, space={"lr": (1e-3, 1e-1, "log"), "drop": ["text", "uniform"]})


def test_a_study_on_published_splits_is_resumed_on_the_same_splits(tune, judged, tmp_path, graph):
    judged(by_lr)
    folder = tmp_path / "study"
    for k, part in enumerate(("train", "val", "test")):
        graph[f"{part}_mask"] = torch.arange(graph.num_nodes) % 3 == k
    tune(trials=1, folder=folder, protocol="public")
    assert len(tune(trials=2, folder=folder, resume=True, protocol="public").trials) == 2
    graph.train_mask, graph.val_mask = graph.val_mask, graph.train_mask
    with pytest.raises(InputError, match="another published_splits"):
        tune(trials=3, folder=folder, resume=True, protocol="public")
    path = folder / journal.JOURNAL
    path.write_text(path.read_text().replace('"published_splits"', '"unknown"'))  # as earlier versions
    assert len(tune(trials=3, folder=folder, resume=True, protocol="public").trials) == 3
