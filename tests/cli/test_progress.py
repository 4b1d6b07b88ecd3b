import logging
import re

import pytest

import epagcl
from epagcl.cli import progress
from epagcl.cli.progress import StudyProgress, TrainingProgress, console_for
from epagcl.data import block_model
from epagcl.study.comparison import fill
from epagcl.study.design import cells, rows
from epagcl.study.store import Store
from epagcl.study.tuning.criterion import quiet_logs
from tests.cli.conftest import FAST
from tests.study.conftest import SMALL


@pytest.mark.slow
def test_a_long_training_gets_advice_to_use_batches(run, monkeypatch, caplog):
    monkeypatch.setattr(progress, "LONG_SECONDS", 0)
    monkeypatch.setattr(progress, "SETTLED_SECONDS", 0)
    assert run("train", "demo", *FAST, "--runs", 1, "--no-references")[0] == 0
    assert any("--batch-size 512 is faster" in message for message in caplog.messages)
    caplog.clear()
    assert run("train", "demo", *FAST, "--runs", 1, "--no-references", "--batch-size", 64, "--overwrite")[0] == 0
    assert not any("--batch-size 512" in message for message in caplog.messages)


def test_the_first_epoch_does_not_count_towards_the_pace(caplog):
    caplog.set_level("INFO", "epagcl")
    with TrainingProgress(console_for(), epagcl.EPAGCL(epochs=500)) as line:
        for epoch, seconds in ((1, 30.0), (2, 30.1), (400, 36.0)):
            line({"epoch": epoch, "loss": 1.0, "seconds": seconds})
    assert caplog.messages[1:] == []  # epoch 1 was long enough to be spoken of, and to no more
    caplog.clear()
    with TrainingProgress(console_for(), epagcl.EPAGCL(epochs=500)) as line:
        for epoch, seconds in ((1, 30.0), (2, 40.0)):
            line({"epoch": epoch, "loss": 1.0, "seconds": seconds})
    assert "about 83 min; --batch-size 512 is faster (negatives inside batches only)" in caplog.messages


def test_the_advice_depends_on_what_the_method_can_save(caplog):
    caplog.set_level("INFO", "epagcl")
    for method in (epagcl.EPAGCLPlus(epochs=500), epagcl.EPAGCLPlus(epochs=500, members=1), epagcl.DGI(epochs=500)):
        with TrainingProgress(console_for(), method) as line:
            for epoch, seconds in ((1, 1.0), (2, 11.0)):
                line({"epoch": epoch, "loss": 1.0, "seconds": seconds})
    advice = "--members 1 and fewer --epochs are faster; --method propagated needs no training"
    assert [message for message in caplog.messages if "about" in message] == [f"about 83 min; {advice}"]


def test_a_method_without_training_shows_no_epochs(caplog):
    caplog.set_level("INFO", "epagcl")
    with TrainingProgress(console_for(), epagcl.Propagated()) as line:
        line.say("embedding")
    assert caplog.messages == ["computing the embedding", "embedding"]


def test_the_time_left_of_a_resumed_run_uses_the_pace_of_all_its_epochs(caplog):
    caplog.set_level("INFO", "epagcl")
    with TrainingProgress(console_for(), epagcl.EPAGCL(epochs=100)) as line:
        line({"epoch": 50, "loss": 1.0, "seconds": 300.0})  # the first that this process sees
    assert "epoch 50 of 100, loss 1.0000, 5 min left" in caplog.messages[0]


@pytest.mark.slow
def test_without_a_terminal_progress_is_a_line_of_the_log_now_and_then(run, monkeypatch, caplog):
    monkeypatch.setattr(progress, "LOG_SECONDS", 0)
    assert run("train", "demo", *FAST, "--runs", 1, "--no-references")[0] == 0
    lines = [message for message in caplog.messages if message.startswith("EPAGCL seed 0: epoch")]
    assert [re.match(r"EPAGCL seed 0: epoch (\d) of 2, loss \d\.\d+, [\d.e-]+ s left", line)[1] for line in lines] == [
        "1",
        "2",
    ]


def test_a_study_counts_runs_and_estimates_the_time_left(tmp_path):
    data = block_model(60, num_classes=3, num_features=20, topic_words=5, words_per_node=5)
    work = StudyProgress()
    all_cells = cells(data, "g", rows(["dgi"]), seeds=2, protocols=["strict"], settings=SMALL)
    fill(all_cells, Store(tmp_path), work)
    assert (work.runs, work.done, work.remaining_cost) == (8, 8, 0)
    work = StudyProgress()
    assert work.time_left() == ""
    work.plan([1.0, 1.0, 8.0])
    work.finish([1.0], 30.0)
    assert work.time_left() == "about 4 min left"
    work.drop([8.0])
    assert work.time_left() == "about 30 s left"


def test_a_study_shows_its_note_and_ends_at_the_deadline(monkeypatch):
    monkeypatch.setattr(progress.time, "monotonic", lambda: 0.0)
    work = StudyProgress()
    assert work.time_left() == ""
    work.deadline = 120.0
    assert work.time_left() == "2 min left"
    work.plan([1.0] * 11)
    work.finish([1.0], 60.0)
    work.note = "best 81.23"
    assert work.time_left() == "best 81.23, 2 min left"
    work.deadline = 6000.0
    assert work.time_left() == "best 81.23, about 10 min left"


def test_progress_is_logged_while_a_search_silences_the_library(monkeypatch, caplog):
    monkeypatch.setattr(progress, "LOG_SECONDS", 0)
    caplog.set_level("INFO", "epagcl")
    with StudyProgress(console_for(), "trials") as work, quiet_logs():
        logging.getLogger("epagcl").info("a note of the library")
        work.plan([1.0, 1.0])
        work.say("reading")
        with work.training("EPAGCL on demo, seed 0", 5) as callback:
            callback({"epoch": 3, "loss": 1.0})
    assert caplog.messages == ["reading", "0 of 2 trials, EPAGCL on demo, seed 0, epoch 3"]
