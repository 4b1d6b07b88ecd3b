"""Splits of the nodes into training, validation and test parts."""

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.checks import INT64_LIMIT
from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, permutation
from epagcl.data.labels import Labels, class_numbers

#: The parts of a split.
PARTS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Split:
    """The node numbers of the three parts: int64, sorted, and disjoint.

    Examples:
        >>> split = Split(train=torch.tensor([0, 2]), val=torch.tensor([1]), test=torch.tensor([3, 4]))
        >>> split.test.tolist()
        [3, 4]
    """

    train: Tensor
    val: Tensor
    test: Tensor


def random_split(
    y: Labels,
    ratios: tuple[float, float] = (0.1, 0.1),
    seed: int = 0,
    stratified: bool = False,
) -> Split:
    """Return a random split of the labelled nodes. The same seed gives the same split on every machine.

    Of n nodes, ⌊n·r⌋ are for training and ⌊n·r'⌋ for validation (as in GCA's code); the others are for testing.
    A stratified split does this class by class. A class of three or more nodes then has at least one node in each
    part; for smaller classes, rounding decides (with small ratios, all their nodes are in the test part).

    Args:
        y: class of each node, a number or a name; nodes with −1 (no label) are in no part.
        ratios: share of training and of validation nodes.
        seed: random seed.
        stratified: keep the share of each class equal in the three parts.

    Examples:
        >>> split = random_split(torch.arange(20) % 2, ratios=(0.2, 0.2), seed=0)
        >>> [part.numel() for part in (split.train, split.val, split.test)]
        [4, 4, 12]
    """
    numbers, seeds = class_numbers(y)[0].cpu(), seed_list(seed)
    if len(seeds) != 1:
        raise InputError(f"{len(seeds)} seeds for one split; give one seed")
    labelled = (numbers >= 0).nonzero()[:, 0]
    order = labelled[permutation(labelled.numel(), *seeds, Stream.SPLIT)]
    groups = [order[numbers[order] == c] for c in numbers[order].unique()] if stratified else [order]
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
    """Return the splits published with a dataset (``train_mask``, ...).

    Most datasets have one. WikiCS has twenty, which share one test part.

    Examples:
        >>> mask = torch.tensor([True, False, False])
        >>> data = Data(train_mask=mask, val_mask=mask.roll(1), test_mask=mask.roll(2))
        >>> [split.val.tolist() for split in public_splits(data)]
        [[1]]
    """
    return _splits_from_masks(data, "public", "{}_mask")


def geom_splits(data: Data) -> list[Split]:
    """Return the ten 48/32/20 splits of Geom-GCN (``geom_train_mask``, ...).

    Examples:
        >>> masks = torch.eye(30, dtype=torch.bool).view(30, 3, 10).unbind(1)
        >>> data = Data(geom_train_mask=masks[0], geom_val_mask=masks[1], geom_test_mask=masks[2])
        >>> len(geom_splits(data))
        10
    """
    return _splits_from_masks(data, "geom", "geom_{}_mask")


def published_splits(data: Data) -> list[Split]:
    """Return Geom-GCN's splits if the dataset has them, else its public splits.

    Examples:
        >>> mask = torch.tensor([True, False, False])
        >>> data = Data(train_mask=mask, val_mask=mask.roll(1), test_mask=mask.roll(2))
        >>> [split.test.tolist() for split in published_splits(data)]
        [[2]]
    """
    return geom_splits(data) if "geom_train_mask" in data else public_splits(data)


#: Most runs of an evaluation; a list of more seeds is a mistake.
MOST_RUNS = 1_000_000


