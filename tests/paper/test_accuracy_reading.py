import pytest

from epagcl.paper.accuracy import ARTEFACT
from epagcl.paper.accuracy_reading import against, source_text
from tests.paper.conftest import cell, result
from tests.paper.test_accuracy import invented


def test_ranks_settings_and_missing_cells():
    made = invented() | {"asked": {"datasets": ["Cora", "WikiCS"], "protocols": ["strict", "paper"]}}
    rank, settings, untrained, missing = ARTEFACT.reading(made)
    assert "EPAGCL ranks 2 of 2" in rank
    assert "By the paper's numbers on these graphs, it is 1.0 among 3 methods." in rank
    assert "EPAGCL or EPAGCL\\* has the highest mean on 0 of 1 graphs." in rank
    assert "Not ranked, with fewer than 5 runs on a graph: MVGRL." in rank
    assert settings.endswith("GRACE, MVGRL, EPAGCL on Cora.")
    assert "0 of 3 are better, 0 worse, and 3 undecided" in untrained  # six runs two points apart decide nothing
    assert "MVGRL on Cora (1 of 6 runs), WikiCS (data are absent here)" in missing
    # No cell is scored by the paper's protocol.
    assert all("paper's protocol" not in paragraph for paragraph in (rank, settings, untrained, missing))


def test_references_are_compared_where_they_were_measured():
    made = invented()
    assert not [part for part in ARTEFACT.reading(made) if "propagated" in part]
    assert "propagated" not in [row[0] for row in ARTEFACT.tables(made)[0].rows]
    made["cells"] = [
        cell("propagated", "Cora", [85, 85.1, 85.2, 85.1]),
        cell("EPAGCL", "Cora", [84, 84.1, 84.3, 84.0]),
        cell("GRACE", "Cora", [87.2, 87, 87.3, 87.1]),
    ]
    (sentence,) = [part for part in ARTEFACT.reading(made) if "propagated" in part]
    assert "1 of 2 are better, 1 worse (in points: EPAGCL on Cora (-1.0)), and 0 undecided." in sentence


def test_rows_are_tested_against_others_on_every_graph():
    cells = [cell("EPAGCL", "Cora", [80, 81, 82.5]), cell("GCA", "Cora", [70, 71, 72]), cell("GCA", "PubMed", [80] * 3)]
    tests = against(result(cells, datasets=("Cora", "PubMed")), "strict", "EPAGCL", ["GCA", "EPAGCL", "DGI"])
    assert {pair: test.verdict for pair, test in tests.items()} == {("Cora", "GCA"): "better"}


@pytest.mark.parametrize(("scaling", "words"), [("given", "published, features as given"), ("row-sum", "ours")])
def test_settings_are_published_only_with_the_features_of_the_authors(scaling, words):
    from epagcl.methods.recipes import recipe

    settings = {**recipe("amazon-photo", "epagcl"), "name": "epagcl", "feature_scaling": "given"}
    one = cell("EPAGCL", "Amazon-Photo", [90], source="paper", settings=settings)
    assert source_text(one) == "published, features as given"
    if scaling != "given":
        settings["lr"] = 1.0
        assert source_text(one) == words


def test_distance_to_the_paper_is_by_its_protocol():
    made = result(
        [cell("EPAGCL", "Cora", [84, 86], "paper"), cell("MVGRL", "Cora", [83, 83], "paper")], protocols=("paper",)
    )
    paragraph = next(paragraph for paragraph in ARTEFACT.reading(made) if "paper's protocol" in paragraph)
    assert "EPAGCL (-1.1)" in paragraph
    assert "More than a point above it: MVGRL (+1.5)" in paragraph
    assert not any("Measured minus reported" in paragraph for paragraph in ARTEFACT.reading(invented()))
