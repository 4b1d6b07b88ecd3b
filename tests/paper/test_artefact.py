import json
from dataclasses import replace
from pathlib import Path

import pytest

from epagcl.core.errors import InputError, MissingFeatures
from epagcl.core.progress import SilentProgress
from epagcl.paper.artefact import Artefact, digest, load_all, run_tables
from epagcl.paper.drawing import new_figure
from epagcl.paper.tables import Table
from epagcl.study.jobs import Job
from tests.paper.conftest import cell, result


class Recorder(SilentProgress):
    """Records what is dropped and finished."""

    def __init__(self):
        self.dropped, self.finished = [], []

    def drop(self, costs):
        self.dropped += costs

    def finish(self, costs, seconds):
        self.finished += costs


@pytest.fixture
def artefact():
    return Artefact(
        name="epr",
        title="A title",
        datasets=("demo",),
        measure=lambda request: {"value": (1, 2)},
        tables=lambda result: [Table("", "Main", ["a"], [["1"]]), Table("more", "More", ["b"], [["2"]])],
        figures=lambda result: {"": new_figure(1, 1, 1, 1)[0]},
        reading=lambda result: [],
    )


def test_make_adds_the_options_and_the_provenance(artefact, request_of):
    made = artefact.make(request_of(), "epagcl paper epr")
    assert made["value"] == [1, 2]  # as JSON has it
    assert (made["artefact"], made["command"]) == ("epr", "epagcl paper epr")
    assert made["asked"]["seeds"] == [0, 1]
    assert "device" not in made["asked"]["settings"]
    assert {"date", "commit", "hardware", "versions"} <= set(made)


def test_nothing_measured_is_an_error_so_that_no_empty_result_replaces_an_earlier_one(artefact, request_of):
    empty = {"cells": [], "graphs": {}, "absent": {"WikiCS": "data are absent"}}
    with pytest.raises(InputError, match=r"nothing was measured \(WikiCS: data are absent\); choose other graphs"):
        replace(artefact, measure=lambda _: empty).make(request_of(), "epagcl paper epr")
    with pytest.raises(InputError, match="this experiment has nothing on demo"):
        replace(artefact, measure=lambda _: {"cells": []}).make(request_of(), "epagcl paper epr")
    assert replace(artefact, measure=lambda _: empty | {"cells": [1]}).make(request_of(), "c")["cells"] == [1]


def test_write_makes_all_files(artefact, tmp_path):
    value = {"value": 1}
    files = {path.name for path in artefact.write(value, tmp_path)}
    assert files == {"epr.json", "epr.md", "epr.tex", "epr.csv", "epr-more.csv", "epr.svg", "epr.png"}
    assert json.loads((tmp_path / "epr.json").read_text()) == value
    assert f"source {digest(value)}" in (tmp_path / "epr.svg").read_text()


def test_digest_depends_on_values_and_not_on_their_order():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    assert len(digest({})) == 16


def test_single_runs_are_one_line_each():
    (table,) = run_tables(result([cell("GRACE", "Cora", [80, 81.5])]))
    assert table.rows == [
        ["GRACE", "Cora", "strict", "0", "0.800000"],
        ["GRACE", "Cora", "strict", "1", "0.815000"],
    ]
    assert run_tables({"graphs": {}}) == []


def test_stored_records_are_used_and_missing_ones_computed_only_with_training(request_of):
    job = Job("a test", {"what": "test", "graph": {"name": "demo"}}, lambda: {"value": 1}, 3.0)
    refused = replace(job, compute=lambda: pytest.fail("computed"))
    assert request_of(train=False).records_of([refused]) == [None]
    work = Recorder()
    (record,) = request_of(work=work).records_of([job])
    assert (record["value"], work.finished) == (1, [3.0])
    for train in (True, False):
        assert request_of(train=train, work=work).records_of([refused]) == [record]
    assert work.finished == [3.0]


def test_nothing_stored_is_an_error_only_without_training(request_of):
    request_of().require([])
    request_of(train=False).require([1])
    with pytest.raises(InputError, match="no stored results for this request; compute them first"):
        request_of(train=False).require([])


def test_graphs_that_cannot_be_loaded_are_absent_and_unknown_names_are_errors(tmp_path, monkeypatch, request_of):
    def fail(name, root, features):
        raise MissingFeatures("none") if name == "ogbn-arxiv" else InputError("no such file")

    monkeypatch.setattr("epagcl.paper.artefact.load", fail)
    reasons = {"Cora": "data are absent", "ogbn-arxiv": "features are absent"}
    assert load_all(("cora", "ogbn-arxiv"), Path("nowhere")) == reasons
    request = request_of(datasets=("cora", "ogbn-arxiv"))
    assert request.absent == reasons
    assert request.graphs == {}
    with pytest.raises(InputError):
        load_all(("no such graph",), None)
