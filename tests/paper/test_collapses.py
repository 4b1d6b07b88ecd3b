from epagcl.paper.collapses import collapsed, collapsed_reading, low_rank_reading
from tests.paper.conftest import cell, result

MOST = [20, 30, 25, 90]  # of these runs collapse


def made():
    cells = [
        cell("GRACE", "Cora", MOST),
        cell("GCA", "Cora", [91, 92, 20, 93]),
        cell("DGI", "Cora", [90, 91, 92, 72.1]),
    ]
    return result([*cells, cell("DGI", "CiteSeer", [70, 50, 71])], datasets=("cora", "citeseer"))


def test_runs_far_below_the_median_of_their_row_collapsed():
    assert collapsed(made(), "strict", "Cora") == {"GCA": 1}
    assert collapsed(made(), "strict", "CiteSeer") == {}  # 20 points below the median is not yet far
    assert collapsed(made(), "strict", "PubMed") == {}


def test_the_median_of_the_best_row_shows_that_most_runs_collapse():
    assert collapsed(made(), "strict", "Cora", best=True) == {"GRACE": 3, "GCA": 1}


def test_collapsed_runs_are_counted_by_graph():
    [text] = collapsed_reading(made(), "strict", best=True)
    assert "20 points below the median of the best row" in text
    assert text.endswith("Cora: GRACE (3 of 4), GCA (1 of 4).")
    [text] = collapsed_reading(made(), "strict")
    assert "below the median of their row" in text
    assert text.endswith("Cora: GCA (1 of 4).")
    assert collapsed_reading(result([cell("DGI", "Cora", [70, 71])], datasets=("cora",)), "strict") == []


def test_embeddings_that_are_nearly_a_line_are_named():
    def trained(title, graph, epochs, ranks):
        return cell(title, graph, [70, 71], training={"epochs": epochs, "effective_rank": ranks})

    cells = [
        trained("GCA*", "Texas", [9, 9], [1.2, 5.0]),
        trained("GCA*", "Cora", [9, 9], [1.0, 1.5]),
        trained("untrained GCA", "Texas", [0, 0], [1.0, 1.0]),
        trained("GRACE", "Texas", [9, 9], [None, 3.0]),
        trained("GCN", "Texas", [9, 9], [1.5, 1.5]),
        cell("raw features", "Texas", [60, 61], training=None),
    ]
    (text,) = low_rank_reading(cells)
    assert text.endswith("below 2 after training: GCA\\*: Texas 1 of 2, Cora 2 of 2.")
    assert low_rank_reading(cells[2:]) == []
