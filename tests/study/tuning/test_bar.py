import re
import sys
from types import SimpleNamespace

import pytest

import epagcl
from epagcl.core.errors import InputError
from epagcl.core.progress import SilentProgress
from epagcl.data import block_model
from epagcl.study.tuning.bar import SearchBar

SMALL = {"epochs": 2, "hidden": 8, "dim": 8, "projection": 8, "device": "cpu", "ratios": (0.4, 0.5), "seeds": 1}


def search(**options):
    graph = block_model(120, num_classes=2, num_features=10, topic_words=5, words_per_node=3)
    return epagcl.tune(graph, "grace", trials=2, space={"lr": "1e-3:1e-1:log"}, test=False, **SMALL, **options)


def test_words_before_and_after_the_first_trial():
    bar = SearchBar("GRACE")
    bar.plan([1.0] * 4)
    assert bar.words() == "GRACE: 0 of 4 trials"
    bar.finish([1.0], 100.0)
    bar.note = "best 81.23"
    assert bar.words("epoch 3 of 9") == "GRACE: 1 of 4 trials, best 81.23, about 5 min left, epoch 3 of 9"


def test_a_search_shows_its_trials_on_demand(capsys):
    pytest.importorskip("optuna")
    quiet = search()
    assert capsys.readouterr().err == ""
    shown = search(progress=True)
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"GRACE: 2 of 2 trials, best \d+\.\d\d", last)
    assert [trial["settings"] for trial in shown.trials] == [trial["settings"] for trial in quiet.trials]


def test_a_notebook_has_one_output_that_is_updated(monkeypatch):
    outputs = []
    handle = SimpleNamespace(update=outputs.append)
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=None))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    shown = SimpleNamespace(display=lambda output, display_id: outputs.append(output) or handle)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    bar = SearchBar("GRACE")
    bar.plan([1.0, 1.0])
    with bar.training("GRACE on demo", 7) as callback:
        callback({"epoch": 1, "loss": 0.5})  # too soon after the counts
    bar.finish([1.0], 1.0)
    bar.close()
    assert [repr(output) for output in outputs] == ["GRACE: 0 of 2 trials", "GRACE: 1 of 2 trials, about 1 s left"]
    assert '<progress value="1" max="2"' in outputs[-1]._repr_html_()


def test_one_receiver_of_the_progress():
    pytest.importorskip("optuna")
    with pytest.raises(InputError, match=r"^progress=True: work= receives the progress; give one of the two$"):
        search(work=SilentProgress(), progress=True)
