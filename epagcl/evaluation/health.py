"""Label-free health: signs of failed training that an embedding shows without labels.

The measures detect training that went wrong; they do not rank methods. ``python -m benchmarks health`` compares them
with the accuracy of trained, untrained and deliberately mistrained models. The thresholds of the verdicts come from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.core.checks import check_tensor
from epagcl.core.errors import InputError
from epagcl.core.neighbours import nearest
from epagcl.core.randomness import Stream, uniform64

SAMPLE = 4096  # number of nodes in the sample whose pairs represent all pairs
NEIGHBOURS = 10
FEWEST = NEIGHBOURS + 2  # minimum number of nodes for agreement; with fewer, all other nodes are neighbours
ROWS = 256  # rows of similarities computed at a time
KEPT = "kept "  # begins the names of findings about what an embedding keeps of the graph, see `retention`


def effective_rank(z: Tensor) -> float:
    r"""Return the effective rank (Roy & Vetterli 2007) of the unit rows of ``z``: how many directions z uses.

    exp(−Σ_k p_k log p_k) with p_k = σ_k / Σσ, σ the singular values. It is 1 if all rows have the same direction
    (collapse) and at most min(N, d).

    Examples:
        >>> round(effective_rank(torch.eye(3)), 4)
        3.0
    """
    z = F.normalize(_rows(z), dim=1)
    sigma = torch.linalg.eigvalsh((z.T @ z).cpu().double()).clamp(min=0).sqrt()
    p = sigma / sigma.sum()
    p = p[p > 0]
    return float(torch.exp(-(p * p.log()).sum()))


def _rows(z: Tensor) -> Tensor:
    """Return an embedding as a dense tensor of floats, without its graph of gradients."""
    if check_tensor(z, "z").dim() != 2:
        raise InputError(f"z: shape {tuple(z.shape)}; give one row per node")
    z = (z if z.layout == torch.strided else z.to_dense()).detach()
    z = z if z.is_floating_point() and z.dtype.itemsize >= 4 else z.float()
    if not bool(z.isfinite().all()):
        raise InputError("z has NaN or infinite values; its directions are unknown")
    return z


def alignment(z1: Tensor, z2: Tensor) -> float:
    r"""Return the alignment (Wang & Isola 2020): mean ‖u_i − u'_i‖² of a node's unit embeddings in two views.

    0: the embedding does not depend on the view. 2: the two embeddings of a node are orthogonal on average.

    Examples:
        >>> alignment(torch.eye(4)[:2], torch.eye(4)[2:])
        2.0
    """
    return float((F.normalize(z1, dim=1) - F.normalize(z2, dim=1)).square().sum(1).double().mean())


def uniformity(z: Tensor) -> float:
    r"""Return the uniformity (Wang & Isola 2020): log mean_{i≠j} exp(−2‖u_i − u_j‖²) over the unit rows of ``z``.

    0: all nodes are at one point. About −4 (−2 times the squared distance 2 between orthogonal rows): nodes are spread
    over the whole unit sphere. Above 4096 nodes it is estimated from a sample, the same for every embedding.

    Examples:
        >>> round(uniformity(torch.eye(3)), 4)
        -4.0
    """
    z = _rows(z)
    u = F.normalize(z[sample(len(z)).to(z.device)], dim=1)
    total = sum(torch.exp(4 * (part @ u.T) - 4).sum(dtype=torch.float64) for part in u.split(ROWS))
    pairs = len(u) * (len(u) - 1)
    return float(torch.as_tensor((total - len(u)) / pairs).clamp(min=1e-9).log()) if pairs else 0.0


def distance_between_nodes(z: Tensor) -> float:
    r"""Return the mean ‖u_i − u_j‖² of two different nodes, 2(1 − ‖ū‖²) N/(N − 1): the scale of alignment.

    Examples:
        >>> round(distance_between_nodes(torch.eye(3)), 4)
        2.0
    """
    mean = F.normalize(_rows(z), dim=1).double().mean(0)
    return float(2 * (1 - mean @ mean).clamp(min=0)) * len(z) / max(len(z) - 1, 1)


def sample(count: int, most: int = SAMPLE) -> Tensor:
    """Return at most ``most`` of ``count`` nodes, sorted, the same on every call.

    Examples:
        >>> sample(3)
        tensor([0, 1, 2])
        >>> len(sample(100, most=5))
        5
    """
    if count <= most:
        return torch.arange(count)
    return uniform64(torch.arange(count), 0, Stream.HEALTH).argsort()[:most].sort().values


def shared_neighbours(first: Tensor, second: Tensor) -> float:
    """Return the mean share of the entries of each row of ``first`` that the same row of ``second`` contains.

    Examples:
        >>> shared_neighbours(torch.tensor([[1, 2]]), torch.tensor([[2, 3]]))
        0.5
    """
    return float((first[:, :, None] == second[:, None, :]).any(2).double().mean())


def neighbour_agreement(embeddings: Sequence[Tensor], k: int = NEIGHBOURS) -> list[list[float]]:
    """Return the agreement of nearest-neighbour sets: the mean share of common k nearest neighbours, for each pair.

    1: the same neighbours. k/(N − 1): agreement by chance. Above 4096 nodes, the neighbours of a sample of nodes among
    all nodes are compared.

    Args:
        embeddings: several embeddings of the same nodes.
        k: number of neighbours.

    Examples:
        >>> z = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> neighbour_agreement([z, 2 * z], k=1)
        [[1.0, 1.0], [1.0, 1.0]]
    """
    nodes = sample(len(embeddings[0]))
    near = [nearest(z, k, nodes)[0] for z in embeddings]
    matrix = [[1.0] * len(near) for _ in near]
    for a, b in combinations(range(len(near)), 2):
        matrix[a][b] = matrix[b][a] = shared_neighbours(near[a].cpu(), near[b].cpu())
    return matrix


class Measures(TypedDict):
    """Label-free measures of an embedding. A measure is None if it was not computed."""

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
    """A measure and its interpretation.

    Attributes:
        name: name of the measure.
        value: its value.
        shown: the value formatted for people.
        verdict: good, fair or poor.
        words: what the verdict means, and what to do about it.

    Examples:
        >>> judge_agreement([[1.0, 0.7], [0.7, 1.0]]).verdict
        'good'
    """

    name: str
    value: float
    shown: str
    verdict: str
    words: str


def judge(
    measures: Measures, nodes: int, dim: int, features: int | None = None, *, trained: bool = True
) -> list[Finding]:
    """Judge the measures of one model.

    Args:
        measures: all four measures of an embedding.
        nodes: number of nodes of the graph.
        dim: dimension of the embedding.
        features: number of feature columns, which bounds the rank if it is below ``dim``.
        trained: whether the embedding comes from training; otherwise the advice concerns the graph.

    Examples:
        >>> measures = Measures(effective_rank=100.0, alignment=0.1, distance=1.0, uniformity=-2.0)
        >>> [(finding.name, finding.verdict) for finding in judge(measures, nodes=1000, dim=256)]
        [('effective rank', 'good'), ('uniformity', 'good'), ('alignment', 'good')]
    """
    rank, spread = measures["effective_rank"], measures["uniformity"]
    change, distance = measures["alignment"], measures["distance"]
    if rank is None or spread is None or change is None or distance is None:
        raise ValueError("measures: effective_rank, uniformity, alignment and distance are all needed")
    share = rank / min(nodes, dim, features or dim)
    # Relative to the distance between nodes, because all views of a collapsed embedding are the same.
    moved = change / max(distance, 1e-9)
    shown = f"{100 * moved:.0f}%" if moved <= 10 else "> 1000%"
    words = _WORDS if trained else _WORDS | _WORDS_WITHOUT_TRAINING
    rank_shown, spread_shown = f"{rank:.0f} of {dim}", f"{spread:.2f}".replace("-", "−")
    return [
        _finding("effective rank", rank, rank_shown, share >= 0.08 and rank >= 3, share < 0.04 or rank < 2, words),
        _finding("uniformity", spread, spread_shown, spread <= -0.5, spread > -0.1, words),
        _finding("alignment", change, shown, moved <= 0.25, moved > 1, words),
    ]


def judge_agreement(matrix: list[list[float]]) -> Finding:
    """Judge the agreement of seeds on nearest neighbours: the mean over pairs of seeds.

    Args:
        matrix: the result of :func:`neighbour_agreement`.

    Examples:
        >>> judge_agreement([[1.0, 0.7], [0.7, 1.0]]).shown
        '70%'
    """
    pairs = [matrix[a][b] for a in range(len(matrix)) for b in range(a)]
    value = sum(pairs) / len(pairs)
    return _finding("neighbour agreement", value, f"{100 * value:.0f}%", value >= 0.5, value < 0.3, _WORDS)


def overall(findings: Sequence[Finding], *, trained: bool = True) -> str:
    """Summarise findings in one line.

    Args:
        findings: the result of :func:`judge`.
        trained: whether the embedding comes from training.

    Examples:
        >>> overall([judge_agreement([[1.0, 0.7], [0.7, 1.0]])])
        'no sign that training went wrong'
    """
    verdicts = {finding.verdict for finding in findings}
    what = "training" if trained else "the computation"
    if "poor" in verdicts:
        bad = [finding.name for finding in findings if finding.verdict == "poor"]
        if all(name.startswith(KEPT) for name in bad):
            return f"the embedding is worse than the features it comes from: see {' and '.join(bad)}"
        return f"{what} went wrong: see {' and '.join(bad)}"
    if "fair" in verdicts:
        return "worth a look: not all measures are in their usual range"
    return f"no sign that {what} went wrong"


def _finding(name: str, value: float, shown: str, good: bool, poor: bool, words: dict[str, dict[str, str]]) -> Finding:
    verdict = "good" if good else "poor" if poor else "fair"
    return Finding(name, value, shown, verdict, f"{_MEANING[name]} {words[name][verdict]}")


_MEANING = {
    "effective rank": "How many directions the embedding uses.",
    "uniformity": "How evenly nodes are spread over the sphere: 0 at one point, about −4 over the whole sphere.",
    "alignment": "How far a node moves when a fifth of edges and features is hidden; 100%: as far as to another node.",
    "neighbour agreement": "The share of a node's ten nearest neighbours that it also has with another seed.",
}
_WORDS = {
    "effective rank": {
        "good": "Enough for nodes to differ in many ways.",
        "fair": "Few: nodes differ little. Try a lower learning rate, and look at the map.",
        "poor": "The embedding has collapsed: lower the learning rate, or hide less in the views.",
    },
    "uniformity": {
        "good": "Nodes are distinguishable.",
        "fair": "Nodes lie close together, which is the design of some methods. Look at the map.",
        "poor": "Nearly all nodes have the same embedding: lower the learning rate or the temperature.",
    },
    "alignment": {
        "good": "Nodes keep their place when details are missing, which is the goal of training.",
        "fair": "Most trained encoders are below 25%, and untrained ones above 30%: train longer, or check that the "
        "loss fell. EPAGCL+ also keeps details of single nodes and may stay above.",
        "poor": "A few missing details move a node further than the distance to another node: the embedding is noise.",
    },
    "neighbour agreement": {
        "good": "Neighbourhoods do not depend on the seed.",
        "fair": "Neighbourhoods depend partly on the seed: trust clusters, not single neighbours.",
        "poor": "Neighbourhoods are mostly chance: do not rely on single neighbours, and check the other measures.",
    },
}
#: What differs for an embedding that is computed without training.
_WORDS_WITHOUT_TRAINING = {
    "effective rank": {
        "good": "Enough for nodes to differ in many ways.",
        "fair": "Few: nodes differ little. Look at the map, and at the features.",
        "poor": "The embedding has collapsed: nearly all nodes have the same features, or the same neighbours.",
    },
    "uniformity": {
        "good": "Nodes are distinguishable.",
        "fair": "Nodes lie close together. Look at the map.",
        "poor": "Nearly all nodes have the same embedding: check the features.",
    },
    "alignment": {
        "good": "Nodes keep their place when details are missing.",
        "fair": "Usual without training, which teaches nodes to keep their place when details are missing.",
        "poor": "A few missing details move a node further than the distance to another node: the embedding is noise.",
    },
}
