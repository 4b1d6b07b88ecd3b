"""Clusters of nodes, with their stability: whether the same clusters appear on other samples of the nodes."""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple, TypedDict

import numpy as np

from epagcl.core.checks import UINT32_LIMIT, check_seed
from epagcl.core.errors import InputError
from epagcl.core.formatting import counted
from epagcl.data.labels import Labels
from epagcl.evaluation.clusters import agreement
from epagcl.evaluation.inputs import EmbeddingLike
from epagcl.tasks.inputs import Floats, Integers, one_thread, unit_rows

METHODS = ("kmeans", "hdbscan")
RUNS = 5  # clusterings whose agreement is the stability: 10 pairs
SHARE = 0.8  # of the nodes in each of them
LARGEST = 2000  # nodes in each of them
SILHOUETTE_SAMPLE = 2000  # nodes
LARGEST_K = 15  # that k="auto" tries
ONE_THREAD = 20_000  # nodes up to which one thread is used
COMPONENTS = 16  # principal components that HDBSCAN works on
STABLE = 0.9  # agreement at which clusters are called stable
FRAGILE = 0.6  # agreement below which they are called unstable


class Candidate(NamedTuple):
    """A number of clusters that was tried, its stability and its silhouette."""

    k: int
    stability: float
    silhouette: float


class ClustersDict(TypedDict):
    """Clusters without the cluster of each node, for JSON."""

    method: str
    k: int
    sizes: list[int]
    noise: int
    stability: float
    silhouette: float | None
    agreement: dict[str, float] | None
    candidates: list[dict[str, float]]
    words: list[str]


@dataclass(frozen=True)
class Clusters:
    """Clusters of nodes and how far they can be trusted.

    Attributes:
        of_node: cluster of each node, numbered by size from 0; −1 for nodes that HDBSCAN calls noise.
        method: kmeans or hdbscan.
        stability: mean adjusted Rand index between clusterings of random samples of the nodes; 1 if they agree.
        silhouette: mean silhouette of a sample of the nodes; None with fewer than two clusters.
        agreement: NMI and ARI with the labels; None without labels.
        candidates: the numbers of clusters that ``k="auto"`` tried.
    """

    of_node: Integers
    method: str
    stability: float
    silhouette: float | None
    agreement: dict[str, float] | None = None
    candidates: Sequence[Candidate] = field(default=())

    @property
    def k(self) -> int:
        """The number of clusters, without noise."""
        return int(self.of_node.max()) + 1

    @property
    def sizes(self) -> list[int]:
        """The number of nodes in each cluster."""
        return np.bincount(self.of_node[self.of_node >= 0], minlength=self.k).tolist()

    @property
    def noise(self) -> int:
        """The number of nodes without a cluster."""
        return int((self.of_node < 0).sum())

    def words(self) -> list[str]:
        """Return sentences on the choice of k and on the stability."""
        sentences = []
        if self.candidates:
            tried = f"{self.candidates[0].k} to {self.candidates[-1].k}"
            rule = "the highest sum of stability and silhouette"
            sentences.append(f"k = {self.k} was chosen from {tried}: it has {rule}.")
        if self.k == 0:
            return [*sentences, "No clusters were found: all nodes are noise; give a smaller min_size, or use kmeans."]
        share = f"stability {self.stability:.2f}: "
        if self.stability >= STABLE:
            sentences.append(share + "other samples of the nodes give the same clusters.")
        elif self.stability >= FRAGILE:
            sentences.append(share + "other samples of the nodes give similar clusters; single nodes change sides.")
        else:
            sentences.append(share + "other samples of the nodes give other clusters; do not rely on these.")
        return sentences

    def to_dict(self) -> ClustersDict:
        """Return all but the cluster of each node, for JSON."""
        return {
            "method": self.method,
            "k": self.k,
            "sizes": self.sizes,
            "noise": self.noise,
            "stability": self.stability,
            "silhouette": self.silhouette,
            "agreement": self.agreement,
            "candidates": [candidate._asdict() for candidate in self.candidates],
            "words": self.words(),
        }


def cluster(
    z: EmbeddingLike,
    k: int | str = "auto",
    *,
    method: str = "kmeans",
    min_size: int | None = None,
    y: Labels | None = None,
    seed: int = 0,
) -> Clusters:
    """Return clusters of the unit rows of an embedding, with their stability.

    Stability is the mean adjusted Rand index between all pairs of five clusterings, each of a random 80% of the nodes
    (at most 2,000) with its own seed. For k-means, each clustering assigns all sampled nodes; for HDBSCAN, two
    clusterings are compared on the nodes that both saw.

    Args:
        z: embedding ``[N, d]``.
        k: number of clusters of k-means, or ``"auto"``: from 2 to 15, the highest sum of stability and silhouette.
            HDBSCAN finds its own number.
        method: kmeans, or hdbscan (on 16 principal components), which leaves nodes in sparse regions as noise.
        min_size: nodes in the smallest cluster of HDBSCAN; None: 1% of the nodes, at least 5.
        y: labels of the nodes, only to report the agreement with them.
        seed: random seed.

    Examples:
        >>> z = np.eye(3).repeat(20, 0) + np.random.default_rng(0).normal(scale=0.1, size=(60, 3))
        >>> found = cluster(z, 3, y=np.arange(3).repeat(20))
        >>> found.k, found.sizes, found.agreement
        (3, [20, 20, 20], {'nmi': 1.0, 'ari': 1.0})
    """
    if method not in METHODS:
        raise InputError(f"method={method!r}: choose one of {', '.join(METHODS)}")
    rows, seed = unit_rows(z, least=4), check_seed(seed, UINT32_LIMIT - 1)
    candidates: list[Candidate] = []
    if method == "hdbscan":
        if k != "auto":
            raise InputError(f"k={k}: hdbscan finds the number of clusters; leave out k=")
        labels, stability = _hdbscan(rows, min_size, seed)
    else:
        if min_size is not None:
            raise InputError(f"min_size={min_size}: only hdbscan has it; leave it out")
        number, candidates = _number(rows, k, seed)
        labels = _kmeans(rows, number, seed, starts=5).labels_.astype(np.int64)
        chosen = next((candidate for candidate in candidates if candidate.k == number), None)
        stability = kmeans_stability(rows, number, seed) if chosen is None else chosen.stability
    labels = by_size(labels)
    scores = None if y is None else agreement(labels, y)
    return Clusters(labels, method, stability, silhouette(rows, labels, seed), scores, candidates)


