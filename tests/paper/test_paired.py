import pytest

from epagcl.paper.paired import (
    REVERSED,
    SIGNS,
    VERDICT_COLUMNS,
    against_table,
    all_tests,
    differences_table,
    gains_figure,
    verdict_cells,
    verdict_note,
)
from epagcl.study.paired_test import corrected, paired_test


def family_of(*family):
    """Return the tests of some differences in points, with Holm's correction."""
    return corrected([paired_test(points) for points in family])


def test_the_figure_of_gains_has_a_line_of_dots_for_each_row():
    better, worse, level = family_of([1.0, 1.1, 0.9, 1.2], [-2.0, -2.1, -1.9, -2.2], [1, -1] * 3)
    figure = gains_figure({"DGI": [better, level], "GRACE": [worse]}, "accuracy minus raw features")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["DGI", "GRACE"]
    assert axes.get_xlabel().startswith("accuracy minus raw features, points")
    dots = sorted((place, mean) for drawn in axes.collections for mean, place in drawn.get_offsets().tolist())
    assert [place for place, _ in dots] == [0, 0, 1]
    assert [mean for _, mean in dots] == pytest.approx([level.mean, better.mean, worse.mean])
    means = [line.get_xdata()[0] for line in axes.lines[:2]]
    assert means == pytest.approx([(better.mean + level.mean) / 2, worse.mean])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["undecided", "worse", "better"]


def test_tests_of_a_row_are_counted_over_graphs():
    better, level, few = family_of([1.0, 1.1, 0.9, 1.2], [1.0, -1.0] * 3, [2.0])
    assert verdict_cells([better, level]) == ["+0.53", "1", "0", "1", "+4.1", f"{level.detectable:.1f}"]
    assert better.effect == pytest.approx(8.13, abs=0.01)  # 1.05 divided by 0.129; the other effect is 0
    assert verdict_cells([few]) == ["+2.00", "0", "0", "1", "–", "–"]
    assert verdict_cells([]) == ["–"] * (1 + len(VERDICT_COLUMNS))


def test_tables_of_a_row_against_others():
    better, worse, few = family_of([1.0, 1.1, 0.9, 1.2], [-2.0, -2.1, -1.9, -2.2], [2.0])
    tests = {("Cora", "GRACE"): few, ("Cora", "DGI"): better, ("Texas", "DGI"): worse}
    table = against_table("EPAGCL", tests)
    assert [row[:5] for row in table.rows] == [["GRACE", "+2.00", "0", "0", "1"], ["DGI", "-0.50", "1", "1", "0"]]
    assert "count the graphs on which EPAGCL is so" in table.note
    assert "for all 3 tests" in table.note
    table = differences_table("EPAGCL minus each row", tests, ["Cora", "Texas"])
    shown = f"({better.detectable:.1f})"
    assert table.rows == [["GRACE", "+2.0", "–"], ["DGI", f"+1.1 ▲ {shown}", f"-2.0 ▼ {shown}"]]


def test_signs_of_the_other_row_are_reversed():
    assert [SIGNS[REVERSED[word]] for word in ("better", "worse", "undecided")] == [" ▼", " ▲", ""]


def test_the_number_of_tests_is_in_words():
    assert [all_tests(count) for count in (0, 1, 12)] == ["all tests", "the 1 test", "all 12 tests"]
    assert "Holm's correction for the 1 test of the table." in verdict_note("A", 1)
