"""node2vec by PecanPy and gensim, run by an interpreter that has them: ``python benchmarks/node2vec.py E Z DIM SEED``.

PecanPy needs an older NumPy than this package, so :mod:`benchmarks.structure` starts this file in an environment of its
own (``pip install pecanpy``). It imports nothing of this package.
"""

import json
import sys
import time
from importlib.metadata import version

import numpy as np

#: The defaults of node2vec, with p = q = 1.
WALKS, LENGTH, WINDOW, EPOCHS = 10, 80, 10, 1


def node2vec(pairs: np.ndarray, num_nodes: int, dim: int, seed: int, walks: int = WALKS) -> np.ndarray:
    """Return the embedding ``[N, dim]``; zeros for isolated nodes.

    Args:
        pairs: the undirected pairs, ``[E, 2]``.
        num_nodes: N.
        dim: columns of the embedding.
        seed: seed of walks and training.
        walks: number of walks from each node.
    """
    from gensim.models import Word2Vec
    from pecanpy import pecanpy
    from scipy.sparse import csr_matrix

    ends = np.concatenate([pairs, pairs[:, ::-1]])
    matrix = csr_matrix((np.ones(len(ends), np.float32), ends.T), shape=(num_nodes, num_nodes))
    graph = pecanpy.FirstOrderUnweighted(p=1, q=1, workers=1, random_state=seed)
    graph.set_node_ids([str(node) for node in range(num_nodes)])
    graph.indptr, graph.indices = matrix.indptr.astype(np.uint32), matrix.indices.astype(np.uint32)
    graph.data = matrix.data
    sentences = graph.simulate_walks(num_walks=walks, walk_length=LENGTH)
    model = Word2Vec(sentences, vector_size=dim, window=WINDOW, sg=1, min_count=0, workers=1, epochs=EPOCHS, seed=seed)
    return np.stack([model.wv[str(node)] for node in range(num_nodes)])


def main(edges: str, out: str, dim: str, seed: str) -> None:
    """Write the embedding of the graph in a ``.npy`` of pairs; print times, settings and versions as JSON."""
    node2vec(np.array([[0, 1], [1, 2]]), 3, 4, 0, walks=1)  # compiles the kernels of PecanPy
    pairs = np.load(edges)
    begun, used = time.perf_counter(), time.process_time()
    z = node2vec(pairs, int(pairs.max()) + 1, int(dim), int(seed))
    seconds, processor = time.perf_counter() - begun, time.process_time() - used
    np.save(out, z)
    record = {
        "seconds": seconds,
        "processor_seconds": processor,
        "settings": {"p": 1, "q": 1, "walks": WALKS, "length": LENGTH, "window": WINDOW, "epochs": EPOCHS},
        "versions": {name: version(name) for name in ("pecanpy", "gensim", "numpy")},
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main(*sys.argv[1:])
