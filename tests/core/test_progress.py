from contextlib import contextmanager

from epagcl.core.progress import CountedProgress, InnerProgress, Progress, SilentProgress


def test_silent_progress_accepts_every_report_and_prints_nothing(capsys):
    work: Progress = SilentProgress()
    work.plan([1.0, 2.0])
    work.drop([1.0])
    work.finish([2.0], seconds=0.5)
    work.say("loading")
    with work.training("EPAGCL on Cora", epochs=3) as callback:
        assert callback is None
    assert capsys.readouterr() == ("", "")


def test_the_note_and_the_deadline_belong_to_one_instance():
    work = SilentProgress()
    assert (work.note, work.deadline) == ("", None)
    work.note, work.deadline = "best 84.6", 12.5
    assert (SilentProgress().note, SilentProgress().deadline) == ("", None)


def test_inner_runs_do_not_count_and_their_trainings_are_shown():
    class Shown(CountedProgress):
        def __init__(self):
            super().__init__()
            self.shown = []

        def say(self, words):
            self.shown.append(words)

        @contextmanager
        def training(self, title, epochs):
            self.shown.append((title, epochs))
            yield print

    outer = Shown()
    outer.plan([8.0, 8.0])
    inner: Progress = InnerProgress(outer)
    inner.plan([1.0, 1.0])
    inner.drop([1.0])
    inner.finish([1.0], seconds=30.0)
    inner.say("loading")
    inner.note, inner.deadline = "best 84.6", 12.5
    with inner.training("EPAGCL on Cora", epochs=3) as callback:
        assert callback is print
    assert outer.shown == ["loading", ("EPAGCL on Cora", 3)]
    assert (outer.runs, outer.done, outer.time_left(), outer.deadline) == (2, 0, "", None)
    outer.finish([8.0], seconds=60.0)
    assert outer.time_left() == "about 60 s left"
