import json
from pathlib import Path

import numpy as np
import pytest

from epagcl.paper import accuracy
from epagcl.paper.artefact import Request
from epagcl.paper.significance import (
    ARTEFACT,
    compare,
    corrected_tests,
    differences,
    family_of,
    of_accuracies,
    wins_ties_losses,
)
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


def pair(points):
    """Return a comparison with these differences in points, with the seeds of one side in reverse order."""
    seeds = range(len(points))
    ours = {seed: 0.8 + points[seed] / 100 for seed in seeds}
    return compare("Cora", "strict", "GRACE", ours, dict.fromkeys(reversed(seeds), 0.8))


def test_runs_are_paired_by_seed():
    comparison = compare("Cora", "strict", "GRACE", {0: 0.8, 1: 0.9, 2: 0.7}, {2: 0.6, 1: 0.9, 5: 0.1})
    assert comparison["seeds"] == [1, 2]
    assert (comparison["ours"], comparison["theirs"]) == ([0.9, 0.7], [0.9, 0.6])
    assert differences(comparison) == pytest.approx([0, 10])
    assert wins_ties_losses(comparison) == "1/1/0"
    assert compare("Cora", "strict", "GRACE", {0: 0.8}, {1: 0.8})["seeds"] == []


def test_equal_differences_tie_despite_rounding():
    assert wins_ties_losses(compare("Cora", "strict", "GRACE", {0: 0.1 + 0.2}, {0: 0.3})) == "0/1/0"


def test_verdicts_are_two_sided_and_corrected():
    better, worse, level = pair([1.0, 1.1, 0.9, 1.2]), pair([-1.0, -1.1, -0.9, -1.2]), pair([1.0, -1.0] * 3)
    few = pair([1.0] * 2)
    tests = corrected_tests([better, worse, level, few])
    assert [test.verdict for test in tests] == ["better", "worse", "undecided", "undecided"]
    assert tests[0].corrected == pytest.approx(3 * tests[0].p)


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
        cell("DGI", ours[:5] - 0.01 + 1e-5 * np.arange(-2, 3), seeds[:5]),
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
    strict = {one["method"]: (one, test) for one, test in family_of(result, "strict")}
    assert {title: test.verdict for title, (_, test) in strict.items()} == {
        "GRACE": "better",
        "GCA": "worse",
        "BGRL": "undecided",
        "DGI": "better",
    }
    grace, test = strict["GRACE"]
    assert wins_ties_losses(grace) == "20/0/0"
    assert test.corrected == pytest.approx(3 * test.p)  # DGI has a smaller p, so that three tests remain
    assert test.interval[0] < test.mean < test.interval[1]
    assert strict["DGI"][1].mean == pytest.approx(1.0)
    assert strict["DGI"][1].n == 5


def test_tables(result):
    tables = ARTEFACT.tables(result)
    assert [table.slug for table in tables] == ["", "paper"]
    main = tables[0]
    rows = {(row[0], row[1]): dict(zip(main.columns, map(str, row), strict=True)) for row in main.rows}
    assert rows["Cora", "GRACE"]["verdict"] == "better"
    assert rows["Cora", "GRACE"]["wins/ties/losses"] == "20/0/0"
    assert rows["Cora", "GRACE"][main.columns[-2]] == "2.98e-08"  # 2⁻²⁵: five runs counted five times
    assert rows["Cora", "GRACE"][main.columns[-1]] == "2.45e-04 (0.094)"
    assert rows["Cora", "DGI"]["95% interval"] == "+1.00 to +1.00"
    assert float(rows["Cora", "BGRL"]["detectable"]) > 0
    assert rows["WikiCS", "GCA"]["mean difference"] == "data are absent"
    assert len(main.rows) == 8
    marks = {row[1]: row[main.columns.index("p (Holm)")].mark for row in main.rows if row[0] == "Cora"}
    assert marks == {"GRACE": "best", "GCA": "best", "BGRL": "", "DGI": "best"}
    assert "Holm's correction for the 4 tests of this table" in main.note
    assert "Measured on invented." in main.note


def test_reading_names_every_verdict(result):
    strict, paper, absent, settings, *_ = ARTEFACT.reading(result)
    assert strict.startswith("Protocol strict: of 4 pairs of graph and method, EPAGCL is significantly better in 2 and")
    assert "significantly worse in 1; 1 are undecided (" in strict
    assert "Better: GRACE, DGI on Cora. Worse: GCA on Cora. Undecided: BGRL on Cora." in strict
    assert "The tests can show differences of" in strict
    assert paper.startswith("Protocol paper: of 4 pairs")
    assert absent == "Not measured here (WikiCS: data are absent)."
    assert "as published" in settings


def test_figure_distinguishes_decided_from_undecided(result):
    (axes,) = ARTEFACT.figures(result)[""].axes
    assert axes.get_title() == "Cora (n = 5–20 runs)"
    assert axes.get_xlabel() == "difference in points, corrected 95%"
    means = {one["method"]: test.mean for one, test in family_of(result, "strict")}
    points = [line for line in axes.lines if len(line.get_xdata()) == 1]
    faces = {
        title: {line.get_markerfacecolor() for line in points if line.get_xdata()[0] == mean}
        for title, mean in means.items()
    }
    assert faces["BGRL"] == {"white"}
    assert "white" not in faces["GRACE"] | faces["GCA"] | faces["DGI"]


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
    assert "of 0 pairs of graph and method" in ARTEFACT.reading(nothing)[0]
    assert ARTEFACT.figures(nothing)


def test_new_runs_of_the_accuracies_enter_the_tests(result):
    stored = {**result, "asked": {"datasets": ["cora"]}}
    runs = np.linspace(0.80, 0.84, 20)
    cells = [cell("EPAGCL", runs, list(range(20))), cell("GRACE", runs - 0.01, list(range(20)))]
    other = [cell(row, runs, list(range(20)), graph="PubMed") for row in ("EPAGCL", "GRACE")]  # is not asked for
    made = of_accuracies(stored, {"cells": [*cells, *other]})
    assert [(one["graph"], one["protocol"], one["method"]) for one in made["comparisons"]] == [
        ("Cora", "strict", "GRACE"),
        ("Cora", "paper", "GRACE"),
    ]
    assert made["comparisons"][0]["ours"] == runs.tolist()
    assert made["methods"] == result["methods"]
    assert of_accuracies(made, {"cells": cells}) is None  # nothing is new
    older = [{**one, "p": 0.5} for one in made["comparisons"]]  # earlier versions stored more
    assert of_accuracies({**made, "comparisons": older}, {"cells": cells}) is None


def test_the_committed_tests_use_all_runs_of_the_committed_accuracies():
    folder = Path(__file__).parents[2] / "results" / "paper"
    significance, accuracies = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("significance", "accuracy")
    )
    assert of_accuracies(significance, accuracies) is None
