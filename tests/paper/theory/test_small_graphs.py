import itertools

import pytest
import torch

from epagcl.epr.change import epr_change, theorem_3_3_conditions, theorem_3_3_repaired
from epagcl.paper.theory.small_graphs import adjacency_of_all, count_exceptions, small_graphs


@pytest.mark.slow
def test_the_repaired_theorem_has_no_exception_on_any_small_graph():
    rows = small_graphs()["rows"]
    assert [(row["nodes"], row["form"]) for row in rows] == [(n, form) for n in (3, 4, 5, 6) for form in ("d", "d1")]
    for row in rows:
        assert row["repaired"][1] == row["degrees"][1] == 0
        assert row["degrees"][0] <= row["repaired"][0] <= row["all"][0]
        assert row["paper"][1] <= row["all"][1]
    assert [row["paper"][1] > 0 for row in rows[-2:]] == [True, True]  # the theorem as stated has some in both readings


@pytest.mark.slow
@pytest.mark.parametrize("self_loops", [False, True])
def test_counts_agree_with_the_graphs_one_by_one(self_loops):
    counts = {"all": [0, 0], "paper": [0, 0], "repaired": [0, 0]}
    pair = torch.tensor([[0], [1]])
    for adjacency in adjacency_of_all(4):
        edge_index = adjacency.triu().nonzero().T
        met = {
            "all": True,
            "paper": theorem_3_3_conditions(edge_index, 4).holds,
            "repaired": bool(theorem_3_3_repaired(edge_index, 4, pair, self_loops=self_loops)),
        }
        for rest in itertools.product(range(3), repeat=3):
            change = float(epr_change(edge_index, torch.tensor([0, *rest]), pair, self_loops=self_loops))
            against = change < -1e-12 if rest[0] else change > 1e-12
            for condition in met:
                counts[condition][0] += met[condition]
                counts[condition][1] += met[condition] and against
    row = count_exceptions(4, self_loops)
    assert {condition: row[condition] for condition in counts} == counts


def test_all_graphs_with_an_edge_but_without_the_added_one():
    graphs = adjacency_of_all(4)
    assert len(graphs) == len(graphs.unique(dim=0)) == 2**5 - 1
    assert not graphs[:, 0, 1].any()
    assert torch.equal(graphs, graphs.mT)
    assert graphs.flatten(1).any(dim=1).all()
