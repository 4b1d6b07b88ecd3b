"""Which runs of tuned methods can be compared: those on the outer test sets that all rows have."""

from epagcl.paper.tuned.budget import SEEDS
from epagcl.paper.tuned.cells import comparable, outer_sets_by_place, scores_of


def cell(row, outer, graph="Cora", untrained=True, **more):
    """Return a cell with runs on some outer test sets; run k has accuracy k/100."""
    numbers = [SEEDS * one + k for one in outer for k in range(SEEDS)]
    scores = scores_of({number: number / 100 for number in numbers})
    return {
        "row": row,
        "graph": {"name": graph},
        "hardware": ["H200"],
        "commits": ["a"],
        "searches": [{"outer": one} for one in outer],
        "protocols": {"strict": scores},
        "untrained": scores if untrained else None,
        **more,
    }


def both(_):
    return ["raw", "DGI"]


def test_runs_on_common_test_sets_are_comparable():
    cells = [cell("raw", [0, 1, 2], untrained=False), cell("DGI", [0, 2, 3])]
    chosen, others = comparable(cells, both)
    assert outer_sets_by_place(chosen) == {("Cora", "raw"): {0, 2}, ("Cora", "DGI"): {0, 2}}
    assert outer_sets_by_place(others) == {("Cora", "raw"): {1}, ("Cora", "DGI"): {3}}
    raw, dgi = chosen
    assert (raw["untrained"], dgi["untrained"]) == (None, dgi["protocols"]["strict"])
    assert dgi["searches"] == [{"outer": 0}, {"outer": 2}]
    assert dgi["protocols"]["strict"]["accuracy"]["runs"] == [k / 100 for k in (*range(5), *range(10, 15))]
    assert dgi["protocols"]["strict"]["split"] == "random 10/10/80, 2 outer test sets"
    assert others[0]["protocols"]["strict"]["split"] == "random 10/10/80, 1 outer test set"


def test_one_common_test_set_is_too_few():
    chosen, others = comparable([cell("raw", [0, 1]), cell("DGI", [1, 2])], both)
    assert chosen == []
    assert outer_sets_by_place(others) == {("Cora", "raw"): {0, 1}, ("Cora", "DGI"): {1, 2}}


def test_graphs_are_judged_on_their_own():
    cells = [cell("raw", [0, 1]), cell("DGI", [0, 1]), cell("raw", [0, 1], graph="Texas")]
    chosen, others = comparable(cells, both)
    assert {one["graph"]["name"] for one in chosen} == {"Cora"}
    assert {one["graph"]["name"] for one in others} == {"Texas"}
    chosen, _ = comparable(cells, lambda graph: ["raw"] if graph == "Texas" else both(graph))
    assert {one["graph"]["name"] for one in chosen} == {"Cora", "Texas"}


def test_several_cells_of_a_row_are_joined():
    cells = [
        cell("DGI", [0]),
        cell("DGI", [2], hardware=["cpu"], commits=["b"]),
        cell("DGI", [1]),
        cell("raw", [0, 1, 2]),
    ]
    (dgi, raw), others = comparable(cells, both)
    assert dgi["protocols"] == raw["protocols"]
    assert (dgi["hardware"], dgi["commits"]) == (["H200", "cpu"], ["a", "b"])
    assert dgi["searches"] == [{"outer": 0}, {"outer": 1}, {"outer": 2}]
    assert others == []
