"""The searches of the committed results have their journals, and new journals join the archives."""

import json
from pathlib import Path

import pytest

from epagcl.paper.tuned.budget import FEWEST_OUTER, METHODS
from epagcl.paper.tuned.journals import FILES, pack_journals, read_archive, searches_of, trials_in
from epagcl.study.store import Store
from tests.paper.conftest import cell, result

RESULTS = Path(__file__).parents[3] / "results"


@pytest.fixture(scope="module")
def tuned():
    return json.loads((RESULTS / "paper" / "tuned.json").read_text(encoding="utf-8"))


def test_every_graph_of_the_results_has_an_archive(tuned):
    graphs = {graph for graph, *_ in searches_of(tuned)}
    assert {path.name for path in (RESULTS / "tuning").iterdir()} == {f"{graph}.tar.xz" for graph in graphs}


@pytest.mark.parametrize("path", sorted((RESULTS / "tuning").iterdir()), ids=lambda path: path.name)
def test_every_search_of_the_results_has_its_journal(tuned, path):
    graph, files = path.name.removesuffix(".tar.xz"), read_archive(path)
    wanted = {(name, outer): trials for own, name, outer, trials in searches_of(tuned) if own == graph}
    if graph in tuned["asked"]["datasets"]:
        assert {(name, outer) for name in METHODS for outer in range(FEWEST_OUTER)} <= set(wanted)
    assert set(files) == {f"{graph}/{name}--{outer}/{file}" for name, outer in wanted for file in FILES}
    for (name, outer), trials in wanted.items():
        assert trials_in(files[f"{graph}/{name}--{outer}/trials.csv"]) == trials
        told = [json.loads(line) for line in files[f"{graph}/{name}--{outer}/study.journal"].splitlines()]
        values = [entry["values"][0] for entry in told if entry.get("state") == 1 and entry.get("values")]
        assert sorted(values) == sorted(trial.validation for trial in trials if trial.state == "complete")


def made(*validations):
    """Return a result with one search of GRACE on the outer test set 0, and one on 1 if there are two lists."""
    searches = [
        {
            "outer": outer,
            "trials": [{"state": "complete", "validation": value, "epochs": 30, "seconds": 1.0} for value in values],
        }
        for outer, values in enumerate(validations)
    ]
    return result([cell("GRACE", "Cora", [80.0], searches=searches)])


def search(store, outer, validations, digest="0a0b0c0d", files=FILES, method="grace"):
    """Write the files of a search to a store."""
    folder = store.folder / "tuning" / "Cora" / f"tuned-grace--{outer}--{digest}"
    folder.mkdir(parents=True)
    lines = ["trial,state,validation,epochs", *(f"{k},complete,{v},30" for k, v in enumerate(validations))]
    texts = {"trials.csv": "\n".join(lines) + "\n", "best.toml": f'[method]\nname = "{method}"\n'}
    for name in files:
        (folder / name).write_text(texts.get(name, f"{name} of {outer}"))


def test_new_journals_join_those_of_earlier_sittings(tmp_path):
    first, second, out = Store(tmp_path / "first"), Store(tmp_path / "second"), tmp_path / "tuning"
    search(first, 0, [0.5, 0.6])
    search(first, 0, [0.5, 0.7], digest="11111111")  # other trials: of other code
    search(first, 0, [0.5, 0.6], digest="ffffffff", method="gca")
    assert pack_journals(made([0.5, 0.6]), first, out) == [out / "Cora.tar.xz"]
    assert pack_journals(made([0.5, 0.6]), first, out) == []
    search(second, 1, [0.1])
    assert pack_journals(made([0.5, 0.6], [0.1]), second, out) == [out / "Cora.tar.xz"]
    files = read_archive(out / "Cora.tar.xz")
    assert set(files) == {f"Cora/grace--{outer}/{name}" for outer in (0, 1) for name in FILES}
    assert trials_in(files["Cora/grace--0/trials.csv"])[1].validation == 0.6
    assert b"grace" in files["Cora/grace--0/best.toml"]
    assert files["Cora/grace--1/study.journal"] == b"study.journal of 1"


def test_journals_of_other_trials_are_removed_and_missed(tmp_path, caplog):
    store, out = Store(tmp_path / "store"), tmp_path / "tuning"
    search(store, 0, [0.5])
    search(store, 1, [0.6])
    pack_journals(made([0.5], [0.6]), store, out)
    assert caplog.messages == []
    pack_journals(made([0.5], [0.7]), store, out)
    assert caplog.messages == ["Cora/grace--1: no journal with the trials of the result"]
    assert set(read_archive(out / "Cora.tar.xz")) == {f"Cora/grace--0/{name}" for name in FILES}


def test_damaged_files_are_said_and_left_alone(tmp_path, caplog):
    store, out = Store(tmp_path / "store"), tmp_path / "tuning"
    search(store, 0, [0.5])
    search(store, 0, [0.5], digest="22222222")
    (store.folder / "tuning" / "Cora" / "tuned-grace--0--0a0b0c0d" / "best.toml").write_text("[method")
    assert pack_journals(made([0.5]), store, out) == [out / "Cora.tar.xz"]  # of the other search
    assert "best.toml: cannot be read" in caplog.text
    whole = (out / "Cora.tar.xz").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"no archive"):
        (out / "Cora.tar.xz").write_bytes(content)
        caplog.clear()
        assert pack_journals(made([0.5]), store, out) == []
        assert "Cora.tar.xz: cannot be read" in caplog.text
        assert (out / "Cora.tar.xz").read_bytes() == content


def test_unfinished_searches_are_not_packed(tmp_path):
    store = Store(tmp_path / "store")
    search(store, 0, [0.5], files=("study.journal", "trials.csv"))
    assert pack_journals(made([0.5]), store, tmp_path / "tuning") == []
    assert not (tmp_path / "tuning").exists()


def test_equal_journals_give_equal_archives(tmp_path):
    for name in ("a", "b"):
        store = Store(tmp_path / name)
        search(store, 0, [0.5])
        pack_journals(made([0.5]), store, tmp_path / f"{name}-out")
    assert (tmp_path / "a-out/Cora.tar.xz").read_bytes() == (tmp_path / "b-out/Cora.tar.xz").read_bytes()


def test_pruned_trials_have_neither_accuracy_nor_epochs():
    (trial,) = trials_in(b"trial,state,validation,epochs\n0,pruned,,\n")
    assert trial == ("pruned", None, None)
