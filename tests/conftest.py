"""Graphs and settings that tests share."""

import pytest
import torch
from torch_geometric.data import Data

from epagcl.data import block_model

torch.set_num_threads(1)  # tests run side by side; threads would fight over the cores


@pytest.fixture
def small_graph() -> Data:
    """60 nodes, 3 classes, a few isolated nodes."""
    return block_model(60, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=3)


def random_edges(num_nodes: int, density: float, seed: int) -> torch.Tensor:
    """A random undirected graph as pairs in one direction; never empty."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.triu_indices(num_nodes, num_nodes, 1)
    keep = torch.rand(pairs.shape[1], generator=generator) < density
    keep[seed % pairs.shape[1]] = True
    return pairs[:, keep]