def seed_list(seed: Any, runs: int = 1) -> list[int]:
    """Return the seed of each run: ``runs`` consecutive numbers from ``seed``, or ``seed`` itself if it is a list."""
    if runs > MOST_RUNS:
        raise InputError(f"runs={runs}: must be at most {MOST_RUNS:,}")
    try:
        if np.ndim(seed) == 0:
            seeds = list(range(operator.index(seed), operator.index(seed) + runs))
        else:
            seeds = [operator.index(one) for one in seed]
    except TypeError:
        raise InputError(f"seed={seed!r}: give a whole number, or a list of them, one for each run") from None
    if seeds and not -INT64_LIMIT <= min(seeds) <= max(seeds) < INT64_LIMIT:
        raise InputError(f"seed={seed!r}: must fit into 64 bits")
    return seeds


def as_splits(splits: Any, num_nodes: int) -> list[Split]:
    """Return a list of checked splits from a list or from one split.

    A split that occurs several times in the list stays one object.
    """
    candidates = list(splits) if isinstance(splits, Iterable) else [splits]
    if not candidates:
        raise InputError("splits is empty; give at least one")
    checked: dict[int, Split] = {}
    for k, split in enumerate(candidates):
        if id(split) not in checked:
            checked[id(split)] = as_split(split, num_nodes, f"splits[{k}]")
    return [checked[id(split)] for split in candidates]


def as_split(split: Any, num_nodes: int, source: str = "split") -> Split:
    """Return a checked split from a :class:`Split`, (train, val) or (train, val, test), of node numbers or masks."""
    parts = [getattr(split, part) for part in PARTS] if isinstance(split, Split) else split
    if not isinstance(parts, list | tuple) or len(parts) not in (2, 3):
        fix = "give an epagcl.data.Split, or its nodes (train, val, test)"
        raise InputError(f"{source}: a {type(split).__name__} is not a split; {fix}")
    named = zip(PARTS, [*parts, []][:3], strict=True)
    return Split(*(_node_numbers(nodes, num_nodes, f"{source}.{part}") for part, nodes in named))


def _cuts(n: int, ratios: tuple[float, float], stratified: bool) -> tuple[int, int]:
    """Return where the validation part begins and ends in n shuffled nodes."""
    train, val = (max(int(n * ratio), 0) for ratio in ratios)
    if stratified and n >= 3:
        train = min(max(train, 1), n - 2)
        val = min(max(val, 1), n - 1 - train)
    return train, train + val


def _splits_from_masks(data: Data, kind: str, key: str) -> list[Split]:
    if any(key.format(part) not in data for part in PARTS):
        names = ", ".join(key.format(part) for part in PARTS)
        raise InputError(f"{data.get('name', 'graph')}: no {kind} split ({names}); use a random split")
    masks = [data[key.format(part)] for part in PARTS]
    count = max(mask.shape[1] if mask.dim() == 2 else 1 for mask in masks)
    columns = [mask.reshape(mask.shape[0], -1).expand(-1, count) for mask in masks]
    return [Split(*(mask[:, k].nonzero()[:, 0].cpu() for mask in columns)) for k in range(count)]


def _node_numbers(nodes: Any, num_nodes: int, source: str) -> Tensor:
    try:
        nodes = nodes if isinstance(nodes, Tensor) else torch.from_numpy(np.array(nodes))
    except (TypeError, ValueError):
        raise InputError(f"{source}: give node numbers or a mask") from None
    if nodes.numel() == 0:  # an empty list has no type
        return nodes.new_zeros(0, dtype=torch.int64)
    if nodes.dim() != 1 or nodes.is_floating_point() or nodes.is_complex():
        raise InputError(
            f"{source}: {nodes.dtype} of shape {tuple(nodes.shape)}; give a list of node numbers or a mask"
        )
    if nodes.dtype in (torch.bool, torch.uint8):  # torch also treats uint8 as a mask
        if len(nodes) != num_nodes:
            raise InputError(f"{source}: a mask of {len(nodes):,} for {num_nodes:,} nodes; give one value per node")
        return nodes.nonzero()[:, 0]
    nodes = nodes.long()
    if (outside := (nodes < 0) | (nodes >= num_nodes)).any():
        raise InputError(f"{source}: node {int(nodes[outside][0])} is out of range; nodes are 0 to {num_nodes - 1:,}")
    return nodes
