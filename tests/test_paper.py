import tomllib
from importlib import resources

from epagcl.data.catalogue.entries import CATALOGUE
from epagcl.paper import published, reported
from epagcl.study.cells import rows


def test_published_figures_by_where_they_stand():
    assert published("Cora", "GRACE") == {"paper": [85.34, 0.29], "random": [83.3, 0.4], "public": [81.9]}
    assert published("Texas", "EPAGCL") == {"paper": [64.08]}
    assert published("Texas", "GREET") == {"public": [87.03, 2.36]}
    assert published("ogbn-arxiv", "GREET") == {}  # out of memory
    assert published("my graph", "GRACE") == {}


def test_every_published_figure_belongs_to_a_row_of_the_comparison():
    titles = {row.title for row in rows()} | {"untrained"}
    text = (resources.files("epagcl.paper") / "published.toml").read_text(encoding="utf-8")
    for graphs in tomllib.loads(text).values():
        for graph, figures in graphs.items():
            assert graph in {entry.name for entry in CATALOGUE.values()}
            assert set(figures) <= titles
            assert all(40 < figure[0] < 100 for figure in figures.values())
    assert set(reported()["accuracy"]) - {"columns"} <= titles
