import pytest

from epagcl.paper.choices import ARTEFACT, CHOICES, GIVEN, RATE, SEPARATE, Choice, against_recipes, cells_of
from epagcl.paper.variants.directions import DirectedGRACE
from epagcl.study.design import Row
from tests.paper.conftest import cell, demo, result

NOISE = [0.0, 0.1, -0.1, 0.05]


def invented():
    """Return a result in which unscaled features cost GMI ten points, and nothing else makes a difference."""
    points = {"GMI": 72, f"GMI: {GIVEN}": 62, "GRACE": 80, f"GRACE: {GIVEN}": 80, f"GRACE: {SEPARATE}": 80}
    cells = [
        cell(title, "CiteSeer", [mean + shift for shift in NOISE[place % 4 :] + NOISE[: place % 4]])
        for place, (title, mean) in enumerate(points.items())
    ]
    return result(cells, datasets=("citeseer",), protocols=("strict",))


def test_a_choice_differs_from_the_recipe_in_its_settings_only():
    base, other = Choice("gmi", GIVEN, settings={"feature_scaling": "given"}).rows()
    assert (base.title, other.title) == ("GMI", "GMI: features as given")
    (recipe,), _ = base.models("Cora", 1, {})
    (chosen,), _ = other.models("Cora", 1, {})
    assert recipe.feature_scaling == "row-sum"
    assert recipe.settings() | {"feature_scaling": "given"} == chosen.settings()


def test_a_starred_method_has_its_own_recipe():
    base, other = Choice("gca*", "slower", settings={"lr": 0.5}).rows()
    assert base == Row("GCA*", "gca", {"p_mask_1": 0.0, "p_mask_2": 0.0})
    (recipe,), _ = base.models("Cora", 1, {})
    (chosen,), _ = other.models("Cora", 1, {})
    assert recipe.temperature == 0.9
    assert recipe.settings() | {"lr": 0.5} == chosen.settings()


def test_every_choice_changes_something_and_all_rows_are_measured_once(request_of):
    for choice in CHOICES:
        for graph in choice.graphs:
            (recipe,), _ = choice.rows()[0].models(graph, 1, {})
            (chosen,), _ = choice.rows()[1].models(graph, 1, {})
            assert type(recipe) is not type(chosen) or recipe.settings() != chosen.settings()
    titles = [(graph, choice.title) for choice in CHOICES for graph in choice.graphs]
    assert len(set(titles)) == len(titles)
    assert cells_of(request_of()) == []  # no choice is about the packaged graph


@pytest.mark.slow
def test_a_small_measurement(request_of, monkeypatch, tmp_path):
    _, name = demo()
    pair = (Choice("grace", SEPARATE, (name,), kind=DirectedGRACE), Choice("grace", GIVEN, (name,), {"lr": 0.1}))
    monkeypatch.setattr("epagcl.paper.choices.CHOICES", pair)
    made = ARTEFACT.make(request_of(protocols=("strict",), runs=1), "epagcl paper choices")
    assert [one["row"] for one in made["cells"]] == ["GRACE", f"GRACE: {SEPARATE}", f"GRACE: {GIVEN}"]
    assert {"choices.json", "choices.csv", "choices.png"} <= {path.name for path in ARTEFACT.write(made, tmp_path)}


def test_tests_table_and_sentences():
    made = invented()
    tests = against_recipes(made)
    assert tests["CiteSeer", f"GMI: {GIVEN}"].verdict == "worse"
    assert tests["CiteSeer", f"GRACE: {SEPARATE}"].verdict == "undecided"
    (table,) = ARTEFACT.tables(made)
    rows = {row[2] + row[0]: [str(one) for one in row] for row in table.rows}
    assert rows[f"{GIVEN}GMI"][1:5] == ["CiteSeer", GIVEN, "72.0", "62.0"]
    assert rows[f"{GIVEN}GMI"][5].startswith("-10.0 (")
    assert rows[f"{GIVEN}GMI"][6] == "worse"
    assert rows[f"{GIVEN}GMI"][8] == "4"
    assert "all 3 tests" in table.note
    features, edges = ARTEFACT.reading(made)
    assert features.startswith("**Feature scaling.** The published code")
    assert features.endswith("The other way is worse for GMI on CiteSeer (-10.0 points); 1 of 2 tests are undecided.")
    assert edges.endswith("The other way is neither better nor worse in any of 1 test.")
    assert set(ARTEFACT.figures(made)) == {""}


def test_means_are_over_common_seeds():
    cells = [cell("GMI", "Cora", [70, 72, 74, 90]), cell(f"GMI: {GIVEN}", "Cora", [60, 62, 64])]
    ((*_, recipe, chosen, _, _, _, seeds),) = ARTEFACT.tables(result(cells, datasets=("cora",)))[0].rows
    assert (recipe, chosen, seeds) == ("72.0", "62.0", "3")


def test_collapsed_runs_are_named():
    photo = [cell("GRACE", "Amazon-Photo", [90, 91, 92]), cell(f"GRACE: {RATE}", "Amazon-Photo", [90, 20, 92])]
    assert ARTEFACT.reading(result(photo, datasets=("amazon-photo",)))[-1].endswith(
        f"Amazon-Photo: GRACE: {RATE} (1 of 3)."
    )


def test_choices_whose_seeds_are_of_several_days_are_named():
    days = {"dates": ["2026-01-01", "2026-01-02"]}
    cells = [cell("GMI", "Cora", [70, 72], **days), cell(f"GMI: {GIVEN}", "Cora", [60, 62], **days)]
    (table,) = ARTEFACT.tables(result(cells, datasets=("cora",)))
    assert table.note.endswith(f" (2026-01-01 and 2026-01-02): GMI: {GIVEN} (Cora).")
    assert "earlier version" not in ARTEFACT.tables(invented())[0].note


def test_without_runs_there_is_nothing_to_say():
    empty = result([], datasets=("cora",), protocols=("strict",))
    assert ARTEFACT.reading(empty) == []
    assert ARTEFACT.figures(empty) == {}
    assert ARTEFACT.tables(empty) == []
