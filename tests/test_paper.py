import tomllib
from importlib import resources

import pytest

from epagcl.core.errors import InputError
from epagcl.data.catalogue.entries import CATALOGUE
from epagcl.paper import ARTEFACTS, find_artefact, published, reported
from epagcl.study.design import rows


def test_artefacts_are_found_by_name():
    assert all(find_artefact(name).name == name for name in ARTEFACTS)
    with pytest.raises(InputError, match=r"no artefact 'acuracy'; did you mean accuracy\\?"):
        find_artefact("acuracy")
    with pytest.raises(InputError, match="no artefact 'foo'; choose one of accuracy, burden, "):
        find_artefact("foo")


def test_published_accuracies_by_source():
    assert published("Cora", "GRACE") == {"paper": [85.34, 0.29], "random": [83.3, 0.4], "public": [81.9]}
    assert published("Texas", "EPAGCL") == {"paper": [64.08]}
    assert published("Texas", "GREET") == {"public": [87.03, 2.36]}
    assert published("ogbn-arxiv", "GREET") == {}  # out of memory
    assert published("my graph", "GRACE") == {}


def test_every_published_accuracy_belongs_to_a_row_of_the_comparison():
    titles = {row.title for row in rows()} | {"untrained"}
    text = (resources.files("epagcl.paper") / "published.toml").read_text(encoding="utf-8")
    for graphs in tomllib.loads(text).values():
        for graph, figures in graphs.items():
            assert graph in {entry.name for entry in CATALOGUE.values()}
            assert set(figures) <= titles
            assert all(40 < figure[0] < 100 for figure in figures.values())
    assert set(reported()["accuracy"]) - {"columns"} <= titles
