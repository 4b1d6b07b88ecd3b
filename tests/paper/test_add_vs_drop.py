import pytest

import epagcl
from epagcl.methods.epagcl import EPAGCL
from epagcl.methods.inputs import input_graph
from epagcl.paper import add_vs_drop
from epagcl.paper.add_vs_drop import ARTEFACT, curves, gaps, variants
from epagcl.study.paired_test import paired_test
from tests.paper.conftest import SMALL, cell, result


@pytest.mark.slow
def test_small_measurement_has_every_kind(request_of, tmp_path, monkeypatch):
    monkeypatch.setattr(add_vs_drop, "RATES", (0.2, 0.6))
    made = ARTEFACT.make(request_of(protocols=("strict",), runs=1), "epagcl paper add-vs-drop")
    kinds = [f"{kind} {rate}" for rate in (0.2, 0.6) for kind in ("add", "pool", "drop")]
    assert [c["row"] for c in made["cells"]] == ["untrained encoder", *kinds]
    files = {path.name for path in ARTEFACT.write(made, tmp_path / "out")}
    assert {"add-vs-drop.csv", "add-vs-drop-curves.svg", "add-vs-drop-radar.png"} <= files
    assert len(ARTEFACT.reading(made)) == 1


@pytest.mark.parametrize("rate", [0.1, 0.8])
def test_as_many_edges_are_added_as_dropped(rate):
    data = epagcl.load("demo")
    rows = {row.title: row for row in variants(data)}
    edges = data.edge_index.shape[1] / 2
    graph = input_graph(EPAGCL(**SMALL), data, "cpu")
    for kind, sign in (("add", 1), ("pool", 1), ("drop", -1)):
        row = rows[f"{kind} {rate:g}"]
        views = (row.kind or EPAGCL)(**{**SMALL, **row.settings}).prepare(graph).views
        for view in range(2):
            sizes = [views.samplers[view].pairs(epoch).shape[1] for epoch in range(20)]
            assert sum(sizes) / 20 == pytest.approx(edges * (1 + sign * rate), rel=0.02)


def invented():
    cells = [
        cell("add 0.1", "Cora", [70, 72, 71]),
        cell("pool 0.1", "Cora", [60, 62, 61]),
        cell("drop 0.1", "Cora", [80, 81.5, 81]),
        cell("add 0.5", "Cora", [75, 77, 76]),
        cell("drop 0.5", "Cora", [74, 78, 76, 99]),
    ]
    return result(cells, rates=[0.1, 0.5], absent={"WikiCS": "data are absent"}, datasets=("WikiCS", "Cora"))


def test_differences_are_paired_by_seed():
    assert curves(invented(), "strict", "Cora")["add"] == {0.1: {0: 70, 1: 72, 2: 71}, 0.5: {0: 75, 1: 77, 2: 76}}
    new = gaps(invented(), "strict", "Cora")
    assert {rate: (test.n, test.verdict) for rate, test in new.items()} == {0.1: (3, "better"), 0.5: (3, "undecided")}
    assert new[0.1].interval == paired_test([10, 9.5, 10]).interval
    pool = gaps(invented(), "strict", "Cora", "pool")[0.1]  # the smallest p of three tests
    assert (pool.corrected, new[0.1].corrected) == (pytest.approx(3 * pool.p), pytest.approx(2 * new[0.1].p))
    assert gaps(invented(), "strict", "Cora", "pool")[0.1].mean == pytest.approx(59.5 / 3)


def test_table_and_reading():
    table = ARTEFACT.tables(invented())[0]
    lines = {row[1]: row[2:] for row in table.rows}
    assert table.rows[0][:2] == ["WikiCS", "data are absent"]
    assert lines["only add, fixed pool"] == ["61.0 ± 1.0", "–"]
    first, second = lines["only drop − only add"]
    assert first.startswith("+9.8 (")
    assert "), better, detectable " in first
    assert second.startswith("+0.0 (")
    assert "undecided" in second
    assert lines["only drop − only add, fixed pool"][1] == "–"
    assert "only drop 3/4" in table.note
    (paragraph,) = ARTEFACT.reading(invented())
    assert (
        "new random pairs (3 common seeds), dropping is better at 1 rate (0.1) and worse at none, out of 2" in paragraph
    )
    assert "from a fixed pool (3 common seeds), dropping is better at 1 rate (0.1) and worse at none" in paragraph
    assert "mean difference over rates is +4.9 points" in paragraph
    assert "81.8 (only drop, rate 0.5)" in paragraph


def test_incomplete_rates_are_drawn(tmp_path):
    assert len(ARTEFACT.draw(invented(), tmp_path)) == 4
