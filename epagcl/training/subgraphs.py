"""Epochs on subgraphs: one optimiser step on one subgraph, with the loss and the views of the method."""

from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor, nn

from epagcl.data.graph import Graph
from epagcl.data.large import Subgraph
from epagcl.data.subgraphs import Subgraphs
from epagcl.training.epoch import EpochRunner
from epagcl.training.protocol import Trainable


class SubgraphRunner(EpochRunner):
    """Runs epochs of a method on subgraphs. An epoch is one optimiser step on the subgraph of that number.

    The next subgraph is read while the network works on the current one.

    Args:
        method: provides the loss; its ``prepare`` is called for each subgraph.
        network: the network to train.
        graph: a subgraph, on which the embedding is measured during training.
        optimiser: of the network's parameters.
        subgraphs: one for each step.

    Examples:
        >>> from epagcl import GRACE
        >>> from epagcl.data import block_model
        >>> from epagcl.data.large import Arrays, LargeGraph
        >>> from epagcl.training.loop import adam
        >>> subgraphs = Subgraphs(LargeGraph(Arrays.from_data(block_model(300))), "neighbours", 100, seed=0)
        >>> method, network = GRACE(hidden=8, dim=4), GRACE(hidden=8, dim=4).build(1400)
        >>> optimiser = adam(method, network, torch.device("cpu"))
        >>> runner = SubgraphRunner(method, network, subgraphs.at(0), optimiser, subgraphs)
        >>> len(runner.run(0, 2))
        2
        >>> runner.close()
    """

    def __init__(
        self,
        method: Trainable,
        network: nn.Module,
        graph: Graph,
        optimiser: torch.optim.Optimizer,
        subgraphs: Subgraphs,
    ):
        super().__init__(method, network, graph, optimiser)
        self.subgraphs = subgraphs
        self.reason = "subgraphs differ in size"
        self.prepared = None
        self._reader = ThreadPoolExecutor(1)
        self._next: tuple[int, Future[Subgraph]] | None = None

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the whole graph."""
        return self.subgraphs.graph.fingerprint

    def close(self) -> None:
        """End the thread that reads subgraphs, also in the middle of a training."""
        super().close()
        self._reader.shutdown(cancel_futures=True)
        self._next = None

    def _epoch(self, epoch: int | Tensor) -> Tensor:
        """Run one optimiser step on the subgraph of this number."""
        step = int(epoch)
        ready = self._next[1] if self._next is not None and self._next[0] == step else None
        self.graph = self.subgraphs.at(step) if ready is None else ready.result()
        self._next = step + 1, self._reader.submit(self.subgraphs.at, step + 1)
        self.prepared = self.method.prepare(self.graph)
        return super()._epoch(epoch)
