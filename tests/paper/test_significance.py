"""Appendix E: statistics against closed forms and brute force, and what is made of them."""

import json
import sys
from itertools import product
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import wilcoxon

import epagcl.paper
from epagcl.paper import reported
from epagcl.paper.artefact import Request
from epagcl.paper.significance import ARTEFACT, counted_once, holm, rank_biserial, repeated, signed_rank, verdict
from epagcl.study.store import Store


def test_holm_is_the_hand_computation():
    # sorted 0.01·4, 0.02·3, 0.03·2, 0.5·1, and no corrected p below one before it
    assert holm([0.02, 0.5, 0.01, 0.03]) == pytest.approx([0.06, 0.5, 0.04, 0.06])
    assert holm([0.4, 0.6]) == pytest.approx([0.8, 0.8])
    assert holm([]) == []


def test_rank_biserial_by_counting():
    d = np.array([3.0, -1.0, 2.0, -2.0, 0.0, 5.0])
    kept = d[d != 0]
    # Mean rank: one more than those below, and half of the others that tie.
    rank = [sum(abs(e) < abs(x) for e in kept) + (sum(abs(e) == abs(x) for e in kept) + 1) / 2 for x in kept]
    signed = sum(r * np.sign(x) for r, x in zip(rank, kept, strict=True))
    assert rank_biserial(d) == pytest.approx(signed / sum(rank))
    assert rank_biserial([1, 2, 3]) == 1
    assert rank_biserial([-1, -2]) == -1
    assert rank_biserial([0, 0]) == 0


@pytest.mark.parametrize("n", [5, 12, 20])
def test_without_ties_it_is_scipys_exact_test(n):
    d = np.random.default_rng(n).normal(0.3, 1, n)
    p = signed_rank(d)
    for ours, theirs in (("better", "greater"), ("worse", "less"), ("two_sided", "two-sided")):
        assert p[ours] == pytest.approx(wilcoxon(d, alternative=theirs, method="exact").pvalue, rel=1e-9)


def test_with_ties_and_zeros_it_counts_all_signs():
    d = np.array([1.0, -1.0, 2.0, 2.0, 0.0, -3.0, 0.1 + 0.2, 0.3])  # the last two tie, but for float64
    ranks = np.array([3.5, 3.5, 5.5, 5.5, 7.0, 1.5, 1.5])
    w = 28 - 3.5 - 7.0
    sums = np.array([np.dot(signs, ranks) for signs in product((0, 1), repeat=7)])
    assert signed_rank(d)["better"] == pytest.approx((sums >= w).mean())
    assert signed_rank(d)["worse"] == pytest.approx((sums <= w).mean())


def test_smallest_p():
    assert signed_rank(np.arange(1, 21))["better"] == pytest.approx(2.0**-20)
    assert signed_rank(np.ones(5))["better"] == 2.0**-5
    assert signed_rank(np.zeros(5)) == {"better": 1.0, "worse": 1.0, "two_sided": 1.0}
    assert repeated([0.1, 0.2, 0.3, 0.4, 0.5]) == 2.0**-25
    assert repeated([0.1, 0.2, 0.3, 0.4, 0.5, -9]) == 2.0**-25  # the first five
    assert repeated([0.1] * 4) is None
    assert repeated(np.zeros(5)) is None


def test_the_papers_figures_are_those_of_repeated_runs():
    # Lost: none, the run of the smallest difference, of the second smallest, third, fourth, of the two smallest.
    once = {2.98e-8: 1, 4.08e-6: 2, 2.45e-4: 3, 3.69e-3: 5, 2.58e-2: 7, 1.39e-3: 5}
    for p, ways in once.items():
        assert counted_once(p) == pytest.approx(ways / 32)
    every = {p for title, row in reported()["wilcoxon"].items() if title != "columns" for p in row}
    assert every - set(once) == {4.27e-5}
    assert counted_once(4.27e-5) is None


def cell(row: str, runs: np.ndarray, seeds: list[int], graph: str = "Cora") -> dict:
    accuracy = {"mean": float(runs.mean()), "std": float(runs.std()), "runs": runs.tolist()}
    scores = {"split": "random 10/10/80", "seeds": seeds, "accuracy": accuracy, "macro_f1": accuracy}
    return {
        "row": row,
        "graph": {"name": graph, "nodes": 2708},
        "seeds": seeds,
        "hardware": ["made up"],
        "protocols": {"strict": scores, "paper": scores},
    }


