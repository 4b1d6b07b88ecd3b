import pytest
import torch

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
