import pytest

from epagcl.core.errors import InputError
from epagcl.methods import method
from epagcl.methods.recipes import recipe
from epagcl.paper import equal_settings
from epagcl.paper.artefact import Request
from epagcl.paper.page.verdicts import CLAIMS, Claim
from epagcl.paper.planning import plan as module
from epagcl.paper.planning.plan import MissingRuns, Plan, plan, same_settings, undecided_claims
from epagcl.paper.tuned import cells as tuned_cells
from epagcl.paper.tuned.budget import METHODS
from epagcl.runs.record import describe
from epagcl.study.design import rows
from epagcl.study.store import Store
from tests.paper.conftest import SMALL, cell, demo, result, stored


@pytest.fixture
def study(monkeypatch):
    """A study of two methods on the packaged graph, with three seeds; return its cells by row."""
    monkeypatch.setattr(module, "seeds_of", lambda graph: 3)
    request = Request(("demo",), ("grace", "gcn"), 1, ("strict",), Store("unused"), dict(SMALL))
    monkeypatch.setattr(module, "_request", lambda *_: request)
    return {one.title: one for one in request.cells(lambda *_: rows(request.methods))}


def results_of(study, seeds):
    return {"accuracy": result([stored(one, seeds) for one in study.values()], datasets=("demo",))}


def test_nothing_is_missing_when_all_seeds_are_there(study):
    assert plan(results_of(study, 3), None, parts=("accuracy",)).runs == []
    assert plan(results_of(study, 4), None, parts=("accuracy",)).seconds == 0


def test_missing_seeds_and_their_time(study):
    found = plan(results_of(study, 1), None, parts=("accuracy",))
    by_row = {runs.row: runs for runs in found.runs}
    assert set(by_row) == set(study)
    assert by_row["GRACE"].seeds == [1, 2]
    assert (by_row["GRACE"].seconds, by_row["GRACE"].basis) == (2.0, "the same cell")
    assert (by_row["raw features"].seconds, by_row["raw features"].basis) == (0.0, "no training")
    assert found.seconds == pytest.approx(8.0)
    assert found.to_dict()["runs"][0].keys() >= {"graph", "row", "seeds", "seconds", "total", "decides"}


def test_a_fresh_plan_lists_all_runs_with_the_times_of_stored_ones(study):
    found = plan(results_of(study, 3), None, parts=("accuracy",), fresh=True)
    by_row = {runs.row: runs for runs in found.runs}
    assert set(by_row) == set(study)
    assert (by_row["GRACE"].seeds, by_row["GRACE"].seconds, by_row["GRACE"].basis) == ([0, 1, 2], 2.0, "the same cell")


def test_a_fresh_plan_lists_all_searches(monkeypatch):
    request = Request(("demo",), ("grace",), 1, ("strict",), Store("unused"))
    monkeypatch.setattr(module, "_request", lambda *_: request)
    searches = [{"outer": outer, "settings": {}, "trials": [{"seconds": 2.0}] * 6} for outer in (0, 1)]
    stored_ = result([{"row": "GRACE", "graph": describe(*demo()), "searches": searches}])
    lacking, all_ = (
        {runs.row: runs for runs in plan({"tuned": stored_}, None, parts=("tuned",), fresh=fresh).runs}
        for fresh in (False, True)
    )
    assert "GRACE" not in lacking
    assert all_["GRACE"].seeds == list(range(10))
    assert all_["GRACE"].basis == "its searches here"
    assert all_["GRACE"].seconds == pytest.approx(12.0 * 11 / 6 / 5)  # six trials, then five models


def test_empty_cells_of_methods_come_first(study):
    results = {"accuracy": result([stored(study["GCN"], 1), stored(study["raw features"], 1)], datasets=("demo",))}
    first, *others = plan(results, None, parts=("accuracy",)).runs
    assert (first.row, first.decides) == ("GRACE", "the rank of GRACE")
    assert all("rank" not in runs.decides for runs in others)


