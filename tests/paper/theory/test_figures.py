from epagcl.paper.theory.figures import figures
from tests.paper.theory_demo import theory_of_demo


def test_figures_explain_their_error_bars():
    drawn = figures(theory_of_demo())
    assert drawn["views"].axes[0].get_xlabel().endswith("mean ± std over views")
    assert drawn["views"].get_supxlabel() == "views of each graph: 10"
    assert "Wilson 95%" in drawn["theorem-3-3"].axes[0].get_xlabel()


def test_without_graphs_only_the_random_graphs_are_drawn():
    result = theory_of_demo()
    result["graphs"] = {}
    assert list(figures(result)) == ["theorem-3-3"]
