"""Label-free health: what an embedding shows of its training when nobody has labels.

The measures find training that went wrong; they do not rank methods. ``python -m benchmarks health`` holds them against
the accuracy of trained, untrained and spoilt models, and the bounds of the verdicts come from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.core.randomness import Stream, uniform64

SAMPLE = 4096  # nodes whose pairs stand for all pairs
NEIGHBOURS = 10
FEWEST = NEIGHBOURS + 2  # nodes of which agreement tells something: with fewer all others are neighbours
ROWS = 256  # of similarities held at a time


def effective_rank(z: Tensor) -> float:
    r"""Effective rank (Roy & Vetterli 2007) of the unit rows of ``z``: how many directions the embedding uses.

    exp(−Σ_k p_k log p_k) with p_k = σ_k / Σσ, σ the singular values. It is 1 when all rows point the same way
    (collapse) and at most min(N, d).
    """
    z = F.normalize(z.detach(), dim=1)
    sigma = torch.linalg.eigvalsh((z.T @ z).cpu().double()).clamp(min=0).sqrt()
    p = sigma / sigma.sum()
    p = p[p > 0]
    return float(torch.exp(-(p * p.log()).sum()))


def alignment(z1: Tensor, z2: Tensor) -> float:
    r"""Alignment (Wang & Isola 2020): mean ‖u_i − u'_i‖² of a node's unit embeddings in two views.

    0: the views do not matter; 2: a node's two embeddings have no more in common than orthogonal ones.
    """
    return float((F.normalize(z1, dim=1) - F.normalize(z2, dim=1)).square().sum(1).double().mean())


def uniformity(z: Tensor) -> float:
    r"""Uniformity (Wang & Isola 2020): log mean_{i≠j} exp(−2‖u_i − u_j‖²) over the unit rows of ``z``.

    0: all nodes at one point; about −4 (2 log-units per unit of squared distance, 2 between orthogonal rows): spread
    over the whole sphere. Of more than 4096 nodes a sample stands for all, the same for every embedding.
    """
    u = F.normalize(z.detach()[sample(len(z)).to(z.device)], dim=1)
    total = sum(torch.exp(4 * (part @ u.T) - 4).sum(dtype=torch.float64) for part in u.split(ROWS))
    pairs = len(u) * (len(u) - 1)
    return float(((total - len(u)) / pairs).clamp(min=1e-9).log()) if pairs else 0.0


def distance_between_nodes(z: Tensor) -> float:
    r"""Mean ‖u_i − u_j‖² of two different nodes: 2(1 − ‖ū‖²) N/(N − 1); what alignment is to be held against."""
    mean = F.normalize(z.detach(), dim=1).double().mean(0)
    return float(2 * (1 - mean @ mean).clamp(min=0)) * len(z) / max(len(z) - 1, 1)


def sample(count: int, most: int = SAMPLE) -> Tensor:
    """At most so many of ``count`` nodes, sorted, always the same ones."""
    if count <= most:
        return torch.arange(count)
    return uniform64(torch.arange(count), 0, Stream.HEALTH).argsort()[:most].sort().values


def nearest(z: Tensor, k: int = NEIGHBOURS, nodes: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The ``k`` nearest others by cosine of each node (or of these ``nodes``): positions and cosines, nearest first."""
    u = F.normalize(z.detach(), dim=1)
    nodes = torch.arange(len(u), device=u.device) if nodes is None else nodes.to(u.device)
    k = min(k, len(u) - 1)
    found = []
    for part in nodes.split(ROWS):
        cosine = u[part] @ u.T
        cosine[torch.arange(len(part), device=u.device), part] = -2.0  # a node is not its own neighbour
        found.append(cosine.topk(k))
    return torch.cat([part.indices for part in found]), torch.cat([part.values for part in found])


def shared_neighbours(first: Tensor, second: Tensor) -> float:
    """Mean share of each row's entries in ``first`` that are in the same row of ``second`` too."""
    return float((first[:, :, None] == second[:, None, :]).any(2).double().mean())


def neighbour_agreement(embeddings: Sequence[Tensor], k: int = NEIGHBOURS) -> list[list[float]]:
    """How far embeddings of the same nodes agree on who is near whom: mean share of common k nearest neighbours.

    1: the same neighbours; k/(N − 1): as much as chance gives. Of many nodes a sample is asked, among all.
    """
    nodes = sample(len(embeddings[0]))
    near = [nearest(z, k, nodes)[0] for z in embeddings]
    matrix = [[1.0] * len(near) for _ in near]
    for a, b in combinations(range(len(near)), 2):
        matrix[a][b] = matrix[b][a] = shared_neighbours(near[a].cpu(), near[b].cpu())
    return matrix


