"""Methods, settings and helpers that the tests of training share."""

import torch

import epagcl

SMALL = {"hidden": 32, "dim": 16, "projection": 16, "device": "cpu"}
DGI, BGRL, GCN = (epagcl.method(name) for name in ("dgi", "bgrl", "gcn"))
#: Settings with which DGI and GCN stop early.
STOPS = {"dim": 8, "epochs": 300, "lr": 0.01, "patience": 4, "device": "cpu"}
LEARNS = {"hidden": 8, "epochs": 300, "lr": 0.05, "patience": 4, "device": "cpu"}


class Stop(Exception):
    """Simulates a kill between two epochs."""


def stop_at(epoch):
    """Return a callback that raises :class:`Stop` after an epoch."""

    def callback(row):
        if row["epoch"] == epoch:
            raise Stop

    return callback


def same_weights(a, b):
    a, b = a.network_.state_dict(), b.network_.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


class Squares(epagcl.EPAGCL):
    """Minimises |XW|² of the first layer, in fp16 where Triton runs; a million times that from an epoch on."""

    half_activations = True
    overflow = 10**9

    def loss(self, network, graph, prepared, epoch):
        product = graph.x.to_dense() @ network.encoder.layers[0].weight
        self.seen = product.dtype
        return product.float().square().mean() * (1e6 if epoch >= self.overflow else 1)
