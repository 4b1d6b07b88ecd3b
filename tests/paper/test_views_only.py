import pytest

from epagcl.paper.variants.views import (
    ADD_ONLY,
    DROP_ONLY,
    MASKS,
    NEIGHBOURS,
    NONE,
    PAPERS,
    UNIFORM,
    UNTRAINED,
    view_rows,
)
from epagcl.paper.views_only import ARTEFACT, QUESTIONS, against, compared, drop_over_add, ranking_of
from epagcl.runs.evaluation import PROPAGATED, RAW
from epagcl.study.paired_test import corrected, paired_test
from tests.paper.conftest import cell, result


@pytest.mark.slow
def test_small_measurement_has_every_row(request_of, tmp_path):
    made = ARTEFACT.make(request_of(protocols=("strict",), runs=1), "epagcl paper views")
    assert [one["row"] for one in made["cells"]] == [
        "raw features",
        "propagated",
        *(row.title for row in view_rows()),
    ]
    assert {one["settings"].get("epochs") for one in made["cells"]} == {None, 0, 2}
    written = {path.name for path in ARTEFACT.write(made, tmp_path / "out")}
    assert {"views.json", "views.csv", "views-graphs.csv", "views-runs.csv"} <= written


def invented():
    """Return two graphs on which dropping by Eq. (9) is one point better than uniform dropping, and adding worse."""
    noise = [0.0, 0.1, -0.1, 0.0]
    points = {NONE: 70, MASKS: 78, UNIFORM: 80, DROP_ONLY: 81, ADD_ONLY: 77, PAPERS: 81}
    cells = [
        cell(title, graph, [mean + (1 + place / 10) * shift + own for shift, own in zip(noise, order, strict=True)])
        for graph, order in (("Cora", noise), ("Texas", noise[::-1]))
        for place, (title, mean) in enumerate(points.items())
    ]
    return result(cells, datasets=("cora", "texas"), protocols=("strict",))


def test_tests_ranks_and_sentences():
    made = invented()
    tests = against(made)
    assert ("Cora", DROP_ONLY) in tests
    assert ("Cora", UNIFORM) not in tests
    assert tests["Texas", DROP_ONLY].mean == pytest.approx(1.0)
    assert {test.verdict for (_, title), test in tests.items() if title == ADD_ONLY} == {"worse"}
    assert ranking_of(made).mean_ranks[DROP_ONLY] == 1.5  # shared with EPAGCL
    rows = {row[0]: [str(one) for one in row] for row in ARTEFACT.tables(made)[0].rows}
    assert rows[DROP_ONLY][1:6] == ["81.00", "1.50", "+1.00", "2", "0"]
    assert rows[UNIFORM][3:] == ["–"] * 6
    differences = {row[0]: row[1:] for row in ARTEFACT.tables(made)[2].rows}
    assert set(differences) == {NONE, MASKS, DROP_ONLY, ADD_ONLY, PAPERS}
    assert [text.split(" (")[0] for text in differences[ADD_ONLY]] == ["-3.0 ▼", "-3.0 ▼"]
    text = " ".join(ARTEFACT.reading(made))
    assert "Drop Only minus uniform dropping (GRACE): +1.00 points on average, better on 2 of 2 graphs" in text
    assert "EPAGCL, nearest neighbours added minus EPAGCL: not measured" in text
    assert f"{MASKS} (the same masks, no edge changed) minus {UNIFORM}: -2.00 points on average" in text


def test_each_question_is_a_family_of_tests():
    made = invented()
    tests = compared(made, DROP_ONLY, ADD_ONLY)
    assert drop_over_add(made) == list(tests.values())
    expected = corrected([paired_test([4.0, 4.0 - 0.01, 4.0 + 0.01, 4.0])] * 2)
    assert [test.corrected for test in tests.values()] == pytest.approx([test.corrected for test in expected])
    assert compared(made, NEIGHBOURS, PAPERS) == {}
    table = ARTEFACT.tables(made)[3]
    assert [row[0] for row in table.rows] == [
        f"{title} minus {base}" for title, base in QUESTIONS if NEIGHBOURS not in (title, base)
    ]
    assert "Holm's correction for the tests of a row" in table.note


def test_views_have_figures():
    made = invented()
    assert set(ARTEFACT.figures(made)) == {"", "ranks"}


def test_trained_variants_are_compared_with_the_references():
    made = invented()
    assert not any("What training contributes" in text for text in ARTEFACT.reading(made))
    noise = [0.1, 0.0, 0.0, -0.1]
    made["cells"] += [
        cell(title, graph, [mean + shift for shift in noise])
        for graph in ("Cora", "Texas")
        for title, mean in {RAW: 60.0, PROPAGATED: 90.0, UNTRAINED: 75.0}.items()
    ]
    text = next(text for text in ARTEFACT.reading(made) if "What training contributes" in text)
    assert "means of 70.0 to 81.0, their encoder with its initial weights has 75.0" in text
    assert "10 of 12 find it better than the untrained encoder, and 2 worse" in text  # without augmentation: 70
    assert "0 of 12 find it better than propagated features, and 12 worse" in text


def test_without_runs_there_is_nothing_to_say():
    empty = result([], datasets=("cora",), protocols=("strict",))
    assert ARTEFACT.reading(empty) == []
    assert ARTEFACT.figures(empty) == {}
    assert ARTEFACT.tables(empty) == []
