"""Two versions of an embedding, such as yesterday's and today's: common axes, and how far nodes have moved."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.data.io.ids import id_array, positions
from epagcl.evaluation.health import FEWEST, neighbour_agreement
from epagcl.evaluation.inputs import EmbeddingLike
from epagcl.tasks.inputs import Integers, embedding_rows
from epagcl.tasks.novelty import check_same_nodes, novelty

#: Node ids, one per row.
Ids = Sequence[Any] | np.ndarray[Any, Any]
#: Novelty of a grown graph above which a model should be trained again, and the median shift of the old nodes above
#: which it should be in any case; ``python -m benchmarks drift`` measures what an old model loses.
NOVEL, MOVED = 0.15, 0.6


@dataclass(frozen=True)
class Alignment:
    """An embedding in the axes of an earlier one.

    Attributes:
        z: the embedding, rotated, ``[N, d]``.
        rotation: orthogonal matrix ``[d, d]``; ``z`` is the given embedding times it. Assign it to ``model.rotation_``
            to get all later embeddings of a model in the same axes; ``model.save`` keeps it.
        residual: ‖Z Q − Z'‖ / ‖Z'‖ over the common nodes; 0: the versions agree.
        common: number of nodes that both versions have.

    Examples:
        >>> align([[0.0, 1.0], [2.0, 0.0]], [[1.0, 0.0], [0.0, 2.0]]).residual < 1e-6
        True
    """

    z: Tensor
    rotation: Tensor
    residual: float
    common: int


@dataclass(frozen=True)
class Drift:
    """How far the nodes of an earlier embedding have moved.

    Attributes:
        common: number of nodes that both versions have.
        median: median distance between a node's two embeddings, as a share of the root mean square distance of the
            earlier embeddings from their mean.
        p95: the 95th percentile of the same.
        changed_neighbours: mean share of a node's ten nearest neighbours, among the common nodes, that are new; None
            for fewer than 12 nodes.
        novelty: share of today's nodes that are new and unlike the old ones (:func:`novelty`); None if not measured.

    Examples:
        >>> Drift(common=100, median=0.1, p95=0.3, changed_neighbours=0.2, novelty=0.4).train_again
        True
    """

    common: int
    median: float
    p95: float
    changed_neighbours: float | None
    novelty: float | None = None

    @property
    def train_again(self) -> bool:
        """Whether the model should be trained again on today's graph."""
        return self.median > MOVED or (self.novelty is not None and self.novelty > NOVEL)

    def sentence(self, *, advice: bool = True) -> str:
        """Return the drift in words.

        Args:
            advice: whether to say when to train again; not if the model was just trained.
        """
        moved, novel = (f"train again above {100 * limit:.0f}%" for limit in (MOVED, NOVEL))
        text = (
            f"{counted(self.common, 'old node')} moved by {100 * self.median:.1f}% of the spread in the median "
            f"(95th percentile {100 * self.p95:.1f}%{f'; {moved}' if advice else ''})"
        )
        if self.changed_neighbours is not None:
            text += f", and {100 * self.changed_neighbours:.0f}% of their nearest neighbours changed"
        if self.novelty is not None:
            text += f". Novelty of the new nodes: {100 * self.novelty:.0f}%{f' ({novel})' if advice else ''}"
        if advice:
            text += ". Train again on today's graph" if self.train_again else ". The model still fits"
        return f"{text}."


