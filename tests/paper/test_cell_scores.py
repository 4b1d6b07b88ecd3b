import pytest

from epagcl.paper import reported
from epagcl.paper.cell_scores import (
    accuracies,
    compared_scores,
    graphs_of,
    measured_graphs,
    ranks_of,
    reported_gaps,
    reported_ranks_of,
    reported_scores,
    reported_text,
    runs_by_seed,
    scores,
    self_supervised_titles,
    titles_of,
    usual_runs,
)
from epagcl.study.ranking import mean_ranks
from tests.paper.conftest import cell, result


@pytest.fixture
def invented():
    cells = [
        cell("GRACE", "Cora", [85, 87]),
        cell("raw features", "Cora", [60, 62]),
        cell("GCN", "Cora", [80, 82]),
        cell("my method", "CiteSeer", [70]),
        cell("GCA*", "Cora", [83]),
    ]
    return result(cells, absent={"WikiCS": "data are absent"}, datasets=("wikics", "citeseer", "cora"))


def test_graphs_are_in_the_order_of_the_request(invented):
    assert graphs_of(invented) == ["WikiCS", "CiteSeer", "Cora"]
    assert measured_graphs(invented) == ["CiteSeer", "Cora"]


def test_titles_are_in_the_order_of_the_table(invented):
    assert titles_of(invented) == ["raw features", "GCN", "GRACE", "GCA*", "my method"]
    assert self_supervised_titles(invented) == ["GRACE", "GCA*", "my method"]
    invented["asked"]["methods"] = ["dgi"]
    assert "DGI" in titles_of(invented)


def test_accuracies_by_row(invented):
    assert scores(invented, "strict", "Cora") == pytest.approx({"GRACE": 86, "raw features": 61, "GCN": 81, "GCA*": 83})
    assert accuracies(invented, "strict", "Cora")["GRACE"]["runs"] == [0.85, 0.87]
    assert scores(invented, "paper", "Cora") == {}
    assert usual_runs(invented, "strict", "Cora") == 2
    assert usual_runs(invented, "paper", "Cora") == 0


def test_reported_accuracies():
    assert reported_scores("Cora")["EPAGCL"] == 86.07
    assert reported_text("Cora", "EPAGCL", "strict") == "86.1"
    assert reported_text("ogbn-arxiv", "GREET", "paper") == "OOM"
    assert reported_text("Texas", "EPAGCL", "paper") == "64.1"
    assert reported_text("Cora", "GRACE", "public") == "81.9"
    assert reported_text("Cora", "my method", "public") == reported_text("Cora", "my method", "paper") == ""


def test_gaps_are_means_over_graphs():
    cells = [cell("EPAGCL", "Cora", [84, 86]), cell("EPAGCL", "CiteSeer", [72]), cell("my method", "Cora", [1])]
    gaps = reported_gaps(result(cells), "strict")
    assert gaps == pytest.approx({"EPAGCL": ((85 - 86.07) + (72 - 71.94)) / 2})
    assert reported_gaps(result(cells), "paper") == {}


def test_ranks_of_the_paper_are_reproduced():
    table = reported()["accuracy"]
    graphs = {graph: reported_scores(graph) for graph in table["columns"]}
    ranks = mean_ranks(graphs, [title for title in table if title not in ("columns", "GCN", "GAT")])
    printed = {"DGI": 7.8, "GRACE": 3.6, "GCA*": 4.6, "GCA": 4.7, "BGRL": 6.1, "EPAGCL*": 3.0, "EPAGCL": 2.0}
    for title, rank in printed.items():
        assert ranks[title] == pytest.approx(rank, abs=0.25), title  # the paper does not say how it ranks OOM


def test_only_methods_with_enough_runs_on_every_graph_are_ranked():
    cells = [
        *(
            cell(title, graph, runs)
            for graph in ("Cora", "CiteSeer")
            for title, runs in (("DGI", [80] * 20), ("GCA", [70, 71, 71, 71, 71]))
        ),
        cell("GRACE", "Cora", [90] * 20),  # lacks a graph
        cell("BGRL", "Cora", [85] * 4),  # lacks a run
        cell("BGRL", "CiteSeer", [85] * 5),
    ]
    made = result(cells, datasets=("Cora", "CiteSeer"))
    ranks = ranks_of(made, "strict")
    assert ranks.mean == {"DGI": 1.0, "GCA": 2.0}
    assert ranks.graphs == ["Cora", "CiteSeer"]
    assert ranks.unranked == ["GRACE", "BGRL"]
    assert "BGRL" not in compared_scores(made, "strict", "Cora")
    assert runs_by_seed(made, "strict", "Cora")["GCA"] == pytest.approx({0: 70, 1: 71, 2: 71, 3: 71, 4: 71})
    reported_ranks = reported_ranks_of(made, "strict").mean
    assert reported_ranks["GRACE"] < reported_ranks["DGI"]
    assert ranks_of(result([]), "strict").mean == {}
