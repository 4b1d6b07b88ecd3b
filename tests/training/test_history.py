import csv
import math

import pytest
import torch
from torch_geometric.data import Data

from epagcl import EPAGCL, Propagated
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.data.structural import with_structural_features
from epagcl.evaluation.health import alignment, distance_between_nodes, effective_rank, uniformity
from epagcl.training.history import MEASURES, SUBSAMPLED, Look, examine, measure, next_measurement, write_history
from tests.training.common import GCN, LEARNS, SMALL


def test_history_file_has_one_line_per_epoch(tmp_path, small_graph):
    model = EPAGCL(epochs=3, **SMALL).fit(small_graph)
    write_history(model.history_, tmp_path / "history.csv")
    with open(tmp_path / "history.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert float(rows[2]["loss"]) == model.history_[2]["loss"]
    assert rows[0]["effective_rank"] == ""
    assert float(rows[2]["effective_rank"]) > 1


def test_history_of_a_method_with_a_validation_loss(tmp_path, easy_graph):
    model = GCN(**{**LEARNS, "epochs": 3}).fit(easy_graph)
    assert list(model.history_[0]) == ["epoch", "loss", "seconds", *MEASURES, "validation_loss"]
    write_history(model.history_, tmp_path / "history.csv")
    with open(tmp_path / "history.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["validation_loss"]) for row in rows] == [row["validation_loss"] for row in model.history_]
    assert all(0 < float(row["validation_loss"]) < 5 for row in rows)


@pytest.mark.parametrize(
    ("epoch", "expected"), [(0, 25), (24, 25), (25, 50), (49, 50), (50, 100), (100, 200), (399, 400)]
)
def test_measurements_follow_at_doubling_intervals(epoch, expected):
    assert next_measurement(epoch) == expected


def test_the_next_look_is_at_the_next_multiple():
    look = Look(every=4, function=print)
    assert [look.next_epoch(epoch) for epoch in (0, 3, 4, 9)] == [4, 4, 8, 12]


def test_measures_are_those_of_the_embedding_and_of_two_subsamples(small_graph):
    model = EPAGCL(epochs=2, **SMALL).fit(small_graph)
    graph = Graph.from_data(check(small_graph))
    with torch.no_grad():
        z, first, second = (
            model.represent(model.network_, view)
            for view in (graph, graph.subsample(SUBSAMPLED, 1), graph.subsample(SUBSAMPLED, 2))
        )
    assert measure(model, model.network_, graph) == {
        "effective_rank": effective_rank(z),
        "alignment": alignment(first, second),
        "distance": distance_between_nodes(z),
        "uniformity": uniformity(z),
    }
    assert tuple(measure(model, model.network_, graph)) == MEASURES


def test_measures_of_an_embedding_that_is_not_finite_are_nan(small_graph, monkeypatch):
    model = EPAGCL(epochs=0, **SMALL).fit(small_graph)
    monkeypatch.setattr(EPAGCL, "represent", lambda self, network, graph: torch.full((60, 16), float("inf")))
    measures = measure(model, model.network_, Graph.from_data(check(small_graph)))
    assert all(math.isnan(measures[name]) for name in MEASURES)


def test_kept_edges_are_not_judged_if_features_come_from_edges():
    """Positions are computed from all edges, so that hidden ones can be read from them."""
    shape = {"num_classes": 3, "num_features": 40, "topic_words": 10, "words_per_node": 12}
    data = block_model(300, **shape, topic_share=0.7, homophily=0.95, average_degree=10)
    with_positions = with_structural_features(Data(edge_index=data.edge_index, num_nodes=300), dim=32)
    for graph, judged in ((data, True), (with_positions, False)):
        model = Propagated(dim=16, device="cpu").fit(graph)
        prepared = Graph.from_data(check(graph))
        known, hidden = (
            [found.name for found in examine(model, model.network_, prepared, trained=False, edges_known=edges_known)]
            for edges_known in (True, False)
        )
        assert "kept edges" in hidden
        assert known == [name for name in hidden if name != "kept edges"]
        assert ("kept edges" in [found.name for found in model.health(graph)]) is judged
