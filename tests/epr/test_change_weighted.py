import pytest
import torch

from epagcl.epr import epr_change
from epagcl.epr.rate import compute_messages, compute_rates
from tests.conftest import random_edges


@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_change_of_a_weighted_graph_equals_the_difference_of_the_rates(seed, self_loops):
    n = 8
    generator = torch.Generator().manual_seed(seed)
    edges, y = random_edges(n, 0.4, seed), torch.randint(3, (n,), generator=generator)
    weight = torch.rand(edges.shape[1], generator=generator, dtype=torch.float64) + 0.1
    weight /= weight.mean()
    present = {(i, j): float(w) for (i, j), w in zip(edges.T.tolist(), weight, strict=True)}

    def rate(weights):
        pairs = torch.tensor(sorted(weights)).T.reshape(2, -1)
        value = torch.tensor([weights[pair] for pair in sorted(weights)], dtype=torch.float64)
        return compute_rates(compute_messages(pairs, y, self_loops, value)).per_edge

    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    changes = epr_change(edges, y, pairs, self_loops=self_loops, edge_weight=weight)
    for pair, change in zip(pairs, changes.tolist(), strict=True):
        changed = dict(present)
        if changed.pop(pair, None) is None:
            changed[pair] = 1.0  # the mean weight
        assert change == pytest.approx(rate(changed) - rate(present), abs=1e-12)