def test_runs_with_other_settings_do_not_count(study):
    grace = study["GRACE"]
    assert same_settings(grace, stored(grace, 1))
    older = stored(grace, 1)
    older["settings"] = {name: value for name, value in grace.resolved.items() if name != "encoder"}
    assert same_settings(grace, older)  # the setting is newer than the run and has its default
    older["settings"] = {**grace.resolved, "lr": 9.0}
    assert not same_settings(grace, older)


def test_undecided_claims_are_named_by_their_artefact():
    cells_ = [cell("GCA", "Texas", [60, 61, 62], "paper"), cell("EPAGCL", "Texas", [59, 62, 61.5], "paper")]
    made = result(cells_, datasets=("texas",), protocols=("paper",))
    ((artefact, (claim,)),) = undecided_claims({"heterophily": made}).items()
    assert (artefact, claim.text) == ("heterophily", "EPAGCL is better than GCA on heterophilous graphs")
    assert claim.rows[:2] == ("EPAGCL", "GCA")


def test_only_the_rows_of_a_claim_decide_it(study):
    claims = [
        Claim("GRACE is good", "Table 2", "accuracy", lambda _: None, ("GRACE",)),
        Claim("all are good", "Table 2", "accuracy", lambda _: None),
    ]
    words = {title: module._decides(one, False, ["accuracy"], {"accuracy": claims}) for title, one in study.items()}
    assert words["GRACE"] == "GRACE is good; all are good"
    assert words["raw features"] == "all are good"
    assert module._decides(study["raw features"], False, ["accuracy"], {"accuracy": claims[:1]}) == "narrower intervals"


def test_each_graph_is_loaded_once_for_all_parts(study, monkeypatch):
    import epagcl

    loaded = []
    spelled = {"accuracy": "demo", "comparison": "Demo"}

    def counted(name, *_, **__):
        loaded.append(name)
        return epagcl.load(name)

    def request(part, *_):
        return Request((spelled[part],), ("grace",), 1, ("strict",), Store("unused"), dict(SMALL))

    monkeypatch.setattr("epagcl.paper.artefact.load", counted)
    monkeypatch.setattr(module, "_request", request)
    found = plan(results_of(study, 1), None, parts=("accuracy", "comparison"))
    assert found.runs
    assert loaded == ["demo"]


def test_runs_that_may_decide_a_claim_come_before_others():
    def missing(decides, total):
        return MissingRuns(("accuracy",), "Cora", "GRACE", [0], 1, total, "the same cell", decides, None)

    runs = [missing("which settings matter", 1.0), missing("a claim; another", 9.0), missing("the rank of GRACE", 99.0)]
    assert [module._urgency(one, ["another"]) for one in runs] == [2, 1, 0]


def test_the_claim_on_heterophily_is_about_all_rows_that_its_judge_compares():
    (claim,) = [claim for claim in CLAIMS if claim.artefact == "heterophily"]
    assert set(claim.rows) == {row for pair in equal_settings.PAIRS.values() for row in pair}


def test_totals():
    runs = MissingRuns(("accuracy",), "Cora", "GRACE", [0, 1], 20, None, "no stored run", "narrower intervals", None)
    assert Plan([runs], {}, {}).seconds == 0.0


def test_the_cell_of_missing_runs_has_the_missing_seeds_and_all_protocols(study, tmp_path):
    by_row = {runs.row: runs.cell for runs in plan(results_of(study, 1), None, parts=("accuracy",)).runs}
    assert by_row["GRACE"].missing(Store(tmp_path)) == [1, 2]
    assert (by_row["GRACE"].seeds, by_row["GRACE"].protocols) == (3, ["strict"])


def test_some_graphs_and_the_protocols_that_a_result_has():
    request = module._request("heterophily", None, result([], protocols=("paper",)), ["Texas"])
    assert (request.datasets, request.protocols) == (("texas",), ("paper",))
    assert module._request("heterophily", None, None, ()).protocols == ("paper", "strict", "public")
    assert module._request("comparison", None, None, ["Cora", "WikiCS"]).datasets == ("Cora",)


def test_a_graph_that_does_not_exist_is_refused():
    with pytest.raises(InputError, match="no graph is named 'coar'; did you mean Cora\\?"):
        plan({}, None, parts=("views",), graphs=["coar"])


