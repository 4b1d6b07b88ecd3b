import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.data import block_model, check, read_graph, undirected_pairs
from epagcl.tasks.edge_split import (
    NodeDraw,
    edge_times,
    random_non_edges,
    sample_non_edges,
    split_edges,
    training_graph,
)


@pytest.fixture(scope="module")
def graph():
    return block_model(200, num_classes=4, num_features=30, topic_words=8, average_degree=6, seed=0)


def keys(pairs, nodes):
    return set((pairs[0] * nodes + pairs[1]).tolist())


def test_a_random_split_holds_every_edge_once(graph):
    split = split_edges(graph)
    pairs = undirected_pairs(graph.edge_index, 200).numpy()
    parts = [keys(part, 200) for part in split[:3]]
    assert set.union(*parts) == keys(pairs, 200)
    assert sum(map(len, parts)) == pairs.shape[1]
    assert [len(part) / pairs.shape[1] for part in parts] == pytest.approx([0.85, 0.05, 0.10], abs=0.005)
    assert split.kind == "random"
    assert keys(split_edges(graph, seed=1).test, 200) != parts[2]
    assert keys(split_edges(graph).test, 200) == parts[2]


def test_the_training_graph_has_no_held_out_edge_and_all_nodes(graph):
    split = split_edges(graph)
    train = training_graph(graph, split)
    assert keys(undirected_pairs(train.edge_index, 200).numpy(), 200) == keys(split.train, 200)
    assert (train.num_nodes, train.edge_index.shape[1]) == (200, 2 * split.train.shape[1])
    assert graph.edge_index.shape[1] > train.edge_index.shape[1]


def test_by_time_no_training_edge_is_later_than_a_test_edge(graph):
    times = torch.from_numpy(np.random.default_rng(0).integers(0, 40, graph.edge_index.shape[1]))
    split = split_edges(graph, times)
    first = {}
    for i, j, time in zip(*graph.edge_index.tolist(), times.tolist(), strict=True):
        pair = (min(i, j), max(i, j))
        first[pair] = min(time, first.get(pair, time))
    train, val, test = ([first[tuple(pair)] for pair in part.T.tolist()] for part in split[:3])
    assert max(train) < min(val)
    assert max(val) < min(test)
    assert len(train) + len(val) + len(test) == len(first)
    assert split.kind == "by time"


def test_splits_by_time_need_different_times(graph):
    edges = graph.edge_index.shape[1]
    with pytest.raises(InputError, match="fewer than three different ones"):
        split_edges(graph, torch.zeros(edges))
    with pytest.raises(InputError, match=rf"^times: 2 for {edges:,} edges; give one per column of edge_index$"):
        split_edges(graph, torch.zeros(2))
    with pytest.raises(InputError, match="missing or infinite"):
        split_edges(graph, torch.full((edges,), float("nan")))
    small = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    with pytest.raises(InputError, match=r"^2 edges: link prediction needs at least 20 to hold some out$"):
        split_edges(small)


def test_three_times_are_enough():
    edges = torch.stack([torch.arange(30), torch.arange(1, 31)])
    times = torch.tensor([0] * 20 + [1] * 4 + [2] * 6)
    split = split_edges(Data(edge_index=edges, num_nodes=31), times)
    assert [part.shape[1] for part in split[:3]] == [20, 4, 6]


def test_sampled_pairs_have_no_edge(graph):
    pairs = undirected_pairs(graph.edge_index, 200).numpy()
    sampled = random_non_edges(2000, pairs, NodeDraw(200, None, np.random.default_rng(0)))
    assert (sampled[0] != sampled[1]).all()
    assert not keys(np.sort(sampled, axis=0), 200) & keys(pairs, 200)
    complete = np.stack(np.triu_indices(4, 1))
    with pytest.raises(InputError, match="nearly all others"):
        sample_non_edges(*np.zeros((2, 3), int), complete, NodeDraw(4, None, np.random.default_rng(0)))


