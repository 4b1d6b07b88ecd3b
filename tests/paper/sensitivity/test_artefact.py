import json

import pytest

from epagcl.paper import find_artefact
from epagcl.paper.sensitivity import artefact as sensitivity
from epagcl.paper.sensitivity import crossed
from epagcl.paper.sensitivity.artefact import ARTEFACT, GRAPHS, cells_of
from epagcl.paper.sensitivity.settings import METHODS, SEEDS, Setting, sweep_rows


def test_cells_of_the_packaged_graph(request_of):
    request = request_of(methods=METHODS, protocols=("strict",), runs=SEEDS)
    rows = [row.title for row in sweep_rows("demo", METHODS, request.settings)]
    assert [cell.title for cell in cells_of(request)] == rows
    assert {(cell.seeds, *cell.protocols) for cell in cells_of(request)} == {(SEEDS, "strict")}


def test_the_design_of_the_study():
    assert find_artefact("sensitivity") is ARTEFACT
    assert (ARTEFACT.runs, ARTEFACT.methods, ARTEFACT.datasets) == (SEEDS, METHODS, GRAPHS)
    assert ARTEFACT.protocols == ("strict",)


@pytest.mark.slow
def test_small_measurement(request_of, tmp_path, monkeypatch):
    one = {"τ": Setting("τ", {"temperature": 1}, (0.2, 0.3), scale="log")}
    for module in ("settings", "sweeps", "tables"):
        monkeypatch.setattr(f"epagcl.paper.sensitivity.{module}.SETTINGS", one)
    monkeypatch.setattr(sensitivity, "crossed_runs", lambda request: crossed.crossed_runs(request, 2, 2))
    request = request_of(protocols=("strict",), runs=3)
    made = ARTEFACT.make(request, "epagcl paper sensitivity")
    assert [(cell["row"], cell["seeds"]) for cell in made["cells"]] == [
        ("EPAGCL, default", [0, 1, 2]),
        ("EPAGCL, τ = 0.2", [0, 1, 2]),
    ]
    assert [(table["row"], table["seeds"]) for table in made["crossed"]] == [("EPAGCL", [0, 1])]
    stored = ARTEFACT.make(request_of(protocols=("strict",), runs=3, train=False), "epagcl paper sensitivity")
    assert (stored["cells"], stored["crossed"]) == (made["cells"], made["crossed"])
    written = {path.name for path in ARTEFACT.write(made, tmp_path / "out")}
    assert {"sensitivity.json", "sensitivity.png", "sensitivity-variance.svg", "sensitivity-values.csv"} <= written
    assert json.loads((tmp_path / "out" / "sensitivity.json").read_text()) == made
