import io
import sys
from types import SimpleNamespace

import pytest

import epagcl
from epagcl.data import block_model
from epagcl.training import bar
from epagcl.training.bar import ProgressBar, shown_progress


def row(epoch, seconds=1.0):
    return {"epoch": epoch, "loss": 2.5, "seconds": seconds}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_words():
    progress = ProgressBar("EPAGCL", 200)
    assert progress.words(row(100, 300.0)) == "EPAGCL: epoch 100 of 200, loss 2.5000, 5 min left"
    assert progress.words(row(200, 10.0)) == "EPAGCL: epoch 200 of 200, loss 2.5000, 10 s"


def test_a_terminal_has_one_line(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    seen = []
    with shown_progress(True, seen.append, "EPAGCL", 3) as callback:
        for epoch in (1, 2, 3):
            callback(row(epoch))
    text = sys.stderr.getvalue()
    assert text.count("\n") == 1
    assert text.startswith("\rEPAGCL: epoch 1 of 3")
    assert "\rEPAGCL: epoch 3 of 3, loss 2.5000, 1 s" in text
    assert "epoch 2" not in text  # it came too soon
    assert [each["epoch"] for each in seen] == [1, 2, 3]


def test_elsewhere_there_are_lines_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(bar, "LINE_SECONDS", 0.0)
    with shown_progress(True, None, "EPAGCL", 2) as callback:
        callback(row(1))
    assert capsys.readouterr().err.count("epoch 1 of 2") == 2
    with shown_progress(True, None, "EPAGCL", 2):
        pass  # nothing was trained
    assert capsys.readouterr().err == ""


def test_a_notebook_has_one_output_that_is_updated(monkeypatch):
    outputs = []
    handle = SimpleNamespace(update=outputs.append)

    def display(output, display_id):
        assert display_id
        outputs.append(output)
        return handle

    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=None))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    with shown_progress(True, None, "<b>", 4) as callback:
        callback(row(1))
        callback(row(2))
    assert [repr(output)[:18] for output in outputs] == ["<b>: epoch 1 of 4,", "<b>: epoch 2 of 4,"]
    page = outputs[-1]._repr_html_()
    assert '<progress value="2" max="4" aria-label="&lt;b&gt;: epoch 2' in page


@pytest.mark.parametrize("ipython", [None, SimpleNamespace(get_ipython=lambda: None)])
def test_other_programs_are_no_notebooks(monkeypatch, ipython):
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert not bar._in_notebook()


def test_fit_shows_it_on_demand(capsys):
    data = block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
    model = epagcl.EPAGCL(epochs=2, hidden=8, dim=4, projection=4, device="cpu")
    model.fit(data)
    assert capsys.readouterr().err == ""
    model.fit(data, progress=True)
    assert "EPAGCL: epoch 2 of 2, loss" in capsys.readouterr().err
