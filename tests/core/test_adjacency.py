import pytest
import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from epagcl.core.adjacency import gcn_adjacency, self_looped_entries


@pytest.mark.parametrize("pairs", [[], [(0, 1)], [(0, 1), (1, 2), (0, 3)]])
def test_entries_are_both_directions_of_each_pair_and_all_loops(pairs):
    n = 4
    counter = torch.tensor([i * n + j for i, j in pairs], dtype=torch.long)
    row, col, pair = self_looped_entries(counter, n)
    expected = {(i, i): len(pairs) for i in range(n)}
    for number, (i, j) in enumerate(pairs):
        expected[i, j] = expected[j, i] = number
    entries = list(zip(row.tolist(), col.tolist(), strict=True))
    assert entries == sorted(expected)
    assert pair.tolist() == [expected[entry] for entry in entries]


@pytest.mark.parametrize("pairs", [[], [(0, 1)], [(0, 1), (1, 2), (0, 3)]])
def test_gcn_adjacency_equals_the_formula(pairs):
    n = 4
    a = torch.eye(n)
    for i, j in pairs:
        a[i, j] = a[j, i] = 1
    scale = a.sum(1).rsqrt()
    row, col = a.nonzero().T
    adjacency = gcn_adjacency(row, col, n)
    torch.testing.assert_close(adjacency.to_dense(), scale[:, None] * a * scale)
    # Â D̃^½ 1 = D̃^½ 1
    root = a.sum(1).sqrt()[:, None]
    torch.testing.assert_close(adjacency @ root, root)
    assert adjacency.T is adjacency


def test_weighted_adjacency_equals_pyg():
    n = 6
    row, col, pair = self_looped_entries(torch.tensor([1, 2, 8, 11]), n)
    weight = torch.cat([torch.tensor([0.5, 2.0, 1.5, 0.25]), torch.ones(1)])[pair]
    loops = row == col
    expected, value = gcn_norm(torch.stack([row, col])[:, ~loops], weight[~loops], num_nodes=n)
    dense = torch.zeros(n, n)
    dense[expected[0], expected[1]] = value
    torch.testing.assert_close(gcn_adjacency(row, col, n, weight).to_dense(), dense)


def test_weights_of_1_change_no_bit():
    row, col, _ = self_looped_entries(torch.tensor([1, 2, 8, 11]), 6)
    plain, weighted = gcn_adjacency(row, col, 6), gcn_adjacency(row, col, 6, torch.ones(row.numel()))
    assert torch.equal(plain.value, weighted.value)
