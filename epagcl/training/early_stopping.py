"""Early stopping: the best weights so far, and when to stop."""

import torch
from torch import Tensor, nn

NEVER = 2**62  # patience of a method that keeps its best weights but never stops early


class EarlyStopping:
    """Keeps the weights with the lowest loss until ``patience`` epochs in a row have not improved on it.

    The state is stored and updated on the device. Training therefore does not synchronise after each epoch, and the
    update can be part of a captured CUDA graph.

    Args:
        network: the network whose weights are kept.
        patience: number of epochs without improvement after which training stops.
    """

    def __init__(self, network: nn.Module, patience: int):
        state = network.state_dict()
        device = next(iter(state.values())).device
        self.network, self.patience = network, patience
        self.state = {key: value.clone() for key, value in state.items()}
        self.value = torch.full((), torch.inf, device=device)
        self.since = torch.zeros((), dtype=torch.int64, device=device)
        self.epochs = torch.zeros((), dtype=torch.int64, device=device)

    def observe(self, value: Tensor) -> None:
        """Record the loss of one epoch, and copy the current weights if it is the lowest so far.

        Once patience is exhausted, further epochs of the same block change nothing.
        """
        waiting = self.since < self.patience
        better = (value < self.value) & waiting
        self.since.copy_(torch.where(better, 0, self.since + waiting))
        self.epochs.add_(waiting)
        self.value.copy_(torch.where(better, value, self.value))
        for key, current in self.network.state_dict().items():
            self.state[key].copy_(torch.where(better, current, self.state[key]))

    @property
    def exhausted(self) -> bool:
        """Whether patience has run out."""
        return int(self.since) >= self.patience

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint stores; copying into them restores the state."""
        return {"value": self.value, "since": self.since, **{f"state.{key}": t for key, t in self.state.items()}}

    def restore(self) -> None:
        """Load the best weights into the network."""
        self.network.load_state_dict(self.state)
