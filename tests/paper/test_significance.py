import json

import numpy as np
import pytest

from epagcl.paper import accuracy
from epagcl.paper.artefact import Request
from epagcl.paper.paired import verdict
from epagcl.paper.significance import ARTEFACT
from epagcl.study.store import Store


def cell(row: str, runs: np.ndarray, seeds: list[int], graph: str = "Cora") -> dict:
    spread = {"mean": float(runs.mean()), "std": float(runs.std()), "runs": runs.tolist()}
    scores = {"split": "random 10/10/80", "seeds": seeds, "accuracy": spread, "macro_f1": spread}
    return {
        "row": row,
        "graph": {"name": graph, "nodes": 2708},
        "seeds": seeds,
        "hardware": ["invented"],
        "protocols": {"strict": scores, "paper": scores},
    }


@pytest.fixture
def result(monkeypatch, tmp_path):
    """EPAGCL is above GRACE and below GCA in every run, and level with BGRL. DGI has five runs."""
    rng = np.random.default_rng(0)
    ours, seeds = 0.84 + 0.01 * rng.random(20), list(range(20))
    noise = 0.002 * rng.random(20)
    order = rng.permutation(20)
    cells = [
        cell("raw features", ours - 0.2, seeds),
        cell("EPAGCL", ours, seeds),
        # In another order: runs are paired by seed, not by position.
        cell("GRACE", (ours - 0.001 - noise)[order], order.tolist()),
        cell("GCA", ours + 0.001 + noise, seeds),
        cell("BGRL", ours + np.where(np.arange(20) % 2, 1, -1) * noise, seeds),
        cell("DGI", ours[:5] - 0.01, seeds[:5]),
    ]
    asked = []

    def measure(request: Request) -> dict:
        asked.append(request.methods)
        return {"cells": cells, "absent": {"WikiCS": "data are absent"}}

    monkeypatch.setattr(accuracy, "measure", measure)
    request = Request(("cora", "wikics"), ("grace", "gca", "bgrl", "dgi"), 20, ("strict", "paper"), Store(tmp_path))
    measured = json.loads(json.dumps(ARTEFACT.measure(request)))
    assert asked == [("grace", "gca", "bgrl", "dgi", "epagcl")]
    return measured


def test_comparisons_and_verdicts(result):
    strict = {one["method"]: one for one in result["comparisons"] if one["protocol"] == "strict"}
    assert list(strict) == ["GRACE", "GCA", "BGRL", "DGI"]
    assert {title: verdict(one) for title, one in strict.items()} == {
        "GRACE": "better",
        "GCA": "worse",
        "BGRL": "undecided",
        "DGI": "untested",
    }
    grace = strict["GRACE"]
    assert (grace["wins"], grace["ties"], grace["losses"]) == (20, 0, 0)
    assert grace["p"]["better"] == pytest.approx(2.0**-20)
    assert grace["holm"]["two_sided"] == pytest.approx(3 * 2 * 2.0**-20)  # three comparisons are tested
    assert grace["repeated"] == 2.0**-25
    assert grace["interval"][0] < grace["mean_difference"] < grace["interval"][1]
    assert strict["DGI"]["p"] is None
    assert strict["DGI"]["mean_difference"] == pytest.approx(1.0)


def test_tables(result):
    tables = ARTEFACT.tables(result)
    assert [table.slug for table in tables] == ["", "one-sided", "paper", "paper-one-sided"]
    assert [table.folded for table in tables] == [False, True, False, True]
    main, folded = tables[:2]
    rows = {(row[0], row[1]): [str(cell) for cell in row] for row in main.rows}
    assert len(main.columns) == 10
    assert rows["Cora", "DGI"][4] == "+1.00 to +1.00 (few runs)"
    assert rows["Cora", "DGI"][7] == "few runs"
    assert "few runs" not in "".join(rows["Cora", "BGRL"])
    assert rows["Cora", "GRACE"][7] == f"{2 * 2.0**-20:.2e} ({6 * 2.0**-20:.2e})"
    assert rows["Cora", "GRACE"][-1] == "2.45e-04 (0.094)"
    assert rows["WikiCS", "GCA"][3] == "data are absent"
    assert len(main.rows) == 8
    assert "Few runs: pairs with fewer than 20 runs are not tested" in main.note
    assert "Measured on invented." in main.note
    assert [row[1] for row in folded.rows] == ["GRACE", "GCA", "BGRL"]  # only tested comparisons
    better, worse = folded.rows[0][3:]
    assert (str(better), better.mark) == (f"{2.0**-20:.2e} ({3 * 2.0**-20:.2e})", "best")
    assert (str(worse), worse.mark) == ("1.000 (1.000)", "")


