import pytest
import torch

from epagcl.training.early_stopping import NEVER, EarlyStopping


class OneWeight(torch.nn.Module):
    """A weight, and a buffer that is not a parameter."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.register_buffer("count", torch.zeros(()))


def observe(stopping, values):
    """Observe losses one after the other; the weight of the k-th is k, the buffer 10 k. Return the restored weight."""
    for k, value in enumerate(values, 1):
        with torch.no_grad():
            stopping.network.weight.fill_(k)
            stopping.network.count.fill_(10 * k)
        stopping.observe(torch.tensor(float(value)))
    stopping.restore()
    return stopping.network.weight.item()


@pytest.mark.parametrize(
    ("values", "patience", "best"),
    [
        ([3, 1, 2], 10, 2),
        ([5, 4, 3], 10, 3),
        ([2, 1, 1, 1], 10, 2),  # the earliest of equal losses
        ([2, 3, 3, 1], 2, 1),  # patience is exhausted: later losses are ignored
        ([2, 3, 1, 3, 3, 0], 2, 3),  # a lower loss restarts the count
        ([2, 3, 3, 1], 3, 4),
        ([2, 3, 1], 1, 1),
    ],
)
def test_best_weights_are_those_of_the_lowest_loss(values, patience, best):
    stopping = EarlyStopping(OneWeight(), patience)
    assert observe(stopping, values) == best
    assert stopping.network.count == 10 * best  # buffers are part of the state
    assert stopping.value == values[best - 1]


def test_best_weights_are_a_copy_and_their_state_can_be_restored():
    stopping = EarlyStopping(OneWeight(), 2)
    observe(stopping, [2, 3])
    tensors = {key: value.clone() for key, value in stopping.tensors().items()}
    assert {key: value.item() for key, value in tensors.items()} == {
        "value": 2,
        "since": 1,
        "state.weight": 1,
        "state.count": 10,
    }
    other = EarlyStopping(OneWeight(), 2)
    for key, value in other.tensors().items():
        value.copy_(tensors[key])
    assert [observe(one, [4, 1]) for one in (stopping, other)] == [
        1,
        1,
    ]
    assert other.since == 2


@pytest.mark.parametrize(
    ("values", "patience", "epochs"),
    [
        ([2, 3, 3], 2, 3),
        ([2, 3, 3, 1, 0], 2, 3),  # the rest of the block does not count
        ([2, 3, 1, 3, 3, 0], 2, 5),
        ([2, 3], 2, None),
        ([3, 2, 1], 1, None),
        ([2] * 50, NEVER, None),
    ],
)
def test_epochs_are_counted_until_patience_is_exhausted(values, patience, epochs):
    stopping = EarlyStopping(OneWeight(), patience)
    observe(stopping, values)
    assert stopping.exhausted == (epochs is not None)
    assert stopping.epochs == (len(values) if epochs is None else epochs)
