import json

import pytest

from epagcl.paper.artefact import Request
from epagcl.paper.theory import artefact
from epagcl.paper.theory.artefact import ARTEFACT, theorems
from epagcl.paper.theory.tables import AUGMENTATIONS, KINDS
from epagcl.study.shapes import fits
from epagcl.study.store import Store
from tests.paper.theory_demo import theory_of_demo


@pytest.fixture
def few(monkeypatch):
    """Measure few and small random graphs."""
    monkeypatch.setattr(theorems, "SIZES", (30,))
    monkeypatch.setattr(theorems, "REPEATS", 1)


@pytest.fixture
def demo():
    return theory_of_demo()


@pytest.mark.slow
def test_tables_figures_and_text_of_the_packaged_graph(demo, tmp_path):
    tables = {table.slug: table for table in ARTEFACT.tables(demo)}
    theorem_3_3 = ["theorem-3-3", "theorem-3-3-candidates", "theorem-3-3-small"]
    assert list(tables) == ["", "per-node", "rate-0.1", *theorem_3_3, "theorem-3-5"]
    assert tables[""].columns[2:] == list(AUGMENTATIONS.values())
    assert tables[""].rows[0][0] == "demo"
    assert tables["theorem-3-3"].rows[-1][:3] == ["demo", "0–126", "not met"]
    assert len(tables["theorem-3-5"].rows[0]) == 1 + 3 * len(KINDS)
    drawn = {path.name for path in ARTEFACT.draw(demo, tmp_path)}
    assert {"theory-views.png", "theory-theorem-3-3.png", "theory-theorem-3-5.png"} < drawn
    words = " ".join(ARTEFACT.reading(demo))
    assert "Theorem 3.3 does not hold as stated. On 36 random graphs within its conditions, " in words
    assert "None of the 1 named graphs meets the conditions" in words


def test_uniform_adding_changes_the_rate_most(demo):
    cells = demo["graphs"]["demo"]["views"]["rates"]["0.3"]
    assert cells["uniform_add"]["edge"][0] > 5 * abs(cells["uniform_drop"]["edge"][0])
    assert cells["oracle_drop"]["edge"][0] < -0.05
    assert cells["eq7_drop"]["alpha"] > cells["uniform_drop"]["alpha"] > cells["text_drop"]["alpha"]
    assert cells["eq7_add"]["alpha"] < cells["uniform_add"]["alpha"]


def test_records_have_the_shapes_of_their_readers(demo):
    graph = demo["graphs"]["demo"]
    parts = (demo["small_graphs"], demo["random_graphs"], graph["theorem_3_3"], graph["theorem_3_5"], graph["views"])
    small, random, *others = parts
    for record, shape in (
        ({"rows": small}, artefact.SMALL_GRAPHS),
        ({"rows": random}, artefact.RANDOM_GRAPHS),
        *zip(others, (artefact.THEOREM_3_3, artefact.THEOREM_3_5, artefact.VIEWS), strict=True),
    ):
        assert fits(record, shape)
        for part in record:
            assert not fits({name: value for name, value in record.items() if name != part}, shape)


def test_a_damaged_record_is_computed_again(tmp_path, monkeypatch, demo):
    monkeypatch.setattr(artefact.small_graphs, "small_graphs", lambda: {"rows": demo["small_graphs"]})
    monkeypatch.setattr(theorems, "random_graphs", lambda: {"rows": demo["random_graphs"]})
    request = Request(datasets=(), methods=(), runs=2, protocols=("strict",), store=Store(tmp_path))
    whole = ARTEFACT.measure(request)
    for path in tmp_path.rglob("*.json"):
        path.write_text(json.dumps({"key": json.loads(path.read_text())["key"], "rows": [{}]}))
    assert ARTEFACT.measure(request) == whole


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_absent_graphs_have_a_reason_in_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr("epagcl.paper.theory.artefact.load_all", lambda *_, **__: {"WikiCS": "data are absent"})
    request = Request(datasets=("WikiCS",), methods=(), runs=2, protocols=("strict",), store=Store(tmp_path / "store"))
    result = ARTEFACT.measure(request)
    assert ARTEFACT.tables(result)[0].rows[0][:2] == ["WikiCS", "data are absent"]
    assert len(ARTEFACT.reading(result)) == 2
    assert ARTEFACT.draw(result, tmp_path)