def align(
    z: EmbeddingLike, previous: EmbeddingLike, *, ids: Ids | None = None, previous_ids: Ids | None = None
) -> Alignment:
    r"""Rotate an embedding so that its axes agree with those of an earlier one.

    The rotation is the solution of the orthogonal Procrustes problem over the common nodes,

    .. math::
        Q = \arg\min_{Q^\top Q = I} \lVert Z Q - Z' \rVert_F = U V^\top, \quad Z^\top Z' = U \Sigma V^\top.

    Distances, cosines and lengths do not change. Classifiers and indexes that were built on the earlier version keep
    working as far as the versions agree, which the residual says.

    Args:
        z: the new embedding ``[N, d]``.
        previous: the earlier embedding ``[N', d]``.
        ids: the id of each row of ``z``; None: rows are numbered from 0.
        previous_ids: the id of each row of ``previous``; None: rows are numbered from 0.

    Examples:
        >>> turned = align([[0.0, 1.0], [2.0, 0.0]], [[0.0, 2.0], [1.0, 0.0]], previous_ids=[1, 0])
        >>> turned.z.round().tolist(), turned.common
        ([[1.0, 0.0], [0.0, 2.0]], 2)
    """
    rows, old = embedding_rows(z, least=1), embedding_rows(previous, least=1)
    if rows.shape[1] != old.shape[1]:
        raise InputError(
            f"z has {rows.shape[1]} dimensions, previous= has {old.shape[1]}; train with dim={old.shape[1]}"
        )
    here, there = common_rows(rows, old, ids, previous_ids)
    new, before = (torch.from_numpy(part).double() for part in (rows[here], old[there]))
    u, _, vh = torch.linalg.svd(new.T @ before)
    rotation = u @ vh
    residual = float((new @ rotation - before).norm() / before.norm().clamp(min=1e-12))
    rotated = (torch.from_numpy(rows).double() @ rotation).float()
    return Alignment(rotated, rotation.float(), residual, len(here))


def drift(
    z: EmbeddingLike,
    previous: EmbeddingLike,
    *,
    ids: Ids | None = None,
    previous_ids: Ids | None = None,
    aligned: bool = True,
    data: Data | None = None,
) -> Drift:
    """Measure how far nodes have moved between two versions of an embedding.

    Embeddings by one model share their axes. Those of a model that was trained again do not, unless it was aligned
    (:func:`align`).

    Args:
        z: the new embedding ``[N, d]``.
        previous: the earlier embedding ``[N', d]``.
        ids: the id of each row of ``z``; None: rows are numbered from 0.
        previous_ids: the id of each row of ``previous``; None: rows are numbered from 0.
        aligned: whether both have the same axes; otherwise ``z`` is rotated first.
        data: the graph of ``z``; the novelty of its new nodes is then measured too.

    Examples:
        >>> z = torch.eye(3)
        >>> moved = drift(z, z * 1.5)
        >>> moved.common, round(moved.median, 3), moved.train_again
        (3, 0.408, False)
    """
    if not aligned:
        z = align(z, previous, ids=ids, previous_ids=previous_ids).z
    rows, old = embedding_rows(z, least=1), embedding_rows(previous, least=1)
    if rows.shape[1] != old.shape[1]:
        raise InputError(f"z has {rows.shape[1]} dimensions, previous= has {old.shape[1]}; give versions of one model")
    here, there = common_rows(rows, old, ids, previous_ids)
    new, before = torch.from_numpy(rows[here]), torch.from_numpy(old[there])
    spread = (before - before.mean(0)).square().sum(1).mean().sqrt().clamp(min=1e-12)
    shift = ((new - before).norm(dim=1) / spread).double()
    changed = None
    if len(here) >= FEWEST:
        changed = 1 - neighbour_agreement([new, before])[0][1]
    novel = None
    if data is not None:
        check_same_nodes(data, len(rows))
        novel = novelty(data, np.setdiff1d(np.arange(len(rows)), here))
    return Drift(len(here), float(shift.median()), float(shift.quantile(0.95)), changed, novel)


def common_rows(rows: Any, old: Any, ids: Ids | None, previous_ids: Ids | None) -> tuple[Integers, Integers]:
    """Return the rows of the nodes that two embeddings share, in both of them. Raise if there are none.

    Examples:
        >>> common_rows([[0]] * 2, [[0]] * 2, ["a", "b"], ["b", "c"])
        (array([1]), array([0]))
    """
    names = []
    for part, given, argument in ((rows, ids, "ids="), (old, previous_ids, "previous_ids=")):
        if given is not None and len(given) != len(part):
            raise InputError(f"{argument}: {len(given):,} ids for {counted(len(part), 'row')}; give one per row")
        names.append(np.arange(len(part)) if given is None else id_array(list(given)))
    place = positions(names[0], names[1])
    here = np.flatnonzero(place >= 0)
    if not len(here):
        raise InputError("previous=: the two embeddings have no node in common; give embeddings of the same nodes")
    return np.asarray(here, dtype=np.int64), np.asarray(place[here], dtype=np.int64)
