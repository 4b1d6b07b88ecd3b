import numpy as np
import pytest

from epagcl.core.errors import InputError
from epagcl.tasks import cluster
from epagcl.tasks.clusters import Clusters, _mean_rand, by_size, silhouette


def blobs(k, nodes=240, spread=0.3, seed=0):
    generator = np.random.default_rng(seed)
    y = np.arange(nodes) % k
    return generator.normal(size=(k, 24))[y] + spread * generator.normal(size=(nodes, 24)), y


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 6])
def test_auto_finds_separate_blobs_and_says_how(k):
    z, y = blobs(k)
    found = cluster(z, y=y)
    assert (found.k, found.stability, found.agreement) == (k, pytest.approx(1.0), {"nmi": 1.0, "ari": 1.0})
    assert found.words()[0] == f"k = {k} was chosen from 2 to 15: it has the highest sum of stability and silhouette."
    assert [candidate.k for candidate in found.candidates] == list(range(2, 16))


def test_random_rows_are_called_unstable():
    z = np.random.default_rng(0).normal(size=(300, 24))
    found = cluster(z, 8)
    assert found.stability < 0.3
    assert found.words() == [
        f"stability {found.stability:.2f}: other samples of the nodes give other clusters; do not rely on these."
    ]


def test_hdbscan_finds_the_blobs_and_leaves_noise():
    z, y = blobs(4)
    generator = np.random.default_rng(1)
    found = cluster(np.concatenate([z, generator.normal(size=(10, 24))]), method="hdbscan", y=[*y, *[-1] * 10])
    assert found.k == 4
    assert 5 <= found.noise <= 12
    assert found.agreement["ari"] > 0.95
    assert found.stability > 0.9
    assert sum(found.sizes) + found.noise == 250


def test_the_number_of_clusters_is_kept_and_they_are_ordered_by_size():
    z, _ = blobs(3)
    found = cluster(z, "5")
    assert found.k == 5
    assert found.sizes == sorted(found.sizes, reverse=True)
    assert found.candidates == []
    result = found.to_dict()
    assert (result["k"], result["sizes"], result["noise"], result["agreement"]) == (5, found.sizes, 0, None)
    assert found.of_node.tolist() == cluster(z, 5).of_node.tolist()


def test_words_on_the_stability():
    for stability, words in ((0.95, "the same clusters"), (0.7, "similar clusters; single nodes change sides")):
        assert words in Clusters(np.array([0, 1]), "kmeans", stability, None).words()[0]
    assert "all nodes are noise" in Clusters(np.array([-1, -1]), "hdbscan", 0.0, None).words()[0]


def test_runs_are_compared_on_the_nodes_that_both_saw():
    assert _mean_rand([np.array([0, 0, 1, 1, -2]), np.array([5, 5, 3, 3, 1])]) == 1.0
    assert _mean_rand([np.array([0, -2]), np.array([-2, 0])]) == 0.0


def test_silhouette_needs_two_clusters():
    assert silhouette(np.eye(3, dtype=np.float32), np.zeros(3, int)) is None
    assert by_size(np.array([2, 2, 0, -1])).tolist() == [0, 0, 1, -1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "dbscan"}, "method='dbscan': choose one of kmeans, hdbscan"),
        ({"k": "many"}, "k=many: give a number, or auto"),
        ({"k": 1}, "k=1: give 2 to 192 clusters for 240 nodes"),
        ({"k": 3, "method": "hdbscan"}, "k=3: hdbscan finds the number of clusters; leave out k="),
        ({"k": 3, "min_size": 5}, "min_size=5: only hdbscan has it; leave it out"),
        ({"min_size": 1, "method": "hdbscan"}, "min_size=1: must be at least 2"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        cluster(blobs(3)[0], **options)


def test_auto_needs_some_nodes():
    with pytest.raises(InputError, match=r"^k=auto: needs at least 6 nodes, and there are 5; give k=$"):
        cluster(np.eye(5))
