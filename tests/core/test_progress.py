from epagcl.core.progress import Progress, SilentProgress


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
