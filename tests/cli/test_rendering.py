import pytest

from epagcl.cli.rendering import comparison_cells, groups_note, overall_table, short_names, show_overall
from epagcl.data import block_model
from epagcl.paper.tables import mark
from epagcl.study.summary import ranking_of
from tests.study.conftest import SMALL, compare, row
from tests.study.invented import invented


def test_a_users_graph_with_the_name_of_a_named_graph_has_no_published_figures(tmp_path):
    data = block_model(60, num_classes=3, num_features=20, topic_words=5, words_per_node=5)
    for named, figure in ((False, "–"), (True, "85.3 ± 0.3")):
        options = {"seeds": 1, "protocols": ["strict"], "settings": SMALL, "named": named}
        result = compare(data, "Cora", row("grace"), tmp_path / str(named), **options)
        assert comparison_cells("Cora", result, ["strict"])[2] == figure


@pytest.fixture
def results():
    """Four rows on six graphs; the last row has one graph."""
    graphs = [f"graph-{letter}" for letter in "abcdef"]
    accuracies = {
        title: {graph: [value] for graph in graphs} for title, value in (("EPAGCL+", 90.04), ("DGI", 70), ("raw", 70))
    }
    return invented({**accuracies, "MVGRL": {graphs[0]: [95, 97]}})


def test_the_table_over_all_graphs_has_means_ranks_and_marks(results):
    table = overall_table(results, ranking_of(results, "strict"), "strict")
    assert table.columns == ["method", *results, "mean", "rank"]
    cells = {str(row[0]): [str(cell) for cell in row[1:]] for row in table.rows}
    assert cells["EPAGCL+"] == ["90.0"] * 7 + ["1.0"]
    assert cells["DGI"] == cells["raw"] == ["70.0"] * 7 + ["2.5"]
    assert cells["MVGRL"] == ["96.0"] + ["–"] * 7
    marks = {str(row[0]): [mark(cell) for cell in row[1:]] for row in table.rows}
    assert marks["MVGRL"] == ["best"] + [""] * 7
    assert marks["EPAGCL+"] == ["second"] + ["best"] * 7
    assert marks["DGI"] == [""] + ["second"] * 7
    for words in (
        "Protocol strict, splits random 10/10/80, 1 to 2 seeds",
        "among the 3 ranked rows",
        "χ² = 12.0 with 2 degrees of freedom, p = 0.0025",
        "Not ranked, since results on some graphs are missing or too few: MVGRL. Measured on GPU.",
    ):
        assert words in table.note


def test_means_of_few_runs_are_in_parentheses_and_not_compared():
    many, few = {"a": [70.0] * 5, "b": [60.0] * 5}, {"a": [80.0] * 5, "b": [90.0] * 4}
    results = invented({"DGI": many, "GRACE": many, "GREET": few})
    table = overall_table(results, ranking_of(results, "strict"), "strict")
    assert [[str(cell) for cell in row] for row in table.rows] == [
        ["DGI", "70.0", "60.0", "65.0", "1.5"],
        ["GRACE", "70.0", "60.0", "65.0", "1.5"],
        ["GREET", "80.0", "(90.0)", "–", "–"],
    ]
    assert [mark(row[2]) for row in table.rows] == ["best", "best", ""]
    assert "In parentheses: means of fewer than 5 runs, which are not compared." in table.note
    assert "missing or too few: GREET." in table.note


def test_without_a_ranking_there_are_no_means(results):
    table = overall_table({"graph-a": results["graph-a"]}, None, "strict")
    assert [str(row[-1]) for row in table.rows] == ["–"] * 4


def test_a_table_wider_than_the_terminal_is_continued(results, monkeypatch, capsys):
    from rich.console import Console

    ranking = ranking_of(results, "strict")
    for width, tables in ((120, 1), (60, 2)):
        monkeypatch.setattr("epagcl.cli.rendering._console", lambda width=width: Console(width=width))
        show_overall(results, ranking, "strict")
        out = capsys.readouterr().out
        assert out.count("method ") == tables
        assert "…" not in out
        assert all(f" {name} " in out for name in results)


def test_the_note_on_groups_says_when_no_pair_can_differ(results):
    note = groups_note(ranking_of(results, "strict"))
    assert "Holm: 3 pairs, 0.05). Rows without a common bar need not differ. With 6 observations, no pair can." in note
    assert note.endswith("The ruler is Nemenyi's critical difference, which the bars do not use.")


def test_short_names_of_graphs():
    names = ["Cora", "Amazon-Photo", "Coauthor-Physics", "ogbn-arxiv", "my-graph"]
    assert short_names(names) == ["Cora", "Photo", "Physics", "arxiv", "my-graph"]
    assert short_names(["Amazon-Photo", "Photo"]) == ["Amazon-Photo", "Photo"]
