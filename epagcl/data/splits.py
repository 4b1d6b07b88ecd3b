"""Which nodes a classifier learns from, is chosen on, and is tested on."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.data.catalogue import CATALOGUE
from epagcl.data.npz import PARTS
from epagcl.errors import InputError
from epagcl.randomness import Stream, permutation


@dataclass(frozen=True, eq=False)
class Split:
    """Node numbers of the three parts: int64, sorted, no node in two of them."""

    train: Tensor
    val: Tensor
    test: Tensor


def random_split(y: Tensor, ratios: tuple[float, float] = (0.1, 0.1), seed: int = 0, stratified: bool = False) -> Split:
    """A random split of the labelled nodes, the same for the same seed on every machine.

    Of n nodes, ⌊n·r⌋ are for training, ⌊n·r'⌋ for validation (as in GCA's code), all others for testing.
    Stratified, this is done class by class, and a class of three or more nodes has at least one in each part;
    smaller classes are left as rounding puts them (with small ratios: in the test part).

    Args:
        y: class of each node; nodes with −1 (no label) are in no part.
        ratios: share of training and of validation nodes.
        seed: which split.
        stratified: keep the share of each class equal in the three parts.
    """
    y = y.cpu()
    labelled = (y >= 0).nonzero()[:, 0]
    order = labelled[permutation(labelled.numel(), seed, Stream.SPLIT)]
    groups = [order[y[order] == c] for c in y[order].unique()] if stratified else [order]
    cuts = [torch.tensor_split(group, _cuts(group.numel(), ratios, stratified)) for group in groups]
    parts = [torch.cat(part).sort().values for part in zip(*cuts, strict=True)] or [labelled] * 3
    if min(part.numel() for part in parts) == 0:
        sizes = " / ".join(f"{part.numel():,}" for part in parts)
        raise InputError(
            f"{labelled.numel():,} labelled nodes at ratios {ratios[0]:g} / {ratios[1]:g} give {sizes} for "
            "training, validation and test; each needs at least one: change the ratios or label more nodes"
        )
    return Split(*parts)


def public_splits(data: Data) -> list[Split]:
    """The splits published with a dataset (``train_mask``, ...): one; WikiCS: twenty, with one test part."""
    return _from_masks(data, "public", "{}_mask")


def geom_splits(data: Data) -> list[Split]:
    """The ten 48/32/20 splits of Geom-GCN (``geom_train_mask``, ...)."""
    return _from_masks(data, "geom", "geom_{}_mask")


def _cuts(n: int, ratios: tuple[float, float], stratified: bool) -> tuple[int, int]:
    """Where the validation part begins and ends in n shuffled nodes."""
    train, val = (max(int(n * ratio), 0) for ratio in ratios)
    if stratified and n >= 3:
        train = min(max(train, 1), n - 2)
        val = min(max(val, 1), n - 1 - train)
    return train, train + val


def _from_masks(data: Data, kind: str, key: str) -> list[Split]:
    if any(key.format(part) not in data for part in PARTS):
        *others, last = [entry.name for entry in CATALOGUE.values() if entry.split == kind]
        raise InputError(
            f"{data.get('name', 'graph')}: no {kind} split ({key.format('train')}, ...); "
            f"only {', '.join(others)} and {last} have one; use a random split"
        )
    masks = [data[key.format(part)] for part in PARTS]
    count = max(mask.shape[1] if mask.dim() == 2 else 1 for mask in masks)
    columns = [mask.reshape(mask.shape[0], -1).expand(-1, count) for mask in masks]
    return [Split(*_indices(mask[:, k] for mask in columns)) for k in range(count)]


def _indices(masks: Iterable[Tensor]) -> list[Tensor]:
    return [mask.nonzero()[:, 0].cpu() for mask in masks]
