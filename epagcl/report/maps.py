"""A flat map of an embedding: t-SNE, UMAP or two principal components."""

import importlib.util
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.core.errors import InputError, MissingExtra

KINDS = ("auto", "tsne", "umap", "pca", "none")
TITLES = {"tsne": "t-SNE", "umap": "UMAP", "pca": "PCA"}
TSNE_MOST = 10_000  # nodes; scikit-learn's t-SNE takes half a minute for so many on two cores, and then ever longer
REDUCED = 50  # dimensions that t-SNE and UMAP are given, as their authors advise


def check_kind(kind: str) -> None:
    """Raise now, before long work, if a map of this kind cannot be made."""
    if kind not in KINDS:
        raise InputError(f"--map {kind}: choose one of {', '.join(KINDS)}")
    if kind == "umap" and importlib.util.find_spec("umap") is None:
        raise MissingExtra("umap-learn", "report", "a UMAP map")


def choose_kind(kind: str, nodes: int) -> str:
    """What ``auto`` means for so many nodes: t-SNE for few, UMAP for many where it is installed, else PCA."""
    check_kind(kind)
    if nodes < 5:
        return "none" if kind == "none" else "pca"
    if kind != "auto":
        return kind
    if nodes <= TSNE_MOST:
        return "tsne"
    return "umap" if importlib.util.find_spec("umap") is not None else "pca"


def flat_map(z: Tensor, kind: str, seed: int = 0) -> np.ndarray:
    """Places in the plane, ``[N, 2]``, of the unit rows of ``z``: near each other means a high cosine."""
    if kind == "pca":
        return principal_components(z, 2).numpy()
    rows = principal_components(z, REDUCED).numpy()
    if kind == "tsne":
        from sklearn.manifold import TSNE

        perplexity = min(30.0, (len(rows) - 1) / 3)
        # A start of our own: scikit-learn's draws its first components at random.
        start = rows[:, :2] / max(float(rows[:, 0].std()), 1e-12) * 1e-4
        layout = TSNE(init=start, perplexity=perplexity, max_iter=500, random_state=seed % 2**32, n_jobs=-1)
        return layout.fit_transform(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba and UMAP on threads and seeds
        import umap

        neighbours = min(15, len(rows) - 1)
        return umap.UMAP(n_neighbors=neighbours, random_state=seed % 2**32, n_jobs=1).fit_transform(rows)


def principal_components(z: Tensor, count: int) -> Tensor:
    """Unit rows of ``z``, centred, along their ``count`` directions of largest variance (at most its width; 2 always).

    The sign of each direction is that of its largest entry, so that the same embedding gives the same map everywhere.
    """
    rows = F.normalize(z.detach().double().cpu(), dim=1)
    rows = rows - rows.mean(0)
    rows = F.pad(rows, (0, max(0, 2 - rows.shape[1])))
    _, vectors = torch.linalg.eigh(rows.T @ rows)
    vectors = vectors[:, -min(count, rows.shape[1]) :].flip(1)
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    return (rows @ (vectors * largest.sign())).float()