@pytest.fixture
def result(monkeypatch, tmp_path):
    """EPAGCL above GRACE in every run, below GCA in every run, level with BGRL; of DGI there are five runs."""
    rng = np.random.default_rng(0)
    ours, seeds = 0.84 + 0.01 * rng.random(20), list(range(20))
    noise = 0.002 * rng.random(20)
    order = rng.permutation(20)
    cells = [
        cell("raw features", ours - 0.2, seeds),
        cell("EPAGCL", ours, seeds),
        # In another order: pairs are found by seed, not by place.
        cell("GRACE", (ours - 0.001 - noise)[order], order.tolist()),
        cell("GCA", ours + 0.001 + noise, seeds),
        cell("BGRL", ours + np.where(np.arange(20) % 2, 1, -1) * noise, seeds),
        cell("DGI", ours[:5] - 0.01, seeds[:5]),
    ]
    asked = []

    def measure(request: Request) -> dict:
        asked.append(request.methods)
        return {"cells": cells, "absent": {"WikiCS": "data are absent"}}

    accuracy = ModuleType("epagcl.paper.accuracy")
    accuracy.measure = measure
    monkeypatch.setitem(sys.modules, "epagcl.paper.accuracy", accuracy)
    monkeypatch.setattr(epagcl.paper, "accuracy", accuracy, raising=False)
    request = Request(("cora", "wikics"), ("grace", "gca", "bgrl", "dgi"), 20, ("strict", "paper"), Store(tmp_path))
    found = json.loads(json.dumps(ARTEFACT.measure(request)))
    assert asked == [("grace", "gca", "bgrl", "dgi", "epagcl")]
    return found


def test_comparisons(result):
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
    assert grace["holm"]["two_sided"] == pytest.approx(3 * 2 * 2.0**-20)  # of three that are tested
    assert grace["repeated"] == 2.0**-25
    assert grace["interval"][0] < grace["mean_difference"] < grace["interval"][1]
    assert strict["DGI"]["p"] is None
    assert strict["DGI"]["mean_difference"] == pytest.approx(1.0)


def test_page(result, tmp_path):
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
    assert "Few runs: under 20" in main.note
    assert "Measured on made up;" in main.note
    assert [row[1] for row in folded.rows] == ["GRACE", "GCA", "BGRL"]  # those that are tested
    better, worse = folded.rows[0][3:]
    assert (str(better), better.mark) == (f"{2.0**-20:.2e} ({3 * 2.0**-20:.2e})", "best")
    assert (str(worse), worse.mark) == ("1.000 (1.000)", "")


def test_reading_names_every_kind(result):
    strict, paper, absent, settings, *_ = ARTEFACT.reading(result)
    assert strict.startswith("Protocol strict: of 3 pairs of graph and method with 20 paired runs or more")
    assert "significantly better in 1, significantly worse in 1, undecided in 1 (" in strict
    assert "Better: GRACE on Cora. Worse: GCA on Cora. Undecided: BGRL on Cora." in strict
    assert "fewer than 20 paired runs: 1 pair with 5 runs (Cora)" in strict
    assert "ahead in every run against DGI on Cora; behind in every run against none; mixed" in strict
    assert paper.startswith("Protocol paper: of 3 pairs")
    assert absent == "Not measured here (WikiCS: data are absent)."
    assert "as published" in settings
    few = [one for one in result["comparisons"] if one["method"] == "DGI"]
    few[0] |= {"wins": 2, "ties": 1, "losses": 2}
    assert "mixed, wins/ties/losses: DGI 2/1/2 on Cora." in ARTEFACT.reading(result)[0]
    few[0] |= {"wins": 0, "ties": 0, "losses": 5}
    assert "behind in every run against DGI on Cora;" in ARTEFACT.reading(result)[0]
    only = result | {"comparisons": few}
    assert (
        "no test is made: there are at most 5 paired runs, and 20 are wanted. Not tested" in ARTEFACT.reading(only)[0]
    )
    assert [table.slug for table in ARTEFACT.tables(only)] == ["", "paper"]  # no test, no table of tests


def test_figure_tells_untested_from_undecided(result):
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


def test_what_is_written(result, tmp_path):
    assert result["measured_on"] == ["made up"]
    words = " ".join(ARTEFACT.reading(result))
    assert "2.98e-08 = 2^-25, the figure that 19 of its 28 cells show" in words
    assert "2^-5 = 0.031" in words
    written = ARTEFACT.draw(result, tmp_path)
    assert [path.name for path in written] == ["significance.svg", "significance.png"]
    assert all(path.stat().st_size > 5000 for path in written)


def test_nothing_measured():
    nothing = {
        "comparisons": [],
        "methods": ["GRACE"],
        "protocols": ["strict"],
        "absent": {"WikiCS": "data are absent"},
        "measured_on": [],
    }
    (table,) = ARTEFACT.tables(nothing)
    assert table.rows[0][:4] == ["WikiCS", "GRACE", "0", "data are absent"]
    assert "no test is made" in ARTEFACT.reading(nothing)[0]
    assert ARTEFACT.figures(nothing)
