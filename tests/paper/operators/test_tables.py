from epagcl.paper.operators.tables import figures, operators_of, tables
from epagcl.paper.tables import BEST, mark
from tests.paper.operators_demo import invented


def test_accuracies_with_the_best_marked():
    accuracy, _, _ = tables(invented())
    assert accuracy.columns == ["graph", "X", "A", "P", "splits"]
    calm, noisy = accuracy.rows
    assert [str(cell) for cell in calm] == ["calm", "61.0 ± 1.4", "81.0 ± 1.4", "85.0 ± 1.4", "2"]
    assert (mark(calm[3]), mark(noisy[1])) == (BEST, BEST)


def test_how_well_the_rules_choose():
    _, choice, _ = tables(invented())
    rows = {row[0]: row[1:] for row in choice.rows}
    assert rows["lowest EPR"] == ["+0.00", "1 of 2", "12.0", "24.0"]
    assert rows["highest gain (1 − r)² n"] == ["+1.00", "2 of 2", "0.0", "0.0"]
    assert rows["highest estimated gain, no labels"] == ["+0.07", "1 of 2", "15.0", "30.0"]
    assert rows["lowest EPR, without X"] == ["+0.00", "1 of 2", "2.0", "4.0"]
    assert rows["always A"] == ["–", "0 of 2", "12.0", "20.0"]


def test_rates_have_a_row_for_each_graph_and_operator():
    *_, rates = tables(invented())
    assert len(rates.rows) == 6
    assert rates.rows[1] == ["calm", "0.900", "A", "0.080", "0.080", "0.100", "0.200", "4.00", "3.24", "2.56", "81.0"]


def test_figures_have_a_line_for_each_graph():
    drawn = figures(invented())
    assert list(drawn) == ["", "estimate"]
    panels = drawn[""].axes
    assert [axes.get_xlabel() for axes in panels] == ["EPR per node", "gain (1 − r)² n", "estimated gain, no labels"]
    first, second = panels[0].get_lines()[:2]
    assert (first.get_label(), first.get_linestyle()) == ("calm", "-")
    assert first.get_xydata().round(6).tolist() == [[0, 0], [0.08, 20], [0.4, 24]]
    assert (second.get_label(), second.get_linestyle()) == ("noisy", "--")


def test_nothing_is_shown_without_graphs():
    assert tables({"graphs": {}}) == []
    assert figures({"graphs": {}}) == {}
    assert operators_of(invented()) == ["X", "A", "P"]
