"""Which nodes a classifier learns from, is chosen on, and is tested on."""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, permutation
from epagcl.data.labels import check_labels, encode_labels

#: The parts of a split.
PARTS = ("train", "val", "test")
#: What pandas calls arrays of objects that are all numbers or missing.
_NUMBERS = ("boolean", "integer", "integer-na", "floating", "mixed-integer-float", "empty")


@dataclass(frozen=True, eq=False)
class Split:
    """Node numbers of the three parts: int64, sorted, no node in two of them."""

    train: Tensor
    val: Tensor
    test: Tensor


def random_split(
    y: Tensor | np.ndarray | pd.Series | Sequence,
    ratios: tuple[float, float] = (0.1, 0.1),
    seed: int = 0,
    stratified: bool = False,
) -> Split:
    """A random split of the labelled nodes, the same for the same seed on every machine.

    Of n nodes, ⌊n·r⌋ are for training, ⌊n·r'⌋ for validation (as in GCA's code), all others for testing.
    Stratified, this is done class by class, and a class of three or more nodes has at least one in each part;
    smaller classes are left as rounding puts them (with small ratios: in the test part).

    Args:
        y: class of each node, a number or a name; nodes with −1 (no label) are in no part.
        ratios: share of training and of validation nodes.
        seed: which split.
        stratified: keep the share of each class equal in the three parts.
    """
    y, seeds = class_numbers(y)[0].cpu(), run_seeds(seed)
    if len(seeds) != 1:
        raise InputError(f"{len(seeds)} seeds for one split; give one seed")
    labelled = (y >= 0).nonzero()[:, 0]
    order = labelled[permutation(labelled.numel(), *seeds, Stream.SPLIT)]
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


def class_numbers(y: Tensor | np.ndarray | pd.Series | Sequence) -> tuple[Tensor, list[str] | None]:
    """Labels as int64 (−1 = none), and the classes' names where labels were text, which is numbered in its order.

    Whole numbers stay as they are, also where the type is float, and false and true are 0 and 1. A series of pandas is
    taken by position, whatever its index.
    """
    if y is None:
        raise InputError("y: no labels; give one class per node (−1 for none)")
    labels = y if isinstance(y, Tensor) else _label_array(y)
    if labels.ndim != 1 and (labels.ndim != 2 or labels.shape[1] != 1):
        fix = "give one class per node; of one-hot rows that is y.argmax(1)"
        raise InputError(f"y: labels have shape {tuple(labels.shape)}; {fix}")
    if isinstance(labels, Tensor) or labels.dtype.kind in "biuf":
        return check_labels(torch.as_tensor(labels), "y"), None
    numbers, names = encode_labels(labels, "y")
    return numbers, [str(c) for c in numbers[numbers >= 0].unique().tolist()] if names is None else names


def run_seeds(seed: Any, runs: int = 1) -> list[int]:
    """The seed of each run: as many as ``runs`` from one number on, or those given."""
    try:
        if np.ndim(seed) == 0:
            return list(range(operator.index(seed), operator.index(seed) + runs))
        return [operator.index(one) for one in seed]
    except TypeError:
        raise InputError(f"seed={seed!r}: give a whole number, or a list of them, one for each run") from None


def as_splits(splits: Any, num_nodes: int) -> list[Split]:
    """Checked splits of a list, or of one; what stands in the list more than once remains one object."""
    given = list(splits) if isinstance(splits, Iterable) else [splits]
    if not given:
        raise InputError("splits is empty; give at least one")
    checked = {}
    for k, split in enumerate(given):
        if id(split) not in checked:
            checked[id(split)] = as_split(split, num_nodes, f"splits[{k}]")
    return [checked[id(split)] for split in given]


def as_split(split: Any, num_nodes: int, source: str = "split") -> Split:
    """A split, also one given as (train, val) or (train, val, test), with node numbers for masks, all in range."""
    parts = [getattr(split, part) for part in PARTS] if isinstance(split, Split) else split
    if not isinstance(parts, list | tuple) or len(parts) not in (2, 3):
        fix = "give an epagcl.data.Split, or its nodes (train, val, test)"
        raise InputError(f"{source}: a {type(split).__name__} is no split; {fix}")
    named = zip(PARTS, [*parts, []][:3], strict=True)
    return Split(*(_node_numbers(nodes, num_nodes, f"{source}.{part}") for part, nodes in named))


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
        names = ", ".join(key.format(part) for part in PARTS)
        raise InputError(f"{data.get('name', 'graph')}: no {kind} split ({names}); use a random split")
    masks = [data[key.format(part)] for part in PARTS]
    count = max(mask.shape[1] if mask.dim() == 2 else 1 for mask in masks)
    columns = [mask.reshape(mask.shape[0], -1).expand(-1, count) for mask in masks]
    return [Split(*_indices(mask[:, k] for mask in columns)) for k in range(count)]


def _indices(masks: Iterable[Tensor]) -> list[Tensor]:
    return [mask.nonzero()[:, 0].cpu() for mask in masks]


def _label_array(y: Any) -> np.ndarray:
    """Labels as an array that torch takes: int64, bool, float64 (with NaN for none), or else objects."""
    if isinstance(y, list | tuple):
        y = [label.item() if isinstance(label, Tensor) and label.dim() == 0 else label for label in y]
    try:
        array = np.asarray(y)
    except ValueError:
        raise InputError("y: a list of unequal lists; give one class per node") from None
    if array.dtype.kind == "O" and pd.api.types.infer_dtype(array.ravel(), skipna=True) in _NUMBERS:
        array = np.where(pd.isna(array), np.nan, array)  # numbers with gaps
        return array.astype(np.float64)
    plain = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}
    return array.astype(plain.get(array.dtype.kind, object))


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
    if nodes.dtype in (torch.bool, torch.uint8):  # torch too reads bytes as a mask
        if len(nodes) != num_nodes:
            raise InputError(f"{source}: a mask of {len(nodes):,} for {num_nodes:,} nodes; give one value per node")
        return nodes.nonzero()[:, 0]
    nodes = nodes.long()
    if (outside := (nodes < 0) | (nodes >= num_nodes)).any():
        raise InputError(f"{source}: node {int(nodes[outside][0])} is out of range; nodes are 0 to {num_nodes - 1:,}")
    return nodes


def published_splits(data: Data) -> list[Split]:
    """The dataset's own splits, or else Geom-GCN's."""
    return geom_splits(data) if "geom_train_mask" in data else public_splits(data)