class Measures(TypedDict):
    """Label-free measures of an embedding; None where they were not taken."""

    effective_rank: float | None
    alignment: float | None
    distance: float | None
    uniformity: float | None


class FindingDict(TypedDict):
    """A :class:`Finding` as plain values."""

    name: str
    value: float
    shown: str
    verdict: str
    words: str


@dataclass(frozen=True)
class Finding:
    """A measure, and what it says.

    Attributes:
        name: of the measure.
        value: the number.
        shown: the number as people read it.
        verdict: good, fair or poor.
        words: what that means, and what to do about it.
    """

    name: str
    value: float
    shown: str
    verdict: str
    words: str


def judge(measures: Measures, nodes: int, dim: int, features: int | None = None) -> list[Finding]:
    """The measures of one model in words.

    Args:
        measures: ``effective_rank``, ``alignment``, ``uniformity``, and ``distance`` between nodes.
        nodes: of the graph.
        dim: of the embedding.
        features: columns, where they may be fewer than the embedding has dimensions.
    """
    rank, spread = measures["effective_rank"], measures["uniformity"]
    share = rank / min(nodes, dim, features or dim)
    # Held against the distance between nodes: of a collapsed embedding every view is the same.
    moved = measures["alignment"] / max(measures["distance"], 1e-9)
    shown = f"{100 * moved:.0f}%" if moved <= 10 else "> 1000%"
    return [
        _finding("effective rank", rank, f"{rank:.0f} of {dim}", share >= 0.08 and rank >= 3, share < 0.04 or rank < 2),
        _finding("uniformity", spread, f"{spread:.2f}".replace("-", "−"), spread <= -0.5, spread > -0.1),
        _finding("alignment", measures["alignment"], shown, moved <= 0.25, moved > 1),
    ]


def judge_agreement(matrix: list[list[float]]) -> Finding:
    """How far seeds agree on who is near whom, in words; the mean over pairs of seeds."""
    pairs = [matrix[a][b] for a in range(len(matrix)) for b in range(a)]
    value = sum(pairs) / len(pairs)
    return _finding("neighbour agreement", value, f"{100 * value:.0f}%", value >= 0.5, value < 0.3)


def overall(findings: Sequence[Finding]) -> str:
    """The whole in one line."""
    verdicts = {finding.verdict for finding in findings}
    if "poor" in verdicts:
        bad = " and ".join(finding.name for finding in findings if finding.verdict == "poor")
        return f"training went wrong: see {bad}"
    return "worth a look: not all is as it usually is" if "fair" in verdicts else "no sign that training went wrong"


def _finding(name: str, value: float, shown: str, good: bool, poor: bool) -> Finding:
    verdict = "good" if good else "poor" if poor else "fair"
    return Finding(name, value, shown, verdict, f"{_MEANING[name]} {_WORDS[name][verdict]}")


_MEANING = {
    "effective rank": "How many directions the embedding uses.",
    "uniformity": "How evenly nodes spread over the sphere: 0 at one point, towards −4 everywhere.",
    "alignment": "How far a node moves when a fifth of edges and features is hidden; 100%: as far as another node.",
    "neighbour agreement": "How many of a node's ten nearest neighbours another seed gives it too.",
}
_WORDS = {
    "effective rank": {
        "good": "Enough for nodes to differ in many ways.",
        "fair": "Few: nodes differ in little. Try a lower learning rate, and look at the map.",
        "poor": "The embedding has collapsed: lower the learning rate, or hide less in the views.",
    },
    "uniformity": {
        "good": "Nodes can be told apart.",
        "fair": "Nodes lie close together, which some methods do by design. Look at the map.",
        "poor": "Nearly all nodes have the same embedding: lower the learning rate or the temperature.",
    },
    "alignment": {
        "good": "Nodes keep their place when details are missing: that is what training is for.",
        "fair": "After training usually below 25%, without above 30%: train longer, or look whether the loss fell.",
        "poor": "A few missing details move a node further than another node is away: the embedding shows noise.",
    },
    "neighbour agreement": {
        "good": "What is near what does not depend on the seed.",
        "fair": "Neighbourhoods depend on the seed in part: trust clusters, not single neighbours.",
        "poor": "Neighbourhoods are mostly chance: do not read single neighbours, and look at the other measures.",
    },
}
