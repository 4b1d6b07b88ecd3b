"""Maps of an embedding in the plane: t-SNE, UMAP or two principal components."""

import importlib.util
import warnings

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.core.errors import InputError, MissingExtra

KINDS = ("auto", "tsne", "umap", "pca", "none")
TITLES = {"tsne": "t-SNE", "umap": "UMAP", "pca": "PCA"}
MAX_TSNE_NODES = 10_000  # takes half a minute on two cores; beyond this, scikit-learn's t-SNE soon takes much longer
REDUCED_DIM = 50  # dimensions before t-SNE and UMAP, as their authors recommend


def check_kind(kind: str, argument: str = "kind") -> None:
    """Raise if a map of this kind cannot be drawn. Call it before long work.

    Args:
        kind: one of :data:`KINDS`.
        argument: name of the argument in the message: ``kind``, or an option such as ``--map``.
    """
    if kind not in KINDS:
        value = f"{argument} {kind}" if argument.startswith("--") else f"{argument}={kind!r}"
        raise InputError(f"{value}: choose one of {', '.join(KINDS)}")
    if kind == "umap" and importlib.util.find_spec("umap") is None:
        raise MissingExtra("umap-learn", "report", "a UMAP map")


def choose_kind(kind: str, nodes: int) -> str:
    """Return the kind of map for this number of nodes.

    ``auto`` is t-SNE up to 10,000 nodes; beyond that UMAP if it is installed, otherwise PCA. Fewer than 5 nodes are
    too few for t-SNE and UMAP.
    """
    check_kind(kind)
    if nodes < 5:
        return "none" if kind == "none" else "pca"
    if kind != "auto":
        return kind
    if nodes <= MAX_TSNE_NODES:
        return "tsne"
    return "umap" if importlib.util.find_spec("umap") is not None else "pca"


def flat_map(z: Tensor, kind: str, seed: int = 0) -> npt.NDArray[np.float32]:
    """Return positions in the plane, ``[N, 2]``, of the unit rows of ``z``. Nearby nodes have similar directions."""
    if kind == "pca":
        return principal_components(z, 2).numpy()
    rows = principal_components(z, REDUCED_DIM).numpy()
    if kind == "tsne":
        from sklearn.manifold import TSNE

        perplexity = min(30.0, (len(rows) - 1) / 3)
        # Initialise explicitly, because scikit-learn's PCA initialisation is randomised.
        start = rows[:, :2] / max(float(rows[:, 0].std()), 1e-12) * 1e-4
        layout = TSNE(init=start, perplexity=perplexity, max_iter=500, random_state=seed % 2**32, n_jobs=-1)
        return layout.fit_transform(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba and UMAP warn about threads and seeds
        import umap

        neighbours = min(15, len(rows) - 1)
        return umap.UMAP(n_neighbors=neighbours, random_state=seed % 2**32, n_jobs=1).fit_transform(rows)


def principal_components(z: Tensor, count: int) -> Tensor:
    """Return the first ``count`` principal components of the unit rows of ``z``.

    The result has at most as many columns as ``z``, and at least 2. The largest entry of each direction is positive, so
    that an embedding has the same map on every machine.
    """
    rows = F.normalize(z.detach().double().cpu(), dim=1)
    rows = rows - rows.mean(0)
    rows = F.pad(rows, (0, max(0, 2 - rows.shape[1])))
    _, vectors = torch.linalg.eigh(rows.T @ rows)
    vectors = vectors[:, -min(count, rows.shape[1]) :].flip(1)
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    return (rows @ (vectors * largest.sign())).float()
