import pytest

import epagcl
from epagcl.methods.epagcl import EPAGCL
from epagcl.paper import add_vs_drop
from epagcl.paper.add_vs_drop import ARTEFACT, curves, gaps, variants
from tests.paper.conftest import SMALL, cell, result


def test_both_kinds_small_and_whole(request_of, tmp_path, monkeypatch):
    monkeypatch.setattr(add_vs_drop, "RATES", (0.2, 0.6))
    made = ARTEFACT.make(request_of(protocols=("strict",)), "epagcl paper add-vs-drop")
    assert [c["row"] for c in made["cells"]] == ["untrained encoder", "add 0.2", "drop 0.2", "add 0.6", "drop 0.6"]
    files = {path.name for path in ARTEFACT.write(made, tmp_path / "out")}
    assert {"add-vs-drop.csv", "add-vs-drop-curves.svg", "add-vs-drop-radar.png"} <= files
    assert len(ARTEFACT.reading(made)) == 1


@pytest.mark.parametrize("rate", [0.1, 0.8])
def test_as_many_edges_are_added_as_dropped(rate):
    data = epagcl.load("demo")
    rows = {row.title: row for row in variants(data)}
    edges = data.edge_index.shape[1] / 2
    graph = EPAGCL(**SMALL)._graph(data, "cpu")
    for kind, sign in (("add", 1), ("drop", -1)):
        views = EPAGCL(**{**SMALL, **rows[f"{kind} {rate:g}"].settings}).prepare(graph).views
        for sampler in views:
            sizes = [sampler.pairs(epoch).shape[1] for epoch in range(20)]
            assert sum(sizes) / 20 == pytest.approx(edges * (1 + sign * rate), rel=0.02)


def made_up():
    cells = [
        cell("add 0.1", "Cora", [70, 72]),
        cell("drop 0.1", "Cora", [80, 81]),
        cell("add 0.5", "Cora", [75, 77]),
        cell("drop 0.5", "Cora", [74, 78]),
    ]
    return result(cells, rates=[0.1, 0.5], absent={"WikiCS": "data are absent"}, datasets=("WikiCS", "Cora"))


def test_differences_are_of_the_same_seeds():
    assert curves(made_up(), "strict", "Cora")["add"] == {0.1: {0: 70, 1: 72}, 0.5: {0: 75, 1: 77}}
    assert gaps(made_up(), "strict", "Cora") == {0.1: (9.5, 9.0, 10.0), 0.5: (0.0, -1.0, 1.0)}


def test_tables_and_words_follow_the_figures():
    table = ARTEFACT.tables(made_up())[0]
    assert [row[:2] for row in table.rows] == [
        ["WikiCS", "data are absent"],
        *(["Cora", kind] for kind in ("add", "drop", "drop − add")),
    ]
    assert table.rows[3][2:] == ["+9.5 (+9.0 to +10.0)", "+0.0 (-1.0 to +1.0)"]
    (words,) = ARTEFACT.reading(made_up())
    assert "dropping is better at 1 rates (0.1), adding at none" in words
    assert "81" not in words
    assert "80.5 for drop at 0.1" in words
