import pytest

from epagcl.paper.sensitivity.settings import SETTINGS
from epagcl.paper.sensitivity.sweeps import sweeps
from epagcl.paper.sensitivity.tables import SIGN, figures, tables
from epagcl.paper.tables import latex, mark
from tests.paper.conftest import result
from tests.paper.sensitivity_demo import demo_result


@pytest.fixture(scope="module")
def made():
    return demo_result()


def test_settings_are_ordered_by_their_range(made):
    order, *_ = tables(made)
    assert list(order.columns) == ["method", "setting", "mean range", "Cora", "Chameleon"]
    assert [row[:3] for row in order.rows[:3]] == [
        ["EPAGCL", "τ", "8.0"],
        ["EPAGCL", "epochs", "4.0"],
        ["EPAGCL+", "width", "2.0"],
    ]
    assert len(order.rows) == 2 * len(SETTINGS)
    signs = [[SIGN in str(text) for text in row[3:]] for row in order.rows]
    assert signs == [[True, True]] * 3 + [[False, False]] * 9
    one = next(one for one in sweeps(made) if (one.graph, one.method, one.label) == ("Cora", "EPAGCL", "τ"))
    assert order.rows[0][3] == f"8.0 ({one.error:.1f}) {SIGN}"
    assert "5 seeds" in order.note


def test_a_missing_sweep_is_a_dash(made):
    cells = [one for one in made["cells"] if (one["graph"]["name"], one["row"]) != ("Chameleon", "EPAGCL, τ = 0.1")]
    order, *_ = tables({**made, "cells": cells})
    (line,) = (row for row in order.rows if row[:2] == ["EPAGCL", "τ"])
    assert line[2] == line[4] == "–"
    assert order.rows[-1] == line


def test_variance_in_points_and_per_cent(made):
    _, variance, _ = tables(made)
    first = variance.rows[0]
    assert first[:7] == ["Cora", "EPAGCL", "3 × 5", "70.0", "1.00 (17%)", "2.24 (83%)", "0.00 (0%)"]
    assert [float(text) for text in first[7:]] == pytest.approx([1.5**0.5, 5.1**0.5, 0.6**0.5], abs=0.005)


def test_all_values_with_the_default_in_bold(made):
    *_, values = tables(made)
    assert values.folded
    (line,) = (row for row in values.rows if row[:3] == ["Cora", "EPAGCL", "τ"])
    assert str(line[3]) == "0.1: 66.0 ± 0.2"
    assert [bool(mark(text)) for text in line[3:8]] == [False, False, True, False, False]
    assert line[-2:] == ["1", "+4.0"]
    *_, values = tables(demo_result(("Cora",), validation=False))
    assert values.rows[0][-2:] == ["–", "–"]


def test_latex_is_ascii(made):
    assert all(latex(table).isascii() for table in tables(made))


def test_the_figure_has_a_row_for_each_graph_and_a_column_for_each_setting(made):
    drawn = figures(made)
    assert set(drawn) == {"", "variance"}
    panels = drawn[""].axes
    assert len(panels) == 2 * len(SETTINGS)
    assert [axes.get_xlabel() for axes in panels[len(SETTINGS) :]] == list(SETTINGS)
    tau = panels[0]
    lines = [line for line in tau.lines if len(line.get_xdata()) == 5]
    assert [line.get_label() for line in lines] == ["EPAGCL", "EPAGCL+"]
    assert list(lines[0].get_xdata()) == [0.1, 0.2, 0.3, 0.5, 1.0]
    defaults = [line.get_xdata()[0] for line in tau.lines if len(line.get_xdata()) == 1]
    assert defaults == [0.3, 0.5]
    assert len(tau.collections) == 2  # a band for each method


def test_shares_of_the_variance_add_up_to_one_hundred(made):
    (axes,) = figures(made)["variance"].axes
    ends = {}
    for bar in axes.patches:
        ends.setdefault(round(bar.get_y(), 6), []).append(bar.get_width())
    assert [sum(widths) for widths in ends.values()] == pytest.approx([100.0] * 4)


def test_without_runs_there_is_nothing_to_show():
    empty = result([], crossed=[])
    assert tables(empty) == []
    assert figures(empty) == {}