def test_methods_without_searches_are_missing(monkeypatch):
    request = Request(("demo",), ("grace",), 1, ("strict",), Store("unused"))
    monkeypatch.setattr(module, "_request", lambda *_: request)
    (data, name) = demo()
    about = describe(data, name)
    search = {"outer": 0, "settings": {}, "trials": [{"seconds": 2.0}] * 6}
    here = {"row": "GRACE", "graph": about, "searches": [search]}
    there = {**here, "graph": {**about, "name": "other"}, "searches": [search, {**search, "outer": 1}]}
    by_row = {runs.row: runs for runs in plan({"tuned": result([here, there])}, None, parts=("tuned",)).runs}
    assert set(by_row) == {method(one).title for one in METHODS}
    assert by_row["GRACE"].seeds == [5, 6, 7, 8, 9]
    assert by_row["GRACE"].seconds == pytest.approx(12.0 * 11 / 6 / 5)  # 6 trials of 2 s, and 5 final models
    assert by_row["DGI"].seeds == list(range(10))
    assert (by_row["DGI"].seconds, by_row["DGI"].basis) == (None, "no stored run")
    assert by_row["DGI"].decides == "the rank of DGI"


def test_searches_that_began_elsewhere_are_missing(monkeypatch):
    request = Request(("demo",), ("grace",), 1, ("strict",), Store("unused"))
    monkeypatch.setattr(module, "_request", lambda *_: request)
    (data, name) = demo()
    searches = [
        {"outer": outer, "settings": {}, "trials": [{"seconds": 2.0, "settings": {"lr": lr}}]}
        for outer, lr in enumerate((recipe("demo", "grace")["lr"], 0.9))
    ]
    stored = result([{"row": "GRACE", "graph": describe(data, name), "searches": searches}])
    for fresh, seeds, decides in (
        (False, [5, 6, 7, 8, 9], "the rank of GRACE, searched from its recipe"),
        (True, list(range(10)), "the rank of GRACE"),
    ):
        by_row = {runs.row: runs for runs in plan({"tuned": stored}, None, parts=("tuned",), fresh=fresh).runs}
        assert (by_row["GRACE"].seeds, by_row["GRACE"].decides) == (seeds, decides)


def test_further_outer_test_sets_narrow_intervals(monkeypatch):
    request = Request(("demo",), ("grace",), 1, ("strict",), Store("unused"))
    monkeypatch.setattr(module, "_request", lambda *_: request)
    for place in (module, tuned_cells):
        monkeypatch.setattr(place, "outer_sets", lambda _: range(4))
    (data, name) = demo()
    searches = [{"outer": outer, "settings": {}, "trials": [{"seconds": 2.0}] * 6, "processes": 4} for outer in (0, 1)]
    result_ = result([{"row": "GRACE", "graph": describe(data, name), "searches": searches}])
    for processes, factor in ((1, 1 / 4), (8, 1)):  # four processes shared the GPU
        found = plan({"tuned": result_}, None, parts=("tuned",), processes=processes).runs
        (runs,) = (one for one in found if one.row == "GRACE")
        assert (runs.seeds, runs.wanted, runs.decides) == (list(range(10, 20)), 20, "narrower intervals")
        assert runs.seconds == pytest.approx(factor * 12.0 * 11 / 6 / 5)


def test_sweeps_need_fewer_seeds_than_tables(study, monkeypatch):
    made = result([stored(one, 1) for one in study.values()], datasets=("demo",), crossed=[])
    request = Request(("demo",), ("grace",), 1, ("strict",), Store("unused"), dict(SMALL))
    (wanted, *_) = request.cells(lambda *_: rows(["grace"])[3:])
    several = module._Wanted(wanted, ["sensitivity"], {"strict"})
    found = module._missing(several, {}, made["cells"], {}, False, 1)
    assert (found.wanted, found.decides) == (module.SWEEP_SEEDS, "which settings matter")
    shared = module._Wanted(wanted, ["sensitivity", "accuracy"], {"strict"})
    assert module._missing(shared, {}, made["cells"], {}, False, 1).wanted == 5
    monkeypatch.setattr(module, "seeds_of", lambda graph: 20)
    assert module._missing(shared, {}, made["cells"], {}, False, 1).wanted == 20
    assert module._missing(several, {}, made["cells"], {}, False, 1).wanted == 5