def test_times_may_be_numbers_or_dates(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("source,target,t,day\na,b,3,2024-02-01\nc,b,1.5,2023-12-31\nb,c,7,2025-01-01\n")
    data = read_graph(edges=path, need_features=False)
    assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert edge_times(path, "t", data).tolist() == [3, 3, 1.5, 1.5]
    path.write_text("source,target,t,day\na,b,0930,2024-02-01\nc,b,1015,2023-12-31\nb,c,1200,2025-01-01\n")
    assert edge_times(path, "t", data).tolist() == [930, 930, 1015, 1015]  # text in a table of features
    days = edge_times(path, "day", data)
    assert ((days[0] - days[2]) / 86_400e6).item() == 32
    with pytest.raises(InputError, match=r"^e.csv: no column 'year' for time=; its columns are"):
        edge_times(path, "year", data)
    path.write_text("source,target,t\na,b,3\nc,b,\n")
    with pytest.raises(InputError, match=r"^e.csv: line 3: column t has no number and no date; fill it"):
        edge_times(path, "t", data)


def test_weights_stay_with_their_edges(graph):
    weighted = graph.clone()
    weighted.edge_weight = (graph.edge_index[0] * graph.edge_index[1]).float() + 1
    checked = check(weighted, quiet=True)
    train = training_graph(checked, split_edges(checked))
    products = (train.edge_index[0] * train.edge_index[1]).float() + 1
    assert torch.allclose(train.edge_weight / train.edge_weight[0], products / products[0])


def test_kinds_stay_with_their_edges(graph):
    typed = graph.clone()
    typed.edge_type = (graph.edge_index.sum(0) % 2).long()
    checked = check(typed, quiet=True)
    train = training_graph(checked, split_edges(checked))
    assert train.edge_relation.shape == (train.num_edges, 2)
    assert train.edge_relation[:, 1].equal((train.edge_index.sum(0) % 2).float())


def test_pairs_without_an_edge_have_the_kinds_of_edges():
    """Users have no edges to users: such pairs would be told from edges by their kinds alone."""
    generator = np.random.default_rng(0)
    kinds = np.repeat([0, 1, 2], [30, 50, 20])  # users, items, shops
    pairs = np.stack([generator.integers(30, size=150), 30 + generator.integers(50, size=150)])
    more = np.stack([30 + generator.integers(50, size=50), 80 + np.arange(50) % 20])
    pairs = np.unique(np.hstack([pairs, more]), axis=1)
    draw = NodeDraw(100, kinds, generator)
    sampled = random_non_edges(4000, pairs, draw)
    assert not keys(np.sort(sampled, axis=0), 100) & keys(pairs, 100)
    shares = [[np.mean((row == kinds[each].T).all(1)) for row in ([0, 1], [1, 2])] for each in (pairs, sampled)]
    assert sum(shares[1]) == 1
    assert shares[1] == pytest.approx(shares[0], abs=0.03)
    assert set(draw(np.full(2000, 85)).tolist()) == set(range(80, 100))


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["31/12/2021", "01/02/2022", "13/01/2022"], [0, 32, 13]),
        (["31 Dec 2021", "1 Feb 2022", "13 Jan 2022"], [0, 32, 13]),
        (["2021-12-31", "2022-02-01", "2022-01-13"], [0, 32, 13]),
    ],
    ids=["day first", "month by name", "ISO"],
)
def test_times_are_dates_in_the_formats_of_tables(tmp_path, times, expected):
    path = tmp_path / "e.csv"
    path.write_text("source,target,t\n" + "".join(f"a{k},a{k + 1},{time}\n" for k, time in enumerate(times)))
    days = edge_times(path, "t", read_graph(edges=path, need_features=False)).view(-1, 2)[:, 0] / 86400e6
    assert sorted((days - days.min()).tolist()) == sorted(expected)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (
            ["01/02/2021", "03/04/2021"],
            r"column t: day and month of '01/02/2021' cannot be told apart; write 2024-01-31",
        ),
        (["2021-01-01", ""], r"line 3: column t has no number and no date; fill it or drop the row"),
        (["2021-01-01", "31/12/2021"], r"line 3: column t has no number and no date; write all dates alike"),
    ],
    ids=["ambiguous", "missing", "two formats"],
)
def test_times_that_cannot_be_read(tmp_path, times, message):
    path = tmp_path / "e.csv"
    path.write_text("source,target,t\n" + "".join(f"a{k},a{k + 1},{time}\n" for k, time in enumerate(times)))
    with pytest.raises(InputError, match=message):
        edge_times(path, "t", read_graph(edges=path, need_features=False))