def by_size(labels: Integers) -> Integers:
    """Return the clusters renumbered by size, largest first; −1 stays.

    Examples:
        >>> by_size(np.array([0, 1, 1, -1]))
        array([ 1,  0,  0, -1])
    """
    names, where, counts = np.unique(labels[labels >= 0], return_inverse=True, return_counts=True)
    rank = np.empty(len(names), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(names))
    result = np.full(len(labels), -1, np.int64)
    result[labels >= 0] = rank[where]
    return result


def silhouette(rows: Floats, labels: Integers, seed: int = 0) -> float | None:
    """Return the mean silhouette of a sample of the clustered nodes; None with fewer than two clusters in it."""
    from sklearn.metrics import silhouette_score

    clustered = np.flatnonzero(labels >= 0)
    sample = np.random.default_rng(seed).permutation(clustered)[:SILHOUETTE_SAMPLE]
    if not 2 <= len(np.unique(labels[sample])) < len(sample):
        return None
    return float(silhouette_score(rows[sample], labels[sample]))


def kmeans_stability(rows: Floats, k: int, seed: int = 0) -> float:
    """Return the mean adjusted Rand index between k-means on random samples of the nodes."""
    samples = _samples(len(rows), seed)
    seen = rows[np.unique(np.concatenate(samples))]
    with one_thread():
        runs = [_kmeans(rows[sample], k, seed + run, starts=3).predict(seen) for run, sample in enumerate(samples)]
    return _mean_rand(runs)


def _number(rows: Floats, k: int | str, seed: int) -> tuple[int, list[Candidate]]:
    """Return the number of clusters, and the candidates if it was chosen here."""
    if k != "auto":
        try:
            number = int(k)
        except ValueError:
            raise InputError(f"k={k}: give a number, or auto") from None
        if not 2 <= number <= SHARE * len(rows):
            raise InputError(f"k={k}: give 2 to {int(SHARE * len(rows)):,} clusters for {counted(len(rows), 'node')}")
        return number, []
    candidates = []
    rows = rows[np.sort(np.random.default_rng(seed).permutation(len(rows))[:LARGEST])]
    for number in range(2, min(LARGEST_K, len(rows) // 3) + 1):
        labels = _kmeans(rows, number, seed, starts=3).labels_
        width = silhouette(rows, labels, seed)
        candidates.append(Candidate(number, kmeans_stability(rows, number, seed), -1.0 if width is None else width))
    if not candidates:
        raise InputError(f"k=auto: needs at least 6 nodes, and there are {len(rows)}; give k=")
    return max(candidates, key=lambda candidate: candidate.stability + candidate.silhouette).k, candidates


def _kmeans(rows: Floats, k: int, seed: int, starts: int) -> Any:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    threads = one_thread() if len(rows) <= ONE_THREAD else nullcontext()
    # Equal rows give fewer clusters, of which scikit-learn warns.
    with threads, warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return KMeans(k, n_init=starts, random_state=seed % 2**32).fit(rows)


def _hdbscan(rows: Floats, min_size: int | None, seed: int) -> tuple[Integers, float]:
    """Return the clusters, and their stability."""
    from sklearn.cluster import HDBSCAN
    from sklearn.decomposition import PCA

    if min_size is not None and min_size < 2:
        raise InputError(f"min_size={min_size}: must be at least 2")
    if min(rows.shape) > COMPONENTS:  # densities in many dimensions hardly differ
        rows = PCA(COMPONENTS, svd_solver="randomized", random_state=0).fit_transform(rows)
    size = max(5, len(rows) // 100) if min_size is None else min_size

    def clusters(part: Floats) -> Integers:
        smallest = max(2, round(size * len(part) / len(rows)))
        return HDBSCAN(min_cluster_size=min(smallest, len(part)), copy=True).fit_predict(part).astype(np.int64)

    runs = []
    for sample in _samples(len(rows), seed):
        labels = np.full(len(rows), -2)  # not in the sample
        labels[sample] = clusters(rows[sample])
        runs.append(labels)
    return clusters(rows), _mean_rand(runs)


def _samples(nodes: int, seed: int) -> list[Integers]:
    generator = np.random.default_rng(seed)
    size = max(min(round(SHARE * nodes), LARGEST), 2)
    return [np.sort(generator.permutation(nodes)[:size]) for _ in range(RUNS)]


def _mean_rand(runs: Sequence[Integers]) -> float:
    """Return the mean adjusted Rand index of all pairs, each on the nodes that both saw."""
    from sklearn.metrics import adjusted_rand_score

    values = []
    for first, second in combinations(runs, 2):
        both = (first > -2) & (second > -2)
        values.append(adjusted_rand_score(first[both], second[both]) if both.any() else 0.0)
    return float(np.mean(values))