def test_seeds_that_the_crossed_design_lacks_are_missing():
    request = Request(("demo",), ("epagcl",), 1, ("strict",), Store("unused"), dict(SMALL))
    run = module.crossed.crossed_runs(request)[0]
    table = {"graph": run.cell.about, "row": "EPAGCL", "settings": run.cell.resolved, "seeds": [0, 1, 2]}
    (missing,) = module._uncrossed(request, result([], crossed=[table]), [], 1)
    assert missing.seeds == list(range(3, module.crossed.SEEDS))
    assert (missing.parts, missing.graph, missing.cell) == (("sensitivity",), "demo", None)
    (missing,) = module._uncrossed(request, None, [], 1)
    assert len(missing.seeds) == module.crossed.SEEDS
    other = {**table, "settings": {**table["settings"], "lr": 9.0}, "seeds": list(range(99))}
    assert len(module._uncrossed(request, result([], crossed=[other]), [], 1)) == 1
    assert module._uncrossed(request, result([], crossed=[{**table, "seeds": list(range(99))}]), [], 1) == []


def test_models_scored_during_training(monkeypatch):
    """The time of the missing models is scaled by epochs and squared numbers of nodes."""
    request = Request(("demo",), ("grace",), 3, (), Store("unused"), {**SMALL, "epochs": 6})
    monkeypatch.setattr(module, "_request", lambda *_: request)
    runs = [{"seed": 1, "epochs": [3, 6], "seconds": 4.0}, {"seed": 2, "epochs": [1, 3], "seconds": 2.0}]  # too short
    leakage = {"rows": [{"graph": "demo", "method": "GRACE", "runs": runs}]}
    (found,) = plan({"leakage": leakage}, None, parts=("leakage",)).runs
    assert (found.parts, found.graph, found.row, found.seeds) == (("leakage",), "demo", "GRACE", [0, 2])
    assert (found.seconds, found.wanted) == (pytest.approx(4.0), 3)
    (found,) = plan({}, None, parts=("leakage",)).runs
    assert (found.seeds, found.seconds, found.basis) == ([0, 1, 2], None, "no stored run")


def test_the_plan_wants_the_graphs_and_seeds_of_an_artefact():
    for name in module.PARTS:
        request = module._request(name, None, None, ["PubMed"])
        assert {graph.lower() for graph in request.datasets} <= {"pubmed"}
    assert module._request("leakage", None, None, ["PubMed"]).datasets == ("pubmed",)
    assert module._request("leakage", None, None, []).datasets == ("cora", "citeseer", "pubmed", "amazon-photo")
    assert module._request("leakage", None, None, []).runs == 5


def test_a_plan_without_any_graph_is_refused(tmp_path):
    with pytest.raises(InputError, match="none of the graphs is here \\(Texas: data are absent"):
        plan({}, None, tmp_path, ("heterophily",), graphs=["Texas"])


def test_an_unknown_part_is_named():
    with pytest.raises(InputError, match=r"no part 'leakge' of the study; did you mean leakage\\?"):
        plan({}, None, parts=["accuracy", "leakge"])
    with pytest.raises(InputError, match="no part 'foo' of the study; choose one of accuracy, heterophily, "):
        plan({}, None, parts=["foo"])


def test_a_plan_of_costs_has_no_runs_and_names_what_they_lack():
    cells = [
        {"graph": "Cora", "method": name, "hardware": hardware} for name, hardware in (("GCA", "x"), ("DGI", None))
    ]
    burden = {"graphs": {"Cora": {}}, "absent": {"PubMed": "", "ogbn-arxiv": ""}, "cells": cells}
    found = plan({"burden": burden}, None, parts=("burden",))
    assert (found.runs, found.unmeasured) == ([], {"burden": ["DGI on Cora"]})
    assert plan({"burden": burden}, None, parts=("burden",), graphs=["texas"]).unmeasured == {}