def test_reading_names_every_verdict(result):
    strict, paper, absent, settings, *_ = ARTEFACT.reading(result)
    assert strict.startswith("Protocol strict: 3 pairs of graph and method have 20 paired runs or more.")
    assert "significantly better in 1, significantly worse in 1, and 1 are undecided (" in strict
    assert "Better: GRACE on Cora. Worse: GCA on Cora. Undecided: BGRL on Cora." in strict
    assert "fewer than 20 paired runs: 1 pair with 5 runs (Cora)" in strict
    assert "ahead in every run against DGI on Cora, and behind in every run against none. Mixed" in strict
    assert paper.startswith("Protocol paper: 3 pairs")
    assert absent == "Not measured here (WikiCS: data are absent)."
    assert "as published" in settings
    few = [one for one in result["comparisons"] if one["method"] == "DGI"]
    few[0] |= {"wins": 2, "ties": 1, "losses": 2}
    assert "Mixed (wins/ties/losses): DGI 2/1/2 on Cora." in ARTEFACT.reading(result)[0]
    few[0] |= {"wins": 0, "ties": 0, "losses": 5}
    assert "behind in every run against DGI on Cora." in ARTEFACT.reading(result)[0]
    only = result | {"comparisons": few}
    no_test = "no test is possible, because there are at most 5 paired runs and 20 are needed. Not tested"
    assert no_test in ARTEFACT.reading(only)[0]
    assert [table.slug for table in ARTEFACT.tables(only)] == ["", "paper"]  # no test, no table of tests


def test_figure_distinguishes_untested_from_undecided(result):
    (axes,) = ARTEFACT.figures(result)[""].axes
    assert axes.get_title() == "Cora (n = 5–20 runs)"
    assert axes.get_xlabel() == "difference in points, bootstrap 95%"
    means = {one["method"]: one["mean_difference"] for one in result["comparisons"]}
    points = [line for line in axes.lines if len(line.get_xdata()) == 1]
    looks = {
        title: {(line.get_marker(), line.get_markerfacecolor()) for line in points if line.get_xdata()[0] == mean}
        for title, mean in means.items()
    }
    assert {marker for marker, _ in looks["DGI"]} == {"x"}
    assert {face for _, face in looks["BGRL"]} == {"white"}
    assert {marker for marker, _ in looks["GRACE"] | looks["GCA"] | looks["BGRL"]} == {"o"}
    assert "white" not in {face for _, face in looks["GRACE"] | looks["GCA"]}


def test_hardware_repetition_and_files(result, tmp_path):
    assert result["measured_on"] == ["invented"]
    text = " ".join(ARTEFACT.reading(result))
    assert "p = 2.98e-08 = 2^-25, which 19 of its 28 cells show" in text
    assert "2^-5 = 0.031" in text
    written = ARTEFACT.draw(result, tmp_path)
    assert [path.name for path in written] == ["significance.svg", "significance.png"]
    assert all(path.stat().st_size > 5000 for path in written)


def test_empty_result():
    nothing = {
        "comparisons": [],
        "methods": ["GRACE"],
        "protocols": ["strict"],
        "absent": {"WikiCS": "data are absent"},
        "measured_on": [],
    }
    (table,) = ARTEFACT.tables(nothing)
    assert table.rows[0][:4] == ["WikiCS", "GRACE", "0", "data are absent"]
    assert "no test is possible" in ARTEFACT.reading(nothing)[0]
    assert ARTEFACT.figures(nothing)
